"""The runs under way, by skill, and the skills of which none may begin.

Two things must not slip past each other: a run that begins, and the end of its skill. So a run counts from the moment it
was prepared: it begins with the mark it took then, and every stop after that mark ends it, before or after it began. A
skill that broke the rules is barred here first, in memory and without waiting; the bar falls when the disabling is on
the disk, where every call asks. What cannot be written yet stays barred, and is tried again.
"""

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, TypeAlias, final

import anyio
from anyio import to_thread
from msgspec import Struct

from metier.errors import MetierError, RecordError

_log: Final = logging.getLogger("metier.running")

Disable: TypeAlias = Callable[[str, str, str], None]
"""Disables a skill on the disk: its name, the call, and why."""


@final
class _Violation(Struct, frozen=True):
    """A disabling that has to be written."""

    skill: str
    call_id: str
    why: str


@final
class Running:
    """Belongs to one loop; nothing here waits but `settle`."""

    def __init__(self) -> None:
        self._scopes: dict[str, set[anyio.CancelScope]] = {}
        self._stops: dict[str, int] = {}
        self._barred: dict[str, str] = {}
        self._unwritten: list[_Violation] = []
        self._writing = anyio.Lock()

    def mark(self, skill: str) -> int:
        """Now, as far as stops of `skill` are concerned. Taken before it is asked whether the skill may run."""
        return self._stops.get(skill, 0)

    def barred(self, skill: str) -> str:
        """Why no run of `skill` may begin; empty when one may."""
        return self._barred.get(skill, "")

    @contextmanager
    def under(self, skill: str, mark: int | None = None) -> Generator[anyio.CancelScope]:
        """What happens inside is a run of `skill`. It is ended at once when the skill was stopped since `mark`."""
        with anyio.CancelScope() as scope:
            if mark is not None and mark != self.mark(skill):
                scope.cancel()
            self._scopes.setdefault(skill, set()).add(scope)
            try:
                yield scope
            finally:
                self._scopes[skill].discard(scope)
                if not self._scopes[skill]:
                    del self._scopes[skill]

    def stop(self, skill: str) -> None:
        """End every run of `skill`, also those that are prepared and have not begun."""
        if not skill:
            return
        self._stops[skill] = self.mark(skill) + 1
        for scope in tuple(self._scopes.get(skill, ())):
            scope.cancel()

    def bar(self, skill: str, call_id: str, why: str) -> None:
        """End every run of `skill` and let none begin, for what a call of it did. `settle` then writes it down."""
        if not skill:
            return
        self._barred[skill] = why
        self._unwritten.append(_Violation(skill, call_id, why))
        self.stop(skill)

    async def settle(self, disable: Disable) -> None:
        """Write down every disabling that is not on the disk yet. A caller who goes away does not stop that."""
        if not self._unwritten:
            return
        with anyio.CancelScope(shield=True):
            async with self._writing:
                for each in tuple(self._unwritten):
                    if not await to_thread.run_sync(_written, disable, each):
                        continue
                    self._unwritten.remove(each)
                    if not any(other.skill == each.skill for other in self._unwritten):
                        self._barred.pop(each.skill, None)

    @property
    def unsettled(self) -> bool:
        """Whether a disabling still has to be written."""
        return bool(self._unwritten)

    @property
    def skills(self) -> frozenset[str]:
        """Those that have a run under way."""
        return frozenset(self._scopes)


def _written(disable: Disable, each: _Violation) -> bool:
    try:
        disable(each.skill, each.call_id, each.why)
    except RecordError as error:
        _log.error("%s", error)  # it is disabled, only its record is missing
    except MetierError as error:
        _log.error("%s is disabled in this process only until it can be written: %s", each.skill, error)
        return False
    return True
