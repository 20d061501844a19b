"""The programs of a run: each declared name stands for one real file of the operator's machine.

Only absolute folders of the operator's own path are searched, and only those that nobody but he and root can write
to; the same holds for the file. Otherwise whoever can put a file there would choose what runs.
"""

import os
import re
import stat
from collections.abc import Iterable
from typing import Final

_INTERPRETERS: Final = re.compile(
    r"(?:|a|ba|da|z|k|mk|pdk|fi|c|tc|r|oil|nu)sh|busybox|toybox|coreutils|python[\d.]*|pypy[\d.]*|perl[\d.]*|ruby[\d.]*"
    r"|node|nodejs|deno|bun|php[\d.]*|lua(?:jit)?[\d.]*|tclsh[\d.]*|guile[\d.]*|(?:g|m|n|original-)?awk|java|julia|Rscript"
    r"|env|nice|nohup|setsid|stdbuf|timeout|time|flock|watch|xargs|script|make|gdb|ld(?:-linux[\w.-]*)?\.so[\d.]*"
)


def real_programs(names: Iterable[str], path: str) -> dict[str, str]:
    """Each name that a safe folder of `path` has, with the real file behind it."""
    folders = [folder for folder in path.split(os.pathsep) if os.path.isabs(folder) and _is_safe(folder)]
    found = {name: _find(name, folders) for name in names}
    return {name: file for name, file in sorted(found.items()) if file}


def is_interpreter(file: str) -> bool:
    """Whether a program runs what it is told to: a shell, an interpreter, a starter of other programs."""
    return _INTERPRETERS.fullmatch(os.path.basename(file)) is not None


def _find(name: str, folders: Iterable[str]) -> str:
    if not name or "/" in name or "\0" in name or name in (".", ".."):
        return ""  # a path is not a name
    for folder in folders:
        place = os.path.join(folder, name)
        if not os.path.isfile(place):
            continue
        real = os.path.realpath(place)
        # The first of its name is the one meant; another further on would be a surprise.
        return real if _is_program(real) else ""
    return ""


def _is_program(file: str) -> bool:
    return os.access(file, os.X_OK) and _is_safe(file) and _is_safe(os.path.dirname(file))


def _is_safe(place: str) -> bool:
    """Whether nobody but root and this user can change what lies there."""
    try:
        status = os.stat(place)
    except OSError:
        return False
    mode = status.st_mode
    others = mode & stat.S_IWOTH or (mode & stat.S_IWGRP and status.st_gid != 0)
    return status.st_uid in (0, os.geteuid()) and not others
