"""The folders and files of a run: each granted path as the real place it is, and never a protected one.

A path that leads elsewhere by a link is refused with the place it leads to: what was granted is what was read, not
what somebody made of it since. Device and inode are kept, so that a sandbox can tell when another thing lies there.

Never writable: Metier's own state but for the workspace, the skill itself, the system's folders, the operator's home as a
whole, and every folder that lies in, or directly holds, one of the names below, because what is written there is run or
believed by other programs. A folder that holds a repository counts too. What lies deeper is not searched for.
Never readable: Metier's own state but for the workspace, and what is not a file or folder on a disk.
"""

import os
import stat
from collections.abc import Iterable
from typing import Final, Literal, final

from msgspec import Struct

from metier.model.job import Place
from metier.model.permission import BASE_DIR, WORKSPACE, PermissionSet
from metier.record.private import make_private_folder

PROTECTED_NAMES: Final = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        ".gitconfig",
        ".gitmodules",
        ".ssh",
        ".gnupg",
        ".aws",
        ".kube",
        ".docker",
        ".netrc",
    }
    | {
        ".bashrc",
        ".bash_profile",
        ".bash_login",
        ".bash_logout",
        ".profile",
        ".zshrc",
        ".zshenv",
        ".zprofile",
    }
    | {
        ".zlogin",
        ".zlogout",
        ".envrc",
        ".npmrc",
        ".pypirc",
        ".mcp.json",
        ".claude",
        ".codex",
        ".cursor",
        ".gemini",
    }
    | {
        ".agents",
        ".skills",
        ".openclaw",
        ".omniagent",
        ".vscode",
        ".idea",
        ".config",
        ".pre-commit-config.yaml",
    }
    | {"SKILL.md", "SKILL_MANIFEST.json", "metier.toml"}
)
_SYSTEM: Final = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr"),
    *("/var/lib", "/var/spool"),
)
_NOT_A_DISK: Final = ("/dev", "/proc", "/sys")
_MOST_FOLDERS: Final = 2_000


@final
class Ground(Struct, frozen=True, kw_only=True):
    """Where this machine keeps what matters here."""

    state: str = ""
    """Metier's own folder."""
    workspace: str = ""
    """Made when something is granted in it."""
    home: str = ""
    """Of the operator."""


@final
class NoPlace(Struct, frozen=True, kw_only=True):
    """A grant that cannot be given."""

    code: Literal["forbidden", "not_runnable"]
    reason: str
    remedy: str


def places(
    granted: PermissionSet, ground: Ground, *, bundle: str, own: str = ""
) -> tuple[Place, ...] | NoPlace:
    """The places that `granted` stands for. Blocking: it looks at the disk.

    Args:
        bundle: real folder of the skill's snapshot, which `{baseDir}` stands for; empty when there is none.
        own: the folder the snapshot was taken from.

    Raises:
        StateError: when the workspace is granted and cannot be made.
    """
    found: dict[str, Place] = {}
    for path in (*sorted(granted.writes), *sorted(granted.reads)):
        writable = path in granted.writes
        where = _where(path, ground, bundle)
        if where is None:
            return _not_runnable(
                f"{path!r} stands for the skill's own folder, and this call has no skill", ""
            )
        if not writable and bundle and _below(where, bundle):
            continue  # there anyway, read-only
        place = _place(where, writable=writable)
        if isinstance(place, NoPlace):
            return place
        problem = _protected(place, ground, (bundle, own)) if writable else _unreadable(place, ground)
        if problem:
            return NoPlace(
                code="forbidden", reason=problem, remedy="Grant a smaller folder, or one made for it"
            )
        if not any(other.writable and _below(place.path, other.path) for other in found.values()):
            found.setdefault(place.path, place)
    return tuple(sorted(found.values()))


