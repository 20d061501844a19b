"""The runs under way, by skill and by call, and the skills of which none may begin.

Two things must not slip past each other: a run that begins, and the end of its skill. So a run counts from the moment it
was prepared: it begins with the mark it took then, and every stop after that mark ends it, before or after it began. A
skill that broke the rules is barred here first, in memory and without waiting; the bar falls when the disabling is on
the disk, where every call asks. What cannot be written yet stays barred, and is tried again.
"""

import logging
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TypeAlias, final

import anyio
from anyio import to_thread
from msgspec import Struct

from metier.errors import MetierError, RecordError

_log: Final = logging.getLogger("metier.running")

Disable: TypeAlias = Callable[[str, str, str, str], None]
"""Disables a skill on the disk: its name, the call, why, and the digest of the bytes that did it."""


@final
class _Violation(Struct, frozen=True):
    """A disabling that has to be written."""

    skill: str
    call_id: str
    why: str
    digest: str


STOPPED: Final = "the skill was disabled, or its trust taken back, meanwhile"


@final
class UnderWay:
    """One run, for as long as it is entered."""

    __slots__ = ("_mark", "_running", "_scope", "call_id", "skill", "why")

    def __init__(
        self, running: "Running", scope: anyio.CancelScope, skill: str, call_id: str, mark: int | None
    ) -> None:
        self.skill = skill
        self.call_id = call_id
        self.why = ""
        """Why it was ended from outside; empty when it was not."""
        self._running = running
        self._scope = scope
        self._mark = mark

    def __enter__(self) -> Self:
        self._scope.__enter__()
        if self._mark is not None and self._mark != self._running.mark(self.skill):
            self.end(STOPPED)
        self._running.runs.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._running.runs.discard(self)
        return self._scope.__exit__(kind, error, trace)

    def end(self, why: str) -> None:
        """End it, unless it is ended already."""
        self.why = self.why or why
        self._scope.cancel()


@final
class Running:
    """Belongs to one loop; nothing here waits but `settle`."""

    def __init__(self) -> None:
        self.runs: set[UnderWay] = set()
        """Those that are entered."""
        self.residents: set[str] = set()
        """Skills of which something lives on between runs."""
        self.on_stop: list[Callable[[str], None]] = []
        """Told the name of a skill that was stopped; nothing for all of them. Must not wait or raise."""
        self._scope: type[anyio.CancelScope] | None = None
        """What scopes of this loop are. To find that out takes as long as the rest of a short run."""
        self._stops: dict[str, int] = {}
        self._all_stops = 0
        self._barred: dict[str, str] = {}
        """By name and by digest, which no name looks like."""
        self._unwritten: list[_Violation] = []
        self._writing = anyio.Lock()
        self._limiter = anyio.CapacityLimiter(1)

    def mark(self, skill: str) -> int:
        """Now, as far as stops of `skill` are concerned. Taken before it is asked whether the skill may run."""
        return self._stops.get(skill, 0) + self._all_stops

    def barred(self, skill: str, digest: str = "") -> str:
        """Why no run of `skill`, or of these bytes, may begin; empty when one may."""
        return self._barred.get(skill, "") or self._barred.get(digest, "")

    def under(self, skill: str, call_id: str = "", mark: int | None = None) -> UnderWay:
        """What happens inside is a run of `skill`. It is ended at once when the skill was stopped since `mark`."""
        if self._scope is None:
            self._scope = type(anyio.CancelScope())
        return UnderWay(self, self._scope(), skill, call_id, mark)

    def stop(self, skill: str) -> None:
        """End every run of `skill`, also those that are prepared and have not begun."""
        if not skill:
            return
        self._stops[skill] = self._stops.get(skill, 0) + 1
        for each in tuple(self.runs):
            if each.skill == skill:
                each.end(STOPPED)
        for told in self.on_stop:
            told(skill)

    def stop_all(self, why: str) -> None:
        """End every run there is, also those that are prepared and have not begun."""
        self._all_stops += 1
        for each in tuple(self.runs):
            each.end(f"everything was stopped: {why}")
        for told in self.on_stop:
            told("")

    def cancel(self, call_id: str, by: str) -> None:
        """End the run of one call, if it is here."""
        for each in tuple(self.runs):
            if each.call_id == call_id:
                each.end(f"{by} cancelled it")

    def bar(self, skill: str, call_id: str, why: str, digest: str = "") -> None:
        """End every run of `skill` and let none begin, nor one of these bytes under another name, for what a call of it
        did. `settle` then writes it down."""
        if not skill:
            return
        self._barred[skill] = why
        if digest:
            self._barred[digest] = why
        self._unwritten.append(_Violation(skill, call_id, why, digest))
        self.stop(skill)

    def blamed(self, call_id: str) -> bool:
        """Whether somebody is barred already for what that call did, and it is not written down yet."""
        return any(each.call_id == call_id for each in self._unwritten)

    async def settle(self, disable: Disable) -> None:
        """Write down every disabling that is not on the disk yet. A caller who goes away does not stop that."""
        if not self._unwritten:
            return
        with anyio.CancelScope(shield=True):
            async with self._writing:
                for each in tuple(self._unwritten):
                    if not await to_thread.run_sync(_written, disable, each, limiter=self._limiter):
                        continue
                    self._unwritten.remove(each)
                    if not any(other.skill == each.skill for other in self._unwritten):
                        self._barred.pop(each.skill, None)
                    if not any(other.digest == each.digest for other in self._unwritten):
                        self._barred.pop(each.digest, None)

    @property
    def unsettled(self) -> bool:
        """Whether a disabling still has to be written."""
        return bool(self._unwritten)

    @property
    def skills(self) -> frozenset[str]:
        """Those that have a run under way, or something that lives; the empty name stands for what belongs to none."""
        return frozenset(each.skill for each in self.runs) | self.residents


def _written(disable: Disable, each: _Violation) -> bool:
    try:
        disable(each.skill, each.call_id, each.why, each.digest)
    except RecordError as error:
        _log.error("%s", error)  # it is disabled, only its record is missing
    except MetierError as error:
        _log.error("%s is disabled in this process only until it can be written: %s", each.skill, error)
        return False
    return True
