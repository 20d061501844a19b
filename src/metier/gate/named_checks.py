"""The checks that MetaHuman manifests name: whether a path, a program or an agent is one the tool may be asked for.

A first word only, so that a call is refused early and says why; what a run can touch is held by its sandbox. Blocking:
paths are looked at on the disk, because a link inside an allowed folder may lead out of it.
"""

import os
import re
from collections.abc import Callable, Iterable
from typing import Final

from metier.model.digest import Json
from metier.model.ground import Ground
from metier.model.permission import WORKSPACE
from metier.model.skill import Check, Tool
from metier.model.text import one_line

_NAME: Final = re.compile("[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_PROGRAM: Final = re.compile("[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_LONGEST: Final = 4_096
_AGENTS: Final = "brain/agents"
NEVER_WRITTEN: Final = frozenset({"persona", "brain"})
"""Folders of the workspace that say who the agent is and what it runs."""


def check_problem(tool: Tool, arguments: dict[str, Json], ground: Ground) -> str:
    """The first argument that a check of the tool does not let through, and why; empty when all pass."""
    for argument, check in tool.checks.items():
        if argument not in arguments:
            continue  # whether it may be left out is for the schema to say
        value = arguments[argument]
        problem = _CHECKS[check](value, tool, ground) if isinstance(value, str) else "must be a text"
        if problem:
            return f"argument {one_line(argument, 80)!r} {problem}"
    return ""


def _within(path: str, tool: Tool, ground: Ground) -> str:
    real = _real(path, ground)
    if not real:
        return _unusable(path)
    if not _inside(real, tool.permissions.reads, ground):
        return f"{_shown(path)} is in none of the folders this tool may read"
    return ""


def _write_allowed(path: str, tool: Tool, ground: Ground) -> str:
    real = _real(path, ground)
    if not real:
        return _unusable(path)
    workspace = os.path.realpath(ground.workspace) if ground.workspace else ""
    if workspace and _below(real, workspace):
        first = real.removeprefix(workspace).lstrip("/").partition("/")[0]
        if first.casefold() in NEVER_WRITTEN:
            return f"{_shown(path)} cannot be written: nothing writes to {first!r} of the workspace"
    if not _inside(real, tool.permissions.writes, ground):
        return f"{_shown(path)} is in none of the folders this tool may write to"
    return ""


def _agent(name: str, tool: Tool, ground: Ground) -> str:
    if not _NAME.fullmatch(name):
        return "is not a name of letters, digits, hyphens and underscores"
    if ground.workspace:
        folder = os.path.join(os.path.realpath(ground.workspace), _AGENTS)
        try:
            with os.scandir(folder) as entries:
                if os.path.realpath(folder) == folder and any(
                    os.path.splitext(entry.name)[0] == name and entry.is_file(follow_symlinks=False)
                    for entry in entries
                ):
                    return ""
        except OSError:
            pass  # a folder that is not there or cannot be read has no agents
    return f"names no agent: there is no file {name!r} in {_AGENTS} of the workspace"


def _listed(program: str, tool: Tool, ground: Ground) -> str:
    if not _PROGRAM.fullmatch(program):
        return "must be the bare name of a program, without a path, blanks or signs"
    if program not in tool.permissions.binaries:
        return f"names {program!r}, which is not one of the programs this tool may start"
    return ""


_CHECKS: Final[dict[Check, Callable[[str, Tool, Ground], str]]] = {
    "isWithinAllowedDirectory": _within,
    "isWriteAllowed": _write_allowed,
    "isValidAgent": _agent,
    "isWhitelisted": _listed,
}


def _real(path: str, ground: Ground) -> str:
    """Where `path` leads, seen from the workspace; empty when it is no path to go by."""
    if not path or len(path) > _LONGEST or path.startswith("~") or not ground.workspace:
        return ""
    if ".." in path.split("/"):
        return ""
    try:
        return os.path.realpath(os.path.join(ground.workspace, path))
    except (OSError, ValueError):
        return ""


def _inside(real: str, granted: Iterable[str], ground: Ground) -> bool:
    """Whether it lies in a granted folder, where that folder itself is no link to another place."""
    workspace = os.path.realpath(ground.workspace)
    for folder in granted:
        head, _, rest = folder.partition("/")
        # `{baseDir}` stands for a copy whose place nobody outside knows, so no argument can name it.
        root = os.path.join(workspace, rest).rstrip("/") if head == WORKSPACE else folder
        if _below(real, root):
            return True
    return False


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _shown(path: str) -> str:
    return f"{one_line(path, 120)!r}"


def _unusable(path: str) -> str:
    return f"{_shown(path)} is no path to go by: give one from the root or from the workspace, without `..` or `~`"
