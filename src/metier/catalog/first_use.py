"""What a skill may do that nobody looked at: one in a root the operator vouches for, used for the first time.

Other programs put skills into such roots too, for example into `~/.claude/skills`. So to lie there grants only what stays on
this machine and changes nothing of his: the skill's own files, the workspace, programs, looking things up. Hosts, secrets,
variables, channels, files elsewhere, programs to which he gave any of these, and operations that act take his word:
`metier skills trust`, or the `SKILL_MANIFEST.json` of a root that is his own.
"""

import os
from collections.abc import Iterable
from typing import Final

from metier.catalog import allowlist
from metier.catalog.listed import Listed
from metier.dialects.risk import ONLY_LOOK
from metier.model.permission import BASE_DIR, WORKSPACE, PermissionSet
from metier.record.trust import How

_FOR_ALL: Final = ("docs", "out")
"""Folders of the workspace that say nothing of the operator: not his memories, who the agent is, or what was logged."""


def given(listed: Listed, declared: PermissionSet) -> tuple[How, PermissionSet]:
    """On whose word a first use binds a skill, and what of `declared` that grants."""
    if _is_named(listed):
        return "manifest", declared
    return "first_use", PermissionSet(
        binaries=declared.binaries - listed.carrying,
        reads=_near(declared.reads, listed),
        writes=_near(declared.writes, listed),
        hosts=declared.hosts & listed.hosts,
        operations=declared.operations & ONLY_LOOK,
    )


def _near(paths: Iterable[str], listed: Listed) -> frozenset[str]:
    """What of `paths` is the skill's own or the workspace's; of that, where other programs put skills, what is no secret."""
    return frozenset(
        path
        for path in paths
        if (parts := path.split("/"))[0] == BASE_DIR
        or (parts[0] == WORKSPACE and (listed.root.own or parts[1:2] in ([each] for each in _FOR_ALL)))
    )


def _is_named(listed: Listed) -> bool:
    """Whether the operator's list names this very skill, and not only a folder that it lies in. A list in a root that other
    programs fill is not his: who puts a skill there could put the list beside it."""
    above, name = os.path.split(listed.folder)
    if name == listed.manifest:
        name = os.path.splitext(name)[0]
    if not listed.root.own or above != listed.root.path:
        return False
    return {name, listed.name} <= set(allowlist.read(above).names or ())
