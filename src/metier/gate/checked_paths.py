"""Paths among the arguments that a named check holds to the folders of a tool: one spelling for one file, and the very file that
was checked for the code.

Blocking: paths are looked at on the disk.
"""

import os
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from metier.model.digest import Json
from metier.model.ground import Ground
from metier.model.permission import WORKSPACE, PermissionSet
from metier.model.skill import Check, Tool

_OF_PATHS: Final[frozenset[Check]] = frozenset({"isWithinAllowedDirectory", "isWriteAllowed"})
_LONGEST: Final = 4_096


def spelled_once(tool: Tool, arguments: dict[str, Json], ground: Ground) -> dict[str, Json]:
    """Checked arguments with each path in its one spelling: from the workspace where it is said to lie in it, else from the
    root. Rules, approvers and the record see no other."""
    return {**arguments, **{name: _spelled(path, ground) for name, path in _paths(tool, arguments)}}


def from_root(tool: Tool, arguments: dict[str, Json], ground: Ground) -> dict[str, Json]:
    """The same arguments for code, which starts in a folder of its own: what was checked is what it opens."""
    workspace = os.path.realpath(ground.workspace)
    there = {
        name: workspace if path == "." else os.path.join(workspace, path)
        for name, path in _paths(tool, arguments)
    }
    return {**arguments, **there}


def needed_least(tool: Tool, arguments: dict[str, Json], ground: Ground) -> PermissionSet:
    """What a call must have of what its tool may touch. Where a check holds the writing to paths, these are the only folders to
    be written that it cannot do without."""
    may, real = tool.permissions, written_paths(tool, arguments, ground)
    if not real:
        return may
    kept = (folder for folder in may.writes if any(below(path, _place(folder, ground)) for path in real))
    return replace(may, writes=frozenset(kept))


def written_paths(tool: Tool, arguments: dict[str, Json], ground: Ground) -> tuple[str, ...]:
    """Where the paths lead that a check holds the writing to; none where it does not hold all of it."""
    held = [name for name, check in tool.checks.items() if check == "isWriteAllowed"]
    paths = dict(_paths(tool, arguments))
    return (
        tuple(real_path(paths[name], ground) for name in held) if all(name in paths for name in held) else ()
    )


def real_path(path: str, ground: Ground) -> str:
    """Where `path` leads, seen from the workspace; empty when it is no path to go by."""
    if not path or len(path) > _LONGEST or path.startswith("~") or not ground.workspace:
        return ""
    if ".." in path.split("/"):
        return ""
    try:
        return os.path.realpath(os.path.join(ground.workspace, path))
    except (OSError, ValueError):
        return ""


def root_of(real: str, granted: Iterable[str], ground: Ground) -> str:
    """The granted folder it lies in, where that folder itself is no link to another place; empty when there is none."""
    return next((root for folder in granted if below(real, root := _place(folder, ground))), "")


def below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _paths(tool: Tool, arguments: dict[str, Json]) -> Iterator[tuple[str, str]]:
    for name, check in tool.checks.items():
        path = arguments.get(name)
        if check in _OF_PATHS and isinstance(path, str):
            yield name, path


def _place(folder: str, ground: Ground) -> str:
    head, _, rest = folder.partition("/")
    # `{baseDir}` stands for a copy whose place nobody outside knows, so no argument can name it.
    return os.path.join(os.path.realpath(ground.workspace), rest).rstrip("/") if head == WORKSPACE else folder


def _spelled(path: str, ground: Ground) -> str:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not path.startswith("/"):
        return "/".join(parts) or "."
    workspace = os.path.realpath(ground.workspace)
    own, folder = _status(workspace), ""
    for number, part in enumerate(parts, 1):
        folder = f"{folder}/{part}"
        # By another name too: a home that is reached by a link is written as its owner knows it.
        if folder == workspace or (own and (status := _status(folder)) and os.path.samestat(status, own)):
            return "/".join(parts[number:]) or "."
    return "/" + "/".join(parts)


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None
