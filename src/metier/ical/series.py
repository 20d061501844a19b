"""Events read: from the lines of calendars to what the libraries work with, those of one series together.

Put right on the way is what the libraries would take for something else than it says. What cannot be read, or names a time
in a zone that nobody knows, is left out and counted. What happens once is read first, and what needs a zone that its file
defines last, so that neither a rule nor a zone that takes too long keeps the others from being read.
"""

import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import Any, Final, cast, final
from zoneinfo import ZoneInfo

from msgspec import Struct

from metier.ical.budget import Allowance, Spent
from metier.ical.document import Calendar
from metier.ical.zone import Window

ALL_READ: Final = 1.0
"""Seconds of processor time for reading what may matter."""
ONE_BATCH: Final = 0.3
"""Of it, for what is in one zone that a file defines, or is long: the others have to be put right afterwards."""
LAST: Final = 2
"""The rank of both."""
LONG: Final = 50_000
"""Characters of an event that is read after the others: a list without end takes as long as a rule without one."""
FOREIGN: Final = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What the libraries let out when data is not as they expect it."""
MARGIN: Final = timedelta(days=2)
DAYS: Final = "X-METIER-DAYS"
"""On an event that says how long it takes: how many days of that are days of the calendar, and no hours."""
_RULES: Final = re.compile(r"(?im)^RRULE[;:]")
_UNTILS: Final = re.compile(r"(?im)^RRULE[;:](?:[^\r\n]*;)?UNTIL=([0-9]{8})")
_MORE: Final = re.compile(r"(?im)^(?:RDATE|EXRULE|RECURRENCE-ID)[;:]")
_FOLLOWING: Final = re.compile(r"(?i)THISANDFUTURE")
_INSIDE: Final = re.compile(r"(?i)\nBEGIN:")
_STARTS: Final = re.compile(r"(?im)^DTSTART(?:;[^:\"\r\n]*)?:([0-9]{8})")
_ENDS: Final = re.compile(r"(?im)^DTEND(?:;[^:\"\r\n]*)?:([0-9]{8})")
_LASTS: Final = re.compile(
    r"(?im)^DURATION(?:;[^:\"\r\n]*)?:[ \t]*\+?P(?:([0-9]{1,4})W)?(?:([0-9]{1,5})D)?(?=[T\s])"
)
_PROPERTY: Final = re.compile(r'([A-Za-z0-9-]+)(?:;[^:"]*(?:"[^"]*"[^:"]*)*)?:(.*)')
_ZONE: Final = re.compile(r"(?im)^TZID(?:;[^:\"\r\n]*)?:([^\r\n]*)")
_IN_ZONE: Final = re.compile(r"(?i);TZID=(?:\"([^\"\r\n]*)\"|([^\";:,\r\n]*))")
_TIMES: Final = ("DTSTART", "DTEND", "RECURRENCE-ID", "EXDATE", "RDATE")


@final
class OwnZones:
    """Zones that a file defines, as they were read once. When working out a time in one of them was broken off, the library
    has it locked, and would wait for itself without end."""

    def __init__(self) -> None:
        self.locked = False


@final
class Series(Struct, frozen=True, kw_only=True):
    """The events that have one UID: what repeats, and what of it was changed."""

    events: tuple[Any, ...]
    zone: ZoneInfo | None
    """What the calendar says of times without one."""
    own: tuple[OwnZones, ...]

    @contextmanager
    def worked_out(self) -> Generator[None, None, None]:
        """Raises `Spent` where it took too long before to say what a time is in a zone it needs."""
        if any(each.locked for each in self.own):
            raise Spent
        try:
            yield
        except Spent:
            for each in self.own:
                each.locked = True
            raise

    @property
    def repeats(self) -> bool:
        return any(name in event for event in self.events for name in ("RRULE", "RDATE"))


@final
class _Batch(Struct, frozen=True, kw_only=True):
    """Events of a calendar that are read together."""

    calendar: int
    zones: tuple[str, ...]
    """Those of the file that they need."""
    texts: tuple[str, ...]
    rank: int


@final
class _Header(Struct, frozen=True, kw_only=True):
    """What a calendar says of all its events."""

    zone: ZoneInfo | None = None
    floating: bool = True
    """Whether it is known what a time without a zone means."""
    readable: bool = True


def series(calendars: Iterable[Calendar], window: Window) -> tuple[list[Series], int]:
    """Everything that may matter for the window, what happens once first; and how many events could not be read."""
    headers: list[_Header] = []
    batches: list[_Batch] = []
    for number, calendar in enumerate(calendars):
        headers.append(_header(calendar))
        batches.extend(_batches(number, calendar, window))
    allowance = Allowance(ALL_READ)
    unread = 0
    together: dict[tuple[int, str], list[tuple[OwnZones | None, Any]]] = {}
    for batch in sorted(batches, key=lambda each: each.rank):
        own = OwnZones() if batch.zones else None
        try:
            with allowance.one(ONE_BATCH if batch.rank == LAST else ALL_READ):
                events = _read(batch) if headers[batch.calendar].readable else []
        except Spent:
            events = []
        unread += len(batch.texts) - len(events)
        for event in events:
            uid = str(event.get("UID", "")) or f"\0{len(together)}"
            together.setdefault((batch.calendar, uid), []).append((own, event))
    found: list[Series] = []
    for (number, _), read in together.items():
        events, zones = tuple(event for _, event in read), tuple(own for own, _ in read if own is not None)
        made = Series(events=events, zone=headers[number].zone, own=zones)
        try:
            with made.worked_out(), allowance.one(ONE_BATCH):
                _put_right(made, headers[number], window)
            found.append(made)
        except (Spent, *FOREIGN):
            unread += len(read)
    return sorted(found, key=lambda each: (bool(each.own), each.repeats)), unread


def _header(calendar: Calendar) -> _Header:
    said: dict[str, set[str]] = {}
    for line in calendar.properties:
        if (match := _PROPERTY.fullmatch(line)) and match[2].strip():
            said.setdefault(match[1].upper(), set()).add(match[2].strip())
    scales, zones = said.get("CALSCALE", set[str]()), said.get("X-WR-TIMEZONE", set[str]())
    zone = _known(min(zones)) if len(zones) == 1 else None
    return _Header(
        zone=zone,
        floating=zone is not None or not zones,
        readable={scale.upper() for scale in scales} <= {"GREGORIAN"},
    )


@lru_cache(1_000)
def _known(name: str) -> ZoneInfo | None:
    """The zone of that name, also by the names that Windows has for them; not one that a file defines."""
    import icalendar
    from icalendar.timezone import tzp

    if name.startswith("/"):  # a maker's name: the library would guess
        return None
    icalendar.use_zoneinfo()  # and forgets what files defined
    try:
        found = cast("Any", tzp).timezone(name)
    except (*FOREIGN, OSError):
        return None
    return found if isinstance(found, ZoneInfo) else None


def _batches(number: int, calendar: Calendar, window: Window) -> Iterator[_Batch]:
    # What follows a rule may then also come after its end.
    moved = any(_FOLLOWING.search(text) for text in calendar.events)
    own = {name[1].strip(): text for text in calendar.zones if (name := _ZONE.search(text)) is not None}
    sorted_out: dict[tuple[int, frozenset[str]], list[str]] = {}
    for text in calendar.events:
        if _may_touch(text, window, ended=not moved):
            named = own.keys() & {quoted or plain for quoted, plain in _IN_ZONE.findall(text)}
            needs = frozenset(name for name in named if _known(name) is None)
            rank = (
                LAST if needs or len(text) > LONG else 1 if _RULES.search(text) or _MORE.search(text) else 0
            )
            sorted_out.setdefault((rank, needs), []).append(text)
    for (rank, needs), texts in sorted_out.items():
        zones = tuple(own[name] for name in sorted(needs))
        yield _Batch(calendar=number, zones=zones, texts=tuple(texts), rank=rank)


def _may_touch(text: str, window: Window, *, ended: bool) -> bool:
    """Whether an event may matter, told from its lines. Only what plainly happens once, at another time, does not; nor does
    what `ended`, where that counts."""
    lines = _top(text)
    starts, ends = _STARTS.search(lines), _ENDS.search(lines)
    rules, untils = len(_RULES.findall(lines)), _UNTILS.findall(lines)
    if (
        starts is None
        or (ends is None and "DTEND" in lines.upper())
        or _LASTS.search(lines) is not None
        or _MORE.search(lines) is not None
        or (rules and not (ended and len(untils) == rules))
    ):
        return True
    try:
        days = [date.fromisoformat(each[1]) for each in (starts, ends) if each is not None]
        last = max(days)
        if rules:
            last = max(map(date.fromisoformat, untils)) + (last - days[0])
    except (ValueError, OverflowError):
        return True
    return last >= window.first - MARGIN and min(days) <= window.after + MARGIN


def _top(text: str) -> str:
    """The lines of an event without those of what lies in it: an alarm has times of its own."""
    if _INSIDE.search(text) is None:
        return text
    kept: list[str] = []
    deep = 0
    for line in text.splitlines():
        verb = line[:6].upper()
        deep += verb == "BEGIN:"
        if deep == 1:
            kept.append(line)
        deep -= line[:4].upper() == "END:"
    return "\n".join((*kept, ""))


def _read(batch: _Batch) -> list[Any]:
    """The events parsed. What is broken is left out."""
    try:
        events = _parsed(batch.zones, batch.texts)
    except FOREIGN:
        events = list(_parsed_each(batch))
    return [event for event in events if not event.errors]


def _parsed_each(batch: _Batch) -> Iterator[Any]:
    for text in batch.texts:
        try:
            yield from _parsed(batch.zones, (text,))
        except FOREIGN:
            continue


def _parsed(zones: Iterable[str], texts: tuple[str, ...]) -> list[Any]:
    import icalendar

    icalendar.use_zoneinfo()  # zones of another file may have the same names
    text = f"BEGIN:VCALENDAR\r\n{''.join(zones)}{''.join(texts)}END:VCALENDAR\r\n"
    whole = icalendar.Calendar.from_ical(text)
    events = [part for part in cast("list[Any]", whole.subcomponents) if part.name == "VEVENT"]
    for event, lines in zip(events, texts, strict=True):
        event.pop(DAYS, None)
        if (lasts := _LASTS.search(_top(lines))) is not None and "DTEND" not in event:
            event[DAYS] = int(lasts[1] or 0) * 7 + int(lasts[2] or 0)
    return events


def _put_right(series: Series, header: _Header, window: Window) -> None:
    """Has the rules of a series end when it was meant. Raises ValueError for what the libraries would make something of that
    nobody meant."""
    for event in series.events:
        if any(at.tzinfo is None and (zoned or not header.floating) for zoned, at in _times(event)):
            raise ValueError("a time in no zone that is known")
        start = event["DTSTART"].dt
        end = event["DTEND"].dt if "DTEND" in event else start
        if isinstance(start, datetime) != isinstance(end, datetime) or end < start:
            raise ValueError("no end that goes with the start")
        for rule in _listed(event.get("RRULE")):
            if len({str(day)[-3:-2].isdigit() for day in rule.get("BYDAY", ())}) > 1:
                raise ValueError("every such day, and only some of them: taken for days that are both")
            if "UNTIL" in rule and isinstance(start, datetime):
                home = header.zone if header.zone and start.tzname() in (None, "UTC") else start.tzinfo
                rule["UNTIL"] = [_until(each, home, window.zone) for each in rule["UNTIL"]]


def _times(event: Any) -> Iterator[tuple[bool, datetime]]:
    """Every time that an event names, and whether it names a zone for it."""
    for name in _TIMES:
        for each in _listed(event.get(name)):
            values: list[Any] = [value.dt for value in each.dts] if hasattr(each, "dts") else [each.dt]
            for value in values:
                ends = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else (value,)
                yield from (("TZID" in each.params, at) for at in ends if isinstance(at, datetime))


def _until(until: Any, home: tzinfo | None, operator: ZoneInfo) -> datetime:
    """When a rule of timed events ends. A day counts to its end, and a time without a zone is one of the event's own."""
    last = until if isinstance(until, datetime) else datetime.combine(until, time(23, 59, 59))
    zone = home or operator
    last = last if last.tzinfo is not None else last.replace(tzinfo=zone)
    return last.astimezone(UTC) if home is not None else last.astimezone(zone).replace(tzinfo=None)


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return cast("list[Any]", value) if isinstance(value, list) else [value]
