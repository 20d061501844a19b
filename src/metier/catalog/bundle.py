"""A skill's folder as one content-addressed, link-free snapshot of read-only files.

The digest of a bundle is the digest of its index: every file with its path, size, SHA-256 and whether it may be
executed. The index is stored beside the files under that digest, so a snapshot proves itself whenever it is read.
Sandboxes and `read_skill` see only snapshots; a call keeps the version it began with, whatever happens to the folder.
"""

import errno
import hashlib
import os
import shutil
import tempfile
from typing import Final, final

import msgspec
from msgspec import Struct

from metier.catalog.folder import MAX_BYTES, MAX_FILE_BYTES, MAX_FILES, entries
from metier.errors import BundleError, StateError
from metier.model.diagnostic import Diagnostic
from metier.model.digest import canonical, digest_bytes
from metier.openfile import Signature, is_young, read_small
from metier.record.private import make_private_folder

_INDEX: Final = "index.json"
_FILES: Final = "files"


@final
class File(Struct, frozen=True, kw_only=True):
    """One file of a bundle."""

    path: str
    """Relative to the skill's folder, with forward slashes."""
    size: int
    sha256: str
    executable: bool = False


@final
class Measured(Struct, frozen=True, kw_only=True):
    """A folder as it is now."""

    digest: str
    files: tuple[File, ...]
    signature: str
    """Of every file's size, inode and times, so that an unchanged folder need not be read again; empty while a
    file is so young that it could change without showing."""


@final
class Snapshot(Struct, frozen=True, kw_only=True):
    """A stored bundle. Every read is checked against the index, and the index against the digest."""

    digest: str
    folder: str
    files: tuple[File, ...]

    def read(self, path: str) -> bytes | None:
        """The bytes of one file; None when the bundle has no such file.

        Raises:
            BundleError: when the stored file is not what the index says.
        """
        file = next((file for file in self.files if file.path == path), None)
        if file is None:
            return None
        found = read_small(os.path.join(self.folder, *path.split("/")), most=MAX_FILE_BYTES)
        if isinstance(found, Diagnostic) or hashlib.sha256(found[0]).hexdigest() != file.sha256:
            raise BundleError(
                f"the stored copy of {path!r} does not match its digest",
                remedy=f"Somebody changed {self.folder}. Remove that folder; it is made anew from the skill",
            )
        return found[0]


def measure(folder: str, *, now_ns: int, hard_links: bool = False) -> Measured:
    """Digest a skill's folder without storing anything.

    Raises:
        BundleError: when the folder holds something that cannot become a snapshot.
    """
    return _build(folder, now_ns=now_ns, hard_links=hard_links, into=None)


def tree_signature(folder: str, *, now_ns: int) -> str:
    """Cheap fingerprint of a folder by its files' metadata; empty when it cannot vouch for the content.

    Raises:
        BundleError: as `measure`.
    """
    parts: list[tuple[str, Signature]] = []
    with entries(folder) as found:
        for entry in found:
            if is_young(entry.signature, now_ns):
                return ""
            parts.append((entry.path, entry.signature))
    return _fingerprint(parts)


@final
class BundleStore:
    """Snapshots by digest, in one folder that belongs to the operator alone."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def take(self, folder: str, *, now_ns: int, hard_links: bool = False) -> Measured:
        """Store the folder as it is now; a bundle that is there already is kept.

        Raises:
            BundleError: as `measure`, or when the store cannot be written.
        """
        try:
            make_private_folder(os.path.dirname(self._folder))
            make_private_folder(self._folder)
            making = tempfile.mkdtemp(prefix=".making-", dir=self._folder)
        except StateError as error:
            raise BundleError(error.message, remedy=error.remedy) from None
        except OSError as error:
            raise _cannot_write(self._folder, error) from None
        try:
            made = _build(folder, now_ns=now_ns, hard_links=hard_links, into=os.path.join(making, _FILES))
            os.makedirs(os.path.join(making, _FILES), exist_ok=True)
            _store(os.path.join(making, _INDEX), _index(made.files), executable=False)
            self._keep(making, self._place(made.digest))
        except OSError as error:
            raise _cannot_write(self._folder, error) from None
        finally:
            _discard(making)
        return made

    def open(self, digest: str) -> Snapshot | None:
        """The snapshot with this digest; None when there is none.

        Raises:
            BundleError: when what is stored under this digest is something else.
        """
        place = self._place(digest)
        found = read_small(os.path.join(place, _INDEX), most=4 * MAX_FILES * 1024)
        if isinstance(found, Diagnostic):
            return None
        if digest_bytes(found[0]) != digest:
            raise BundleError(
                f"the snapshot in {place} was changed",
                remedy="Remove that folder and find out who can write there; it is made anew from the skill",
            )
        return Snapshot(
            digest=digest,
            folder=os.path.join(place, _FILES),
            files=tuple(msgspec.json.decode(found[0], type=list[File])),
        )

    def _place(self, digest: str) -> str:
        return os.path.join(self._folder, digest.removeprefix("sha256:"))

    def _keep(self, making: str, place: str) -> None:
        try:
            os.rename(making, place)
        except OSError:
            if self._is_whole(place):
                return  # the same bundle is there already
            _discard(place)  # what a crash or a half-done removal left of it
            os.rename(making, place)

    def _is_whole(self, place: str) -> bool:
        try:
            found = self.open(f"sha256:{os.path.basename(place)}")
            return found is not None and all(found.read(file.path) is not None for file in found.files)
        except BundleError:
            return False


def _build(folder: str, *, now_ns: int, hard_links: bool, into: str | None) -> Measured:
    files: list[File] = []
    signatures: list[tuple[str, Signature]] = []
    total = 0
    with entries(folder) as found:
        for entry in found:
            data, executable = entry.read(hard_links=hard_links)
            total += len(data)
            if total > MAX_BYTES:
                raise BundleError(
                    f"{folder} holds more than {MAX_BYTES:,} bytes", remedy="Move data out of the skill"
                )
            sha256 = hashlib.sha256(data).hexdigest()
            files.append(File(path=entry.path, size=len(data), sha256=sha256, executable=executable))
            signatures.append((entry.path, entry.signature))
            if into is not None:
                _store(os.path.join(into, *entry.path.split("/")), data, executable=executable)
    young = any(is_young(signature, now_ns) for _, signature in signatures)
    made = tuple(files)
    return Measured(
        digest=digest_bytes(_index(made)), files=made, signature="" if young else _fingerprint(signatures)
    )


def _index(files: tuple[File, ...]) -> bytes:
    return canonical(msgspec.to_builtins(sorted(files, key=lambda file: file.path)))


def _fingerprint(parts: list[tuple[str, Signature]]) -> str:
    return hashlib.sha256(msgspec.json.encode(sorted(parts))).hexdigest()


# Files are read-only and folders are not, as in a Git object store: their owner must be able to remove them.
def _store(place: str, data: bytes, *, executable: bool) -> None:
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with open(place, "xb") as file:
        file.write(data)
    os.chmod(place, 0o500 if executable else 0o400)


def _cannot_write(folder: str, error: OSError) -> BundleError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    remedy = "Free some space" if full else "Check that it is a folder of your own that you may write to"
    return BundleError(f"cannot store a snapshot in {folder}: {error.strerror}", remedy=remedy)


def _discard(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
