"""The command line: words in, what is wanted out. Nothing is looked at but the words.

Options stand anywhere, as `--x y` or `--x=y`. Only what begins with two hyphens is an option, because a title may well
begin with one; and after a bare `--` everything is a plain word, so a caller can pass on any title unread.
"""

import re
from datetime import date
from typing import Final, Literal, final

from msgspec import Struct

from metier.ical.problem import Problem, misused

USAGE: Final = """\
metier-ical-query today | tomorrow | week | YYYY-MM-DD   [--calendar NAME]
metier-ical-query add TITLE START END   [--calendar NAME] [--location TEXT] [--notes TEXT]

Lists what is in the calendar, a line for each event, or adds one event to it. `week` is the seven days from today.
START and END are times such as 2026-02-22T15:00, with or without an offset such as +01:00, or two dates for whole days;
END is when it is over, so one whole day ends on the day after. A word `--` ends the options.

METIER_CALENDAR_FILE    the .ics file
METIER_CALENDAR_FOLDER  or the folder: calendar.ics in it, and NAME.ics for each other calendar; an empty file begins one
METIER_CALDAV_URL       or a CalDAV server, with METIER_CALDAV_USER and METIER_CALDAV_PASSWORD
METIER_TIMEZONE         the time zone, such as Europe/Berlin; else TZ, else that of the machine
"""
FIRST_YEAR: Final = 1900
LAST_YEAR: Final = 2200
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_OPTIONS: Final = ("calendar", "location", "notes")


@final
class Lookup(Struct, frozen=True, kw_only=True):
    """What is on some days."""

    days: date | Literal["today", "tomorrow", "week"]
    calendar: str = ""
    """Empty: the primary one."""


@final
class Add(Struct, frozen=True, kw_only=True):
    """One more event, everything as it was written."""

    title: str
    start: str
    end: str
    calendar: str = ""
    location: str = ""
    notes: str = ""


Said = Literal["help", "version"]
"""What is asked about the command itself."""


def asked(words: list[str]) -> Lookup | Add | Said | Problem:
    """What the words of the command line want."""
    for word in words:
        if any("\ud800" <= letter <= "\udfff" for letter in word):
            return misused("A word of the command line is not valid UTF-8.")
    sorted_out = _sorted_out(words)
    if not isinstance(sorted_out, tuple):
        return sorted_out
    plain, options = sorted_out
    if not plain:
        return misused("Nothing was asked. Say today, tomorrow, week, a date, or add; --help explains.")
    if plain[0] == "add":
        return _addition(plain[1:], options)
    return _question(plain, options)


def _sorted_out(words: list[str]) -> tuple[list[str], dict[str, str]] | Said | Problem:
    plain: list[str] = []
    options: dict[str, str] = {}
    rest = iter(words)
    # Only as the first word: later it is what somebody calls an event.
    if words[:1] in (["--help"], ["-h"]):
        return "help"
    if words[:1] == ["--version"]:
        return "version"
    for word in rest:
        if word == "--":
            plain.extend(rest)
        elif word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if name not in _OPTIONS:
                return misused("There is no such option. There are --calendar, --location and --notes.")
            given = value if equals else next(rest, None)
            if given is None:
                return misused(f"--{name} needs a value.")
            if name in options:
                return misused(f"--{name} is given twice.")
            options[name] = given
        else:
            plain.append(word)
    return plain, options


def _addition(plain: list[str], options: dict[str, str]) -> Add | Problem:
    if len(plain) != 3:
        return misused(
            f"add takes a title, a start and an end; {len(plain)} words are given. --help explains."
        )
    title, start, end = plain
    return Add(
        title=title,
        start=start,
        end=end,
        calendar=options.get("calendar", ""),
        location=options.get("location", ""),
        notes=options.get("notes", ""),
    )


def _question(plain: list[str], options: dict[str, str]) -> Lookup | Problem:
    if len(plain) > 1:
        return misused("Only one range can be asked for at a time: today, tomorrow, week, or a date.")
    for name in ("location", "notes"):
        if name in options:
            return misused(f"--{name} goes with add only.")
    calendar = options.get("calendar", "")
    word = plain[0].strip().lower()
    if word == "today" or word == "tomorrow" or word == "week":
        return Lookup(days=word, calendar=calendar)
    day = a_day(word)
    if day is None:
        return misused("The range is not understood. Say today, tomorrow, week, or a date as 2026-02-22.")
    return Lookup(days=day, calendar=calendar)


def a_day(text: str) -> date | None:
    """The date written as 2026-02-22, within the years that calendars are kept for."""
    if _DATE.fullmatch(text) is None:
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if FIRST_YEAR <= day.year <= LAST_YEAR else None
