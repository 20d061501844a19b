"""The command `metier-ical-query`. Exit code 0: done, and no output means no events; 2: asked wrongly; 1: not possible."""

import logging
import os
import sys
import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from metier import __version__
from metier.ical.asked import USAGE, Add, Lookup, asked
from metier.ical.problem import Problem, failed
from metier.ical.zone import operator_zone, window

_NEEDED: Final = ("icalendar", "recurring_ical_events", "caldav")


def main() -> None:
    """Answers the words of the command line."""
    sys.exit(run(sys.argv[1:], os.environ))


def run(words: list[str], environ: Mapping[str, str]) -> int:
    """The same for given words and a given environment; the exit code."""
    logging.disable(logging.CRITICAL)  # libraries would speak beside our one sentence
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = answered(words, environ, datetime.now(UTC))
        if not isinstance(answer, Problem):
            return _printed(answer)
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - a front door: whatever broke, one sentence
        answer = failed(
            f"Something broke that should not have ({type(error).__name__}). Nothing was printed."
        )
    finally:
        logging.disable(logging.NOTSET)
    sys.stderr.write(f"metier-ical-query: {answer.message}\n")
    return 2 if answer.usage else 1


def _printed(text: str) -> int:
    try:
        sys.stdout.buffer.write(text.encode(errors="backslashreplace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # Nobody reads any more; Python would complain once again when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


def answered(words: list[str], environ: Mapping[str, str], now: datetime) -> str | Problem:
    """What is printed, or why nothing is."""
    wanted = asked(words)
    if isinstance(wanted, Problem):
        return wanted
    if wanted == "help":
        return USAGE
    if wanted == "version":
        return f"metier-ical-query {__version__}\n"
    if any(find_spec(name) is None for name in _NEEDED):
        return failed("Calendars need more packages. Install them with: pip install 'metier[calendar]'")
    zone = operator_zone(environ)
    if isinstance(zone, Problem):
        return zone
    lines = (
        _looked_up(wanted, environ, now, zone)
        if isinstance(wanted, Lookup)
        else _added(wanted, environ, now, zone)
    )
    return lines if isinstance(lines, Problem) else "".join(f"{line}\n" for line in lines)


def _looked_up(
    lookup: Lookup, environ: Mapping[str, str], now: datetime, zone: ZoneInfo
) -> list[str] | Problem:
    from metier.ical import caldav_server, caldav_store, file_store
    from metier.ical.happening import found
    from metier.ical.shown import lines

    days = window(lookup.days, now, zone)
    server = caldav_server.server(environ)
    if isinstance(server, Problem):
        return server
    if server is not None:
        asked_for = caldav_store.events_on(server, lookup.calendar, days)
        if isinstance(asked_for, Problem):
            return asked_for
        happens = found(asked_for.calendars, days)
        happens = msgspec.structs.replace(happens, unreadable=happens.unreadable + asked_for.damaged)
        return lines(happens, zone, asked_for.name)
    place = file_store.place(environ, lookup.calendar)
    if isinstance(place, Problem):
        return place
    calendars = file_store.events_of(place)
    if isinstance(calendars, Problem):
        return calendars
    return lines(found(calendars, days), zone, place.name)


def _added(add: Add, environ: Mapping[str, str], now: datetime, zone: ZoneInfo) -> list[str] | Problem:
    from metier.ical import caldav_server, caldav_store, file_store
    from metier.ical.entry import entry
    from metier.ical.shown import line

    event = entry(add, now, zone)
    if isinstance(event, Problem):
        return event
    server = caldav_server.server(environ)
    if isinstance(server, Problem):
        return server
    if server is not None:
        name = caldav_store.add(server, add.calendar, event)
        return name if isinstance(name, Problem) else [f"Added {line(event.happening, zone, name)}"]
    place = file_store.place(environ, add.calendar)
    if isinstance(place, Problem):
        return place
    problem = file_store.add(place, event)
    return problem if problem is not None else [f"Added {line(event.happening, zone, place.name)}"]


if __name__ == "__main__":
    main()
