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
    """Whether Metier's own state is to be seen at `place`, by whatever way; the workspace in it is the skills' own. Blocking."""
    if not ground.state:
        return False
    mounts = _mounts()
    state, own = _spot(os.path.realpath(ground.state), mounts), _spot(place.path, mounts)
    if state is None or own is None:
        return False
    workspace = _spot(os.path.realpath(ground.workspace), mounts) if ground.workspace else None
    for spot in (own, *(_Spot(each.device, each.root) for each in mounts if below(each.point, place.path))):
        if spot.meets(state) and not (
            workspace is not None and workspace.device == spot.device and below(spot.path, workspace.path)
        ):
            return True
    return False


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
