"""How much was called, refused and asked, by whom and of what: sums over the record, kept up with it.

They are made once and carried on from the last record that was seen, so a long record costs once. A record that was put back to an
earlier state is summed anew. Days are those of UTC, as records have them.
"""

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeAlias, final

import msgspec

from metier.record.glance import UNDECODABLE

if TYPE_CHECKING:
    from metier.record.database import Database

_AT_ONCE: Final = 4_000
"""Records that are read in one go: others want the database too."""
_EVENTS: Final = {
    "skill_execution_started": 0,
    "skill_executed": 1,
    "skill_execution_error": 2,
    "skill_execution_blocked": 3,
    "skill_approval_queued": 4,
}
"""Which number of `Sums` each is counted in."""
_SECONDS: Final = 5


class _Seen(msgspec.Struct, gc=False):
    event: str
    at: str = ""
    principal: str = ""
    tool: str = ""
    skill: str = ""
    effect: str = ""
    duration_ms: float | None = None


_Key: TypeAlias = tuple[str, str, str, str, bool]
"""Day, principal, skill and tool, and whether it was a look."""
_decode: Final = msgspec.json.Decoder(_Seen).decode


@final
class Sums(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the calls of one day, one principal and one tool."""

    day: str
    principal: str
    skill: str
    """Empty for what belongs to none."""
    tool: str
    """Empty where a call named none that there is."""
    calls: int
    """That began."""
    completed: int
    failed: int
    refused: int
    waited: int
    """That somebody was asked about."""
    seconds: float
    """That those ran which ended."""
    look: bool
    """A person had an operation of Metier's own read for him, as every page does."""


@final
class Usage:
    """The sums of one database. May be asked by several threads."""

    def __init__(self, database: "Database") -> None:
        self._database = database
        self._lock = Lock()
        self._forget()

    def _forget(self) -> None:
        self._sums: dict[_Key, list[float]] = {}
        """In the order of `_EVENTS`, and then seconds."""
        self.through = 0
        """The last record that is in them."""
        self._hash = b""
        self.unreadable = 0
        """Records that are in none, because nobody can read them."""

    def between(self, since: str = "", until: str = "") -> list[Sums]:
        """The sums of the days from `since` to `until`, both of them with them; an empty one is no bound. Blocking.

        Raises:
            StateError: when the record cannot be read.
        """
        with self._lock:
            self._carry_on()
            return [
                _sums(key, counts)
                for key, counts in self._sums.items()
                if since <= key[0] and (not until or key[0] <= until)
            ]

    def _carry_on(self) -> None:
        with self._database.reading() as connection:
            last = connection.execute("SELECT hash FROM audit WHERE seq = ?", (self.through,)).fetchone()
        if self.through and (last is None or last[0] != self._hash):
            self._forget()  # another record than the one that was summed
        while rows := self._next():
            self._take(rows)

    def _next(self) -> list[tuple[int, object, bytes]]:
        with self._database.reading() as connection:
            return connection.execute(
                "SELECT seq, body, hash FROM audit WHERE seq > ? ORDER BY seq LIMIT ?",
                (self.through, _AT_ONCE),
            ).fetchall()

    def _take(self, rows: Sequence[tuple[int, object, bytes]]) -> None:
        """The one loop that runs for every record there is, so it does little."""
        sums, decode, events = self._sums, _decode, _EVENTS
        for _, body, _ in rows:
            try:
                seen = decode(body)  # pyright: ignore[reportArgumentType]  whatever lies there
            except UNDECODABLE:
                self.unreadable += 1
                continue
            what = events.get(seen.event)
            if what is None:
                continue
            look = seen.effect == "read" and not seen.skill and seen.principal.startswith("human:")
            key = (seen.at[:10], seen.principal, seen.skill, seen.tool, look)
            counts = sums.get(key)
            if counts is None:
                counts = sums[key] = [0, 0, 0, 0, 0, 0.0]
            counts[what] += 1
            if seen.duration_ms is not None:
                counts[_SECONDS] += seen.duration_ms / 1000
        self.through, _, self._hash = rows[-1]


def _sums(key: _Key, counts: list[float]) -> Sums:
    began, completed, failed, refused, waited, seconds = counts
    day, principal, skill, tool, look = key
    return Sums(
        day=day,
        principal=principal,
        skill=skill,
        tool=tool,
        calls=int(began),
        completed=int(completed),
        failed=int(failed),
        refused=int(refused),
        waited=int(waited),
        seconds=seconds,
        look=look,
    )
