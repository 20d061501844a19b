"""Where the JavaScript engine is: the one file that the installed package `deno` brought, and nothing else.

Never looked for on PATH or in the current folder. A file that others could have changed is not started.
"""

import os
import stat
from importlib import metadata
from typing import Final, final

from msgspec import Struct

from metier.model.guarantee import Guarantee
from metier.sandbox.protocol import Missing

OLDEST: Final = (2, 9)
REMEDY: Final = "pip install 'metier[javascript]'"


@final
class Engine(Struct, frozen=True, kw_only=True):
    """The engine as it was found."""

    path: str
    """Real and absolute."""
    version: str


def find_engine() -> Engine | Missing:
    """The engine of this installation, or what is missing. Blocking: it looks at the disk."""
    try:
        package = metadata.distribution("deno")
    except metadata.PackageNotFoundError:
        return _missing("the package deno is not installed")
    version = package.version
    if _number(version) < OLDEST:
        wanted = ".".join(str(part) for part in OLDEST)
        return _missing(f"deno {version} is installed and at least {wanted} is needed")
    for file in package.files or ():
        if file.name == "deno" and file.parent.name == "bin":
            return engine_at(os.path.realpath(os.fspath(file.locate())), version)
    return _missing("the package deno is installed without its program")


def engine_at(path: str, version: str) -> Engine | Missing:
    """The engine at `path`, if nobody but its owner could have changed it."""
    trusted = (0, os.geteuid())
    try:
        itself, folder = os.lstat(path), os.stat(os.path.dirname(path))
    except OSError:
        return _missing("the program of the package deno is not there")
    if not stat.S_ISREG(itself.st_mode) or not itself.st_mode & stat.S_IXUSR:
        return _missing("the program of the package deno is not a program")
    if itself.st_uid not in trusted or folder.st_uid not in trusted:
        return _missing("the program of the package deno belongs to somebody else")
    # A folder with the sticky bit lets nobody replace what is not his.
    others = folder.st_mode & 0o022 and not folder.st_mode & stat.S_ISVTX
    if itself.st_mode & 0o022 or others:
        return _missing("others may change the program of the package deno, so it is not started")
    return Engine(path=path, version=version)


def _missing(why: str) -> Missing:
    return Missing(what="Deno", why=why, remedy=REMEDY, costs=frozenset(Guarantee))


def _number(version: str) -> tuple[int, ...]:
    parts = version.split(".")[:2]
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else ()
