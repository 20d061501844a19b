"""Machine code kept from one program start to the next, in a folder that belongs to this user alone.

Machine code is believed as it stands, so nobody else may have a hand in it: the folder is mode 0700 and this user's,
the files are 0600, and the name of each holds the digest of its content, which is checked before it is used. A skill
must never be granted a folder to write that reaches this one; `WasmSandbox` refuses such a job.
"""

import hashlib
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar, final

from metier.record.private import make_private_folder

T = TypeVar("T")
_ENDING: Final = ".cwasm"
_MOST_FILES: Final = 128


@final
class Cache:
    """Files named `<key>.<digest of the content>.cwasm`."""

    def __init__(self, folder: str) -> None:
        self.folder: Final = os.path.abspath(folder)

    def use(self, key: str, use: Callable[[bytes], T]) -> T | None:
        """What `use` makes of what is kept; None without it.

        Raises:
            StateError: when the folder is not this user's alone.
        """
        for name in self._named(key):
            found = self._use_one(name, use)
            if found is not None:
                return found
            with suppress(OSError):
                os.unlink(os.path.join(self.folder, name))
        return None

    def put(self, key: str, code: bytes) -> None:
        """Keep it. That the disk is full is no reason not to run.

        Raises:
            StateError: as `use`.
        """
        make_private_folder(self.folder)
        name = f"{key}.{hashlib.sha256(code).hexdigest()}{_ENDING}"
        part = os.path.join(self.folder, f".{secrets.token_hex(8)}.part")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            with open(os.open(part, flags, 0o600), "wb") as file:
                file.write(code)
            os.rename(part, os.path.join(self.folder, name))
        except OSError:
            with suppress(OSError):
                os.unlink(part)
        self._thin_out()

    def _named(self, key: str) -> list[str]:
        make_private_folder(self.folder)
        return [
            name for name in os.listdir(self.folder) if name.startswith(f"{key}.") and name.endswith(_ENDING)
        ]

    def _use_one(self, name: str, use: Callable[[bytes], T]) -> T | None:
        try:
            descriptor = os.open(
                os.path.join(self.folder, name), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            )
        except OSError:
            return None
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1
            if not ours or status.st_mode & 0o077:
                return None
            code = file.read()
        return use(code) if hashlib.sha256(code).hexdigest() == name.split(".")[1] else None

    def _thin_out(self) -> None:
        with suppress(OSError):
            kept = sorted(
                (entry for entry in os.scandir(self.folder) if entry.name.endswith(_ENDING)),
                key=lambda entry: entry.stat(follow_symlinks=False).st_mtime_ns,
            )
            for entry in kept[:-_MOST_FILES]:
                os.unlink(entry.path)
