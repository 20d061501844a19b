"""The folders and files of a run: each granted path as the real place it is, and never a protected one.

A path that leads elsewhere by a link is refused with the place it leads to: what was granted is what was read, not
what somebody made of it since. Device and inode are kept, so that a sandbox can tell when another thing lies there.
What is never writable stands in `job_protected`. Never readable: Metier's own state but for the workspace, and what is
not a file or folder on a disk.
"""

import os
import stat
from collections.abc import Iterable
from typing import Final, Literal, final

from msgspec import Struct

from metier.model.job import Place
from metier.model.permission import BASE_DIR, WORKSPACE, PermissionSet
from metier.record.private import make_private_folder
from metier.sandbox.job_mounts import holds_state
from metier.sandbox.job_protected import (
    Ground,
    below,
    overlap,
    touches_state,
    why_protected,
    why_second_name,
)

_NOT_A_DISK: Final = ("/dev", "/proc", "/sys")


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
        if not writable and bundle and below(where, bundle):
            continue  # there anyway, read-only
        place = _place(where, writable=writable)
        if isinstance(place, NoPlace):
            return place
        problem = why_protected(place.path, ground, (bundle, own)) if writable else _unreadable(place, ground)
        if not problem and holds_state(place, ground):
            problem = f"{place.path!r} cannot be granted: Metier's own state lies there too, by another mount"
        if problem:
            return NoPlace(
                code="forbidden", reason=problem, remedy="Grant a smaller folder, or one made for it"
            )
        if not any(other.writable and below(place.path, other.path) for other in found.values()):
            found.setdefault(place.path, place)
    if found and (problem := why_second_name(ground)):
        return NoPlace(code="forbidden", reason=problem, remedy="Remove that second name")
    return tuple(sorted(found.values()))


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
        if overlap(path, system):
            return f"{path!r} cannot be granted: {system} shows the machine and its other programs"
    if touches_state(path, ground):
        return f"{path!r} cannot be granted: Metier's own state in {ground.state!r} is not for runs"
    return ""


def _not_runnable(reason: str, remedy: str) -> NoPlace:
    return NoPlace(code="not_runnable", reason=reason, remedy=remedy)
