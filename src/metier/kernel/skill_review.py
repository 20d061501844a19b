"""What a person must see before he trusts a skill, as plain data for whatever shows it to him.

All of it is read from the bytes that were taken a moment ago. Texts are the skill's own; whoever shows them shows text.
"""

import os
import sys
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, cast

import msgspec

from metier.catalog.acting_programs import with_programs
from metier.catalog.function_names import name_problems
from metier.catalog.listed import Listed
from metier.catalog.network import hosts_for
from metier.catalog.probed import Probed
from metier.catalog.requirements import install_hint
from metier.catalog.review import Review, compare, withheld
from metier.catalog.trusting import Taken
from metier.config.roots import BUNDLED
from metier.config.settings import Settings
from metier.model.diagnostic import Diagnostic
from metier.model.digest import Json, digest
from metier.model.entry_words import runs
from metier.model.mcp_listing import changes
from metier.model.permission import PermissionSet
from metier.model.permission_words import permissions, programs
from metier.model.skill import Skill, Tool
from metier.record.trust import Trusts

Step: TypeAlias = Literal["trust", "ask", "let_in", "done", "none"]
"""What comes next: trust the bytes; ask the server for its tools; let in what it told; nothing; nothing can."""
MOST_FILES: Final = 2_000
"""Files that are named; how many there are is said."""


def told_digest(told: Probed | None) -> str:
    """Of what a skill told of itself when it was run; empty where it told nothing."""
    return digest(told.exported) if told is not None and not told.problem else ""


def next_step(listed: Listed, skill: Skill, digest: str, trusts: Trusts) -> Step:
    """What comes next for the skill as it lies there: `skill` is what its bytes say, with what was let in of it."""
    if (listed.name, digest) not in trusts.trusted or listed.name in trusts.disabled:
        return "trust"
    if listed.probe and skill.dialect == "mcp_server":
        return "ask"
    return "let_in" if _lacks(listed, skill, digest, trusts) else "done"


def untakeable(listed: Listed, problem: str) -> dict[str, Json]:
    """A skill that nobody can trust, with the reason."""
    shown = _about(listed, listed.skill)
    return {**shown, "step": "none", "problem": problem, "told": "", "digest": ""}


def reviewed(
    taken: Taken,
    read: Skill,
    settings: Settings,
    *,
    told: Probed | None,
    before: Probed | None,
    hooks: Sequence[dict[str, Json]],
    problem: str = "",
) -> dict[str, Json]:
    """Everything. Blocking.

    Args:
        read: the skill as its bytes say it, with what it told.
        told: what it told, just now or when it was last run.
        before: what a person let in of that.
    """
    each, trusts, bytes_now = taken.each, taken.before, taken.measured.digest
    step = next_step(each, read, bytes_now, trusts)
    other = taken.server and told is not None and (before is None or told.exported != before.exported)
    if other and step in ("ask", "done"):
        step = "let_in"
    looked = compare(read, taken.measured, settings, trusts)
    lacks = _lacks(each, read, bytes_now, trusts)
    shown = _about(each, read)
    return {
        **shown,
        "digest": bytes_now,
        "step": step,
        "told": "" if taken.forgets else told_digest(told),
        "problem": problem,
        "trusted": (each.name, bytes_now) in trusts.trusted,
        "before": _last(each.name, trusts),
        "instead_of_bundled": os.path.isdir(os.path.join(BUNDLED, each.name)),
        "withheld": _plain(lacks),
        "withheld_words": permissions(lacks).removesuffix("; no network") if lacks else "",
        "asks_network": read.asks_network,
        "hosts": [*sorted(hosts_for(read, settings.skills.entries))],
        "programs": [*programs(read.permissions, settings.binaries.programs)],
        "tools": [tool_shown(tool) for tool in with_programs(read, each.acting).tools],
        "hooks": [*hooks],
        "changed": _changed(looked) if looked.changed else None,
        "tools_changed": _tools_changed(before, told),
        "files": [{"path": one.path, "bytes": one.size} for one in taken.measured.files[:MOST_FILES]],
        "files_count": len(taken.measured.files),
    }


