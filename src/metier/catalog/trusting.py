"""Trusting a skill, at whichever door a person stands: its bytes are taken, he looks at what these say, and exactly these are bound.

What he is shown is read from the very bytes that will be bound, never from what lies in the folder a moment later.
"""

import time
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct
from msgspec.structs import replace

from metier.catalog.bundle import BundleStore, Measured, Snapshot, measure
from metier.catalog.catalog import Catalog
from metier.catalog.entrust import entrust
from metier.catalog.here import catalog_here
from metier.catalog.hold import declared_by
from metier.catalog.listed import Listed
from metier.catalog.probed import forget
from metier.catalog.release import recorded
from metier.catalog.standing import same_bytes
from metier.config.settings import Settings
from metier.errors import BundleError
from metier.model.call import Bytes
from metier.model.skill import Skill
from metier.record.disabling import enable
from metier.record.trust import Trusts

if TYPE_CHECKING:
    from metier.record.database import Database
    from metier.record.decider import Decider

SHIPS: Final = "it came with Metier and is trusted by the release"
CHANGED: Final = "it changed while you looked at it; look again"


@final
class Taken(Struct, frozen=True, kw_only=True):
    """A skill whose bytes were stored, to be looked at."""

    each: Listed
    declared: Skill
    """As the stored bytes say it."""
    snapshot: Snapshot
    measured: Measured
    before: Trusts
    """What was trusted when they were taken."""

    @property
    def found(self) -> Bytes:
        return Bytes(digest=self.measured.digest, signature=self.measured.signature)

    @property
    def server(self) -> bool:
        """Whether it stands for an MCP server, which has to be asked for its tools."""
        return self.declared.dialect == "mcp_server"

    @property
    def stays(self) -> bool:
        """Whether these very bytes were trusted already, and go on as they did."""
        name = self.each.name
        return (name, self.measured.digest) in self.before.trusted and name not in self.before.disabled

    @property
    def forgets(self) -> bool:
        """Whether what the server told before its trust was taken back counts no more once these bytes are trusted."""
        name, digest = self.each.name, self.measured.digest
        others = any(each == digest and other != name for other, each in self.before.trusted)
        return self.server and not self.stays and not others


def meant(catalog: Catalog, found: Listed) -> Listed:
    """`found`; where that is one that ships, the first that waits to be put in its place."""
    others = (each for each in catalog.listed if each.name == found.name and each.instead and each.skill)
    other = next(others, None) if found.root.kind == "bundled" else None
    return found if other is None else replace(other, shadowed_by="")


def unread(each: Listed, settings: Settings) -> Listed:
    """The skill as if nobody had tried to read it by running it, where that failed: the machine may have been to blame."""
    if not any(found.code == "probe_failed" for found in each.diagnostics):
        return each
    try:
        digest = measure(each.folder, now_ns=time.time_ns(), hard_links=each.root.hard_links).digest
    except BundleError:
        return each  # whoever takes its bytes is told why they cannot be taken
    if not forget(settings.bundles, digest):
        return each
    return next((one for one in catalog_here(settings).listed if one.folder == each.folder), each)


def take(each: Listed, settings: Settings, before: Trusts) -> Taken | str:
    """Store its bytes as they are now; otherwise why nobody can trust it. Blocking.

    Args:
        before: what is trusted now.
    """
    if each.skill is None or each.shadowed_by:
        return each.why
    if each.root.kind == "bundled":
        return SHIPS
    store = BundleStore(settings.bundles)
    try:
        made = store.take(each.folder, now_ns=time.time_ns(), hard_links=each.root.hard_links)
        if each.root.kind == "installed" and (problem := recorded(each.folder, made.files)):
            return problem
        snapshot = store.open(made.digest)
        declared = declared_by(snapshot, each.manifest, folder=each.folder) if snapshot else None
    except BundleError as error:
        return str(error)
    if snapshot is None or declared is None or declared.name != each.name:
        return CHANGED
    other = before.disabled_bytes.get(made.digest, each.name)
    if other != each.name:
        return same_bytes(other, before)
    return Taken(each=each, declared=declared, snapshot=snapshot, measured=made, before=before)


def give(taken: Taken, settings: Settings, *, database: "Database", by: "Decider") -> str:
    """Trust exactly these bytes on the word of `by`; gives why that was not done. Blocking."""
    if taken.forgets:
        forget(settings.bundles, taken.measured.digest)
    if problem := entrust(taken.each, taken.declared, taken.found, database=database, by=by):
        return problem
    enable(database, taken.each.name, by=by.id)  # who looks and says yes after a violation means it
    return ""
