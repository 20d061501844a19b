"""Files that a run leaves in its `out` folder, kept below the workspace's `out/<call id>/`.

The folder is a stranger's: it is gone through by descriptor, no link is followed, and only plain files with one name are
copied, within a number and a size. What is kept is what was read, under the digest of the very bytes that were written;
modes, owners and times of the run are not. A file that cannot be kept is told, never left out in silence.
"""

import hashlib
import os
import re
import stat
import unicodedata
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final, final

from msgspec.structs import replace

from metier.errors import StateError
from metier.model.job import Event, Job, Report
from metier.model.outcome import Artifact
from metier.model.text import one_line
from metier.openfile import makes_repository
from metier.record.private import make_private_folder
from metier.sandbox.job_protected import PROTECTED_NAMES
from metier.sandbox.policy import FILE_MB
from metier.sandbox.wall import OUT

MOST_FILES: Final = 256
MOST_BYTES: Final = FILE_MB << 20
"""As much as fits into the temporary folder of a run."""
MOST_NAMES: Final = 4_096
"""So many names are looked at, whatever they stand for."""
DEEPEST: Final = 8
_MOST_TOLD: Final = 16
_LONGEST: Final = 200
"""Bytes of one name."""
_PIECE: Final = 1 << 20
_CALL: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_TYPES: Final = {
    "": "application/octet-stream",
    **dict.fromkeys(("txt", "log"), "text/plain"),
    **dict.fromkeys(("md", "markdown"), "text/markdown"),
    **dict.fromkeys(("html", "htm"), "text/html"),
    **dict.fromkeys(("yaml", "yml"), "application/yaml"),
    **dict.fromkeys(("jpg", "jpeg"), "image/jpeg"),
    **{name: f"text/{name}" for name in ("csv", "css", "xml")},
    **{name: f"image/{name}" for name in ("png", "gif", "webp", "avif", "bmp")},
    **{name: f"application/{name}" for name in ("json", "pdf", "zip", "toml", "wasm", "gzip")},
    "tsv": "text/tab-separated-values",
    "ics": "text/calendar",
    "js": "text/javascript",
    "py": "text/x-python",
    "svg": "image/svg+xml",
    "gz": "application/gzip",
    "tar": "application/x-tar",
    "sqlite": "application/vnd.sqlite3",
    "mp3": "audio/mpeg",
    "wav": "audio/wav",
    "ogg": "audio/ogg",
    "mp4": "video/mp4",
    "webm": "video/webm",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}
"""By the ending of a name, the same on every machine: lists that the machine has are not asked."""
_BELIEVED: Final = frozenset(name.casefold() for name in PROTECTED_NAMES)


class _NotKeptError(Exception):
    """Why one file is not kept. For people."""


class _FullError(Exception):
    """Nothing more is kept, and why. For people."""


