"""Take hold of a skill's bytes for one call: the snapshot it will use, and whether these bytes are trusted.

An unchanged folder is recognised by its files' metadata; any doubt means hashing it again.
"""

import os
from typing import Final, final

from msgspec import Struct

from metier.catalog.bundle import BundleStore, Snapshot, tree_signature
from metier.catalog.catalog import Listed
from metier.catalog.release import vouches_for
from metier.catalog.standing import CHANGED, NOT_TRUSTED, REVOKED, text_of
from metier.dialects.skill_md import compile_skill
from metier.errors import BundleError
from metier.model.call import Bytes
from metier.model.permission import PermissionSet
from metier.model.skill import Skill
from metier.record.trust import How, Seen, TrustStore


@final
class Held(Struct, frozen=True, kw_only=True):
    """A skill as it is on disk now."""

    bytes: Bytes | None = None
    granted: PermissionSet = PermissionSet()
    """What was granted to exactly these bytes."""
    refusal: str = ""
    """Why these bytes may not be used; empty when they may."""
    broken: str = ""
    """Why there are no bytes to speak of."""


_NOTHING: Final = PermissionSet()


def hold(listed: Listed, *, trust: TrustStore, bundles: BundleStore, now_ns: int) -> Held:
    """Snapshot the skill's folder, or find the snapshot it already has, and ask the trust store about it."""
    skill = listed.skill
    if skill is None:
        return Held(broken=listed.why)
    bundled = listed.root.kind == "bundled"
    trusts = trust.all()
    seen = trusts.seen.get(listed.folder)
    try:
        tree = tree_signature(listed.folder, now_ns=now_ns)
        snapshot = (
            bundles.open(seen.digest) if seen is not None and tree and seen.tree_signature == tree else None
        )
        if snapshot is None:
            made = bundles.take(listed.folder, now_ns=now_ns, hard_links=bundled)
            snapshot, tree = bundles.open(made.digest), made.signature
            if bundled and (problem := vouches_for(listed.folder, made.files)):
                return Held(broken=problem)
    except BundleError as error:
        return Held(broken=str(error))
    if snapshot is None:
        return Held(broken="its snapshot vanished while it was made")
    key = (skill.name, snapshot.digest)
    found = Bytes(digest=snapshot.digest, signature=tree)
    if bundled:
        if tree and (seen is None or seen.tree_signature != tree):
            trust.see([_seen(listed, skill, found)])
        return Held(bytes=found, granted=skill.permissions)
    if key in trusts.trusted:
        return Held(bytes=found, granted=trusts.permissions.get(key, _NOTHING))
    if skill.name in trusts.revoked:
        return Held(bytes=found, refusal=REVOKED)
    bound = any(name == skill.name for name, _ in trusts.trusted)
    if not bound and listed.root.trusted:
        declared = declared_by(snapshot, listed.manifest, folder=listed.folder)
        if declared is None or declared.name != skill.name:
            return Held(broken="its manifest changed a moment ago; try again")
        return Held(
            bytes=Bytes(digest=found.digest, signature=tree, first_use=True), granted=declared.permissions
        )
    return Held(bytes=found, refusal=CHANGED if bound else NOT_TRUSTED)


def _seen(listed: Listed, skill: Skill, found: Bytes) -> Seen:
    return Seen(
        path=listed.folder,
        name=skill.name,
        digest=found.digest,
        manifest_signature=text_of(listed.signature) if listed.signature else "",
        tree_signature=found.signature,
    )


def declared_by(snapshot: Snapshot, manifest: str, *, folder: str) -> Skill | None:
    """The skill as the stored bytes declare it: what is granted is read from what will be used."""
    data = snapshot.read(manifest)
    if data is None:
        return None
    return compile_skill(data, folder=os.path.basename(folder), manifest=manifest).skill


def bind(listed: Listed, skill: Skill, found: Bytes, *, trust: TrustStore, how: How, by: str) -> bool:
    """Trust exactly these bytes of a skill; gives whether they are trusted now.

    Args:
        skill: as the bytes themselves declare it.
    """
    vouched = listed.signature if found.signature else None
    return trust.grant(
        skill.name,
        found.digest,
        version=skill.version,
        permissions=skill.permissions,
        how=how,
        by=by,
        path=listed.folder,
        manifest_signature=text_of(vouched) if vouched else "",
        tree_signature=found.signature,
    )
