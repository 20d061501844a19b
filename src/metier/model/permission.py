"""What a skill may touch, as a lattice: `covers` orders it, `|` joins, `&` meets, `diff` explains.

Paths are normal POSIX paths, absolute or below a token that stands for a place known only at run time:
`{baseDir}` is the skill's own folder, `{workspace}` the operator's workspace. A granted folder covers
everything below it. Everything else is compared by exact name: no globs, no prefixes.
"""

from collections.abc import Iterable
from typing import Final, final

from msgspec import Struct
from msgspec.structs import asdict

BASE_DIR: Final = "{baseDir}"
WORKSPACE: Final = "{workspace}"
EVERYTHING: Final = frozenset({"*", "**"})


def _check_path(path: str) -> None:
    head, _, rest = path.partition("/")
    parts = rest.split("/") if rest else []
    if head not in ("", BASE_DIR, WORKSPACE) or (not head and not rest and path != "/"):
        raise ValueError(f"permission path {path!r} must be absolute or start with {BASE_DIR} or {WORKSPACE}")
    if any(part in ("", ".", "..") for part in parts) or "\0" in path:
        raise ValueError(f"permission path {path!r} is not in normal form")


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder if folder == "/" else folder + "/")


def _least(paths: Iterable[str]) -> frozenset[str]:
    """The same places, without those that lie below another of them: equal sets are then equal values."""
    unique = frozenset(paths)
    return frozenset(p for p in unique if not any(q != p and _below(p, q) for q in unique))


@final
class PermissionSet(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Everything a skill may touch. Empty means nothing."""

    binaries: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    env: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()
    operations: frozenset[str] = frozenset()
    channels: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for path in self.reads | self.writes:
            _check_path(path)
        for name in self.binaries | self.hosts | self.env | self.secrets | self.operations | self.channels:
            if not name or name in EVERYTHING:
                raise ValueError(f"{name!r} is not a permission: each thing is named, none means all")

    def covers(self, other: "PermissionSet") -> bool:
        """Whether everything in `other` is allowed here."""
        return not other.beyond(self)

    def beyond(self, other: "PermissionSet") -> "PermissionSet":
        """The part of this set that `other` does not cover."""
        return PermissionSet(
            reads=frozenset(p for p in self.reads if not any(_below(p, q) for q in other.reads)),
            writes=frozenset(p for p in self.writes if not any(_below(p, q) for q in other.writes)),
            **{name: getattr(self, name) - getattr(other, name) for name in _NAMED},
        )

    def diff(self, newer: "PermissionSet") -> "PermissionDiff":
        """What changes for the operator when this set is replaced by `newer`."""
        return PermissionDiff(added=newer.beyond(self), removed=self.beyond(newer))

    def __or__(self, other: "PermissionSet") -> "PermissionSet":
        return PermissionSet(
            reads=_least(self.reads | other.reads),
            writes=_least(self.writes | other.writes),
            **{name: getattr(self, name) | getattr(other, name) for name in _NAMED},
        )

    def __and__(self, other: "PermissionSet") -> "PermissionSet":
        return PermissionSet(
            reads=_meet(self.reads, other.reads),
            writes=_meet(self.writes, other.writes),
            **{name: getattr(self, name) & getattr(other, name) for name in _NAMED},
        )

    def __bool__(self) -> bool:
        return any(asdict(self).values())

    def plain(self) -> dict[str, list[str]]:
        """JSON-ready and sorted, without the empty parts: what is digested, stored and shown."""
        return {name: sorted(names) for name, names in asdict(self).items() if names}


OWN_FOLDER: Final = PermissionSet(reads=frozenset({BASE_DIR}))
"""What every skill may do: read what it brought along. One value for the many that declare nothing else."""

_NAMED: Final = ("binaries", "hosts", "env", "secrets", "operations", "channels")


def _meet(left: frozenset[str], right: frozenset[str]) -> frozenset[str]:
    return _least(
        [p for p in left if any(_below(p, q) for q in right)]
        + [q for q in right if any(_below(q, p) for p in left)]
    )


@final
class PermissionDiff(Struct, frozen=True, kw_only=True):
    """Two versions of a permission set, side by side."""

    added: PermissionSet
    removed: PermissionSet

    def __bool__(self) -> bool:
        return bool(self.added) or bool(self.removed)
