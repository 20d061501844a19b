"""What becomes of what is learned about MCP servers while they run: other tools than those looked at are noted for the operator, a
violation between calls bars the skill, and while one lives somebody looks several times a second whether it still may."""

import os
from typing import final

from metier.catalog.bundle import BundleStore
from metier.catalog.probed import NEWER, Probed, forget_newer, keep, kept
from metier.errors import BundleError
from metier.host.running import Running
from metier.model.digest import Json
from metier.model.job import Event, Job
from metier.model.mcp_listing import changes


@final
class McpServers:
    """One for a runtime."""

    def __init__(self, bundles: BundleStore, folder: str, running: Running) -> None:
        """`folder` is where bundles are."""
        self._bundles = bundles
        self._folder = folder
        self._running = running
        self.changed = False
        """Whether something was held back, or is no more, since whoever shows tools last looked."""

    def listed(self, job: Job, listing: dict[str, Json]) -> None:
        """Keep what a server tells now, where that is something else than what was looked at. Blocking."""
        digest = _digest(job)
        try:
            snapshot = self._bundles.open(digest)
        except BundleError:
            return  # whoever calls it next is told
        looked_at = kept(snapshot) if snapshot is not None else None
        if snapshot is None or looked_at is None or looked_at.problem:
            return
        if changes(looked_at.exported, listing):
            self.changed |= keep(snapshot, Probed(exported=listing), NEWER)
        else:
            self.changed |= forget_newer(self._folder, digest)

    def lives(self, skill: str, *, now: bool) -> None:
        """While it does, it counts as something that runs."""
        if now:
            self._running.residents.add(skill)
        else:
            self._running.residents.discard(skill)

    def violated(self, job: Job, events: tuple[Event, ...]) -> None:
        """No call was under way that could be blamed."""
        kinds = ", ".join(sorted({each.kind for each in events}))
        why = f"its server tried what no skill may ever do: {kinds}"
        self._running.bar(job.skill, job.call_id, why, _digest(job))


def _digest(job: Job) -> str:
    """Of the bytes that the job's folder is the stored copy of."""
    return f"sha256:{os.path.basename(os.path.dirname(job.bundle))}"
