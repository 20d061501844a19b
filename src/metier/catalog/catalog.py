"""All skills there are, whether each can be used here, and if not, why.

A catalog is a value: loading again makes another one, and whoever holds the old one keeps it.
"""

import os
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, final

import msgspec
from msgspec import Struct

from metier.catalog import cache
from metier.catalog.discover import Found, Noted, discover
from metier.catalog.requirements import Environment, check
from metier.catalog.standing import UNBOUND, standing
from metier.config.settings import Root, RootKind, Settings
from metier.dialects.names import skeleton
from metier.dialects.skill_md import compile_skill
from metier.model.diagnostic import Diagnostic
from metier.model.requirement import RequirementError
from metier.model.skill import Skill, Source
from metier.openfile import Signature
from metier.record.trust import Trusts

Shown: TypeAlias = Literal["usable", "unavailable", "pending_approval", "disabled", "broken", "shadowed"]

_SOURCES: Final[dict[RootKind, Source]] = {
    "bundled": "bundled",
    "user": "user",
    "project": "workspace",
    "extra": "workspace",
}


@final
class Listed(Struct, frozen=True, kw_only=True, gc=False):
    """One skill folder, and what became of it."""

    name: str
    folder: str
    root: Root
    manifest: str = "SKILL.md"
    skill: Skill | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    missing: tuple[RequirementError, ...] = ()
    shadowed_by: str = ""
    """Folder of the skill that has this name already, or that this is a link to."""
    signature: Signature | None = None
    vouched: bool = True
    """Whether the operator, or the release, vouches for it; also said of one that is switched off."""

    @property
    def shown(self) -> Shown:
        """The one word people and programs are told."""
        if self.shadowed_by:
            return "shadowed"
        if self.skill is None:
            return "broken"
        if self.skill.status != "active":
            return self.skill.status
        return "unavailable" if self.missing else "usable"

    @property
    def why(self) -> str:
        """Why it is not usable; empty when it is."""
        if self.shadowed_by and self.skill is None:
            return f"it is a link to {self.shadowed_by}, which counts where it lies"
        if self.shadowed_by:
            return f"{self.shadowed_by} comes first and has the same name"
        if self.skill is not None and self.skill.why:
            return self.skill.why
        errors = [found.message for found in self.diagnostics if found.severity == "error"]
        return "; ".join(errors or map(str, self.missing))


@final
class Catalog(Struct, frozen=True, kw_only=True):
    """Everything that was found, in order of precedence."""

    listed: tuple[Listed, ...] = ()
    notes: tuple[Noted, ...] = ()
    by_name: Mapping[str, Listed] = {}
    searched: tuple[str, ...] = ()
    """Roots and folders that were looked into and are no skills, also roots that are not there."""

    def get(self, name: str) -> Listed | None:
        """The skill that answers to `name`."""
        return self.by_name.get(name)

    def usable(self) -> list[Skill]:
        """Skills that can be used here and now."""
        return [
            each.skill for each in self.by_name.values() if each.skill is not None and each.shown == "usable"
        ]

    def folders(self) -> list[str]:
        """Every folder whose change could change this catalog."""
        return list(dict.fromkeys([*self.searched, *(each.folder for each in self.listed)]))


def load(settings: Settings, *, trusts: Trusts, environment: Environment, thorough: bool = False) -> Catalog:
    """Look at every root and say what is there. One bad skill never stops the rest.

    Args:
        thorough: take the digest of every skill, also where its manifest did not change.
    """
    judge = _Judge(settings, trusts, environment, thorough=thorough)
    places = _Places()
    notes: list[Noted] = []
    searched: list[str] = []
    required = settings.skills.allowlist == "required"
    for root in settings.roots:
        if root.kind != "bundled":
            searched.append(root.path)
        known = cache.read(settings.cache, root.path)
        kept: dict[str, cache.Cached] = {}
        signatures = {path: cached.signature for path, cached in known.items()}
        for found in discover(root, signatures, allowlist_required=required, searched=searched):
            if isinstance(found, Noted):
                notes.append(found)
                continue
            each = _listed(found, root, known, kept)
            if found.problem is not None and os.path.islink(found.folder):
                each = _alias(each, settings)
            if each.skill is None or each.shadowed_by:
                places.listed.append(each)
            else:
                places.put(judge(each, each.skill))
        if kept.keys() != known.keys() or any(kept[path] is not known[path] for path in kept):
            cache.write(settings.cache, root.path, kept)
    return Catalog(
        listed=tuple(places.listed),
        notes=tuple(notes),
        by_name={name: places.listed[index] for name, index in places.by_name.items()},
        searched=tuple(dict.fromkeys(searched)),
    )


