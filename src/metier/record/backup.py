"""A copy of the state while others use it, and the way back from one.

A backup is one database file of one moment, found whole before it is given its name. What comes back from one is older than
what was: every decision that was open is void, every standing grant is revoked, and nothing runs until a person resumes it.
"""

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final, final

import msgspec

from metier.errors import StateError
from metier.record.verify import Verification, verify

if TYPE_CHECKING:
    import sqlite3

    from metier.record.keys import Keys

KEYS: Final = ".keys"
"""How the name of the file ends that holds the keys of a backup."""
WHY: Final = "the state was restored from a backup: look at what is trusted, then let it run again with `metier resume`"
_PAGES: Final = 2048
_MOST_KEY_BYTES: Final = 1_048_576


@final
class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """What came back, and what was ended by it."""

    records: int
    head: str
    voided: int
    """Decisions and requests that were open."""
    revoked: int
    """Standing grants."""
    keys: bool = False
    """Whether the keys that were saved with it came back too."""


def back_up(database: str, target: str, *, keys: "Keys | None" = None) -> Verification:
    """Copy the state database at the path `database` to the new file `target`, with the keys beside it where they are given.

    What it gives says whether the copy is whole. Also one that is not is kept: it may be the evidence. Where nothing was ever
    signed there are no keys to be copied.

    Raises:
        StateError: when it cannot be read or written, or there is a file of that name.
    """
    from metier.record.litter import sweep_backups

    target = os.path.abspath(target)
    beside = (target,) if keys is None else (target, target + KEYS)
    if there := next((path for path in beside if os.path.lexists(path)), None):
        raise StateError(f"there is something at {there} already", remedy="Choose another name")
    sweep_backups(os.path.dirname(target))
    if keys is None or not keys.there:
        return _backed_up(database, target, None)
    with keys.alone():  # a key that is changed in between would not fit the copy
        return _backed_up(database, target, keys.saved())


def _backed_up(database: str, target: str, saved: dict[str, str] | None) -> Verification:
    import sqlite3

    from metier.record.connection import DRIVER_ERRORS, explain, look
    from metier.record.litter import backup_draft

    draft = backup_draft(target)
    try:
        _empty(draft)
        source = look(database)
        try:
            copy = sqlite3.connect(draft, isolation_level=None)
            try:
                # A reading that stands: without it SQLite begins anew whenever somebody else has written.
                source.execute("BEGIN")
                source.execute("SELECT 1 FROM audit LIMIT 1").fetchone()
                source.backup(copy, pages=_PAGES)
                copy.execute("PRAGMA journal_mode=DELETE")  # one file, without any beside it
            finally:
                copy.close()
        except DRIVER_ERRORS as error:
            raise explain(error, database if _is_damage(error) else draft) from error
        finally:
            source.close()
        found = verify(draft)
        _settle(draft, target)
        if saved is not None:
            _write_keys(saved, target + KEYS)
    except OSError as error:
        raise StateError(
            f"the backup {target} cannot be written: {error.strerror}",
            remedy="Check the mode of its folder and the free space on the disk",
        ) from error
    finally:
        _forget(draft)
    return found


def _is_damage(error: Exception) -> bool:
    """Whether it is the source that is wrong: what was only just made is not damaged, it finds no room."""
    return isinstance(error, UnicodeDecodeError) or getattr(error, "sqlite_errorcode", 0) & 0xFF in (11, 26)


