"""What lies beside the state database and belongs into a backup of it: what the modules keep (kernel.db), and the sealed secrets.

Secrets are copied as they lie, sealed; what opens them goes with the keys. What comes back from a backup is older than what was:
messages that waited to be sent may have been sent since, and those that waited for an answer may have had it.
"""

import base64
import binascii
import os
import re
import shutil
import sqlite3
import time
from contextlib import closing
from typing import Final, final

import msgspec

from metier.errors import StateError
from metier.record.connection import DRIVER_ERRORS
from metier.record.draft_files import copy, forget, settle
from metier.record.keys import SECRETS_KEY, Keys
from metier.record.private import make_private_folder, require_private

KERNEL: Final = ".kernel"
SECRETS: Final = ".secrets"
"""How the names of the files end that hold these of a backup."""
RESTORED: Final = "state.restored"
"""The cursor in what modules keep that says when it came back from a backup, in seconds since 1970."""
MAY_BE_SENT: Final = "the state was restored from a backup: it may have been sent since"
_KERNEL_FILE: Final = "kernel.db"
_SECRETS_FOLDER: Final = "secrets"
_NAME: Final = re.compile(r"(?:skills/[0-9a-f]{64}|[A-Za-z_][A-Za-z0-9_.-]{0,127})\.age", re.ASCII)
_DRAFT: Final = re.compile(r".+\.age\.[0-9a-f]{16}\.draft", re.ASCII)
_SKILLS: Final = "skills"
_PAGES: Final = 2048
_MOST_SECRET_BYTES: Final = 4_194_304
_MOST_BYTES: Final = 268_435_456


def has_kernel(home: str) -> bool:
    """Whether modules keep anything here."""
    return os.path.lexists(os.path.join(home, _KERNEL_FILE))


def kernel_path(home: str) -> str:
    """Where modules keep what they keep."""
    return os.path.join(home, _KERNEL_FILE)


def copy_kernel(home: str, draft: str) -> None:
    """Copy what modules keep, as of one moment, into the empty file `draft`, while others use it.

    Raises:
        StateError: when it cannot be copied.
    """
    path = kernel_path(home)
    require_private(path, folder=False)
    try:
        with (
            closing(sqlite3.connect(path, timeout=20.0, isolation_level=None)) as source,
            closing(sqlite3.connect(draft, isolation_level=None)) as made,
        ):
            # A reading that stands: without it SQLite begins anew whenever somebody else has written.
            source.execute("BEGIN")
            source.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
            source.backup(made, pages=_PAGES)
            made.execute("PRAGMA journal_mode=DELETE")  # one file, without any beside it
    except DRIVER_ERRORS as error:
        raise StateError(
            f"what the modules keep ({_KERNEL_FILE}) cannot be copied: {error}",
            remedy="Check the free space on the disk; if it is damaged, bring it back from an older backup",
        ) from error


def begin_again(draft: str, source: str) -> int:
    """Make the copy of a backup in `draft` fit to be used: what was under way in it is not done a second time. How much that was.

    Raises:
        StateError: when it is not whole.
    """
    try:
        with closing(sqlite3.connect(draft, isolation_level=None)) as made:
            if made.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                raise sqlite3.DatabaseError("its pages do not fit together")
            made.execute("BEGIN IMMEDIATE")
            sent = made.execute(
                "UPDATE message SET state = 'failed', error = ? WHERE direction = 'out' AND state IN ('waiting', 'sending')",
                (MAY_BE_SENT,),
            ).rowcount
            made.execute("UPDATE message SET state = 'handled' WHERE direction = 'in' AND state = 'received'")
            made.execute("INSERT OR REPLACE INTO cursor VALUES (?, ?)", (RESTORED, repr(time.time())))
            made.execute("COMMIT")
    except DRIVER_ERRORS as error:
        raise StateError(
            f"{source} is not whole, so nothing is restored: {error}",
            remedy="Look for another backup, or move that file away to go without what modules kept",
        ) from error
    return sent


@final
class Beside:
    """What was saved beside the backup at `source`, on its way back. Each comes back where there is none."""

    def __init__(self, source: str, home: str, keys: Keys) -> None:
        """Raises StateError when what was saved is not what Metier saves."""
        self._source = source
        self._home = home
        self._keys = keys
        self._key = ""
        self._draft = ""
        self.kernel = os.path.lexists(source + KERNEL) and not has_kernel(home)
        self.secrets = {} if has_secrets(home) else read_secrets(source + SECRETS)
        if self.kernel:
            _require_nothing_beside(kernel_path(home))
        self.closed = 0

    @property
    def needs_key(self) -> bool:
        """Whether the key of the secrets is wanted."""
        return bool(self.secrets) or (has_secrets(self._home) and not self._keys.opens_secrets)

    @property
    def has_key(self) -> bool:
        """Whether the saved key of the secrets comes back."""
        return bool(self._key)

    def take_key(self, saved: str) -> None:
        """The key of the secrets that was saved with them; empty where none was.

        Raises:
            StateError: when another one is here, which does not open them.
        """
        if not self._keys.opens_secrets:
            self._key = saved
        elif saved and self.secrets and self._keys.secrets_key() != saved:
            raise StateError(
                f"the secrets of this backup were sealed with another key than {self._keys.folder}/{SECRETS_KEY}",
                remedy=f"Move that one away to use the saved one, or {self._source}{SECRETS} to go without those secrets",
            )

    def prepare(self) -> None:
        """Everything that can fail, before anything is in its place.

        Raises:
            StateError, OSError: when it cannot be used.
        """
        if self.kernel:
            self._draft = f"{kernel_path(self._home)}.{os.urandom(8).hex()}.draft"
            copy(self._source + KERNEL, self._draft)
            self.closed = begin_again(self._draft, self._source + KERNEL)
        if self.secrets:
            _make_room(os.path.join(self._home, _SECRETS_FOLDER))

    def bring_back(self) -> None:
        """Put all of it in place. Who is cut off in between can do it again: what is there by then stays.

        Raises:
            StateError, OSError: when it cannot be written.
        """
        if self._key:
            self._keys.bring_back({SECRETS_KEY: self._key})
        if self.secrets:
            bring_back_secrets(self._home, self.secrets)
        if self.kernel:
            settle(self._draft, kernel_path(self._home))

    def forget(self) -> None:
        """Remove what did not come to be."""
        if self._draft:
            forget(self._draft)


