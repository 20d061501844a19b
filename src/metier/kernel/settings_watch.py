"""Settings that another process changed are told here too: who listens in the host need not know who wrote."""

from collections.abc import Callable
from typing import Final, final

from anyio import to_thread

from metier.kernel.delivery_watch import Watch
from metier.kernel.events import Events
from metier.kernel.store import Store
from metier.model.digest import Json

UPDATED: Final = "settings.skill.updated"
_LOOK_SECONDS: Final = 3_600.0


@final
class SettingsWatch:
    """Belongs to one loop; the host's."""

    def __init__(self, store: Store, events: Events, written: Callable[[str], float | None]) -> None:
        """`written` says when this process itself last wrote the settings of a skill: that was told when it did."""
        self._store = store
        self._events = events
        self._watch = Watch(store)
        self._written = written

    async def run(self) -> None:
        """Until cancelled."""
        known = await to_thread.run_sync(self._moments)
        while True:
            await self._watch.wait(_LOOK_SECONDS)
            now = await to_thread.run_sync(self._moments)
            for skill in sorted(known.keys() | now.keys()):
                at = now.get(skill)
                if at != known.get(skill) and (at is None or at != self._written(skill)):
                    about: Json = {"skill": skill}
                    self._events.emit(UPDATED, about)
            known = now

    def _moments(self) -> dict[str, float]:
        with self._store.reading() as connection:
            rows: list[tuple[str, float]] = connection.execute(
                "SELECT skill, changed_at FROM settings"
            ).fetchall()
        return dict(rows)
