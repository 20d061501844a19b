"""What a MetaHuman manifest may touch: `allowedDirectories` below the workspace and `commandWhitelist`, as permissions, and what
its category is for.

Nothing is guessed: what is no plain folder or no plain name of a program is an error. What of the workspace no skill gets is
said here where a manifest names it from the workspace; the gate holds it for every way to write it.
"""

import re
from typing import Final

from metier.dialects.draft import Draft
from metier.model.digest import Json
from metier.model.permission import WORKSPACE, PermissionSet
from metier.model.text import hidden, one_line
from metier.model.workspace import CODE, IDENTITY

OPERATIONS: Final = {"memory": frozenset({"memory.search"}), "agent": frozenset({"agents.status"})}
"""By category: the operations of Metier's that such a skill is for."""
_RUNS_AGENTS: Final = "run_agent"
"""The one skill that has agents run; the gate lets only the one that ships with Metier."""
_LONGEST: Final = 1_024
_PROGRAM: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}", re.ASCII)


def reach(draft: Draft, fields: dict[str, Json], *, writes: bool) -> PermissionSet:
    """What the two lists amount to; `writes` is whether the tool acts."""
    read: set[str] = set()
    written: set[str] = set()
    for folder in _texts(draft, fields, "allowedDirectories"):
        path = _path(folder)
        if problem := _folder_problem(folder, path):
            message = f'allowedDirectories: "{one_line(folder, 80)}" is refused: {problem}'
            draft.note("bad_folder", "error", message, '"allowedDirectories"')
            continue
        read.add(path)
        if not writes:
            continue
        if _first(path) in IDENTITY:
            message = f'allowedDirectories: "{one_line(folder, 80)}" may only be read: nothing writes to it'
            draft.note("only_read", "warning", message, '"allowedDirectories"')
        else:
            written.add(path)
    programs: set[str] = set()
    for program in _texts(draft, fields, "commandWhitelist"):
        if _PROGRAM.fullmatch(program):
            programs.add(program)
        else:
            message = (
                f'commandWhitelist: "{one_line(program, 80)}" is no plain name of a program;'
                " name each alone, without a path, arguments or signs"
            )
            draft.note("bad_program", "error", message, '"commandWhitelist"')
    found = PermissionSet(
        reads=frozenset(read),
        writes=frozenset(written),
        binaries=frozenset(programs),
        operations=_operations(fields),
    )
    return PermissionSet() | found  # a folder below another one is said once


def _operations(fields: dict[str, Json]) -> frozenset[str]:
    category = str(fields.get("category"))
    runs = category == "agent" and fields.get("id") == _RUNS_AGENTS
    return OPERATIONS.get(category, frozenset[str]()) | frozenset({"agents.run"} if runs else ())


def _texts(draft: Draft, fields: dict[str, Json], key: str) -> list[str]:
    value = fields.get(key)
    if value is None and key not in fields:
        return []
    if isinstance(value, list):
        texts = [item for item in value if isinstance(item, str)]
        if len(texts) == len(value):
            return texts
    draft.note("bad_field", "error", f'{key} is no list of texts; write ["one", "another"]', f'"{key}"')
    return []


def _path(folder: str) -> str:
    """How it is granted: below the workspace unless it begins at the root, without the slash at its end."""
    bare = folder[:-1] if folder.endswith("/") else folder
    return bare if bare.startswith("/") else f"{WORKSPACE}/{bare}"


def _folder_problem(folder: str, path: str) -> str:
    parts = path.split("/")[1:]
    if not folder.strip():
        return "it is empty"
    if len(folder) > _LONGEST:
        return f"it has more than {_LONGEST} characters"
    if folder.startswith("~"):
        return "`~` is another folder for each user; write it from the root or from the workspace"
    if ".." in parts:
        return "`..` leads out of it; write the folder that is meant"
    if folder.strip("/") in ("", "."):
        return "that is everything; name the folders that are needed"
    if "" in parts or "." in parts:
        return "it is not written plainly; write it without `.` and without two slashes"
    if hidden(folder) or "\n" in folder or "\t" in folder or folder != folder.strip():
        return "it holds characters that cannot be seen"
    if sign := next((sign for sign in "*?\\{}$" if sign in folder), ""):
        return f"it holds `{sign}`, but a folder is named as it is; a folder includes all below it"
    if _first(path) in CODE or "node_modules" in parts:
        return f"no skill gets {', '.join(sorted(CODE))} of the workspace"
    return ""


def _first(path: str) -> str:
    """The first folder below the workspace; empty for a path from the root."""
    head, _, rest = path.partition("/")
    return rest.partition("/")[0].casefold() if head == WORKSPACE else ""
