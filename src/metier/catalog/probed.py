"""What came out of running a manifest that exists only as code, kept beside the stored bytes it was read from.

It belongs to a digest, so other bytes are read anew. Any doubt about what is kept means that it was never read.
"""

import os
import time
from typing import Final, final

import msgspec
from msgspec import Struct

from metier.catalog.bundle import BundleStore, Snapshot, measure, tree_signature
from metier.config.settings import Root
from metier.dialects.compiled import Compiled
from metier.errors import BundleError
from metier.model import strictjson
from metier.model.diagnostic import Diagnostic
from metier.model.digest import Json
from metier.model.skill import Source
from metier.openfile import read_small
from metier.record.trust import Trusts

FORMAT: Final = 2
"""Raised whenever running a file could tell more than before."""
MOST_BYTES: Final = 524_288
_FILE: Final = "probe.json"
NEWER: Final = "probe-newer.json"
"""What an MCP server told since, where that is something else: it counts only once somebody looked at it."""


@final
class Probed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What came out of running such a file."""

    exported: dict[str, Json] = {}
    """What it exports, as plain data."""
    problem: str = ""
    """Why nothing came out; then it is no skill."""


@final
class _Kept(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int
    digest: str
    probed: Probed
    since: str = ""


def kept(snapshot: Snapshot, file: str = _FILE) -> Probed | None:
    """What these bytes told; None when they were not run yet."""
    return _read(os.path.dirname(snapshot.folder), snapshot.digest, file)


def since(folder: str, digest: str) -> str:
    """Since when a person lets what these bytes told be used; empty where that is not known. `folder` is where bundles are."""
    found = _whole(os.path.join(folder, digest.removeprefix("sha256:")), digest)
    return found.since if found is not None else ""


def keep(snapshot: Snapshot, probed: Probed, name: str = _FILE, *, since: str = "") -> bool:
    """Keep what these bytes told; gives whether that could be done. For an MCP server: only what a person looked at and let in."""
    place = os.path.join(os.path.dirname(snapshot.folder), name)
    making = f"{place}.{os.getpid()}"
    data = msgspec.json.encode(_Kept(format=FORMAT, digest=snapshot.digest, probed=probed, since=since))
    if len(data) > MOST_BYTES:
        return False
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(making, flags, 0o600), "wb") as file:
            file.write(data)
        os.replace(making, place)
    except OSError:
        return False
    return True


def forget(folder: str, digest: str) -> bool:
    """Let these bytes be run and read anew; gives whether something was kept of them. `folder` is where bundles are."""
    forget_newer(folder, digest)
    return _unlinked(os.path.join(folder, digest.removeprefix("sha256:"), _FILE))


def forget_newer(folder: str, digest: str) -> bool:
    """What was told since is as it was again, or was looked at."""
    return _unlinked(os.path.join(folder, digest.removeprefix("sha256:"), NEWER))


def _unlinked(place: str) -> bool:
    try:
        os.unlink(place)
    except OSError:
        return False
    return True


def read_with(compiled: Compiled, snapshot: Snapshot, told: Probed | None = None) -> Compiled:
    """The skill as the stored bytes declare it, if they had to be run to be read and were.

    Args:
        told: what came of it, where that is not kept yet.
    """
    probed = told or (kept(snapshot) if compiled.probe else None)
    if probed is None:
        return compiled
    if compiled.probe == "mcp_server":
        return _served(compiled, snapshot, probed, newer=False)
    from metier.dialects import code_manifest  # a listing of thousands meets few of these

    return code_manifest.read(compiled, probed.exported, probed.problem)


@final
class Probes:
    """What is known of skills that exist only as code, while a catalog is loaded."""

    def __init__(self, bundles: str, trusts: Trusts) -> None:
        self._bundles = bundles
        self._trusts = trusts
        self.since: dict[str, str] = {}
        """By place, since when a person lets the tools of an MCP server be used."""

    def __call__(self, compiled: Compiled, *, place: str, root: Root, source: Source) -> Compiled:
        """The skill that lies at `place` with what its code told, where that is known of exactly these bytes."""
        if not compiled.probe or compiled.skill is None:
            return compiled
        digest = self._digest(place, root)
        whole = (
            _whole(os.path.join(self._bundles, digest.removeprefix("sha256:")), digest) if digest else None
        )
        if whole is None:
            return compiled
        probed = whole.probed
        if compiled.probe == "mcp_server":
            self.since[place] = whole.since
            return self._served(compiled, digest, probed)
        from metier.dialects import code_manifest

        return code_manifest.read(compiled, probed.exported, probed.problem, location=place, source=source)

    def _served(self, compiled: Compiled, digest: str, probed: Probed) -> Compiled:
        try:
            snapshot = BundleStore(self._bundles).open(digest)
            return _served(compiled, snapshot, probed, newer=True) if snapshot is not None else compiled
        except BundleError:
            return compiled  # whoever is to use it is told why it cannot be

    def _digest(self, place: str, root: Root) -> str:
        seen = self._trusts.seen.get(place)
        try:
            if seen is not None and seen.tree_signature == tree_signature(place, now_ns=time.time_ns()) != "":
                return seen.digest
            return measure(place, now_ns=time.time_ns(), hard_links=root.hard_links).digest
        except BundleError:
            return ""  # whoever is to use it is told why it cannot be


def _served(compiled: Compiled, snapshot: Snapshot, probed: Probed, *, newer: bool) -> Compiled:
    """The skill that stands for an MCP server, with the tools that it told; with `newer`, without those it tells otherwise now."""
    from metier.dialects import code_manifest, mcp_server

    skill = compiled.skill
    data = snapshot.read(skill.manifest) if skill is not None else None
    if probed.problem or data is None:
        return code_manifest.read(compiled, {}, probed.problem or "its file is gone")
    since = kept(snapshot, NEWER) if newer else None
    return mcp_server.read(compiled, data, probed.exported, since.exported if since is not None else {})


def _read(folder: str, digest: str, file: str = _FILE) -> Probed | None:
    found = _whole(folder, digest, file)
    return found.probed if found is not None else None


def _whole(folder: str, digest: str, file: str = _FILE) -> _Kept | None:
    found = read_small(os.path.join(folder, file), most=MOST_BYTES)
    if isinstance(found, Diagnostic) or found[1].st_uid != os.geteuid() or found[1].st_mode & 0o022:
        return None  # not there, or somebody else could have written it
    try:
        read = msgspec.json.decode(found[0], type=_Kept)
        strictjson.check(read.probed.exported)
    except (msgspec.DecodeError, ValueError):
        return None
    return read if (read.format, read.digest) == (FORMAT, digest) else None