def restore(source: str, database: str, *, by: str, keys: "Keys") -> Restored:
    """Put the backup at `source` in place as the state database at the path `database`, where there is none.

    Keys that were saved with it come back too, where there are none.

    Raises:
        StateError: when there is a state already, the backup is not whole, or it cannot be written.
    """
    from metier.record.database import Database, leave_sign
    from metier.record.keys import vouched_by
    from metier.record.private import make_private_folder

    source, database = os.path.abspath(source), os.path.abspath(database)
    for path in (database, f"{database}-wal", f"{database}-shm"):
        if os.path.lexists(path):
            raise StateError(
                f"there is a state at {path}, and it is not overwritten",
                remedy="Stop everything that uses it, move it and the files beside it away, then restore again",
            )
    if os.path.lexists(f"{source}-wal"):
        raise StateError(
            f"{source} is a database in use and no backup", remedy="Make one with `metier backup`"
        )
    if os.path.lexists(source) and not os.path.isfile(source):
        raise StateError(f"{source} is not a file", remedy="Give a file that `metier backup` made")
    saved = {} if keys.whole else _read_keys(source + KEYS)
    if saved and not keys.fit(saved):
        saved = {}
    vouched = vouched_by(saved, source + KEYS) if saved else keys.known()
    make_private_folder(os.path.dirname(database))
    draft = f"{database}.{os.urandom(8).hex()}.draft"
    try:
        _copy(source, draft)
        found = verify(draft, trusted=vouched or None)
        if not found.ok:
            raise StateError(
                f"{source} is not whole, so it is not restored: {found.problem}",
                remedy=f"Keep it as evidence and look for another; if it is of another log or older than your key, move {keys.folder} away first",
            )
        with Database.open(draft, create=False) as opened:
            with opened.transaction() as connection:
                restored = _begin_again(connection, found, by, keys=bool(saved))
            if not opened.flush():
                raise StateError(f"{draft} is in use", remedy="Find out by whom, then restore again")
        _require_still_whole(draft, source)
        if saved:  # before the state is there: who is cut off in between can do all of it again
            keys.bring_back(saved)
        _settle(draft, database)
        leave_sign(database)
    except OSError as error:
        raise StateError(
            f"{source} cannot be restored: {error.strerror}",
            remedy="Check that it is there, and the mode and the free space of the state folder",
        ) from error
    finally:
        _forget(draft)
    return restored


def _require_still_whole(draft: str, source: str) -> None:
    """What was written into the copy must not have destroyed it: a damaged file may look whole until then."""
    again = verify(draft)
    if not again.ok:
        raise StateError(
            f"{source} is not whole, so it is not restored: {again.problem}",
            remedy="Keep it as evidence and look for another",
        )


def _begin_again(connection: "sqlite3.Connection", found: Verification, by: str, *, keys: bool) -> Restored:
    from metier.record.approval_ending import void_all
    from metier.record.chain import Act, append, now
    from metier.record.question_key import forget_all
    from metier.record.standing import revoke_all

    at = now()
    voided = void_all(connection, at=at, by=by)
    revoked = revoke_all(connection, at=at, by=by)
    forget_all(connection)
    append(
        connection,
        "state_restored",
        Act(principal=by),
        at=at,
        code=f"{found.records}:{found.head}",
        reasons=("everything is stopped until a person resumes it",),
    )
    connection.execute("INSERT OR REPLACE INTO setting VALUES ('stopped', ?, ?, ?)", (WHY, at, by))
    return Restored(records=found.records, head=found.head, voided=voided, revoked=revoked, keys=keys)


def _empty(path: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        if os.name == "posix":
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def _copy(source: str, target: str) -> None:
    import shutil

    _empty(target)
    with open(source, "rb") as read, open(target, "r+b") as written:
        shutil.copyfileobj(read, written, 1 << 20)
        written.flush()
        os.fsync(written.fileno())


def _settle(draft: str, target: str) -> None:
    """Give the finished file its name, unless somebody took that meanwhile; safe from a power cut."""
    descriptor = os.open(draft, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        os.link(draft, target)
    except FileExistsError:
        raise StateError(f"there is something at {target} now", remedy="Choose another name") from None
    if os.name != "posix":
        return
    folder = os.open(os.path.dirname(target), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _forget(draft: str) -> None:
    for path in (draft, f"{draft}-wal", f"{draft}-shm", f"{draft}-journal"):
        with suppress(OSError):
            os.unlink(path)


def _write_keys(saved: dict[str, str], target: str) -> None:
    from metier.record.litter import backup_draft

    draft = backup_draft(target)
    try:
        _empty(draft)
        with open(draft, "wb") as written:
            written.write(msgspec.json.encode(saved))
        _settle(draft, target)
    finally:
        _forget(draft)


def _read_keys(path: str) -> dict[str, str]:
    """What was saved beside a backup; nothing where there is no such file."""
    from metier.record.private import require_closed

    if not os.path.lexists(path):
        return {}
    require_closed(path)
    try:
        with open(path, "rb") as opened:
            return msgspec.json.decode(opened.read(_MOST_KEY_BYTES), type=dict[str, str])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise StateError(
            f"the keys in {path} cannot be read", remedy="Move the file away to go without them"
        ) from error
