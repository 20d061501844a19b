"""The module `audit`: what was used, by whom and when, and a signed checkpoint to be kept elsewhere. For people who may read the record."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, final

import anyio
from anyio import to_thread

from metier.errors import MetierError
from metier.kernel.operation import NOTHING, Asked, Module, OperationError, module
from metier.kernel.operators import BAD_PARAMS, Desk, for_operators, taking, text
from metier.model.digest import Json
from metier.model.role import KEEP_AUDIT, READ_AUDIT
from metier.record.keys import Keys
from metier.record.usage import Sums, Usage

USUAL_ROWS: Final = 50
"""Of each list but that of days; how many there are is said."""
_MOST: Final[dict[str, Json]] = {"type": "integer", "minimum": 1, "maximum": 500}
KEPT_UP: Final = 300.0
"""Seconds after which the host carries the sums on, so that nobody waits for them."""
_DAY: Final[dict[str, Json]] = {"type": "string", "pattern": "^([0-9]{4}-[0-9]{2}-[0-9]{2})?$"}


@final
class AuditDesk:
    """Belongs to one loop."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._usage = Usage(desk.database)

    def module(self) -> Module:
        """`audit.usage` and `checkpoint`."""
        return module(
            "audit",
            for_operators(
                "audit.usage",
                self._used,
                "Calls, refusals, waits, time and cost by day, skill, principal and tool. Days are of UTC, both with them. "
                "With `looks` false without what people only looked at: reads of Metier's own operations.",
                taking(since=_DAY, until=_DAY, most=_MOST, looks={"type": "boolean"}),
                permission=READ_AUDIT,
                effect="read",
            ),
            for_operators(
                "audit.checkpoint",
                self._checkpoint,
                "Verify the record and sign it as it is now; whoever keeps the checkpoint elsewhere finds every change of what is in it.",
                NOTHING,
                permission=KEEP_AUDIT,
            ),
        )

    async def run(self) -> None:
        """Keep the sums up with the record, until this is cancelled."""
        while True:
            with suppress(MetierError):  # who asks is told
                await to_thread.run_sync(self._usage.between)
            await anyio.sleep(KEPT_UP)

    async def _used(self, asked: Asked) -> Json:
        since, until = text(asked, "since"), text(asked, "until")
        if since and until and since > until:
            raise OperationError(BAD_PARAMS, f"{since} is after {until}")
        found = await to_thread.run_sync(self._usage.between, since, until)
        looks = sum(each.calls for each in found if each.look)
        if asked.arguments.get("looks") is False:
            found = [each for each in found if not each.look]
        given = asked.arguments.get("most")
        most = given if isinstance(given, int) else USUAL_ROWS
        days = max(most, 366)
        costs = {
            tool.name: tool.cost
            for listed in self._desk.catalog().by_name.values()
            if listed.skill is not None
            for tool in listed.skill.tools
        }
        return {
            "since": since,
            "until": until,
            "through": self._usage.through,
            "unreadable": self._usage.unreadable,
            "looks": looks,
            "total": _row(found, costs),
            "by_day": _rows(found, costs, lambda each: each.day, "day", days, by_name=True),
            "by_skill": _rows(found, costs, lambda each: each.skill, "skill", most),
            "by_principal": _rows(found, costs, lambda each: each.principal, "principal", most),
            "by_tool": _rows(found, costs, lambda each: each.tool, "tool", most),
        }

    async def _checkpoint(self, asked: Asked) -> Json:
        return await to_thread.run_sync(self._signed, asked.principal.id)

    def _signed(self, by: str) -> Json:
        """Blocking."""
        from metier.record.signing import sign_head  # slow to import, seldom needed

        made = sign_head(self._desk.database, Keys(self._desk.settings().home), by=by)
        return {
            "size": made.size,
            "head": made.head.hex(),
            "root": made.root.hex(),
            "origin": made.origin,
            "at": made.at,
            "text": made.text(),
        }


def _rows(
    found: Iterable[Sums],
    costs: dict[str, str],
    key: Callable[[Sums], str],
    name: str,
    most: int,
    *,
    by_name: bool = False,
) -> Json:
    """The sums by what `key` gives, most first; or in the order of their names."""
    grouped: dict[str, list[Sums]] = {}
    for each in found:
        grouped.setdefault(key(each), []).append(each)
    busy = {
        each: sum(one.calls + one.refused + one.waited for one in several)
        for each, several in grouped.items()
    }
    order = (
        sorted(grouped, reverse=True) if by_name else sorted(grouped, key=lambda each: (-busy[each], each))
    )
    shown = order[:most]
    if by_name:
        shown.reverse()
    return {
        "rows": [{name: each, **_row(grouped[each], costs)} for each in shown],
        "count": len(grouped),
    }


def _row(found: Iterable[Sums], costs: dict[str, str]) -> dict[str, Json]:
    calls = completed = failed = refused = waited = 0
    seconds = 0.0
    cost = {"free": 0, "cheap": 0, "expensive": 0, "unknown": 0}
    for each in found:
        calls += each.calls
        completed += each.completed
        failed += each.failed
        refused += each.refused
        waited += each.waited
        seconds += each.seconds
        cost[costs.get(each.tool, "unknown" if each.skill else "free")] += each.calls
    by_cost: dict[str, Json] = {**cost}
    return {
        "calls": calls,
        "completed": completed,
        "failed": failed,
        "refused": refused,
        "waited": waited,
        "seconds": round(seconds, 3),
        "cost": by_cost,
    }
