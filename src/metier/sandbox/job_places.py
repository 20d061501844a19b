"""The folders and files of a run: each granted path as the real place it is, and never a protected one.

A path that leads elsewhere by a link is refused with the place it leads to: what was granted is what was read, not
what somebody made of it since. Device and inode are kept, so that a sandbox can tell when another thing lies there.
What is never writable stands in `job_protected`. Never readable: Metier's own state but for the workspace, the code in the
workspace, and what is not a file or folder on a disk. Who may read the workspace as a whole is given all in it but the code.
"""

import os
import stat
from collections.abc import Collection, Iterable
from typing import Final, Literal, final

from msgspec import Struct

from metier.model.digest import Json
from metier.model.job import Place
from metier.model.permission import BASE_DIR, WORKSPACE, PermissionSet
from metier.model.workspace import CODE
from metier.record.private import make_private_folder
from metier.sandbox.job_mounts import holds_state
from metier.sandbox.job_protected import (
    Ground,
    below,
    overlap,
    touches_state,
    why_protected,
    why_second_name,
    why_withheld,
)

_NOT_A_DISK: Final = ("/dev", "/proc", "/sys")
WORKSPACE_FOLDERS: Final = ("memory", "persona", "logs", "out", "etc", "docs", "brain")
"""What every workspace has."""


@final
class NoPlace(Struct, frozen=True, kw_only=True):
    """A grant that cannot be given."""

    code: Literal["forbidden", "not_runnable"]
    reason: str
    remedy: str


def places(
    granted: PermissionSet, ground: Ground, *, bundle: str, own: str = "", written: Collection[str] = ()
) -> tuple[Place, ...] | NoPlace:
    """The places that `granted` stands for. Blocking: it looks at the disk.

    Args:
        bundle: real folder of the skill's snapshot, which `{baseDir}` stands for; empty when there is none.
        own: the folder the snapshot was taken from.
        written: the real paths of all that code of Metier's own will write, which are then judged instead of the folders they
            lie in. Nobody else's code is believed to keep to them.

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
        if not writable and bundle and below(where, bundle):
            continue  # there anyway, read-only
        place = _place(where, writable=writable)
        if isinstance(place, NoPlace):
            return place
        judged = [each for each in written if below(each, place.path)] or [place.path]
        problems = (why_protected(each, ground, (bundle, own)) for each in judged)
        problem = next(filter(None, problems), "") if writable else _unreadable(place, ground)
        if not problem and holds_state(place, ground):
            problem = f"{place.path!r} cannot be granted: what no run gets lies there too, by another mount"
        if problem:
            return NoPlace(
                code="forbidden", reason=problem, remedy="Grant a smaller folder, or one made for it"
            )
        for each in _all_but_code(place, ground):
            if not any(other.writable and below(each.path, other.path) for other in found.values()):
                found.setdefault(each.path, each)
    if found and (problem := why_second_name(ground)):
        return NoPlace(code="forbidden", reason=problem, remedy="Remove that second name")
    return tuple(sorted(found.values()))


def started_in(cwd: str, granted: Iterable[Place], ground: Ground, *, bundle: str) -> str | NoPlace:
    """The folder a command's own entry names, where it is a folder of the run."""
    where = _where(cwd, ground, bundle)
    found = inside(where, granted) if where else ""
    if not found and where and bundle and below(os.path.realpath(where), bundle) and os.path.isdir(where):
        found = os.path.realpath(where)
    if found:
        return found
    return _not_runnable(
        f"it starts in {cwd!r}, which is no folder among those it may use",
        "Make that folder, or mend the skill",
    )


def make_workspace(path: str) -> None:
    """Have the workspace with its folders, each for this user alone. What is there already is left as it is.

    Raises:
        StateError: when it cannot be made, or is not this user's alone.
    """
    make_private_folder(path)
    for name in WORKSPACE_FOLDERS:
        folder = os.path.join(path, name)
        if not os.path.lexists(folder):
            make_private_folder(folder)


def told_workspace(granted: PermissionSet, ground: Ground) -> dict[str, Json]:
    """Where the workspace lies, inside as outside, for code that was granted something in it."""
    if not any(path.partition("/")[0] == WORKSPACE for path in granted.reads | granted.writes):
        return {}
    return {"workspace": os.path.realpath(ground.workspace)}


def inside(path: str | None, granted: Iterable[Place]) -> str:
    """`path` where it is a folder in one of the places; else nothing."""
    if not path:
        return ""
    real = os.path.realpath(path)
    return real if os.path.isdir(real) and any(below(real, place.path) for place in granted) else ""


def _where(path: str, ground: Ground, bundle: str) -> str | None:
    head, _, rest = path.partition("/")
    if head == BASE_DIR:
        return os.path.join(bundle, rest).rstrip("/") if bundle else None
    if head == WORKSPACE:
        make_workspace(ground.workspace)
        return os.path.join(os.path.realpath(ground.workspace), rest).rstrip("/")
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
        if overlap(path, system):
            return f"{path!r} cannot be granted: {system} shows the machine and its other programs"
    if touches_state(path, ground):
        return f"{path!r} cannot be granted: Metier's own state in {ground.state!r} is not for runs"
    why = why_withheld(path, ground, writes=False)
    return f"{path!r} cannot be granted: {why}" if why else ""


def _all_but_code(place: Place, ground: Ground) -> list[Place]:
    """The place, or what lies in it where it is the workspace as a whole."""
    if not ground.workspace or place.path != os.path.realpath(ground.workspace):
        return [place]
    found: list[Place] = []
    with os.scandir(place.path) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            plain = entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)
            if plain and entry.name.casefold() not in CODE:
                status = entry.stat(follow_symlinks=False)
                found.append(Place(path=entry.path, device=status.st_dev, inode=status.st_ino))
    return found


def _not_runnable(reason: str, remedy: str) -> NoPlace:
    return NoPlace(code="not_runnable", reason=reason, remedy=remedy)
