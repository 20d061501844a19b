"""What is kept of what a guest says about itself: its output up to a limit, and what it was refused, counted."""

from typing import Final, final

from metier.model.job import Event

MOST_EVENTS: Final = 64
"""Kinds of refusals told apart; further ones are counted together."""
_LONGEST_DETAIL: Final = 500


@final
class Kept:
    """Text on two streams that share one limit, counted in bytes of UTF-8. Of what has no end the last is kept of each, not the
    first of both."""

    def __init__(self, most: int, *, endless: bool = False) -> None:
        self._most = most
        self._endless = endless
        self._left = most
        self._out = bytearray()
        self._err = bytearray()
        self.made = 0
        """Bytes altogether, also those that were not kept."""

    def add(self, text: str, *, error: bool) -> None:
        """Keep it as far as there is room."""
        data = text.encode(errors="replace")
        self.made += len(data)
        if self._endless:
            keep_last(self._err if error else self._out, data, self._most)
            return
        fits = data[: self._left]
        self._left -= len(fits)
        (self._err if error else self._out).extend(fits)

    @property
    def truncated(self) -> bool:
        return self.made > len(self._out) + len(self._err)

    @property
    def stdout(self) -> str:
        return self._out.decode(errors="ignore")  # the limit may have cut a character in two

    @property
    def stderr(self) -> str:
        return self._err.decode(errors="ignore")


def keep_last(kept: bytearray, data: bytes, most: int) -> None:
    """Add `data` to what is kept, of which the last `most` bytes stay."""
    kept += data[-most:]
    del kept[:-most]


@final
class Events:
    """Refusals, the same one counted and not repeated."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}

    def add(self, kind: str, detail: str) -> None:
        """One more of it."""
        what = (kind, detail[:_LONGEST_DETAIL])
        if what not in self._counts and len(self._counts) >= MOST_EVENTS:
            what = (kind, "and others")
        self._counts[what] = self._counts.get(what, 0) + 1

    @property
    def seen(self) -> tuple[Event, ...]:
        return tuple(Event(kind=kind, detail=detail, count=n) for (kind, detail), n in self._counts.items())
