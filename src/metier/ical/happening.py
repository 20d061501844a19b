"""What happens on some days: the repetitions of every event worked out, in the operator's time.

The libraries know the rules; here stands what they leave open. A time without a zone is the operator's. What was
cancelled does not happen. An event that cannot be read, or takes too long to work out, is counted and not listed, and
keeps nothing that happens once from being listed.
"""

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from importlib import import_module
from typing import Any, Final, cast, final

from msgspec import Struct

from metier.ical.budget import Allowance, Spent
from metier.ical.document import Calendar
from metier.ical.series import DAYS, FOREIGN, MARGIN, Series, series
from metier.ical.zone import Window, instant, midnight

ALL_EVENTS: Final = 1.5
"""Seconds of processor time for working everything out."""
ONE_EVENT: Final = (0.05, 0.5)
"""Of it, for one series: when all are tried, and for those that need more, when all were. What is in a zone that its file
defines comes last and is tried once."""


@final
class Happening(Struct, frozen=True, kw_only=True):
    """One event as it happens once."""

    title: str
    location: str
    start: datetime
    """In UTC. Of whole days: when the first begins for the operator."""
    end: datetime
    days: tuple[date, date] | None = None
    """The first and the last, when it takes whole days."""


@final
class Found(Struct, frozen=True, kw_only=True):
    """What happens, in order."""

    happenings: tuple[Happening, ...]
    unreadable: int = 0
    """Events that could not be worked out."""


def found(calendars: Iterable[Calendar], window: Window) -> Found:
    """Everything in these calendars that touches the window. What does not repeat takes no time, so it comes first."""
    import_module("icalendar")  # now: it costs more than most events do
    query: Any = cast("Any", import_module("recurring_ical_events")).of  # it says nothing of its types
    waiting, unreadable = series(calendars, window)
    happenings: list[Happening] = []
    allowance = Allowance(ALL_EVENTS)
    for most in ONE_EVENT:
        late: list[Series] = []
        for each in waiting:
            try:
                with each.worked_out(), allowance.one(ONE_EVENT[-1] if each.own else most):
                    happened = _happenings(query, each, window)
                happenings.extend(happened)
            except Spent:
                late.append(each)
            except FOREIGN:
                unreadable += 1
        waiting = late
    happenings.sort(key=lambda each: (each.start, each.days is None, each.end, each.title))
    return Found(happenings=tuple(happenings), unreadable=unreadable + len(waiting))


def _happenings(query: Any, series: Series, window: Window) -> list[Happening]:
    import icalendar

    alone: Any = icalendar.Calendar()
    if series.zone is not None:
        alone.add("X-WR-TIMEZONE", series.zone.key)
    for event in series.events:
        alone.add_component(event)
    # Wider than asked: times without a zone are placed by us, not by the library, and it looks no further back for what
    # lasts longer once than it usually does.
    around = query(alone).between(window.start - MARGIN - _longest(series), window.end + MARGIN)
    happened = (_happening(event, window) for event in around if _happens(event))
    return [each for each in happened if _touches(each, window)]


def _longest(series: Series) -> timedelta:
    """How long the longest of the periods takes that an event has besides its rule."""
    longest = timedelta()
    for event in series.events:
        dates: Any = event.get("RDATE", [])
        for each in cast("list[Any]", dates) if isinstance(dates, list) else [dates]:
            for period in [value.dt for value in each.dts]:
                if isinstance(period, tuple):
                    start, end = cast("tuple[Any, Any]", period)
                    longest = max(longest, end if isinstance(end, timedelta) else end - start)
    return longest


def _happens(event: Any) -> bool:
    return str(event.get("STATUS", "")).strip().upper() != "CANCELLED"


def _happening(event: Any, window: Window) -> Happening:
    title, location = _first(event, "SUMMARY"), _first(event, "LOCATION")
    if _first(event, "CLASS").strip().upper() in ("PRIVATE", "CONFIDENTIAL"):
        title, location = "(private)", ""  # that the time is taken is all that others may hear
    start: Any = event.start
    end: Any = event.end
    if isinstance(start, datetime) and isinstance(end, datetime):
        begins, over = instant(start, window.zone), _over(event, start, end, window)
        return Happening(title=title, location=location, start=begins, end=over)
    if isinstance(start, datetime) or isinstance(end, datetime):
        raise ValueError("one end is a day and the other a time")
    first, after = cast("date", start), max(cast("date", end), cast("date", start) + timedelta(days=1))
    return Happening(
        title=title,
        location=location,
        start=midnight(first, window.zone),
        end=midnight(after, window.zone),
        days=(first, after - timedelta(days=1)),
    )


def _first(event: Any, name: str) -> str:
    value: Any = event.get(name, "")
    return str(cast("list[Any]", value)[0] if isinstance(value, list) else value)


def _over(event: Any, start: datetime, end: datetime, window: Window) -> datetime:
    """When it is over, in UTC. Days are counted as clocks show them and hours as they go by, also where clocks change."""
    begins, over = instant(start, window.zone), instant(end, window.zone)
    if start.tzinfo != end.tzinfo:
        return over
    lasts = end.replace(tzinfo=None) - start.replace(tzinfo=None)
    days = timedelta(days=event.get(DAYS, 0))
    if DAYS in event and lasts >= days:
        return instant(start + days, window.zone) + (lasts - days)
    # Where clocks were put forward over its beginning, both ends count in another offset.
    return begins + lasts if over <= begins else over


def _touches(happening: Happening, window: Window) -> bool:
    """Whether any of it falls into the window. What takes no time happens when it begins."""
    if happening.start == happening.end:
        return window.start <= happening.start < window.end
    return happening.start < window.end and happening.end > window.start
