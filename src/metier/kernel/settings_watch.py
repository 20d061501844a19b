"""Settings that another process changed are told here too: who listens in the host need not know who wrote."""

from typing import Final, final

from anyio import to_thread

from metier.kernel.delivery_watch import Watch
from metier.kernel.events import OURS, Events, Happened
from metier.kernel.store import Store
from metier.model.digest import Json

UPDATED: Final = "settings.skill.updated"
_LOOK_SECONDS: Final = 3_600.0


@final
class SettingsWatch:
    """Belongs to one loop; the host's."""

    def __init__(self, store: Store, events: Events) -> None:
        self._store = store
        self._events = events
        self._watch = Watch(store)
        self._told: set[str] = set()
        """Those that this process changed itself since the last look."""

    async def run(self) -> None:
        """Until cancelled."""
        with self._events.listening(self._heard):
            known = await to_thread.run_sync(self._moments)
            while True:
                await self._watch.wait(_LOOK_SECONDS)
                told, self._told = self._told, set()
                now = await to_thread.run_sync(self._moments)
                for skill in sorted(known.keys() | now.keys()):
                    if known.get(skill) != now.get(skill) and skill not in told:
                        about: Json = {"skill": skill}
                        self._events.emit(UPDATED, about)
                self._told.clear()
                known = now

    def _heard(self, happened: Happened) -> None:
        about = happened.payload
        if happened.name == UPDATED and happened.source == OURS and isinstance(about, dict):
            self._told.add(str(about.get("skill")))

    def _moments(self) -> dict[str, float]:
        with self._store.reading() as connection:
            rows: list[tuple[str, float]] = connection.execute(
                "SELECT skill, changed_at FROM settings"
            ).fetchall()
        return dict(rows)
