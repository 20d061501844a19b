"""Calendars on a CalDAV server: what they hold on some days, and one event more.

The library finds the calendars and reads the answers. What is asked for is said here, because an event that the server names
and does not give must be counted, and one that it may have got must not be taken for one that it has not.
"""

from datetime import timedelta
from typing import Any, Final, final
from urllib.parse import quote, unquote, urlsplit
from xml.sax.saxutils import escape

from msgspec import Struct

from metier.ical.caldav_server import Elsewhere, Odd, Server, spoken
from metier.ical.document import Calendar, Damaged, outline
from metier.ical.entry import Entry
from metier.ical.problem import Problem, failed
from metier.ical.zone import Window

MOST_RESOURCES: Final = 5_000
_MARGIN: Final = timedelta(days=1)
_STAMP: Final = "%Y%m%dT%H%M%SZ"
_ASKING: Final = (
    '<?xml version="1.0" encoding="utf-8"?><c:calendar-{kind} xmlns:d="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav">'
    "<d:prop><d:getetag/><c:calendar-data/></d:prop>{which}</c:calendar-{kind}>"
)
_ON_DAYS: Final = (
    '<c:filter><c:comp-filter name="VCALENDAR"><c:comp-filter name="VEVENT"><c:time-range start="{start}" end="{end}"/>'
    "</c:comp-filter></c:comp-filter></c:filter>"
)


@final
class Asked(Struct, frozen=True, kw_only=True):
    """What the server has for some days."""

    name: str
    calendars: tuple[Calendar, ...]
    damaged: int


@final
class _There(Struct, frozen=True, kw_only=True):
    """One calendar of the server."""

    url: str
    name: str


def events_on(server: Server, calendar: str, window: Window) -> Asked | Problem:
    """What happens there around these days, as the server keeps it."""

    def asked(client: Any) -> Asked | Problem:
        there = _calendar(client, server, calendar)
        if isinstance(there, Problem):
            return there
        # Wider than asked: what has no zone is the server's to place, and it does not know ours.
        start, end = (f"{at:{_STAMP}}" for at in (window.start - _MARGIN, window.end + _MARGIN))
        days = _ON_DAYS.format(start=start, end=end)
        given = _report(client, there, _ASKING.format(kind="query", which=days), depth=1)
        named = [href for href, data in given.items() if not data]
        if named and len(given) <= MOST_RESOURCES:  # some servers give only those that are asked for by name
            which = "".join(f"<d:href>{escape(quote(href, safe='/@'))}</d:href>" for href in named)
            again = _report(client, there, _ASKING.format(kind="multiget", which=which), depth=None)
            given |= {href: again.get(href, "") for href in named}
        return _read(there.name, list(given.values()))

    return spoken(server, asked)


def add(server: Server, calendar: str, entry: Entry) -> str | Problem:
    """Put the event there; the calendar's name when that is done."""
    text = b"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//Metier//metier-ical-query//EN\r\n%bEND:VCALENDAR\r\n"

    def added(client: Any) -> str | Problem:
        there = _calendar(client, server, calendar)
        if isinstance(there, Problem):
            return there
        url = f"{there.url.rstrip('/')}/{entry.uid.partition('@')[0]}.ics"
        kind = {"Content-Type": "text/calendar; charset=utf-8"}
        status = client.put(url, (text % entry.text).decode(), kind).status
        return there.name if status // 100 == 2 else failed("The calendar server did not take the event.")

    return spoken(server, added)


def _calendar(client: Any, server: Server, name: str) -> _There | Problem:
    """The calendar of that name, or the only one. The address may also be that of one calendar."""
    properties = ["{DAV:}resourcetype", "{DAV:}displayname"]
    for each in _whole(client.propfind(server.url, props=properties, depth=0)).results or ():
        kind: Any = each.properties.get("{DAV:}resourcetype") or []
        if "{urn:ietf:params:xml:ns:caldav}calendar" in (kind if isinstance(kind, list) else [kind]):
            there = _There(url=server.url, name=_named(each.properties.get("{DAV:}displayname"), server.url))
            return _chosen([there], name)
    try:
        choice = client.get_principal().get_calendars()
    except ValueError:  # the library joins no addresses of two hosts
        raise Elsewhere from None
    if len(choice) > 1 and not name:
        return failed(
            "The server has several calendars. Name one with --calendar, or let METIER_CALDAV_URL be that of one."
        )
    every = [
        _There(url=str(each.url), name=_named(each.get_display_name(), str(each.url))) for each in choice
    ]
    return _chosen(every, name)


def _chosen(choice: list[_There], name: str) -> _There | Problem:
    if not choice:
        return failed("The server has no calendar for this user.")
    alike = [each for each in choice if not name or each.name.casefold() == name.strip().casefold()]
    if len(alike) != 1:
        return failed(
            "The server has no calendar of that name." if not alike else "Several calendars have that name."
        )
    return alike[0]


def _named(shown: Any, url: str) -> str:
    return str(shown) if shown else unquote(url).rstrip("/").rpartition("/")[2]


def _report(client: Any, there: _There, asking: str, *, depth: int | None) -> dict[str, str]:
    """Every event that the server names, with what it gives of it; empty where it gives nothing."""
    answer = client.report(there.url, asking, depth=depth)
    if answer.status not in (200, 207):
        raise Odd(answer.status)
    given: dict[str, str] = {}
    for each in _whole(answer).parse_calendar_query():
        given[each.href] = (each.calendar_data or "").strip() or given.get(each.href, "")
    # Some servers name the calendar itself as well.
    itself = unquote(urlsplit(there.url).path).rstrip("/")
    return {href: data for href, data in given.items() if data or href.rstrip("/") != itself}


def _whole(answer: Any) -> Any:
    """An answer that says it was understood says so in XML of its kind; a page to sign in at does not."""
    kind = str(getattr(answer.tree, "tag", ""))
    if answer.status in (200, 207) and not kind.startswith("{DAV:}"):
        raise Odd(answer.status)
    return answer


def _read(name: str, given: list[str]) -> Asked | Problem:
    if len(given) > MOST_RESOURCES:
        return failed(f"The server sent more than {MOST_RESOURCES:,} events for these days.")
    calendars: list[Calendar] = []
    damaged = 0
    for data in given:
        whole = outline(data.encode()) if data else Damaged(why="nothing was sent of it")
        if isinstance(whole, Damaged):
            damaged += 1
        else:
            calendars.extend(whole)
    return Asked(name=name, calendars=tuple(calendars), damaged=damaged)
