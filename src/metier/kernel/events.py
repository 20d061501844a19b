"""What happened, told to whoever listens in this process: triggers, live views and modules.

An event says who it comes from. `source` is set here and never by who emits: `metier` for our own, the name of a skill for one that
its code emitted. A listener that fails is noted and does not keep the others from hearing.
"""

import logging
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, TypeAlias, final

from msgspec import Struct

from metier.dialects.names import OURS as OURS
from metier.model.call import Cause
from metier.model.digest import Json

NO_CAUSE: Final = Cause()
_log: Final = logging.getLogger("metier.events")


@final
class Happened(Struct, frozen=True, kw_only=True):
    """One event."""

    name: str
    """For example `settings.skill.updated`."""
    source: str
    """`metier`, or the name of the skill that emitted it."""
    payload: Json = None
    at: float = 0.0
    """Seconds since 1970."""
    depth: int = 0
    """How many firings lie behind it: what an event sets off may set off others, but not for ever."""
    cause: Cause = NO_CAUSE
    """What the first of them was."""


Listener: TypeAlias = Callable[[Happened], None]
"""Takes an event at once and never waits; what takes longer it starts itself."""


@final
class Events:
    """Belongs to one loop."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def emit(
        self, name: str, payload: Json = None, *, source: str = OURS, depth: int = 0, cause: Cause = NO_CAUSE
    ) -> None:
        """Tell everybody."""
        happened = Happened(
            name=name,
            source=source,
            payload=payload,
            at=time.time(),
            depth=max(depth, cause.firings),
            cause=cause,
        )
        for listener in tuple(self._listeners):
            try:
                listener(happened)
            except Exception:  # noqa: BLE001  one that fails is not the others' matter
                _log.exception("a listener failed on the event %s", name)

    @contextmanager
    def listening(self, listener: Listener) -> Generator[None]:
        """Have `listener` told, for as long as this is entered."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)
