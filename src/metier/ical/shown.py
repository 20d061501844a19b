"""What the command prints: one line an event, for an ear as much as for an eye."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Final
from zoneinfo import ZoneInfo

from metier.ical.happening import Found, Happening
from metier.model.text import one_line

MOST: Final = 200
"""Lines with an event."""
_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def lines(found: Found, zone: ZoneInfo, calendar: str) -> list[str]:
    """Nothing at all for nothing. Whatever is not listed is said."""
    shown = [line(each, zone, calendar) for each in found.happenings[:MOST]]
    left = len(found.happenings) - len(shown)
    if left:
        shown.append(f"… and {left} more.")
    if found.unreadable:
        events = "1 event" if found.unreadable == 1 else f"{found.unreadable} events"
        shown.append(
            f"({events} of {one_line(calendar, 100)} could not be worked out, and may be missing here.)"
        )
    return shown


def line(happening: Happening, zone: ZoneInfo, calendar: str) -> str:
    """When, what, where, and in which calendar."""
    what = one_line(happening.title, 200) or "(no title)"
    where = one_line(happening.location, 200)
    return f"{_when(happening, zone)}: {what}{f' ({where})' if where else ''} [{one_line(calendar, 100)}]"


def _when(happening: Happening, zone: ZoneInfo) -> str:
    if happening.days is not None:
        return " – ".join(_day(each) for each in _apart(happening.days)) + ", all day"
    start, end = happening.start.astimezone(zone), happening.end.astimezone(zone)
    begins, over = (f"{each:%H:%M}{_offset(each)}" for each in (start, end))
    if happening.start == happening.end:
        return f"{_day(start)} {begins}"
    if start.date() == end.date():
        return f"{_day(start)} {begins}–{over}"
    return f"{_day(start)} {begins} – {_day(end)} {over}"


def _offset(time: datetime) -> str:
    """Of a time that clocks show twice on that day: only this tells which of the two is meant."""
    twice = time.replace(fold=0).utcoffset() != time.replace(fold=1).utcoffset()
    return f"{time:%z}" if twice else ""


def _day(day: date) -> str:
    return f"{_WEEKDAYS[day.weekday()]} {day.year:04}-{day.month:02}-{day.day:02}"


def _apart(days: tuple[date, date]) -> Sequence[date]:
    return days if days[0] != days[1] else days[:1]
