"""The first page: what waits, what runs, and what happened today."""

from datetime import UTC, datetime
from typing import Final

from anyio import to_thread

from metier.doors.http.console.approvals import waiting
from metier.doors.http.console.guide import guide
from metier.doors.http.console.page import Page
from metier.doors.http.console.words import Line, line
from metier.doors.http.endpoint import Asking
from metier.model.role import APPROVE, EXECUTE, READ_AUDIT, TRUST
from metier.record.audit import AuditLog
from metier.record.calls import calls_under_way
from metier.record.chain import Record
from metier.record.search import Query, search

_WAITING: Final = 5
_HAPPENED: Final = 12
_BACK: Final = 5_000
"""So many records are looked through for it: this page is looked at often."""
_WALKS: Final = frozenset({READ_AUDIT, TRUST, EXECUTE, APPROVE})
"""Who can take all of the first three steps."""
_SAID_OTHERWISE: Final = frozenset(
    {
        *("skills.trust", "skills.untrust", "skills.switch_on", "skills.switch_off"),
        *("principals.add", "principals.revoke", "grants.revoke"),
        *("runtime.stop", "runtime.resume", "runtime.level_set", "audit.checkpoint"),
    }
)


def _twice(record: Record) -> bool:
    """Whether what was done has a record of its own, which says it better than that an operation ran."""
    return record.event == "skill_executed" and not record.skill and record.tool in _SAID_OTHERWISE


async def _now(asking: Asking) -> dict[str, object]:
    database = asking.serving.engine.state.database
    rights = await asking.rights()
    requests, many = [], 0
    if {APPROVE, READ_AUDIT} & rights:
        requests, many = await waiting(asking, False, 1, _WAITING)
    running = await to_thread.run_sync(calls_under_way, database)

    def happened() -> list[Line]:
        since = max(AuditLog(database).head()[0] - _BACK, 0)
        found = search(database, Query(since=since, looks=False), 6 * _HAPPENED)
        told = [made for each in reversed(found) if not _twice(each) and (made := line(each)) is not None]
        return told[:_HAPPENED]

    told = await to_thread.run_sync(happened) if READ_AUDIT in rights else []
    day = f"{datetime.now(UTC):%Y-%m-%d}"

    return {
        "requests": requests,
        "many": many,
        "running": running,
        "today": [each for each in told if each.record.at.startswith(day)],
        "before": [each for each in told if not each.record.at.startswith(day)],
        "steps": await to_thread.run_sync(guide, asking) if rights >= _WALKS else [],
        "owner": asking.identity.principal.id == asking.serving.gatekeeper.owner,
    }


PAGES: Final = (
    Page(
        path="/",
        template="now.html",
        title="Now",
        shows=_now,
        menu="Now",
        told=("approval", "call", "skills", "runtime"),
    ),
)