@final
class Artifacts:
    """What one run left. `take` is called at most once, when the run is over or has said its last word."""

    def __init__(self, job: Job) -> None:
        self._workspace = job.keep
        self._call = job.call_id
        self._room = MOST_BYTES
        self._names = 0
        self._refused: dict[str, int] = {}
        self._target = -1
        self.found: tuple[Artifact, ...] = ()

    @property
    def refused(self) -> tuple[Event, ...]:
        """What lay there and was not kept."""
        return tuple(
            Event(kind="artifact", detail=detail, count=count) for detail, count in self._refused.items()
        )

    def take(self, folder: int) -> None:
        """Keep what lies in the folder that the descriptor stands for; it stays the caller's. Blocking, never raises."""
        if not self._workspace:
            return
        try:
            self._walk(folder, (), 0)
        except _FullError as error:
            self._tell("", str(error))
        finally:
            if self._target >= 0:
                os.close(self._target)
                self._target = -1

    def told(self, report: Report) -> Report:
        """The report with what was kept, and with what was not."""
        if not self.found and not self._refused:
            return report
        return replace(report, artifacts=self.found, denials=(*report.denials, *self.refused))

    def _walk(self, folder: int, above: tuple[str, ...], depth: int) -> None:
        names = self._listed(folder, above)
        folded = {name.casefold() for name in names}
        repository = makes_repository(lambda name: name.casefold() in folded)
        for name in names:
            path = (*above, name)
            try:
                # Without this one the folder is none, and the rest of it is harmless.
                if repository and name.casefold() == "head":
                    raise _NotKeptError("git would take its folder for a repository and run what it says")
                self._one(folder, path, depth)
            except _NotKeptError as error:
                self._tell("/".join(path), str(error))
            except OSError as error:
                self._tell("/".join(path), error.strerror or "it cannot be read")

    def _listed(self, folder: int, above: tuple[str, ...]) -> list[str]:
        names: list[str] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._names += 1
                    if self._names > MOST_NAMES:
                        self._tell("/".join(above), f"only the first {MOST_NAMES:,} names are looked at")
                        break
                    names.append(entry.name)
        except OSError as error:
            self._tell("/".join(above), error.strerror or "it cannot be listed")
        return sorted(names)

    def _one(self, folder: int, path: tuple[str, ...], depth: int) -> None:
        name = path[-1]
        if why := unfit_name(name):
            raise _NotKeptError(why)
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            if depth >= DEEPEST:
                raise _NotKeptError(f"folders are kept {DEEPEST} deep")
            inner = os.open(name, _FOLDER, dir_fd=folder)
            try:
                self._walk(inner, path, depth + 1)
            finally:
                os.close(inner)
            return
        if not stat.S_ISREG(found.st_mode):
            raise _NotKeptError("it is a link or no file")
        if len(self.found) >= MOST_FILES:
            raise _FullError(f"only {MOST_FILES} files are kept; put them into one")
        source = os.open(name, _FILE, dir_fd=folder)
        try:
            self._copy(source, path)
        finally:
            os.close(source)

    def _copy(self, source: int, path: tuple[str, ...]) -> None:
        found = os.fstat(source)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise _NotKeptError("it is no plain file with one name")
        if found.st_size > self._room:
            raise _NotKeptError(f"all files of a call together have {MOST_BYTES >> 20} MB at most")
        with self._folder_for(path[:-1]) as target:
            try:
                written = os.open(path[-1], _NEW, 0o600, dir_fd=target)
            except OSError as error:
                raise _NotKeptError(f"it cannot be written: {error.strerror}") from None
            whole = False
            try:
                size, digest = self._pour(source, written)
                whole = True
            finally:
                os.close(written)
                if not whole:
                    with suppress(OSError):
                        os.unlink(path[-1], dir_fd=target)
        self._room -= size
        kept = Artifact(
            path="/".join((OUT, self._call, *path)), type=media_type(path[-1]), size=size, sha256=digest
        )
        self.found = (*self.found, kept)

    def _pour(self, source: int, target: int) -> tuple[int, str]:
        """Copy what there is, and no more than there is room for: it may grow while we read."""
        size, digest = 0, hashlib.sha256()
        while piece := os.read(source, _PIECE):
            size += len(piece)
            if size > self._room:
                raise _NotKeptError(f"all files of a call together have {MOST_BYTES >> 20} MB at most")
            digest.update(piece)
            rest = memoryview(piece)
            try:
                while rest:
                    rest = rest[os.write(target, rest) :]
            except OSError as error:
                raise _FullError(f"no more can be written to the workspace: {error.strerror}") from None
        return size, digest.hexdigest()

    @contextmanager
    def _folder_for(self, inner: tuple[str, ...]) -> Generator[int]:
        """The folder that a file is kept in, made when it is first needed."""
        if self._target < 0:
            self._target = self._made()
        folder = os.dup(self._target)
        try:
            for name in inner:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=folder)
                deeper = os.open(name, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = deeper
            yield folder
        finally:
            os.close(folder)

    def _made(self) -> int:
        """This call's own folder, which is not there before. No link on the way to it is followed."""
        if not _CALL.fullmatch(self._call):
            raise _FullError("nothing is kept: the call's id can be no name of a folder")
        try:
            make_private_folder(self._workspace)
            top = os.open(self._workspace, _FOLDER)
        except (StateError, OSError) as error:
            raise _FullError(f"nothing is kept: the workspace cannot be used: {error}") from None
        out = -1
        try:
            with suppress(FileExistsError):
                os.mkdir(OUT, 0o700, dir_fd=top)
            out = os.open(OUT, _FOLDER, dir_fd=top)
            os.mkdir(self._call, 0o700, dir_fd=out)
            made = os.open(self._call, _FOLDER, dir_fd=out)
        except OSError as error:
            why = f"nothing is kept: {OUT}/{self._call} cannot be made in the workspace: {error.strerror}"
            raise _FullError(why) from None
        finally:
            os.close(top)
            if out >= 0:
                os.close(out)
        return made

    def _tell(self, path: str, why: str) -> None:
        detail = one_line(f"{path}: {why}" if path else why, 300)
        if detail in self._refused or len(self._refused) < _MOST_TOLD:
            self._refused[detail] = self._refused.get(detail, 0) + 1
        else:
            more = "further files were not kept either"
            self._refused[more] = self._refused.get(more, 0) + 1


def is_empty(folder: int) -> bool:
    """Whether nothing lies in a folder: most runs leave nothing, and then nobody need be bothered."""
    with os.scandir(folder) as entries:
        return next(entries, None) is None


def unfit_name(name: str) -> str:
    """Why a file is not kept under this name; empty when it may be."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "its name is no text"
    if size > _LONGEST:
        return f"its name has more than {_LONGEST} bytes"
    odd = any(unicodedata.category(each)[0] == "C" or each in "\\:" for each in name)
    if odd or name != name.strip() or unicodedata.normalize("NFC", name) != name:
        return "its name has signs that do not belong into one"
    if name.startswith((".", "-")):
        return "its name begins with a dot or a dash"
    return "other programs run or believe files of that name" if name.casefold() in _BELIEVED else ""


def media_type(name: str) -> str:
    """By the ending of the name; nobody looks at what stands in it."""
    return _TYPES.get(name.rpartition(".")[2].casefold() if "." in name else "", _TYPES[""])