def inside(path: str | None, granted: Iterable[Place]) -> str:
    """`path` where it is a folder in one of the places; else nothing."""
    if not path:
        return ""
    real = os.path.realpath(path)
    return real if os.path.isdir(real) and any(_below(real, place.path) for place in granted) else ""


def _where(path: str, ground: Ground, bundle: str) -> str | None:
    head, _, rest = path.partition("/")
    if head == BASE_DIR:
        return os.path.join(bundle, rest).rstrip("/") if bundle else None
    if head == WORKSPACE:
        make_private_folder(ground.workspace)
        return os.path.join(ground.workspace, rest).rstrip("/")
    return path


def _place(path: str, *, writable: bool) -> Place | NoPlace:
    try:
        real = os.path.realpath(path, strict=True)
        status = os.lstat(real)
    except OSError as error:
        why = "is not there" if isinstance(error, FileNotFoundError) else f"cannot be used: {error.strerror}"
        return _not_runnable(f"{path!r} was granted and {why}", "Make it, or take the grant back")
    if real != os.path.normpath(path):
        return _not_runnable(
            f"{path!r} was granted, but a link leads from there to {real!r}",
            "Grant the real place, if it is meant",
        )
    if not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
        return _not_runnable(f"{path!r} is neither a file nor a folder", "Grant a file or a folder")
    return Place(path=real, writable=writable, device=status.st_dev, inode=status.st_ino)


def _unreadable(place: Place, ground: Ground) -> str:
    path = place.path
    for system in _NOT_A_DISK:
        if _overlap(path, system):
            return f"{path!r} cannot be granted: {system} shows the machine and its other programs"
    if _touches_state(path, ground):
        return f"{path!r} cannot be granted: Metier's own state in {ground.state!r} is not for runs"
    return ""


def _protected(place: Place, ground: Ground, skill: tuple[str, str]) -> str:
    """Why this place is never writable; empty when it may be."""
    path = place.path
    if _touches_state(path, ground):
        return f"{path!r} cannot be written: Metier's own state in {ground.state!r} is protected"
    if any(own and _overlap(path, os.path.realpath(own)) for own in skill):
        return f"{path!r} cannot be written: a skill never changes its own folder"
    for system in _SYSTEM:
        if _overlap(path, system):
            return f"{path!r} cannot be written: {system} belongs to the system"
    if ground.home and _below(os.path.realpath(ground.home), path):
        return f"{path!r} cannot be written: it holds your home with all its settings"
    # Below the state folder only the workspace is left here, whose own way there does not count.
    above = path.removeprefix(os.path.realpath(ground.workspace)) if ground.workspace else path
    if named := next((part for part in above.split("/") if part in PROTECTED_NAMES), ""):
        return f"{path!r} cannot be written: {named} is run or believed by other programs"
    return _holds_protected(path)


def _holds_protected(path: str) -> str:
    if not os.path.isdir(path):
        return ""
    for name in PROTECTED_NAMES:
        if os.path.lexists(os.path.join(path, name)):
            return f"{path!r} cannot be written: it holds {name}, which other programs run or believe"
    folders = 0
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    continue
                folders += 1
                if folders > _MOST_FOLDERS:
                    return f"{path!r} cannot be written: it holds too many folders to be looked through"
                if os.path.lexists(os.path.join(entry.path, ".git")):
                    return f"{path!r} cannot be written: {entry.name!r} in it is a repository, whose hooks would be run"
    except OSError as error:
        return f"{path!r} cannot be written: it cannot be looked through ({error.strerror})"
    return ""


def _touches_state(path: str, ground: Ground) -> bool:
    if not ground.state:
        return False
    if ground.workspace and _below(path, os.path.realpath(ground.workspace)):
        return False
    return _overlap(path, os.path.realpath(ground.state))


def _overlap(one: str, other: str) -> bool:
    return _below(one, other) or _below(other, one)


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _not_runnable(reason: str, remedy: str) -> NoPlace:
    return NoPlace(code="not_runnable", reason=reason, remedy=remedy)
