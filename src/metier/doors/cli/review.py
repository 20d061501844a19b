"""What a person has to see before trusting a skill: its digest, and what changed since it was last trusted."""

import time
from typing import final

from msgspec import Struct

from metier.catalog.bundle import BundleStore, measure
from metier.catalog.catalog import Listed
from metier.catalog.here import trusts_here
from metier.config.settings import Settings
from metier.errors import BundleError
from metier.model.permission import PermissionDiff, PermissionSet


@final
class Review(Struct, frozen=True, kw_only=True):
    """A skill as it lies there, beside what was trusted before."""

    digest: str = ""
    problem: str = ""
    changed: bool = False
    diff: PermissionDiff = PermissionDiff(added=PermissionSet(), removed=PermissionSet())
    files: tuple[str, ...] = ()
    """Files that were added, changed or removed."""


def review(each: Listed, settings: Settings) -> Review:
    """Look at a skill. Nothing is stored."""
    if each.skill is None:
        return Review(problem=each.why)
    try:
        now = measure(each.folder, now_ns=time.time_ns(), hard_links=each.root.kind == "bundled")
    except BundleError as error:
        return Review(problem=str(error))
    trusts = trusts_here(settings)
    earlier = [grant for (name, _), grant in trusts.grants.items() if name == each.name]
    if not earlier or (each.name, now.digest) in trusts.trusted:
        return Review(digest=now.digest)
    last = max(earlier, key=lambda grant: grant.granted_at)
    granted = last.permissions
    old = BundleStore(settings.bundles).open(last.digest)
    hashes = {file.path: file.sha256 for file in old.files} if old else {}
    new = {file.path: file.sha256 for file in now.files}
    differ = sorted(path for path in hashes | new if hashes.get(path) != new.get(path)) if old else []
    return Review(
        digest=now.digest, changed=True, diff=granted.diff(each.skill.permissions), files=tuple(differ)
    )
