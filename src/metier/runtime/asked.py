"""What a door hands over that goes no further than the record: names that are none, texts that cannot be read, calls beyond
what one message may hold. Each is a refusal with its reason, like any other."""

from typing import Final

from metier.model.call import Call
from metier.model.outcome import Refused

MOST_CALLS: Final = 128
"""Of one message of a model's: they are all under way at the same time."""


def name_of(given: object) -> str:
    """What a program gave as a name. What is no text names nothing, and is not taken for anything that has a name."""
    return given if isinstance(given, str) else f"a {type(given).__name__}, which is no name"


def not_asked(call: Call, index: int, problem: str | None) -> Refused | None:
    """Why a call of a message is not even asked about; None when it is."""
    if index >= MOST_CALLS:
        return Refused(
            call_id=call.id,
            code="not_runnable",
            reasons=(f"{MOST_CALLS} calls of one message are taken, and this is number {index + 1}",),
            remedy="Call it again in the next message",
        )
    return unreadable(call.id, problem) if problem else None


def unreadable(call_id: str, problem: str) -> Refused:
    """The refusal of a call whose arguments cannot be read."""
    remedy = "Write the arguments as one strict JSON object"
    return Refused(call_id=call_id, code="invalid_arguments", reasons=(problem,), remedy=remedy)
