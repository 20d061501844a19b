"""Replacing a client's configuration file: all of it or nothing, one of us at a time, and never what nobody has looked at.

The lock is on the folder, so nothing is left lying about. The client itself knows nothing of it: the file is looked at once more
directly before it is replaced, and what it was is kept beside it.
"""

import fcntl
import os
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, final

from msgspec import Struct

from metier.doors.cli.mcp_found import MOST_BYTES
from metier.errors import ConfigError, StateError
from metier.model.diagnostic import Diagnostic
from metier.openfile import read_small

_KEPT: Final = ".before-metier"
_MOST_KEPT: Final = 100
_WAIT_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 0.05


@final
class Replaced(Struct, frozen=True):
    """It is done."""

    kept: str = ""
    """Where the file as it was lies now; empty where there was none."""


def read(path: str) -> str | None:
    """The file's text; None where there is none.

    Raises:
        ConfigError: when there is something else, or what is there is no text.
    """
    found = read_small(path, most=MOST_BYTES)
    if isinstance(found, Diagnostic):
        if found.code == "missing":
            return None
        raise ConfigError(f"{path}: {found.message}", remedy="Look at that file first")
    try:
        return found[0].decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8", remedy="Save it as UTF-8") from None


@contextmanager
def only_one(path: str) -> Generator[None]:
    """No other of us writes a file in the folder of `path` meanwhile.

    Raises:
        StateError: when that cannot be had.
    """
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _unwritten(path, error) from error
    try:
        _lock(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _lock(folder: int, path: str) -> None:
    until = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise StateError(
                    f"{path} was not written: somebody else has its folder locked",
                    remedy="Another `metier mcp install` may be at work; try again when it has ended",
                ) from None
            time.sleep(_LOOK_SECONDS)
        except OSError as error:  # a file system that has no locks
            raise _unwritten(path, error) from error
        else:
            return


def replace(path: str, text: str, before: str | None) -> Replaced | None:
    """Put `text` in the place of `before`, which is what was there when it was looked at; None where something else is there by now,
    which stays.

    Raises:
        ConfigError: when what is there by now cannot be read.
        StateError: when it cannot be written.
    """
    try:
        mode = os.stat(path).st_mode & 0o777 if before is not None else 0o600
        descriptor, draft = tempfile.mkstemp(prefix=".metier-", dir=os.path.dirname(path))
        kept, done = "", False
        try:
            with os.fdopen(descriptor, "wb") as out:
                out.write(text.encode())
                out.flush()
                os.fsync(out.fileno())
            os.chmod(draft, mode)
            kept = _keep(path, before) if before is not None else ""
            if read(path) == before:
                os.replace(draft, path)
                done = True
        finally:
            if not done:  # nothing is left that only makes sense with the new file
                for made in filter(None, (draft, kept)):
                    os.unlink(made)
    except FileNotFoundError:  # taken away meanwhile
        return None
    except OSError as error:
        raise _unwritten(path, error) from error
    return Replaced(kept) if done else None


def _unwritten(path: str, error: OSError) -> StateError:
    return StateError(f"{path} could not be written: {error.strerror}", remedy="It is as it was")


def _keep(path: str, before: str) -> str:
    for number in range(_MOST_KEPT):
        place = f"{path}{_KEPT}" + (f".{number}" if number else "")
        try:
            descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as out:
            out.write(before)
        return place
    raise StateError(f"there are {_MOST_KEPT} copies beside {path} already", remedy="Remove some of them")
