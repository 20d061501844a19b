"""The same folder under two names: a place that is mounted twice has two real paths, and neither leads to the other.

Two places are compared by what they are on their file system: which one it is, and the way from its root. So are the mounts
inside of a granted folder, because a run sees those too.
"""

import os
import re
from typing import Final, final

from msgspec import Struct

from metier.model.ground import Ground
from metier.model.job import Place
from metier.model.workspace import why_kept
from metier.sandbox.job_protected import below

_TABLE: Final = "/proc/self/mountinfo"
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


@final
class _Mount(Struct, frozen=True):
    device: str
    root: str
    """What of the file system is to be seen there, from its own root."""
    point: str


@final
class _Spot(Struct, frozen=True):
    """A folder or file, as its file system knows it."""

    device: str
    path: str

    def meets(self, other: "_Spot") -> bool:
        return self.device == other.device and (below(self.path, other.path) or below(other.path, self.path))


def holds_state(place: Place, ground: Ground) -> bool:
    """Whether Metier's own state is to be seen at `place`, by whatever way, or what of the workspace no skill gets; the rest of
    the workspace is the skills' own. Blocking."""
    if not ground.state:
        return False
    mounts = _mounts()
    state, own = _spot(os.path.realpath(ground.state), mounts), _spot(place.path, mounts)
    if state is None or own is None:
        return False
    usual = os.path.realpath(ground.workspace) if ground.workspace else ""
    workspace = _spot(usual, mounts) if usual else None
    kept = [state]
    if workspace is not None:  # whoever is given what holds it is given the code in it
        kept += [workspace, *_withheld(usual, mounts, writes=place.writable)]
    inner = (each for each in mounts if below(each.point, place.path) and not _left_out(each, place, usual))
    for spot in (own, *(_Spot(each.device, each.root) for each in inner)):
        if workspace is not None and workspace.device == spot.device and below(spot.path, workspace.path):
            inside = spot.path.removeprefix(workspace.path)
            # All of it, and at another path: what is left out of it elsewhere would be to be seen here.
            whole = not inside and place.path != usual
            if whole or why_kept(inside, writes=place.writable):
                return True
        elif any(spot.meets(each) for each in kept):
            return True
    return False


def _withheld(workspace: str, mounts: list[_Mount], *, writes: bool) -> list[_Spot]:
    """What in the workspace no skill gets and is, or holds, a mount of its own, and so lies elsewhere too."""
    points = {each.point for each in mounts if each.point != workspace and below(each.point, workspace)}
    kept = (point for point in points if why_kept(point.removeprefix(workspace), writes=writes))
    return [spot for point in kept if (spot := _spot(point, mounts)) is not None]


def _left_out(mount: _Mount, place: Place, workspace: str) -> bool:
    """Whether it is code of the workspace, which who reads all of that is not given."""
    return place.path == workspace != "" and bool(why_kept(mount.point.removeprefix(workspace), writes=False))


def _mounts() -> list[_Mount]:
    """Those of this process; none where there is no such table."""
    found: list[_Mount] = []
    try:
        with open(_TABLE, encoding="utf-8", errors="surrogateescape") as table:
            for line in table:
                parts = line.split(" ", 5)
                found.append(_Mount(parts[2], _plain(parts[3]), _plain(parts[4])))
    except (OSError, IndexError):
        return []
    return found


def _spot(path: str, mounts: list[_Mount]) -> _Spot | None:
    """Where `path` lies: of the mounts above it the nearest, and of several at one point the last."""
    best: _Mount | None = None
    for each in mounts:
        if below(path, each.point) and (best is None or len(each.point) >= len(best.point)):
            best = each
    if best is None:
        return None
    rest = path[len(best.point.rstrip("/")) :].strip("/")
    root = best.root.rstrip("/")
    return _Spot(best.device, f"{root}/{rest}" if rest else root or "/")


def _plain(text: str) -> str:
    """The kernel writes blanks and line ends in octal."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), text) if "\\" in text else text
