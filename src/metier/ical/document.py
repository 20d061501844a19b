"""The outline of an .ics file: which calendars, zones and events it holds, as lines. And a file with one event more.

Only the outline is read here, so that thousands of past events cost nothing, and so that nothing that somebody else
wrote is ever written anew: an event is put in between two lines, every other byte stays.
"""

import re
from typing import Final, final

from msgspec import Struct

_FOLDED: Final = re.compile(rb"\r?\n[ \t]")
_LAST_END: Final = re.compile(rb"(?im)^END:VCALENDAR[ \t]*\r?$")
_BOM: Final = b"\xef\xbb\xbf"
_EMPTY: Final = (
    b"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//Metier//metier-ical-query//EN\r\nEND:VCALENDAR\r\n"
)
DEEPEST: Final = 8
"""Components inside components."""


@final
class Calendar(Struct, frozen=True, kw_only=True):
    """One VCALENDAR. Every text is whole lines, unfolded."""

    properties: tuple[str, ...]
    zones: tuple[str, ...]
    events: tuple[str, ...]


@final
class Damaged(Struct, frozen=True, kw_only=True):
    """The file is not what it should be."""

    why: str


def outline(data: bytes) -> tuple[Calendar, ...] | Damaged:
    """The calendars of a file, at least one. A file of no bytes is one that nobody has written to yet."""
    if b"\0" in data:
        return Damaged(why="it holds bytes that are no text")
    # Before decoding: old programs fold in the middle of a character.
    unfolded = _FOLDED.sub(b"", data.removeprefix(_BOM) or _EMPTY)
    try:
        lines = unfolded.decode().split("\n")
    except UnicodeDecodeError:
        return Damaged(why="it is not UTF-8")
    reader = _Reader()
    for number, line in enumerate(lines, 1):
        fault = reader.take(line.rstrip("\r"))
        if fault:
            return Damaged(why=f"{fault} (line {number}, folded lines counted as one)")
    if reader.open:
        return Damaged(why=f"{reader.open[-1]} is begun and never ended")
    return tuple(reader.calendars) or Damaged(why="it holds no calendar")


@final
class _Reader:
    """Takes one line after the other."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.calendars: list[Calendar] = []
        self._part: list[str] = []
        self._properties: list[str] = []
        self._zones: list[str] = []
        self._events: list[str] = []

    def take(self, line: str) -> str:
        """What is wrong with this line; empty when nothing is."""
        if not line.strip():
            return ""
        head, _, name = line.partition(":")
        verb = head.upper()
        if verb == "BEGIN":
            return self._begun(name.strip().upper(), line)
        if verb == "END":
            return self._ended(name.strip().upper(), line)
        if not self.open:
            return "there is text outside of a calendar"
        (self._properties if len(self.open) == 1 else self._part).append(line)
        return ""

    def _begun(self, name: str, line: str) -> str:
        if bool(self.open) == (name == "VCALENDAR"):
            return f"{name[:20]} begins at the wrong place"
        if len(self.open) == DEEPEST:
            return "too many components lie inside each other"
        self.open.append(name)
        if len(self.open) > 1:
            self._part.append(line)
        return ""

    def _ended(self, name: str, line: str) -> str:
        if not self.open or self.open.pop() != name:
            return f"{name[:20]} ends without having begun"
        if self.open:
            self._part.append(line)
        if len(self.open) == 1:
            kept = {"VTIMEZONE": self._zones, "VEVENT": self._events}.get(name)
            if kept is not None:
                kept.append("\r\n".join((*self._part, "")))
            self._part = []
        elif not self.open:
            self.calendars.append(
                Calendar(
                    properties=tuple(self._properties), zones=tuple(self._zones), events=tuple(self._events)
                )
            )
            self._properties, self._zones, self._events = [], [], []
        return ""


def with_event(data: bytes, event: bytes) -> bytes | Damaged:
    """The file with this event as the last of its last calendar. Its line ends are written as the file writes its own."""
    whole = data if data.removeprefix(_BOM) else _EMPTY
    ends = list(_LAST_END.finditer(whole))
    if not ends:
        return Damaged(why="the end of its calendar is written in an unusual way")
    place = ends[-1].start()
    if not ends[-1].group().endswith(b"\r"):
        event = event.replace(b"\r\n", b"\n")
    return whole[:place] + event + whole[place:]
