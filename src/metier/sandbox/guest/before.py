"""Before a run: its temporary folder as it finds it, with the folder `out` in it, what it was given, and its own PATH.

Standard library only: the package is not importable here.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OUT, NAMED = "out", ".programs"
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def renew(folder: str) -> None:
    """Have nothing but an empty `out` in an empty folder, both as if nobody ever used them."""
    out = os.path.join(folder, OUT)
    try:
        os.mkdir(out, 0o700)
    except FileExistsError:
        pass  # made together with the folder, before anybody was there
    os.utime(out, (0, 0))
    os.utime(folder, (0, 0))


def has_left(folder: str) -> bool:
    """Whether a run left anything in `out`. It may have put something else in its place: then it left nothing."""
    try:
        out = os.open(os.path.join(folder, OUT), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        with os.scandir(out) as entries:
            return next(entries, None) is not None
    finally:
        os.close(out)


def lay(folder: str, request: "dict[str, Any]") -> None:
    """Put there what the host gives along: texts by name, and a link for each program that is to be found by name."""
    files: dict[str, str] = request.get("files") or {}
    named: dict[str, str] | None = request.get("named")
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        descriptor = os.open(path, NEW, 0o600)
        with open(descriptor, "wb") as file:
            file.write(text.encode())
    if named is not None:
        programs = os.path.join(folder, NAMED)
        os.mkdir(programs, 0o700)
        for name, file in named.items():
            os.symlink(file, os.path.join(programs, name))
