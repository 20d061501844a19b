"""Walk a skill's folder by descriptors, so that nobody can swap a folder for a link while we look. A skill that shares its
folder with others is its manifest and the files that have the same name but for their ending.

A file link that stays inside the folder is read through; everything else that is not a plain file is refused.
"""

import os
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Final, final

from msgspec import Struct

from metier.errors import BundleError
from metier.model.diagnostic import Diagnostic
from metier.openfile import Signature, read_small, signature_of

MAX_FILES: Final = 5_000
MAX_FILE_BYTES: Final = 33_554_432
MAX_BYTES: Final = 268_435_456
MAX_DEPTH: Final = 32
PASSED_OVER: Final = frozenset({".git", ".hg", ".svn", "__pycache__"})
"""Left out of the digest and of the snapshot alike: they change without the skill changing."""
BESIDE: Final = (".json", ".py", ".ts", ".js", ".mjs", ".md")
"""How the files of a skill end that shares its folder with others."""
_FOLDER: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY
_WAY: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY
"""For folders on the way: with O_PATH it is enough that one may pass through them."""


@final
class Entry(Struct, frozen=True):
    """One file of the folder, while its parent is held open."""

    path: str
    """Relative, with forward slashes."""
    status: os.stat_result
    """Of the entry itself, not of what a link points to."""
    parent: int
    top: int

    @property
    def signature(self) -> Signature:
        return signature_of(self.status)

    def read(self, *, hard_links: bool) -> tuple[bytes, bool]:
        """The content, and whether the owner may execute it.

        Raises:
            BundleError: when it is a link that leaves the folder, or not a file one can read.
        """
        if stat.S_ISLNK(self.status.st_mode):
            found = self._through_link(hard_links=hard_links)
        else:
            name = self.path.rpartition("/")[2]
            found = read_small(name, most=MAX_FILE_BYTES, hard_links=hard_links, folder=self.parent)
        if isinstance(found, Diagnostic):
            raise BundleError(
                f"{self.path!r} cannot be taken: {found.message}", remedy="Mend or remove that file"
            )
        data, status = found
        return data, bool(status.st_mode & stat.S_IXUSR)

    def _through_link(self, *, hard_links: bool) -> tuple[bytes, os.stat_result] | Diagnostic:
        target = os.readlink(self.path.rpartition("/")[2], dir_fd=self.parent)
        path = os.path.normpath(os.path.join(os.path.dirname(self.path), target))
        if os.path.isabs(target) or path.startswith(".."):
            raise BundleError(
                f"{self.path!r} is a link that leaves the skill's folder", remedy="Replace it by a copy"
            )
        *folders, name = path.split("/")
        held = os.dup(self.top)
        try:
            for folder in folders:
                inner = os.open(folder, _FOLDER, dir_fd=held)
                os.close(held)
                held = inner
            return read_small(name, most=MAX_FILE_BYTES, hard_links=hard_links, folder=held)
        except OSError as error:
            raise BundleError(
                f"{self.path!r} points to something that cannot be read: {error.strerror}"
            ) from None
        finally:
            os.close(held)


@contextmanager
def entries(place: str) -> Generator[Iterator[Entry]]:
    """Every file of the skill at `place`, in order, each readable while it is the current one.

    Args:
        place: its folder; its manifest, where it shares the folder with others.

    Raises:
        BundleError: when the folder is a link, too deep, too full or unreadable.
    """
    alone = is_alone(place)
    top = _open(os.path.dirname(place) if alone else place)
    try:
        yield _beside(top, os.path.basename(place)) if alone else _walk(top, top, "", 0, [0])
    finally:
        os.close(top)


def is_alone(place: str) -> bool:
    """Whether a skill lies there as single files, and not as a folder."""
    return place.endswith(BESIDE) and os.path.isfile(place)


def stem_of(name: str) -> str:
    """What the files of one such skill have in common."""
    return os.path.splitext(name)[0]


def _beside(top: int, manifest: str) -> Iterator[Entry]:
    names = frozenset(stem_of(manifest) + ending for ending in BESIDE)
    for entry in _sorted(top, ""):
        if entry.name in names and not entry.is_dir(follow_symlinks=False):
            yield Entry(entry.name, entry.stat(follow_symlinks=False), top, top)


def _open(folder: str) -> int:
    """Open a folder without following a link anywhere on the way: a parent may have been swapped meanwhile."""
    held = os.open("/", _WAY)
    try:
        for part in os.path.abspath(folder).split("/")[1:-1]:
            inner = os.open(part, _WAY, dir_fd=held)
            os.close(held)
            held = inner
        return os.open(os.path.basename(os.path.abspath(folder)) or ".", _FOLDER, dir_fd=held)
    except OSError as error:
        raise BundleError(
            f"cannot open {folder}: {error.strerror}", remedy="It and all above it must be folders, not links"
        ) from None
    finally:
        os.close(held)


def _walk(top: int, parent: int, prefix: str, depth: int, count: list[int]) -> Iterator[Entry]:
    if depth > MAX_DEPTH:
        raise BundleError(
            f"{prefix!r} lies more than {MAX_DEPTH} folders deep", remedy="Flatten the skill's folder"
        )
    for entry in _sorted(parent, prefix):
        path = f"{prefix}{entry.name}"
        if entry.name in PASSED_OVER:
            continue
        if not entry.name.isascii() and any("\ud800" <= char <= "\udfff" for char in entry.name):
            raise BundleError(f"{path!r} is not a UTF-8 file name", remedy="Rename that file")
        try:
            if entry.is_dir(follow_symlinks=False):
                inner = os.open(entry.name, _FOLDER, dir_fd=parent)
                try:
                    yield from _walk(top, inner, f"{path}/", depth + 1, count)
                finally:
                    os.close(inner)
                continue
            status = entry.stat(follow_symlinks=False)
        except OSError as error:
            raise BundleError(
                f"cannot look at {path!r}: {error.strerror}", remedy="Make it readable"
            ) from None
        count[0] += 1
        if count[0] > MAX_FILES:
            raise BundleError(
                f"more than {MAX_FILES:,} files", remedy="Move data and dependencies out of the skill"
            )
        yield Entry(path, status, parent, top)


def _sorted(parent: int, prefix: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(parent) as listing:
            return sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        raise BundleError(f"cannot look into {prefix or 'the folder'!r}: {error.strerror}") from None
