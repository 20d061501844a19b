"""A copy of the state while others use it, and the way back from one.

A backup is one database file of one moment, found whole before it is given its name; beside it lie what modules keep, the sealed
secrets, and the keys where they are wanted. What comes back from one is older than
what was: every decision that was open is void, every standing grant is revoked, and nothing runs until a person resumes it.
"""

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final, final

import msgspec

from metier.errors import StateError
from metier.record.draft_files import copy, empty, forget, settle
from metier.record.keys import SecretsKey
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
    """Whether keys that were saved with it came back too."""
    kernel: bool = False
    """Whether what modules kept came back."""
    closed: int = 0
    """Messages that waited to be sent then, and are not sent by themselves now."""
    secrets: int = 0
    """Sealed secrets that came back; also a skill's settings count as one."""
    secrets_key: SecretsKey = "missing"
    """Where what opens them is now."""


def back_up(database: str, target: str, *, keys: "Keys | None" = None) -> Verification:
    """Copy the state database at the path `database` to the new file `target`, and beside it what belongs to it.

    That is what modules keep and the sealed secrets, where there are any, and the keys where they are given. What it gives says
    whether the copy is whole. Also one that is not is kept: it may be the evidence. Where nothing was ever signed or sealed there
    are no keys to be copied.

    Raises:
        StateError: when it cannot be read or written, or there is a file of that name.
    """
    from metier.record.backup_beside import KERNEL, SECRETS
    from metier.record.litter import sweep_backups

    target = os.path.abspath(target)
    beside = (target, target + KERNEL, target + SECRETS, *(() if keys is None else (target + KEYS,)))
    if there := next((path for path in beside if os.path.lexists(path)), None):
        raise StateError(f"there is something at {there} already", remedy="Choose another name")
    sweep_backups(os.path.dirname(target))
    if keys is None or not keys.anything:
        return _backed_up(database, target, {})
    with keys.alone():  # a key that is changed in between would not fit the copy
        return _backed_up(database, target, keys.everything())


def _backed_up(database: str, target: str, saved: dict[str, str]) -> Verification:
    from metier.record.backup_beside import KERNEL, SECRETS, copy_kernel, has_kernel, saved_secrets
    from metier.record.litter import backup_draft

    home, drafts = os.path.dirname(database), dict[str, str]()

    def drafted(end: str, data: bytes = b"") -> str:
        drafts[target + end] = draft = backup_draft(target + end)
        empty(draft)
        if data:
            with open(draft, "wb") as written:
                written.write(data)
        return draft

    try:
        if has_kernel(home):  # before the record, so that this knows of every call that is named there
            copy_kernel(home, drafted(KERNEL))
        if sealed := saved_secrets(home):
            drafted(SECRETS, sealed)
        found = _copied(database, drafted(""))
        if saved:
            drafted(KEYS, msgspec.json.encode(saved))
        _settle_all(drafts)
    except OSError as error:
        raise StateError(
            f"the backup {target} cannot be written: {error.strerror}",
            remedy="Check the mode of its folder and the free space on the disk",
        ) from error
    finally:
        for draft in drafts.values():
            forget(draft)
    return found


def _copied(database: str, draft: str) -> Verification:
    import sqlite3

    from metier.record.connection import DRIVER_ERRORS, explain, look

    source = look(database)
    try:
        made = sqlite3.connect(draft, isolation_level=None)
        try:
            # A reading that stands: without it SQLite begins anew whenever somebody else has written.
            source.execute("BEGIN")
            source.execute("SELECT 1 FROM audit LIMIT 1").fetchone()
            source.backup(made, pages=_PAGES)
            made.execute("PRAGMA journal_mode=DELETE")  # one file, without any beside it
        finally:
            made.close()
    except DRIVER_ERRORS as error:
        raise explain(error, database if _is_damage(error) else draft) from error
    finally:
        source.close()
    return verify(draft)


def _settle_all(drafts: dict[str, str]) -> None:
    """Give each its name, or none."""
    settled: list[str] = []
    try:
        for target, draft in drafts.items():
            settle(draft, target)
            settled.append(target)
    except BaseException:
        for target in settled:
            with suppress(OSError):
                os.unlink(target)
        raise


def _is_damage(error: Exception) -> bool:
    """Whether it is the source that is wrong: what was only just made is not damaged, it finds no room."""
    return isinstance(error, UnicodeDecodeError) or getattr(error, "sqlite_errorcode", 0) & 0xFF in (11, 26)


def restore(source: str, database: str, *, by: str, keys: "Keys") -> Restored:
    """Put the backup at `source` in place as the state database at the path `database`, where there is none.

    What was saved with it comes back too, each where there is none: keys, what modules kept, sealed secrets.

    Raises:
        StateError: when there is a state already, the backup is not whole, or it cannot be written.
    """
    from metier.record.backup_beside import Beside
    from metier.record.database import Database, leave_sign
    from metier.record.keys import SECRETS_KEY, vouched_by
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
    beside = Beside(source, os.path.dirname(database), keys)
    in_file = _read_keys(source + KEYS) if not keys.whole or beside.needs_key else {}
    beside.take_key(in_file.pop(SECRETS_KEY, ""))
    saved = in_file if in_file and not keys.whole and keys.fit(in_file) else {}
    vouched = vouched_by(saved, source + KEYS) if saved else keys.known()
    make_private_folder(os.path.dirname(database))
    draft = f"{database}.{os.urandom(8).hex()}.draft"
    try:
        copy(source, draft)
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
        beside.prepare()
        if saved:  # before the state is there: who is cut off in between can do all of it again
            keys.bring_back(saved)
        beside.bring_back()
        settle(draft, database)
        leave_sign(database)
    except OSError as error:
        raise StateError(
            f"{source} cannot be restored: {error.strerror}",
            remedy="Check that it is there, and the mode and the free space of the state folder",
        ) from error
    finally:
        forget(draft)
        beside.forget()
    return msgspec.structs.replace(
        restored,
        keys=bool(saved) or beside.has_key,
        kernel=beside.kernel,
        closed=beside.closed,
        secrets=len(beside.secrets),
        secrets_key=_where_key_lies(keys),
    )


def _where_key_lies(keys: "Keys") -> SecretsKey:
    try:
        return keys.secrets_key_lies
    except StateError:  # all is back by now; a key that is not used is as good as none
        return "missing"


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
