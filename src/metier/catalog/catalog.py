"""All skills there are, whether each can be used here, and if not, why.

A catalog is a value: loading again makes another one, and whoever holds the old one keeps it.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Final, final

import msgspec
from msgspec import Struct

from metier.catalog import cache
from metier.catalog.acting_programs import acting, findings, used_by, with_programs
from metier.catalog.code_files import with_files
from metier.catalog.dependencies import with_dependencies
from metier.catalog.discover import Found, Noted, discover, names_in, other_manifests
from metier.catalog.function_names import functions_of, with_function_names
from metier.catalog.listed import Listed
from metier.catalog.network import hosts_for, with_hosts
from metier.catalog.probed import Probes
from metier.catalog.requirements import Environment, check
from metier.catalog.standing import UNBOUND, standing
from metier.catalog.xbot_shipped import Package, shipped
from metier.config.settings import Root, RootKind, Settings
from metier.dialects.beside import with_code
from metier.dialects.manifest import read_manifest
from metier.dialects.names import skeleton
from metier.model.diagnostic import Diagnostic
from metier.model.requirement import RequirementError
from metier.model.skill import Skill, Source, Tool
from metier.record.trust import Trusts

_SOURCES: Final[dict[RootKind, Source]] = {
    "bundled": "bundled",
    "user": "user",
    "project": "workspace",
    "extra": "workspace",
    "installed": "installed",
}


@final
class Catalog(Struct, frozen=True, kw_only=True):
    """Everything that was found, in order of precedence."""

    listed: tuple[Listed, ...] = ()
    notes: tuple[Noted, ...] = ()
    by_name: Mapping[str, Listed] = {}
    tools: Mapping[str, Tool] = {}
    """Of every skill that answers to its name, also of those that cannot be used: a call of one is told why."""
    functions: Mapping[str, str] = {}
    """The names of those tools by the names that models are told."""
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
    probes = Probes(settings.bundles, trusts)
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
            each = _listed(found, root, known, kept, probes)
            if each is None:
                continue
            if thorough and (others := other_manifests(each.manifest, names_in(each.folder))):
                each = msgspec.structs.replace(each, diagnostics=(*each.diagnostics, *others))
            if found.problem is not None and os.path.islink(found.folder):
                each = _alias(each, settings)
            if each.skill is None or each.shadowed_by:
                places.listed.append(each)
            else:
                places.put(judge(each, each.skill))
        if kept.keys() != known.keys() or any(kept[path] is not known[path] for path in kept):
            cache.write(settings.cache, root.path, kept)
    for package in _packages(settings):
        if isinstance(package, Noted):
            notes.append(package)
            continue
        each = _listed(package.found, package.root, {}, {}, probes)
        if each is None:
            continue
        if each.skill is not None and not each.skill.key and package.id:
            each = msgspec.structs.replace(each, skill=msgspec.structs.replace(each.skill, key=package.id))
        if each.skill is not None and package.off:
            skill = msgspec.structs.replace(each.skill, status="disabled", why=package.off)
            each = msgspec.structs.replace(each, skill=skill, offered=package.root.kind == "bundled")
        if each.skill is None:
            places.listed.append(each)
        else:
            places.put(judge(each, each.skill))
    by_name = places.settled()
    return Catalog(
        listed=tuple(places.listed),
        notes=tuple(notes),
        by_name=by_name,
        tools={tool.name: tool for each in by_name.values() if each.skill for tool in each.skill.tools},
        functions=functions_of(by_name),
        searched=tuple(dict.fromkeys(searched)),
    )


def _packages(settings: Settings) -> Iterator[Package | Noted]:
    """The XBot packages that ship, and those that the configuration names."""
    yield from shipped(settings)
    if settings.xbot.allow or settings.xbot.enabled:
        from metier.catalog.xbot_packages import packages  # most installations have none

        yield from packages(settings)


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
        if _claim(each) > _claim(holder):
            del self.by_name[holder.name]
            self.listed[index] = _lost(holder, each)
            self._take(each, alike)
        else:
            self.listed.append(_lost(each, holder))

    def settled(self) -> dict[str, Listed]:
        """Everybody by name, once all are there and it can be said who lacks whom, or what another has."""
        by_name = {name: self.listed[index] for name, index in self.by_name.items()}
        found = with_function_names(by_name, self.listed)
        if any(each.skill and each.skill.dialect == "mcp_server" for each in found.values()):
            from metier.catalog.mcp_names import with_server_names  # most installations have none

            found = with_server_names(found)
        if any(each.skill and each.skill.depends_on for each in found.values()):
            found = with_dependencies(found)
        for name, index in self.by_name.items():
            self.listed[index] = found[name]
        return found

    def _take(self, each: Listed, alike: str) -> None:
        self.by_name[each.name] = self._by_skeleton[alike] = len(self.listed)
        self.listed.append(each)


def _claim(each: Listed) -> int:
    """Who has a name before others, wherever they lie. Other programs put skills into the operator's roots too, so what ships
    yields only to what a person looked at; and what he looked at and changed since keeps its place while it waits for him."""
    if each.entrusted:
        return 4
    if each.bound:
        return 3
    return 2 if each.root.kind == "bundled" else int(each.vouched)


def _lost(each: Listed, holder: Listed) -> Listed:
    """The second of one name is kept visible; a look-alike of another name is refused."""
    if each.name == holder.name:
        return msgspec.structs.replace(each, shadowed_by=holder.folder)
    message = f"the name {each.name!r} is too easily taken for {holder.name!r} in {holder.folder}; rename one of them"
    problem = Diagnostic(code="confusable_name", severity="error", message=message)
    return msgspec.structs.replace(each, skill=None, missing=(), diagnostics=(*each.diagnostics, problem))


def _listed(
    found: Found,
    root: Root,
    known: Mapping[str, cache.Cached],
    kept: dict[str, cache.Cached],
    probes: Probes,
) -> Listed | None:
    """What the manifest says, from the cache where it is unchanged; None for what is no skill, which is remembered too."""
    if found.problem is not None or found.signature is None:
        return Listed(
            name=os.path.basename(found.folder),
            folder=found.folder,
            root=root,
            manifest=found.manifest,
            diagnostics=(found.problem,) if found.problem else (),
        )
    alone = found.folder.endswith("/" + found.manifest)
    folder = found.folder.rpartition("/")[0] if alone else found.folder
    path = f"{folder}/{found.manifest}"
    if found.data is None:
        kept[path] = cache.Cached(found.signature, None) if found.nothing else known[path]
        compiled = kept[path].compiled
        if compiled is None:
            return None
    else:
        compiled = read_manifest(
            found.data,
            folder=folder.rpartition("/")[2],
            manifest=found.manifest,
            location=found.folder,
            source=_SOURCES[root.kind],
        )
        kept[path] = cache.Cached(found.signature, compiled)
    compiled = with_code(compiled, lambda: names_in(folder))
    compiled = with_files(compiled, folder, alone=alone)
    if compiled.probe:
        compiled = probes(compiled, place=found.folder, root=root, source=_SOURCES[root.kind])
    return Listed(
        name=compiled.name,
        folder=found.folder,
        root=root,
        manifest=found.manifest,
        skill=compiled.skill,
        diagnostics=compiled.diagnostics,
        signature=found.signature,
        since=probes.since.get(found.folder, ""),
        probe=bool(compiled.probe),
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
        self._entrusted = {
            key for key, grant in trusts.grants.items() if grant.how in ("operator", "manifest")
        }
        programs = settings.binaries.programs
        self._acting = acting(programs)
        self._carrying = frozenset(name for name, program in programs.items() if program.carries)

    def __call__(self, each: Listed, skill: Skill) -> Listed:
        if used := used_by(skill, self._acting):
            said = (*each.diagnostics, *findings(skill, used))
            skill = with_programs(skill, used)
            each = msgspec.structs.replace(each, skill=skill, diagnostics=said, acting=used)
        if carrying := skill.permissions.binaries & self._carrying:
            each = msgspec.structs.replace(each, carrying=carrying)
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
        elif stand.digest and (skill.name, stand.digest) in self._entrusted:
            each = msgspec.structs.replace(each, entrusted=True)
        seen = self._trusts.seen.get(each.folder)
        if seen is not None and seen.name == skill.name and (seen.name, seen.digest) in self._entrusted:
            each = msgspec.structs.replace(each, bound=True)
        if off := self._switched_off(skill, each.root):
            skill = msgspec.structs.replace(skill, status="disabled", why=off)
            return msgspec.structs.replace(each, skill=skill)
        if skill.status == "disabled":  # its own manifest says so, and nobody else can say otherwise
            return each
        if skill.status == "pending_approval" and not stand.digest and stand.status != "disabled":
            each = msgspec.structs.replace(each, vouched=False)  # until the operator trusts these very bytes
        elif stand is not UNBOUND or skill.status != "active":
            skill = msgspec.structs.replace(skill, status=stand.status, why=stand.why, digest=stand.digest)
            each = msgspec.structs.replace(each, skill=skill)
        if skill.asks_network and (each.root.kind != "bundled" or skill.dialect != "xbot"):
            each, skill = self._reaching(each, skill)
        missing = check(skill, self._environment)
        return msgspec.structs.replace(each, missing=(*each.missing, *missing)) if missing else each

    def _reaching(self, each: Listed, skill: Skill) -> tuple[Listed, Skill]:
        hosts = hosts_for(skill, self._settings.skills.entries)
        if not hosts:
            needs = RequirementError(type="hosts", name="none is granted", skill=skill.name)
            return msgspec.structs.replace(each, missing=(needs,)), skill
        skill = with_hosts(skill, hosts)
        return msgspec.structs.replace(each, skill=skill, hosts=hosts), skill

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
