"""The shapes in which tools of some dialects answer, and in which their callers expect to be answered. Pure.

`returned` reads what the code gave back: the shape its document promises, or it is a `bad_result`. `told` is the one function
that turns an outcome into what a caller of that dialect is shown.
"""

from typing import Final

from metier.model.digest import Json
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.model.skill import Answer

NOT_DONE: Final = (
    "I could not get that done just now. I will make a note of it, so that somebody gets back to you."
)
"""What is said to a caller who can do nothing about the reason."""
DONE: Final = "Done."
_ASKED_FIRST: Final = "Somebody has to agree to that first. I have passed it on."


def returned(outcome: Completed, answer: Answer) -> Completed | Failed:
    """The outcome in the one form Metier keeps; what says of itself that it did not succeed has failed."""
    match answer:
        case "value":
            return outcome
        case "amber":
            return _from_amber(outcome)
        case "metahuman":
            return _from_metahuman(outcome)


def told(outcome: Outcome, answer: Answer) -> Json:
    """What a caller of this dialect is shown."""
    return _to_amber(outcome) if answer == "amber" else _to_metahuman(outcome)


def _from_amber(outcome: Completed) -> Completed | Failed:
    value = outcome.value
    if not isinstance(value, dict) or not isinstance(value.get("success"), bool):
        return _misshapen(outcome, "{ success: true or false, message, result, error }")
    for name in ("message", "error"):
        if not isinstance(value.get(name, ""), str | None):
            return _misshapen(outcome, f"a text as `{name}`")
    return outcome if value["success"] else _unsuccessful(outcome, value)


def _from_metahuman(outcome: Completed) -> Completed | Failed:
    value = outcome.value
    if not isinstance(value, dict) or not isinstance(value.get("success"), bool):
        return _misshapen(outcome, "{ success: true or false, and the outputs }")
    if not value["success"]:
        return _unsuccessful(outcome, value)
    outputs = value.get("outputs")
    flat = outputs if isinstance(outputs, dict) and value.keys() <= {"success", "outputs", "error"} else value
    return Completed(
        call_id=outcome.call_id,
        value={"success": True, **{name: each for name, each in flat.items() if name != "success"}},
        run=outcome.run,
        artifacts=outcome.artifacts,
    )


def _unsuccessful(outcome: Completed, value: dict[str, Json]) -> Failed:
    said = next(
        (text for name in ("error", "message") if isinstance(text := value.get(name), str) and text), ""
    )
    message = said or "it says that it did not succeed, and not why"
    return Failed(
        call_id=outcome.call_id,
        code="reported",
        message=message,
        run=outcome.run,
        value=value,
        artifacts=outcome.artifacts,
    )


def _misshapen(outcome: Completed, wanted: str) -> Failed:
    message = f"what it returned is not {wanted}, as its dialect has it; the record keeps what came back"
    return Failed(
        call_id=outcome.call_id,
        code="bad_result",
        message=message,
        run=outcome.run,
        artifacts=outcome.artifacts,
    )


def _to_amber(outcome: Outcome) -> Json:
    match outcome:
        case Completed(value=value):
            said = value.get("message") if isinstance(value, dict) else None
            return {"response": said if isinstance(said, str) and said else DONE, "success": True}
        case Refused(code="confirmation_required"):
            return {"response": outcome.prompt, "success": False, "requires_confirmation": True}
        case Refused():
            return {**_not_done(), "error": _why(outcome)}
        case Pending():
            return {"response": _ASKED_FIRST, "success": False, "pending_approval": outcome.approval_id}
        case Failed(value=value):
            said = value.get("message") if isinstance(value, dict) else None
            response = said if isinstance(said, str) and said else NOT_DONE
            return {"response": response, "success": False, "error": outcome.message}


def _to_metahuman(outcome: Outcome) -> Json:
    match outcome:
        case Completed():
            return outcome.value
        case Refused():
            return {"success": False, "error": _why(outcome), "code": outcome.code}
        case Pending():
            error = f"it waits for an approval (ID: {outcome.approval_id}): {'; '.join(outcome.reasons)}"
            return {
                "success": False,
                "error": error,
                "code": "pending_approval",
                "approvalId": outcome.approval_id,
            }
        case Failed():
            return {"success": False, "error": outcome.message, "code": outcome.code}


def _not_done() -> dict[str, Json]:
    return {"response": NOT_DONE, "success": False}


def _why(outcome: Refused) -> str:
    return ". ".join(filter(None, ("; ".join(outcome.reasons), outcome.remedy)))