@final
class _Places:
    """Who answers to which name. The first wins, but nobody whom the operator has not trusted wins against one he has."""

    def __init__(self) -> None:
        self.listed: list[Listed] = []
        self.by_name: dict[str, int] = {}
        self._by_skeleton: dict[str, int] = {}

    def put(self, each: Listed) -> None:
        """Give `each` its name, or show why it has none."""
        alike = skeleton(each.name)
        index = self._by_skeleton.get(alike)
        if index is None:
            self._take(each, alike)
            return
        holder = self.listed[index]
        if each.vouched and not holder.vouched:
            del self.by_name[holder.name]
            self.listed[index] = _lost(holder, each)
            self._take(each, alike)
        else:
            self.listed.append(_lost(each, holder))

    def _take(self, each: Listed, alike: str) -> None:
        self.by_name[each.name] = self._by_skeleton[alike] = len(self.listed)
        self.listed.append(each)


def _lost(each: Listed, holder: Listed) -> Listed:
    """The second of one name is kept visible; a look-alike of another name is refused."""
    if each.name == holder.name:
        return msgspec.structs.replace(each, shadowed_by=holder.folder)
    message = f"the name {each.name!r} is too easily taken for {holder.name!r} in {holder.folder}; rename one of them"
    problem = Diagnostic(code="confusable_name", severity="error", message=message)
    return msgspec.structs.replace(each, skill=None, missing=(), diagnostics=(*each.diagnostics, problem))


def _listed(
    found: Found, root: Root, known: Mapping[str, cache.Cached], kept: dict[str, cache.Cached]
) -> Listed:
    """What the manifest says, from the cache where it is unchanged."""
    if found.problem is not None or found.signature is None:
        return Listed(
            name=os.path.basename(found.folder),
            folder=found.folder,
            root=root,
            manifest=found.manifest,
            diagnostics=(found.problem,) if found.problem else (),
        )
    path = f"{found.folder}/{found.manifest}"
    if found.data is None:
        cached = known[path]
    else:
        compiled = compile_skill(
            found.data,
            folder=found.folder.rpartition("/")[2],
            manifest=found.manifest,
            location=found.folder,
            source=_SOURCES[root.kind],
        )
        cached = cache.Cached(found.signature, compiled)
    kept[path] = cached
    compiled = cached.compiled
    return Listed(
        name=compiled.name,
        folder=found.folder,
        root=root,
        manifest=found.manifest,
        skill=compiled.skill,
        diagnostics=compiled.diagnostics,
        signature=found.signature,
    )


def _alias(each: Listed, settings: Settings) -> Listed:
    """Installers link one root's skills into another; such a link adds nothing and is no fault."""
    target = os.path.realpath(each.folder)
    if any(target.startswith(root.path + os.sep) for root in settings.roots):
        return msgspec.structs.replace(each, shadowed_by=target, diagnostics=())
    return each


@final
class _Judge:
    """Whether the operator wants a skill, whether it is trusted, and whether the machine has what it needs."""

    def __init__(
        self, settings: Settings, trusts: Trusts, environment: Environment, *, thorough: bool
    ) -> None:
        self._settings = settings
        self._trusts = trusts
        self._environment = environment
        self._thorough = thorough
        self._bound = frozenset(name for name, _ in trusts.trusted)

    def __call__(self, each: Listed, skill: Skill) -> Listed:
        stand = standing(
            root=each.root,
            folder=each.folder,
            name=skill.name,
            signature=None if self._thorough else each.signature,
            trusts=self._trusts,
            bound=self._bound,
            thorough=self._thorough,
        )
        if stand.status != "active":
            each = msgspec.structs.replace(each, vouched=False)
        if off := self._switched_off(skill, each.root):
            skill = msgspec.structs.replace(skill, status="disabled", why=off)
            return msgspec.structs.replace(each, skill=skill)
        if stand is not UNBOUND:
            skill = msgspec.structs.replace(skill, status=stand.status, why=stand.why, digest=stand.digest)
            each = msgspec.structs.replace(each, skill=skill)
        missing = check(skill, self._environment)
        return msgspec.structs.replace(each, missing=missing) if missing else each

    def _switched_off(self, skill: Skill, root: Root) -> str:
        wanted = self._settings.skills
        if self._settings.held_roots and (reason := self._settings.held_roots.get(root.path)):
            return f"held back because {reason}"
        if wanted.entries:
            # Under its own name too: a skill must not get around its entry by choosing another key.
            for key in (skill.name, skill.key):
                entry = wanted.entries.get(key)
                if entry is not None and not entry.enabled:
                    return f"switched off by skills.entries.{key}.enabled"
        if skill.name in wanted.disabled:
            return "named in skills.disabled"
        if wanted.allow is not None and skill.name not in wanted.allow:
            return "not named in skills.allow"
        if wanted.enabled is not None and skill.name not in wanted.enabled:
            return "not named in skills.enabled"
        return ""
