"""The checks that MetaHuman manifests name: whether a path, a program or an agent is one the tool may be asked for.

A first word only, so that a call is refused early and says why; what a run can touch is held by its sandbox. Blocking:
paths are looked at on the disk, because a link inside an allowed folder may lead out of it.
"""

import os
import re
from collections.abc import Callable
from typing import Final

from metier.gate.checked_paths import below, real_path, root_of
from metier.model.digest import Json
from metier.model.ground import Ground
from metier.model.protected_names import protected_part
from metier.model.skill import Check, Tool
from metier.model.text import one_line
from metier.model.workspace import why_kept
from metier.openfile import is_repository

_NAME: Final = re.compile("[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_PROGRAM: Final = re.compile("[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_AGENTS: Final = "brain/agents"


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
    real = real_path(path, ground)
    if not real:
        return _unusable(path)
    if not root_of(real, tool.permissions.reads, ground):
        return f"{_shown(path)} is in none of the folders this tool may read"
    workspace = os.path.realpath(ground.workspace)
    if below(real, workspace) and (why := why_kept(real.removeprefix(workspace), writes=False)):
        return f"{_shown(path)} cannot be read: {why}"
    return ""


def _write_allowed(path: str, tool: Tool, ground: Ground) -> str:
    real = real_path(path, ground)
    if not real:
        return _unusable(path)
    workspace = os.path.realpath(ground.workspace)
    if below(real, workspace) and (why := why_kept(real.removeprefix(workspace), writes=True)):
        return f"{_shown(path)} cannot be written: {why}"
    root = root_of(real, tool.permissions.writes, ground)
    if not root:
        return f"{_shown(path)} is in none of the folders this tool may write to"
    # Also where it is not there yet: whoever makes it first decides what is in it.
    inner = real.removeprefix(workspace if below(real, workspace) else root)
    if named := protected_part(inner):
        return f"{_shown(path)} cannot be written: {named!r} is run or believed by other programs"
    if folder := _repository(root, real):
        return (
            f"{_shown(path)} cannot be written: git takes {_shown(folder)} for a repository, or would, and runs what its"
            " settings name"
        )
    return ""


def _repository(root: str, real: str) -> str:
    """The folder from `root` on that is a repository once something lies at `real`; empty when none is."""
    folder = root
    for name in real.removeprefix(root).strip("/").split("/"):
        if is_repository(folder, made=name):
            return folder
        folder = os.path.join(folder, name)
    return ""


def _agent(name: str, tool: Tool, ground: Ground) -> str:
    if not _NAME.fullmatch(name):
        return "is not a name of letters, digits, hyphens and underscores"
    if ground.workspace:
        folder = os.path.join(os.path.realpath(ground.workspace), _AGENTS)
        try:
            with os.scandir(folder) as entries:
                if os.path.realpath(folder) == folder and any(
                    entry.name in (f"{name}.py", f"{name}.ts", f"{name}.md")
                    and entry.is_file(follow_symlinks=False)
                    for entry in entries
                ):
                    return ""
        except OSError:
            pass  # a folder that is not there or cannot be read has no agents
    return f"names no agent: {_AGENTS} of the workspace holds no {name}.py, .ts or .md"


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


def _shown(path: str) -> str:
    return f"{one_line(path, 120)!r}"


def _unusable(path: str) -> str:
    return f"{_shown(path)} is no path to go by: give one from the root or from the workspace, without `..` or `~`"
