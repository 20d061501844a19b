"""The files of the memory folder, found without following a link, and read by the descriptor of the folder they lie in."""

import os
import stat
from collections.abc import Generator
from typing import Final, final

from msgspec import Struct

from metier.memory.memory import ENDINGS
from metier.model.diagnostic import Diagnostic
from metier.openfile import Signature, signature_of, spelled

MOST_FILES: Final = 200_000
_DEEPEST: Final = 16


@final
class Found(Struct, frozen=True):
    """A file there, with the descriptor of its folder, which is open until the next one is asked for."""

    path: str
    name: str
    folder: int
    signature: Signature


@final
class Passed(Struct, frozen=True):
    """A place that was not looked at, and why."""

    path: str
    why: Diagnostic


def walk(folder: str) -> Generator[Found | Passed, None, None]:
    """Every JSON and Markdown file below `folder`, in order. What begins with a dot is not looked at.

    A folder that is not there has no files.
    """
    try:
        status = os.lstat(folder)
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            yield _passed("", "unreadable", f"the memory folder cannot be looked at: {error.strerror}")
        return
    if not stat.S_ISDIR(status.st_mode):
        yield _passed(
            "", "not_a_folder", "the memory folder is a link or a file; put the folder itself there"
        )
        return
    count = 0
    unopened: list[OSError] = []
    for at, folders, names, descriptor in os.fwalk(folder, onerror=unopened.append):
        place = os.path.relpath(at, folder)
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        if place != "." and place.count(os.sep) >= _DEEPEST - 1 and folders:
            folders.clear()
            yield _passed(place, "too_deep", f"folders more than {_DEEPEST} deep are not looked at")
        for name in sorted(names):
            if name.startswith(".") or not name.lower().endswith(ENDINGS):
                continue
            path = name if place == "." else os.path.join(place, name)
            if count >= MOST_FILES:
                yield _passed(
                    path, "too_many", f"there are more than {MOST_FILES:,} memories; the rest is left out"
                )
                return
            found = _found(path, name, descriptor)
            if found is not None:
                count += 1
                yield found
    for error in unopened:
        if not isinstance(error, FileNotFoundError):
            name = os.path.basename(os.fsdecode(error.filename or ""))
            yield _passed(name, "unreadable", f"the folder cannot be opened: {error.strerror}")


def _found(path: str, name: str, folder: int) -> Found | Passed | None:
    if spelled(path) != path:
        return _passed(path, "not_utf8", "its name is not UTF-8; rename it")
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None  # it went away while we looked
    if stat.S_ISLNK(status.st_mode):
        return _passed(path, "link", "it is a symbolic link; put the file itself there")
    return Found(path, name, folder, signature_of(status))


def _passed(path: str, code: str, message: str) -> Passed:
    return Passed(spelled(path), Diagnostic(code=code, severity="error", message=message))
