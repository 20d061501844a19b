"""Take hold of a skill's bytes for one call: whether they are trusted, and the snapshot it will use.

An unchanged folder is recognised by its files' metadata; any doubt means hashing it again.
"""

import os
from typing import Final, final

from msgspec import Struct
from msgspec.structs import replace

from metier.catalog.acting_programs import with_programs
from metier.catalog.bundle import BundleStore, Snapshot, measure, tree_signature
from metier.catalog.first_use import given
from metier.catalog.listed import Listed
from metier.catalog.network import with_hosts
from metier.catalog.probed import Probed, read_with
from metier.catalog.release import recorded, vouches_for
from metier.catalog.standing import CHANGED, DISABLED, NOT_TRUSTED, REVOKED, same_bytes, text_of
from metier.dialects.manifest import compile_manifest
from metier.errors import BundleError
from metier.model.call import Bytes
from metier.model.permission import PermissionSet
from metier.model.skill import Skill
from metier.record.trust import How, Seen, Trusts, TrustStore


@final
class Held(Struct, frozen=True, kw_only=True):
    """A skill as it is on disk now."""

    bytes: Bytes | None = None
    granted: PermissionSet = PermissionSet()
    """What was granted to exactly these bytes."""
    refusal: str = ""
    """Why these bytes may not be used; empty when they may."""
    disabled: bool = False
    """Whether that is because they, or the name, are disabled."""
    broken: str = ""
    """Why there are no bytes to speak of."""


_NOTHING: Final = PermissionSet()


def hold(listed: Listed, *, trust: TrustStore, bundles: BundleStore, now_ns: int) -> Held:
    """Look at the skill's bytes, ask the trust store about them, and keep a snapshot of those that may be used."""
    skill = listed.skill
    if skill is None:
        return Held(broken=listed.why)
    bundled = listed.root.kind == "bundled"
    trusts = trust.all()
    seen = trusts.seen.get(listed.folder)
    try:
        tree = tree_signature(listed.folder, now_ns=now_ns)
        if seen is not None and tree and seen.tree_signature == tree:
            found = Bytes(digest=seen.digest, signature=tree)
        else:
            measured = measure(listed.folder, now_ns=now_ns, hard_links=listed.root.hard_links)
            found = Bytes(digest=measured.digest, signature=measured.signature)
            if bundled and (problem := vouches_for(listed.folder, measured.files)):
                return Held(broken=problem)
            if listed.root.kind == "installed" and (problem := recorded(listed.folder, measured.files)):
                return Held(broken=problem)
        refusal, first_use = _verdict(listed, skill, found, trusts)
        if refusal:
            off = refusal.startswith(DISABLED)
            return Held(bytes=found, refusal=refusal, disabled=off)  # nothing is kept of what may not be used
        snapshot = bundles.open(found.digest)
        if snapshot is None:
            made = bundles.take(listed.folder, now_ns=now_ns, hard_links=listed.root.hard_links)
            snapshot = bundles.open(made.digest) if made.digest == found.digest else None
        declared = declared_by(snapshot, listed.manifest, folder=listed.folder) if snapshot else None
    except BundleError as error:
        return Held(broken=str(error))
    if declared is not None:
        declared = with_programs(with_hosts(declared, listed.hosts), listed.acting)
    # What is judged is what the catalog says, so that must be what the bytes say.
    waits = first_use and declared is not None and declared.status == "pending_approval"
    if declared is None or waits or not _says_the_same(declared, skill):
        return Held(broken="it changed a moment ago; try again")
    if bundled:
        if found.signature and (seen is None or seen.tree_signature != found.signature):
            trust.see([_seen(listed, skill, found)])
        return Held(bytes=found, granted=declared.permissions)
    if first_use:
        found = Bytes(digest=found.digest, signature=found.signature, first_use=True)
        return Held(bytes=found, granted=given(listed, declared.permissions)[1])
    granted = trusts.permissions.get((skill.name, found.digest), _NOTHING)
    return Held(bytes=found, granted=granted | PermissionSet(hosts=listed.hosts))


def _says_the_same(declared: Skill, skill: Skill) -> bool:
    if declared.dialect == "mcp_server":
        # Some of its tools may be held back: what is left is as it was looked at.
        left = all(tool in declared.tools for tool in skill.tools)
        return left and _says(replace(declared, tools=())) == _says(replace(skill, tools=()))
    return _says(declared) == _says(skill)


def _says(skill: Skill) -> tuple[object, ...]:
    """What of a skill decides about calls."""
    invoked = (skill.model_may_invoke, skill.user_may_invoke)
    return (skill.name, invoked, skill.permissions, skill.requirements, skill.tools)


def _verdict(listed: Listed, skill: Skill, found: Bytes, trusts: Trusts) -> tuple[str, bool]:
    """Why these bytes may not be used, if so; and whether this is their first use."""
    if (why := trusts.disabled.get(skill.name)) is not None:
        return f"{DISABLED}{why}", False
    if (name := trusts.disabled_bytes.get(found.digest)) is not None:
        return same_bytes(name, trusts), False
    if listed.root.kind == "bundled":
        return "", False
    if skill.name in trusts.revoked:
        return REVOKED, False
    if (skill.name, found.digest) in trusts.trusted:
        return "", False
    seen = trusts.seen.get(listed.folder)
    if any(name == skill.name for name, _ in trusts.trusted) or (
        seen is not None and seen.name != skill.name
    ):
        return CHANGED, False
    if not listed.root.trusted:
        return NOT_TRUSTED, False
    # To be used is no person's word, and what says that it waits for one has to have it.
    return (skill.why, False) if skill.status == "pending_approval" else ("", True)


def _seen(listed: Listed, skill: Skill, found: Bytes) -> Seen:
    return Seen(
        path=listed.folder,
        name=skill.name,
        digest=found.digest,
        manifest_signature=text_of(listed.signature) if listed.signature else "",
        tree_signature=found.signature,
    )


def declared_by(
    snapshot: Snapshot, manifest: str, *, folder: str, told: Probed | None = None
) -> Skill | None:
    """The skill as the stored bytes declare it: what is granted is read from what will be used.

    Args:
        told: what came of running them, where that is not kept yet.
    """
    data = snapshot.read(manifest)
    if data is None:
        return None
    names = frozenset(file.path for file in snapshot.files)
    compiled = compile_manifest(data, folder=os.path.basename(folder), manifest=manifest, files=lambda: names)
    return (read_with(compiled, snapshot, told) if compiled.probe else compiled).skill


def bind_first(listed: Listed, skill: Skill, found: Bytes, *, trust: TrustStore, by: str) -> bool:
    """Bind a skill to the bytes of its first use; gives whether they are trusted now."""
    how, permissions = given(listed, skill.permissions)
    return bind(listed, replace(skill, permissions=permissions), found, trust=trust, how=how, by=by)


def bind(listed: Listed, skill: Skill, found: Bytes, *, trust: TrustStore, how: How, by: str) -> bool:
    """Trust exactly these bytes of a skill with all it declares; gives whether they are trusted now.

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
