"""What was used: calls, refusals, waits, time and cost, by day, skill, principal and tool."""

from collections.abc import Mapping, Sequence
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
    """One day of a chart, in its own units: 100 high."""

    x: float
    width: float
    parts: list[tuple[str, float, float]]
    """What each is, where it begins from above, and how high it is; they stand on each other."""
    says: str


@final
class Chart(Struct, frozen=True, kw_only=True):
    """Days side by side."""

    title: str
    bars: list[Bar]
    keys: tuple[str, ...]
    most: str
    """The highest of them, in words."""
    first: str
    last: str


async def _usage(asking: Asking) -> dict[str, object]:
    span: Span = asking.query
    since = span.since or f"{datetime.now(UTC) - timedelta(days=_DAYS - 1):%Y-%m-%d}"
    about: dict[str, object] = {"since": since, "until": span.until, "looks": span.looks}
    given: dict[str, Json] = {"since": since, "until": span.until, "looks": span.looks}
    used = await asked(asking, "audit.usage", given, Used)
    if isinstance(used, Unanswered):
        return {**about, "why": used.why, "used": None, "charts": []}
    days = _every_day(used.by_day.rows)
    return {**about, "why": "", "used": used, "charts": [_calls(days), _seconds(days)] if days else []}


def _calls(days: list[Row]) -> Chart:
    """How often something was asked for, and what came of it."""
    return _chart(
        "Calls a day",
        days,
        {
            "ran": [max(each.calls - each.failed, 0) for each in days],
            "failed": [each.failed for each in days],
            "refused": [each.refused for each in days],
            "waited": [each.waited for each in days],
        },
        "{:,.0f}",
    )


def _seconds(days: list[Row]) -> Chart:
    return _chart("Seconds of work a day", days, {"worked": [each.seconds for each in days]}, "{:,.1f}")


def _chart(title: str, days: list[Row], values: Mapping[str, Sequence[float]], form: str) -> Chart:
    """Bars over a width of 100; days on which nothing happened leave a gap."""
    most = max(sum(each) for each in zip(*values.values(), strict=True))
    width = 100 / len(days)
    bars: list[Bar] = []
    for number, day in enumerate(days):
        parts: list[tuple[str, float, float]] = []
        above = 100.0
        for name, series in values.items():
            high = 100 * series[number] / (most or 1)
            above -= high
            parts.append((name, round(above, 2), round(high, 2)))
        says = ", ".join(f"{form.format(series[number])} {name}" for name, series in values.items())
        bars.append(
            Bar(
                x=round(number * width, 3),
                width=round(width * 0.8, 3),
                parts=parts,
                says=f"{day.day}: {says}",
            )
        )
    return Chart(
        title=title,
        bars=bars,
        keys=tuple(values),
        most=form.format(most),
        first=days[0].day,
        last=days[-1].day,
    )


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
        told=("call",),
        pace_ms=_PACE_MS,
    ),
)
