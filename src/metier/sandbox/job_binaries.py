"""The programs of a run: each declared name stands for one real file of the operator's machine.

Only absolute folders of the operator's own path are searched, and only those that nobody but he and root can write
to; the same holds for the file. Otherwise whoever can put a file there would choose what runs.
"""

import os
import stat
from collections.abc import Iterable
from functools import cache
from typing import Final

from metier.model.lone_programs import is_lone

_SYSTEMS_OWN: Final = ("/bin", "/usr/bin")


def real_programs(names: Iterable[str], path: str) -> dict[str, str]:
    """Each name that a safe folder of `path` has, with the real file behind it."""
    folders = [folder for folder in path.split(os.pathsep) if os.path.isabs(folder) and _is_safe(folder)]
    found = {name: _find(name, folders) for name in names}
    return {name: file for name, file in sorted(found.items()) if file}


def keeps_to_itself(file: str) -> bool:
    """Whether a program is known to start no other one, whatever it is told. Of most that is not known."""
    folder, name = os.path.split(file)
    return folder in _SYSTEMS_OWN and is_lone(name)


@cache
def small_programs() -> dict[str, str]:
    """Those of the system that start no other one, by name: a shell script is written with them as with its own words, and
    behind a wall they do nothing that it could not do itself."""
    found: dict[str, str] = {}
    for folder in _SYSTEMS_OWN:
        names = os.listdir(folder) if os.path.isdir(folder) and _is_safe(folder) else ()
        found |= {name: f"{folder}/{name}" for name in names if is_lone(name)}
    return {name: file for name, file in sorted(found.items()) if os.access(file, os.X_OK)}


def _find(name: str, folders: Iterable[str]) -> str:
    if not name or "/" in name or "\0" in name or name in (".", ".."):
        return ""  # a path is not a name
    for folder in folders:
        place = os.path.join(folder, name)
        if not os.path.isfile(place):
            continue
        real = os.path.realpath(place)
        # The first of its name is the one meant; another further on would be a surprise.
        return real if is_program(real) else ""
    return ""


def package_of(file: str) -> str:
    """The folder of the package that a program outside the system is a part of, as npm lays them out; else nothing. Its
    own folder is what it needs besides its first file, and no more: the next folder up may be a home."""
    head, found, rest = file.rpartition("/node_modules/")
    parts = rest.split("/")
    name = "/".join(parts[: 2 if rest.startswith("@") else 1])
    folder = f"{head}{found}{name}"
    return folder if found and name != rest and _is_safe(folder) else ""


def is_program(file: str) -> bool:
    """Whether the real `file` can be run, and nobody but root and this user can change it or put another in its place."""
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
