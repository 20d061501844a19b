"""What is kept on disk, opened once, and the operations of Metier's own that work on it."""

import os
import time
from collections.abc import Callable
from typing import final

from msgspec import Struct

from metier.catalog.bundle import BundleStore
from metier.catalog.catalog import Catalog, Listed
from metier.catalog.catalog import load as load_catalog
from metier.catalog.here import environment_here, owner
from metier.catalog.hold import bind, declared_by, hold
from metier.catalog.journal import tell
from metier.config.settings import Settings
from metier.dialects import frontmatter
from metier.disclosure.read_skill import read_skill
from metier.errors import BundleError
from metier.model.call import ApprovedCall, Bytes
from metier.model.outcome import Completed, Failed
from metier.model.ports import OperationFunction
from metier.openfile import Signature, signature_at
from metier.record.audit import AuditLog
from metier.record.database import Database
from metier.record.disabling import disable
from metier.record.trust import Trusts, TrustStore
from metier.sandbox.job_protected import Ground


@final
class Seen(Struct, frozen=True, kw_only=True):
    """What was loaded at one moment, and how to tell that it is no longer so."""

    settings: Settings
    files: tuple[Signature | None, ...]
    """Of the configuration files."""
    catalog: Catalog
    trusts: Trusts
    version: int
    """Of the database."""


@final
class State:
    """What is kept on disk, opened once."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings
        first = settings()
        self.database = Database.open(first.database)
        self.trust = TrustStore(self.database)
        self.bundles = BundleStore(first.bundles)
        self.log = AuditLog(self.database, payloads=first.audit.payloads)

    def look(self) -> Seen:
        """Read the configuration and every root."""
        began = time.perf_counter()
        version = self.database.data_version()  # first: what changes while we look is looked at again
        settings = self._settings()
        files = tuple(map(signature_at, settings.files))
        trusts = self.trust.all()
        catalog = load_catalog(settings, trusts=trusts, environment=environment_here(settings))
        tell(catalog, seconds=time.perf_counter() - began)
        return Seen(settings=settings, files=files, catalog=catalog, trusts=trusts, version=version)

    def is_stale(self, seen: Seen) -> bool:
        """Whether a configuration file changed, or trust was given or taken by another process."""
        if tuple(map(signature_at, seen.settings.files)) != seen.files:
            return True
        return self.database.data_version() != seen.version and self.trust.all() != seen.trusts

    def body(self, listed: Listed) -> str | None:
        """The instructions of a skill from its snapshot; using it for the first time binds it to its bytes."""
        held = hold(listed, trust=self.trust, bundles=self.bundles, now_ns=time.time_ns())
        if held.bytes is None or held.broken or held.refusal:
            return None
        snapshot = self.bundles.open(held.bytes.digest)
        if snapshot is None or (held.bytes.first_use and not self.bind(listed, held.bytes, by=owner())):
            return None
        data = snapshot.read(listed.manifest)
        return None if data is None else frontmatter.body(data)

    def bind(self, listed: Listed, found: Bytes, *, by: str) -> bool:
        """Bind a skill to the bytes of its first use."""
        snapshot = self.bundles.open(found.digest)
        declared = declared_by(snapshot, listed.manifest, folder=listed.folder) if snapshot else None
        if declared is None:
            return False
        return bind(listed, declared, found, trust=self.trust, how="first_use", by=by)

    def disable(self, skill: str, call_id: str, why: str) -> None:
        """Disable a skill for what a call of it did."""
        disable(self.database, skill, call_id=call_id, why=why)


@final
class Operations:
    """The operations of Metier's own modules, for the catalog one call started with."""

    def __init__(self, state: State, catalog: Catalog) -> None:
        self._state = state
        self._catalog = catalog

    def find(self, module: str, operation: str) -> OperationFunction | None:
        return {("skills", "read"): self._read_skill}.get((module, operation))

    def _read_skill(self, approved: ApprovedCall) -> Completed | Failed:
        valid, found = approved.authorized.valid, approved.authorized.bytes
        listed = self._catalog.get(valid.skill.name) if valid.skill else None
        if valid.skill is None or listed is None or found is None:
            return Failed(call_id=valid.call.id, code="internal", message="the call names no skill")
        snapshot = self._state.bundles.open(found.digest)
        if snapshot is None:
            raise BundleError("the snapshot this call was judged with is gone", remedy="Call again")
        if found.first_use and not self._state.bind(listed, found, by=valid.call.principal.id):
            return Failed(
                call_id=valid.call.id,
                code="interrupted",
                message="the skill was bound to other bytes meanwhile",
            )
        path = valid.arguments.get("path")
        return read_skill(valid.call.id, valid.skill, snapshot, path if isinstance(path, str) else None)


def ground(settings: Settings) -> Ground:
    """The places of this machine that matter to what is granted."""
    return Ground(
        state=settings.home,
        workspace=os.path.join(settings.home, "workspace"),
        home=os.path.expanduser("~"),
        started_from=tuple(folder for folder in os.environ.get("PATH", "").split(os.pathsep) if folder),
        trusted_roots=tuple(root.path for root in settings.roots if root.trusted and root.kind != "bundled"),
    )
