"""What a person has to see before trusting a skill: its digest, and what changed since it was last trusted."""

import time
from typing import final

from msgspec import Struct
from msgspec.structs import replace

from metier.catalog.bundle import BundleStore, Measured, measure
from metier.catalog.first_use import given
from metier.catalog.here import trusts_here
from metier.catalog.listed import Listed
from metier.config.settings import Settings
from metier.errors import BundleError
from metier.model.permission import PermissionDiff, PermissionSet
from metier.model.skill import Skill
from metier.record.trust import Trusts


@final
class Review(Struct, frozen=True, kw_only=True):
    """A skill as it lies there, beside what was trusted before."""

    digest: str = ""
    problem: str = ""
    changed: bool = False
    diff: PermissionDiff = PermissionDiff(added=PermissionSet(), removed=PermissionSet())
    files: tuple[str, ...] = ()
    """Files that were added, changed or removed."""
    added: tuple[str, ...] = ()
    """Those of them that were not there."""
    removed: tuple[str, ...] = ()
    """Those of them that are gone."""
    files_known: bool = True
    """Whether the bytes that were trusted are still here to be compared."""
    withheld: PermissionSet = PermissionSet()
    """What it declares and does not have, though it may be used: nobody trusted it by name."""


def review(each: Listed, settings: Settings) -> Review:
    """Look at a skill as it lies there. Nothing is stored."""
    if each.skill is None:
        return Review(problem=each.why)
    try:
        now = measure(each.folder, now_ns=time.time_ns(), hard_links=each.root.hard_links)
    except BundleError as error:
        return Review(problem=str(error))
    lacks = withheld(each, now.digest, trusts_here(settings))
    return replace(compare(each.skill, now, settings), withheld=lacks)


def withheld(each: Listed, digest: str, trusts: Trusts) -> PermissionSet:
    """What a skill that is on declares and, as these bytes, does not have."""
    skill = each.skill
    if skill is None or skill.status != "active" or each.root.kind == "bundled":
        return PermissionSet()
    granted = trusts.permissions.get((skill.name, digest))
    granted = given(each, skill.permissions)[1] if granted is None else granted
    return skill.permissions.beyond(granted | PermissionSet(hosts=each.hosts))


def compare(skill: Skill, now: Measured, settings: Settings, trusts: Trusts | None = None) -> Review:
    """What would change for the operator if these bytes, which declare `skill`, were trusted. `trusts`: what is trusted now, where
    that was read already."""
    trusts = trusts_here(settings) if trusts is None else trusts
    earlier = [grant for (name, _), grant in trusts.grants.items() if name == skill.name]
    if not earlier or (skill.name, now.digest) in trusts.trusted:
        return Review(digest=now.digest)
    last = max(earlier, key=lambda grant: grant.granted_at)
    old = BundleStore(settings.bundles).open(last.digest)
    before = {file.path: file.sha256 for file in old.files} if old else {}
    after = {file.path: file.sha256 for file in now.files}
    differ = sorted(path for path in before | after if before.get(path) != after.get(path)) if old else []
    return Review(
        digest=now.digest,
        changed=True,
        diff=last.permissions.diff(skill.permissions),
        files=tuple(differ),
        added=tuple(path for path in differ if path not in before),
        removed=tuple(path for path in differ if path not in after),
        files_known=old is not None,
    )
