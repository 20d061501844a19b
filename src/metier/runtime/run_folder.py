"""A folder for one run of a program, that is gone afterwards even when the program was killed.

Whoever uses such a folder holds a lock on it, and a program that is gone holds none: what it left is removed when the
next one asks for a folder.
"""

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final

from metier.record.private import make_private_folder

_PREFIX: Final = "run-"


@contextmanager
def run_folder(parent: str) -> Generator[str]:
    """An empty folder below `parent`, for the caller alone. Blocking.

    Raises:
        StateError: when `parent` cannot be made or is not ours alone.
        OSError: when nothing can be written there.
    """
    make_private_folder(parent)
    parent = os.path.realpath(parent)
    _sweep(parent)
    folder, held = _made(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if held is not None:
            os.close(held)


def _made(parent: str) -> tuple[str, int | None]:
    while True:
        folder = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
        held = _hold(folder)
        # Another program may have taken it for abandoned before we held it.
        if os.name != "posix" or (held is not None and os.path.isdir(folder)):
            return folder, held
        if held is not None:
            os.close(held)


def _sweep(parent: str) -> None:
    for name in os.listdir(parent):
        folder = os.path.join(parent, name)
        if name.startswith(_PREFIX) and (held := _hold(folder)) is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(held)


def _hold(folder: str) -> int | None:
    """A descriptor that holds the lock on a folder; None where somebody else holds it, or there are no such locks."""
    if os.name != "posix":
        return None
    from fcntl import LOCK_EX, LOCK_NB, flock

    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            flock(descriptor, LOCK_EX | LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor
    return None
