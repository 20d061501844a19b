"""How a call ended that somebody approved, in words, from its outcome or from the record. A request that is spent says only that its call was
begun: whether it came to its end stands in the record, and where that has no end, nobody knows. Blocking."""

from typing import Final

from metier.model.approval import Approval
from metier.model.outcome import Completed, Failed, Refused
from metier.record.calls import calls_under_way
from metier.record.database import Database
from metier.record.search import of_call

_ENDS: Final = ("skill_executed", "skill_execution_error")


def by_outcome(ended: object) -> str:
    """By what running it gave."""
    match ended:
        case Completed():
            return "it ran to its end."
        case Failed():
            return f"it ran and failed: {ended.code}."
        case Refused():
            return f"it did not run: {'; '.join(ended.reasons)}."
        case _:
            return "who asked was waiting, and runs it."


def by_record(path: str, approval: Approval) -> str:
    """By the record at `path`, for a request that is spent; empty while it runs.

    Raises:
        RecordError, StateError: when that cannot be read.
    """
    with Database.open(path) as database:
        with database.reading() as connection:
            told = [each for each in of_call(connection, approval.call_id) if each.event in _ENDS]
        running = [each for each in calls_under_way(database) if each.call_id == approval.call_id]
    if any(each.process is not None for each in running):
        return ""
    if told and not running:
        last = told[-1]
        return "it ran to its end." if last.event == "skill_executed" else f"it ran and failed: {last.code}."
    return (
        "it was begun, and what ran it ended before it did. Whether it did anything nobody knows: "
        f"metier audit search --call {approval.call_id}"
    )
