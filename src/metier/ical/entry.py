"""A new event: what was said is checked, and becomes the lines that say it in a calendar.

Times are written in UTC: an instant means the same to every program, whatever zones the file defines under which names.
"""

import re
import uuid
from datetime import UTC, date, datetime
from typing import Any, Final, cast, final
from zoneinfo import ZoneInfo

from msgspec import Struct

from metier.ical.asked import FIRST_YEAR, LAST_YEAR, Add, a_day
from metier.ical.document import Damaged, outline
from metier.ical.happening import Happening, found
from metier.ical.problem import Problem, failed, misused
from metier.ical.series import series
from metier.ical.zone import Window, exists, instant, midnight

LONGEST: Final = {"title": 500, "location": 500, "notes": 10_000}
_TIME: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(?:\.[0-9]{1,6})?([Zz]|[+-][0-9]{2}:?[0-9]{2})?"
)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@final
class Entry(Struct, frozen=True, kw_only=True):
    """An event that can be put into a calendar."""

    uid: str
    happening: Happening
    text: bytes
    """The VEVENT, with its line ends."""


def entry(add: Add, now: datetime, zone: ZoneInfo) -> Entry | Problem:
    """The event that is to be added, or what is wrong with it."""
    texts = _texts(add)
    if isinstance(texts, Problem):
        return texts
    span = _span(add, zone)
    if isinstance(span, Problem):
        return span
    title, location, notes = texts
    start, end = span
    uid = f"{uuid.uuid4()}@metier"
    text = _written(uid, now, title, location, notes, start, end)
    # Read as anybody would read it: what does not come back as it was said is not written anywhere.
    happening, described = _read_back(text, zone)
    begins = start if isinstance(start, datetime) else midnight(start, zone)
    over = end if isinstance(end, datetime) else midnight(end, zone)
    if (
        happening is None
        or (happening.start, happening.end) != (begins, over)
        or (happening.title, happening.location, described) != texts
    ):
        return misused("This text or time cannot be written down unchanged. Use plainer characters.")
    return Entry(uid=uid, happening=happening, text=text)


def _texts(add: Add) -> tuple[str, str, str] | Problem:
    said = {"title": add.title, "location": add.location, "notes": add.notes}
    for name, text in said.items():
        text = said[name] = text.replace("\r\n", "\n").strip()
        if len(text) > LONGEST[name]:
            return misused(f"The {name} has {len(text):,} characters; at most {LONGEST[name]:,} are taken.")
        if _CONTROL.search(text) is not None or (name != "notes" and ("\n" in text or "\t" in text)):
            lines = ", and stands on one line" if name != "notes" else ""
            return misused(f"The {name} holds control characters. It must be plain text{lines}.")
    if not said["title"]:
        return misused("The title is empty. Say what the event is.")
    return said["title"], said["location"], said["notes"]


def _span(add: Add, zone: ZoneInfo) -> tuple[datetime, datetime] | tuple[date, date] | Problem:
    start, end = _when("start", add.start, zone), _when("end", add.end, zone)
    if isinstance(start, Problem):
        return start
    if isinstance(end, Problem):
        return end
    if isinstance(start, datetime) and isinstance(end, datetime):
        if end > start:
            return start, end
        return misused("The end must come after the start.")
    if isinstance(start, datetime) or isinstance(end, datetime):
        return misused("Start and end must both be times, or both be dates for whole days.")
    if end > start:
        return start, end
    return misused("The end must come after the start. One whole day ends on the day after it.")


def _when(name: str, text: str, zone: ZoneInfo) -> datetime | date | Problem:
    """A time in UTC, or a day."""
    text = text.strip()
    day = a_day(text)
    if day is not None:
        return day
    parts = _TIME.fullmatch(text)
    try:
        time = datetime.fromisoformat(f"{parts[1]}T{parts[2]}{(parts[3] or '').upper()}") if parts else None
    except ValueError:
        time = None
    if time is None or not FIRST_YEAR <= time.year <= LAST_YEAR:
        return misused(
            f"The {name} is not understood. Write it as 2026-02-22T15:00, or as a date for a whole day."
        )
    if time.tzinfo is None and not exists(time, zone):
        return misused(f"Clocks are put forward over the {name}, so there is no such time on that day.")
    return instant(time, zone)


def _written(uid: str, now: datetime, title: str, location: str, notes: str, start: date, end: date) -> bytes:
    import icalendar
    from icalendar.prop import vUnknown

    event = cast("Any", icalendar.Event())
    event.add("uid", uid)
    event.add("dtstamp", now.astimezone(UTC).replace(microsecond=0))
    event.add("dtstart", start)
    event.add("dtend", end)
    for name, text in (("summary", title), ("location", location), ("description", notes)):
        if text:
            event.add(name, vUnknown(_escaped(text)))
    return cast("bytes", event.to_ical())


def _escaped(text: str) -> str:
    """As a calendar writes it. The library would write a line end for a backslash before a capital N."""
    for letter, written in (("\\", "\\\\"), (";", "\\;"), (",", "\\,"), ("\n", "\\n")):
        text = text.replace(letter, written)
    return text


def _read_back(text: bytes, zone: ZoneInfo) -> tuple[Happening | None, str]:
    """What happens, and what is noted with it."""
    whole = outline(b"BEGIN:VCALENDAR\r\n" + text + b"END:VCALENDAR\r\n")
    if isinstance(whole, Damaged) or len(whole) != 1 or len(whole[0].events) != 1:
        return None, ""
    ever = Window(first=date(FIRST_YEAR - 1, 1, 1), after=date(LAST_YEAR + 2, 1, 1), zone=zone)
    happened, (read, _) = found(whole, ever).happenings, series(whole, ever)
    if len(happened) != 1 or len(read) != 1:
        return None, ""
    return happened[0], str(read[0].events[0].get("DESCRIPTION", ""))


def taken_up(before: int, data: bytes) -> Problem | None:
    """Whether a file that is about to be written holds one event more than `before`, and is whole."""
    whole = outline(data)
    if isinstance(whole, Damaged) or sum(len(each.events) for each in whole) != before + 1:
        return failed("The event cannot be put into this calendar without harm to it. Nothing was changed.")
    return None
