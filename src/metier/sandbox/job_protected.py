"""What a run never writes to, whoever granted it: what other programs, or Metier itself, then run or believe.

That is Metier's own state but for the workspace, what of the workspace is code or says who the agent is, Metier's own program
with all it is made of, the skill itself, the system's folders, the folders the operator starts programs and trusts skills
from, his home as a whole, and every folder that lies in, or directly holds, one of the names below, however they are cased. A
folder that is, or holds, a repository counts too. What lies deeper is not searched for, and what a person runs by hand in a
folder (a Makefile, a test) is not on the list.

While a file that Metier keeps, decides by or takes secrets from has a second name, nothing is granted to anybody: no folder is
searched for it.
"""

import os
import sys
from collections.abc import Iterable
from typing import Final

from metier.errors import StateError
from metier.model.ground import Ground
from metier.model.protected_names import PROTECTED_NAMES
from metier.model.workspace import why_kept
from metier.openfile import has_second_name, is_repository
from metier.record.private import require_one_name

_FOLDED: Final = {name.casefold(): name for name in PROTECTED_NAMES}
_SYSTEM: Final = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr"),
    *("/var/lib", "/var/spool"),
)


def why_protected(path: str, ground: Ground, skill: tuple[str, str]) -> str:
    """Why the real `path` is never writable; empty when it may be. `skill` is its snapshot and its own folder."""
    if touches_state(path, ground):
        return f"{path!r} cannot be written: Metier's own state in {ground.state!r} is protected"
    if why := why_withheld(path, ground, writes=True):
        return f"{path!r} cannot be written: {why}"
    for folders, why in (
        (skill, "a skill never changes its own folder"),
        (_own_program(), "Metier's own program is in {}"),
        (_SYSTEM, "{} belongs to the system"),
        (ground.started_from, "your programs are started from {}"),
        (ground.trusted_roots, "skills in {} are trusted"),
    ):
        if met := _met(path, folders):
            return f"{path!r} cannot be written: {why.format(met)}"
    if ground.home and below(os.path.realpath(ground.home), path):
        return f"{path!r} cannot be written: it holds your home with all its settings"
    # Below the state folder only the workspace is left here, whose own way there does not count.
    above = path.removeprefix(os.path.realpath(ground.workspace)) if ground.workspace else path
    if named := next((part for part in above.split("/") if part.casefold() in _FOLDED), ""):
        return f"{path!r} cannot be written: {named} is run or believed by other programs"
    if inside := _repository_of(path):
        return f"{path!r} cannot be written: {inside!r} is a repository, whose hooks would be run"
    return _holds_protected(path)


def touches_state(path: str, ground: Ground) -> bool:
    """Whether `path` lies in, or holds, Metier's own state; the workspace in it is the skills' own."""
    if not ground.state:
        return False
    if ground.workspace and below(path, os.path.realpath(ground.workspace)):
        return False
    return overlap(path, os.path.realpath(ground.state))


def why_withheld(path: str, ground: Ground, *, writes: bool) -> str:
    """Why the real `path` is no skill's, where it lies in the workspace or holds it; empty when it may be given."""
    workspace = os.path.realpath(ground.workspace) if ground.workspace else ""
    if not workspace or not overlap(path, workspace):
        return ""
    if not below(path, workspace):
        return "it holds the workspace with what is run"
    return why_kept(path.removeprefix(workspace), writes=writes)


def why_second_name(ground: Ground) -> str:
    """Which file that Metier keeps, decides by or takes secrets from has a second name, and so may lie in any granted folder;
    empty when none has."""
    kept = (*_files_in(ground.state), *_files_in(os.path.join(ground.state, "keys")))
    for path in (*kept, *ground.secret_files, *ground.decides_by):
        try:
            if has_second_name(os.lstat(path)):
                require_one_name(path)
        except OSError:
            continue  # it is not there
        except StateError as error:
            return f"nothing can be granted while {error.message}"
    return ""


def _files_in(folder: str) -> list[str]:
    if not os.path.isabs(folder):
        return []  # no state, so nothing is in it
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if entry.is_file(follow_symlinks=False)]
    except OSError:
        return []


def overlap(one: str, other: str) -> bool:
    """Whether one of two folders lies in the other."""
    return below(one, other) or below(other, one)


def below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _met(path: str, folders: Iterable[str]) -> str:
    """The first of `folders` that `path` lies in or holds. One that is not there holds nothing yet."""
    for folder in folders:
        real = os.path.realpath(folder) if os.path.isabs(folder) else ""
        # Where the root itself is named, say as a folder of PATH, it would forbid everything.
        if real in ("", "/"):
            continue
        if below(path, real) or (below(real, path) and os.path.lexists(real)):
            return real
    return ""


def _own_program() -> tuple[str, ...]:
    """Everything that is loaded when Metier starts the next time."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    installed = (each for each in sys.path if os.path.basename(each) in ("site-packages", "dist-packages"))
    interpreter = os.path.dirname(os.path.abspath(sys.executable)) if sys.executable else ""
    return (package, sys.prefix, sys.base_prefix, sys.exec_prefix, interpreter, *installed)


def _holds_protected(path: str) -> str:
    if not os.path.isdir(path):
        return ""
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name.casefold() in _FOLDED:
                    return f"{path!r} cannot be written: it holds {entry.name}, which other programs run or believe"
                if not entry.is_dir(follow_symlinks=False):
                    continue
                if os.path.lexists(f"{entry.path}/.git") or is_repository(entry.path):
                    return f"{path!r} cannot be written: {entry.name!r} in it is a repository, whose hooks would be run"
    except OSError as error:
        return f"{path!r} cannot be written: it cannot be looked through ({error.strerror})"
    return ""


def _repository_of(path: str) -> str:
    """The folder on the way to `path`, or itself, that is a repository without being called one; empty when none is."""
    while not is_repository(path):
        above = os.path.dirname(path)
        if above == path:
            return ""
        path = above
    return path
