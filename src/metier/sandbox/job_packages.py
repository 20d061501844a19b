"""Installed packages for the Python code of skills: folders that the operator named, as they really lie on this machine."""

import os
from collections.abc import Iterable

from metier.model.entry import Entry, InlineCode, Program, PythonHandler
from metier.sandbox.job_protected import Ground, touches_state


def is_python(entry: Entry) -> bool:
    """Whether it is code that could import one."""
    return isinstance(entry, PythonHandler) or (
        isinstance(entry, InlineCode | Program) and entry.language == "python"
    )


def installed(folders: Iterable[str], ground: Ground) -> tuple[str, ...] | str:
    """The real folders, or what is wrong with one. A run sees them whole, so none may hold anything of ours."""
    found: list[str] = []
    for folder in folders:
        real = os.path.realpath(folder)
        if not os.path.isdir(real):
            return f"the folder of packages {folder!r} is not there"
        if touches_state(real, ground):
            return f"the folder of packages {folder!r} holds, or lies in, Metier's own state"
        found.append(real)
    return tuple(found)
