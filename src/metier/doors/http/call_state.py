"""How a call stands, or ended, put together from its records."""

from typing import Final, Literal, final

from msgspec import Struct

from metier.record.approvals import find
from metier.record.calls import calls_under_way
from metier.record.chain import Record
from metier.record.database import Database
from metier.record.search import of_call


@final
class CallState(Struct, frozen=True, kw_only=True):
    """How a call stands, as the record has it."""

    call_id: str
    state: Literal["pending", "approved", "running", "completed", "failed", "refused", "interrupted"]
    tool: str
    skill: str
    principal: str
    on_behalf_of: str
    began_at: str
    ended_at: str
    code: str
    reasons: tuple[str, ...]
    approval: str
    """The request for somebody's word that it waits, or waited, for."""


def state_of(database: Database, call_id: str) -> CallState | None:
    """What became of a call; None where the record has none. Blocking."""
    with database.reading() as connection:
        records = [each for each in of_call(connection, call_id) if each.event in _STATES]
    if not records:
        return None
    # Asked for again, what began is refused, or even asked about anew. That says nothing of what became of it.
    begun = next(
        (at for at, each in enumerate(records) if each.event == "skill_execution_started"), len(records)
    )
    records = records[:begun] + [each for each in records[begun:] if each.event in _RAN]
    last = records[-1]
    state = _STATES[last.event]
    if last.event == "skill_execution_started":
        under_way = next((each for each in calls_under_way(database) if each.call_id == call_id), None)
        state = "running" if under_way is not None and under_way.process is not None else "interrupted"
    elif last.event == "skill_approval_queued":
        found = find(database, last.approval)
        state = _WAITING.get(found.state if found is not None else "", "refused")
    elif last.event == "outcome_given" and last.code:
        state = "refused" if last.code == "already_begun" else "failed"
    began = next((each.at for each in records if each.event == "skill_execution_started"), "")
    return _shown(records, last, state, began)


_STATES: Final[dict[str, Literal["pending", "running", "completed", "failed", "refused"]]] = {
    "skill_approval_queued": "pending",
    "skill_execution_started": "running",
    "skill_executed": "completed",
    "skill_execution_error": "failed",
    "skill_execution_blocked": "refused",
    "outcome_given": "completed",  # nothing ran under this id; who asked was given how it ended before
}
_RAN: Final = frozenset({"skill_execution_started", "skill_executed", "skill_execution_error"})
_WAITING: Final[dict[str, Literal["pending", "approved", "refused"]]] = {
    "pending": "pending",
    "approved": "approved",
}


def _shown(records: list[Record], last: Record, state: str, began: str) -> CallState:
    ended = last.at if state in ("completed", "failed", "refused") else ""
    return CallState(
        call_id=last.call_id,
        state=state,  # type: ignore[arg-type]
        tool=last.tool,
        skill=last.skill,
        principal=last.principal,
        on_behalf_of=last.on_behalf_of,
        began_at=began,
        ended_at=ended,
        code=last.code,
        reasons=last.reasons,
        approval=next((each.approval for each in reversed(records) if each.approval), ""),
    )
