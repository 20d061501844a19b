"""Letting in what an MCP server tells of its tools. Only a person's yes makes them count, whatever ends this before.

The bytes are trusted already, or the server could not be run. But without tools that somebody let in, there is nothing to call.
"""

from typing import TYPE_CHECKING, final

from metier.catalog.catalog import Catalog
from metier.catalog.entrust import entrust
from metier.catalog.hold import declared_by
from metier.catalog.mcp_names import clashes
from metier.catalog.probed import Probed, forget, forget_newer, keep, kept, since
from metier.catalog.trusting import Taken
from metier.config.settings import Settings
from metier.model.skill import Skill

if TYPE_CHECKING:
    from metier.record.database import Database
    from metier.record.decider import Decider


@final
class ServerTools:
    """The tools of one server, while a person looks at them. Everything here blocks."""

    def __init__(self, taken: Taken, settings: Settings) -> None:
        self._taken = taken
        self._bundles = settings.bundles
        digest = taken.measured.digest
        self.looked_at = kept(taken.snapshot)
        """What was let in before."""
        self._known = since(self._bundles, digest)
        # To be looked at again, or to have other bytes, makes nobody a newcomer.
        grants = (grant for (name, _), grant in taken.before.grants.items() if name == taken.each.name)
        earlier = (since(self._bundles, grant.digest) or grant.granted_at for grant in grants)
        self._since = min(earlier, default="")

    def read(self, told: Probed) -> Skill | None:
        """The skill with the tools that it told."""
        each = self._taken.each
        return declared_by(self._taken.snapshot, each.manifest, folder=each.folder, told=told)

    def clashes(self, read: Skill, catalog: Catalog) -> list[str]:
        """What will be said of its names once `read` is let in."""
        from metier.record.chain import now  # slow to import, seldom needed here

        return clashes(self._taken.each, read, catalog.by_name, catalog.listed, since=self._since or now())

    def let_in(self, told: Probed, *, database: "Database", by: "Decider") -> str:
        """Let exactly these tools be used; gives why that was not done."""
        from metier.record.chain import now  # slow to import, seldom needed here

        read = self.read(told)
        if read is None:
            return "what it told is of no use"
        # Kept first: whoever is told that something was trusted looks at once what.
        if not keep(self._taken.snapshot, told, since=self._since or now()):
            return "what it told could not be kept; is there room, or is it very much?"
        forget_newer(self._bundles, self._taken.measured.digest)
        return entrust(self._taken.each, read, self._taken.found, database=database, by=by)

    def as_before(self) -> None:
        """What was let in before counts as it did, or nothing does."""
        if self.looked_at is None:
            forget(self._bundles, self._taken.measured.digest)
        elif kept(self._taken.snapshot) != self.looked_at:
            keep(self._taken.snapshot, self.looked_at, since=self._known)