def has_secrets(home: str) -> bool:
    """Whether secrets are kept here."""
    return bool(_files(home))


def saved_secrets(home: str) -> bytes:
    """Every secret as it lies, sealed; empty where there is none.

    Raises:
        StateError: when one cannot be read.
    """
    found: dict[str, bytes] = {}
    for name in _files(home):
        path = os.path.join(home, _SECRETS_FOLDER, name)
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                found[name] = file.read(_MOST_SECRET_BYTES)
        except FileNotFoundError:
            continue  # removed in this moment
        except OSError as error:
            raise StateError(
                f"the secret {name} cannot be read: {error.strerror}",
                remedy="Make it readable for you: chmod 600",
            ) from error
    return msgspec.json.encode(found) if found else b""


def read_secrets(path: str) -> dict[str, bytes]:
    """What `saved_secrets` gave and somebody kept at `path`; nothing where there is no such file.

    Raises:
        StateError: when it is something else.
    """
    if not os.path.lexists(path):
        return {}
    require_private(path, folder=False)
    try:
        with open(path, "rb") as opened:
            found = msgspec.json.decode(opened.read(_MOST_BYTES), type=dict[str, str])
        saved = {name: base64.b64decode(text, validate=True) for name, text in found.items()}
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, binascii.Error, RecursionError) as error:
        raise StateError(
            f"the secrets in {path} cannot be read", remedy="Move the file away to go without them"
        ) from error
    if odd := next((name for name in saved if not _NAME.fullmatch(name)), ""):
        raise StateError(
            f"{path} names a secret {odd[:60]!r}, which Metier cannot have saved",
            remedy="Move the file away to go without them",
        )
    return saved


def bring_back_secrets(home: str, saved: dict[str, bytes]) -> None:
    """Put them in place, where there are none: all of them, or none when somebody cuts this off.

    Raises:
        OSError: when they cannot be written.
    """
    draft = os.path.join(home, f"{_SECRETS_FOLDER}.{os.urandom(8).hex()}.draft")
    try:
        make_private_folder(draft)
        for name, data in saved.items():
            path = os.path.join(draft, name)
            make_private_folder(os.path.dirname(path))
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        _sync_folders(draft)
        target = os.path.join(home, _SECRETS_FOLDER)
        if os.path.isdir(os.path.join(target, _SKILLS)):
            os.rmdir(os.path.join(target, _SKILLS))  # empty, like the folder that is replaced
        os.rename(draft, target)
        _sync_folders(home)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _require_nothing_beside(path: str) -> None:
    """Nothing of an earlier file may lie beside the one that is brought back: SQLite would write it into that."""
    for left in (f"{path}-wal", f"{path}-shm", f"{path}-journal"):
        if os.path.lexists(left):
            raise StateError(
                f"{left} is left of an earlier {_KERNEL_FILE}, and would be mixed into the one that is brought back",
                remedy="Stop everything that uses it, move that file away too, then restore again",
            )


def _make_room(folder: str) -> None:
    """Take away what somebody left who was killed while he wrote a secret. Anything else is a person's matter."""
    for inside in (os.path.join(folder, _SKILLS), folder):
        for name in os.listdir(inside) if os.path.isdir(inside) else ():
            path = os.path.join(inside, name)
            if _DRAFT.fullmatch(name) and os.path.isfile(path):
                os.unlink(path)
            elif path != os.path.join(folder, _SKILLS) or not os.path.isdir(path):
                raise StateError(
                    f"there is something at {path} that Metier did not put there, so the secrets cannot come back",
                    remedy="Look at it and move it away, then restore again",
                )


def _sync_folders(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _files(home: str) -> list[str]:
    top = os.path.join(home, _SECRETS_FOLDER)
    try:
        names = [*os.listdir(top)]
        if os.path.isdir(os.path.join(top, _SKILLS)):
            names += [f"{_SKILLS}/{name}" for name in os.listdir(os.path.join(top, _SKILLS))]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StateError(
            f"the folder of secrets cannot be looked into: {error.strerror}",
            remedy=f"Make it yours: chmod 700 {top}",
        ) from error
    return sorted(name for name in names if _NAME.fullmatch(name))
