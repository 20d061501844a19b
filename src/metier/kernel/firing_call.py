"""The calls of what fires by itself, and how they ended, in words."""

import secrets
from typing import Final

import anyio

from metier.errors import MetierError
from metier.kernel.calling import Calls
from metier.model.call import Cause, Principal, Surroundings
from metier.model.digest import Json
from metier.model.outcome import UNHEARD, Completed, Failed, Outcome, Pending, Refused
from metier.model.text import one_line

_ROLES: Final = frozenset({"agent"})
_UNJUDGED: Final = frozenset({"record_unavailable", "setup_unusable", "changed_meanwhile"})


def firing_principal(id: str, owner: str) -> Principal:
    """What fires by itself, for who set it up."""
    return Principal(id=id, kind="agent", on_behalf_of=owner, roles=_ROLES)


async def bounded_call(
    calls: Calls,
    principal: Principal,
    tool: str,
    arguments: dict[str, Json],
    *,
    seconds: float,
    parent: str | None = None,
    surroundings: Surroundings,
    cause: Cause | None = None,
) -> Outcome:
    """How the call ended; it is ended itself once its time is up."""
    id = f"call_{secrets.token_hex(12)}"  # known here, so that it can be found on the record however it ends
    try:
        with anyio.fail_after(seconds):
            return await calls.call(
                principal,
                tool,
                arguments,
                parent=parent,
                surroundings=surroundings,
                unattended=True,
                cause=cause,
                id=id,
            )
    except TimeoutError:
        return Failed(
            call_id=id, code="timed_out", message=f"it took longer than {seconds:g} s and was ended"
        )
    except MetierError as error:
        return Failed(call_id=id, code="internal", message=error.message)


def was_judged(outcome: Outcome) -> bool:
    """Whether a refusal is anybody's word. Else nothing ran because something cannot be used at the moment (the record is held by
    another, the runtime closes, a rule cannot be read), and it may be asked again."""
    return not isinstance(outcome, Refused) or not (outcome.code in _UNJUDGED or outcome.remedy in UNHEARD)


def told_of(outcome: Outcome) -> str:
    """How a call ended, in one line."""
    match outcome:
        case Completed():
            return "completed"
        case Pending():
            return f"waits for an approval ({outcome.approval_id})"
        case Refused():
            return f"refused ({outcome.code}): {one_line('; '.join(outcome.reasons), 200)}"
        case Failed():
            return f"failed ({outcome.code}): {one_line(outcome.message, 200)}"


def results_of(outcome: Outcome) -> dict[str, Json]:
    """What templates can say of it."""
    if isinstance(outcome, Completed):
        return {"result": outcome.value, "outcome": "completed", "error": ""}
    word = (
        "pending" if isinstance(outcome, Pending) else "refused" if isinstance(outcome, Refused) else "failed"
    )
    return {"result": "", "outcome": word, "error": told_of(outcome)}
