"""What was used: calls, refusals, waits, time and cost, by day, skill, principal and tool."""

from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Final, final

from msgspec import Meta, Struct

from metier.doors.http.console.asked import Unanswered, asked
from metier.doors.http.console.page import Page
from metier.doors.http.endpoint import Asking
from metier.model.digest import Json
from metier.model.role import READ_AUDIT

_DAYS: Final = 30
_LEAST: Final = 7
_PACE_MS: Final = 10_000
_MOST: Final = 120
"""So many bars can still be told apart."""
Day = Annotated[str, Meta(pattern=r"^([0-9]{4}-[0-9]{2}-[0-9]{2})?$")]


@final
class Span(Struct, frozen=True, kw_only=True):
    """From when until when, both days included."""

    since: Day = ""
    until: Day = ""
    looks: bool = False
    """With what people only looked at."""


@final
class Row(Struct, frozen=True, kw_only=True):
    """Sums."""

    calls: int
    completed: int
    failed: int
    refused: int
    waited: int
    seconds: float
    cost: dict[str, int]
    day: str = ""
    skill: str = ""
    principal: str = ""
    tool: str = ""


@final
class Rows(Struct, frozen=True, kw_only=True):
    """The first of them, and how many there are."""

    rows: list[Row]
    count: int


@final
class Used(Struct, frozen=True, kw_only=True):
    """What `audit.usage` answers."""

    total: Row
    by_day: Rows
    by_skill: Rows
    by_principal: Rows
    by_tool: Rows
    unreadable: int
    looks: int
    """How often people had something read by looking at it."""


@final
class Bar(Struct, frozen=True, kw_only=True):
    """One day of the chart, in its own units: 100 high."""

    day: str
    x: float
    width: float
    ran: float
    refused: float
    failed: float
    row: Row


async def _usage(asking: Asking) -> dict[str, object]:
    span: Span = asking.query
    since = span.since or f"{datetime.now(UTC) - timedelta(days=_DAYS - 1):%Y-%m-%d}"
    about: dict[str, object] = {"since": since, "until": span.until, "looks": span.looks}
    given: dict[str, Json] = {"since": since, "until": span.until, "looks": span.looks}
    used = await asked(asking, "audit.usage", given, Used)
    if isinstance(used, Unanswered):
        return {**about, "why": used.why, "used": None, "bars": []}
    bars = _bars(used.by_day.rows)
    most = max((each.row.calls + each.row.refused for each in bars), default=0)
    return {**about, "why": "", "used": used, "bars": bars, "most": most}


def _bars(rows: list[Row]) -> list[Bar]:
    """A bar for each day, side by side over a width of 100; days on which nothing happened leave a gap."""
    rows = _every_day(rows)
    most = max((each.calls + each.refused for each in rows), default=0) or 1
    width = 100 / max(len(rows), 1)
    return [
        Bar(
            day=each.day,
            x=round(number * width, 3),
            width=round(width * 0.8, 3),
            ran=round(100 * max(each.calls - each.failed, 0) / most, 2),
            failed=round(100 * each.failed / most, 2),
            refused=round(100 * each.refused / most, 2),
            row=each,
        )
        for number, each in enumerate(rows)
    ]


def _nothing(day: str) -> Row:
    return Row(calls=0, completed=0, failed=0, refused=0, waited=0, seconds=0.0, cost={}, day=day)


def _every_day(rows: list[Row]) -> list[Row]:
    if not rows:
        return []
    first, last = date.fromisoformat(rows[0].day), datetime.now(UTC).date()
    days = max((last - first).days + 1, _LEAST)
    if days > _MOST:
        return rows
    known = {each.day: each for each in rows}
    shown = (f"{last - timedelta(days=back):%Y-%m-%d}" for back in range(days - 1, -1, -1))
    return [known.get(day) or _nothing(day) for day in shown]


PAGES: Final = (
    Page(
        path="/usage",
        template="usage.html",
        title="Usage",
        shows=_usage,
        menu="Usage",
        right=(READ_AUDIT,),
        query=Span,
        told=("approval", "call"),
        pace_ms=_PACE_MS,
    ),
)