def tool_shown(tool: Tool) -> dict[str, Json]:
    """One tool: what it is, what runs it, what it may touch, and what it takes to call it."""
    return {
        "name": tool.name,
        "description": tool.description,
        "effect": tool.effect,
        "risk": tool.risk,
        "cost": tool.cost,
        "minimum_trust": tool.minimum_trust,
        "approval": tool.approval,
        "confirmation": tool.confirmation,
        "runs": runs(tool.entry),
        "permissions": _plain(tool.permissions),
        "may": permissions(tool.permissions),
        "limits": {
            "timeout": tool.limits.timeout,
            "memory_mb": tool.limits.memory_mb,
            "processes": tool.limits.processes,
        },
        "parameters": _json(tool.parameters),
        "returns": _json(tool.returns),
    }


def _about(listed: Listed, skill: Skill | None) -> dict[str, Json]:
    """What is known of a skill, also of one that cannot be trusted."""
    may = skill.permissions if skill is not None else PermissionSet()
    return {
        "name": listed.name,
        "folder": listed.folder,
        "manifest": listed.manifest,
        "dialect": skill.dialect if skill is not None else "",
        "source": skill.source if skill is not None else "",
        "version": skill.version if skill is not None else "",
        "description": skill.description if skill is not None else "",
        "status": listed.shown,
        "why": listed.why,
        "trusted": listed.root.kind == "bundled" or listed.entrusted,
        "before": None,
        "instead_of_bundled": False,
        "permissions": _plain(may),
        "may": permissions(may),
        "withheld": {},
        "withheld_words": "",
        "asks_network": skill is not None and skill.asks_network,
        "hosts": [*sorted(listed.hosts)],
        "programs": [],
        "tools": [tool_shown(tool) for tool in skill.tools] if skill is not None else [],
        "hooks": [],
        "proposed_tools": [*skill.proposed_tools] if skill is not None else [],
        "problems": [_problem(found) for found in listed.diagnostics],
        "missing": [
            {
                "type": error.type,
                "name": error.name,
                "message": str(error),
                "install": install_hint(error.install, sys.platform) if error.install else "",
            }
            for error in listed.missing
        ],
        "names": [*name_problems(listed)],
        "changed": None,
        "tools_changed": [],
        "files": [],
        "files_count": 0,
    }


def _lacks(listed: Listed, skill: Skill, digest: str, trusts: Trusts) -> PermissionSet:
    """What these bytes say they need and were not granted, where they are trusted."""
    granted = trusts.permissions.get((listed.name, digest))
    if granted is None:
        return withheld(listed, digest, trusts)
    return skill.permissions.beyond(granted | PermissionSet(hosts=listed.hosts))


def _last(name: str, trusts: Trusts) -> Json:
    earlier = [grant for (other, _), grant in trusts.grants.items() if other == name]
    if not earlier:
        return None
    last = max(earlier, key=lambda grant: grant.granted_at)
    return {
        "digest": last.digest,
        "version": last.version,
        "at": last.granted_at,
        "by": last.granted_by,
        "how": last.how,
    }


def _changed(looked: Review) -> Json:
    added, removed = looked.diff.added, looked.diff.removed
    moved = {*looked.added, *looked.removed}
    return {
        "permissions": {
            "added": _plain(added),
            "removed": _plain(removed),
            "added_words": permissions(added).removesuffix("; no network") if added else "",
            "removed_words": permissions(removed).removesuffix("; no network") if removed else "",
        },
        "files": {
            "added": [*looked.added],
            "removed": [*looked.removed],
            "changed": [path for path in looked.files if path not in moved],
        },
        "files_known": looked.files_known,
    }


def _tools_changed(before: Probed | None, told: Probed | None) -> list[Json]:
    if before is None or told is None or before.exported == told.exported:
        return []
    return [{"name": name, "how": how} for name, how in changes(before.exported, told.exported).items()]


def _problem(found: Diagnostic) -> Json:
    return {
        "severity": found.severity,
        "code": found.code,
        "message": found.message,
        "line": found.line,
    }


def _plain(granted: PermissionSet) -> dict[str, Json]:
    return {name: [*names] for name, names in granted.plain().items()}


def _json(schema: object) -> Json:
    return cast("Json", msgspec.to_builtins(schema))
