"""The state database: one SQLite file, shared by threads and processes, private to one user.

What is committed is on the disk (WAL, synchronous=FULL, read back to be sure). A database appears whole or
not at all: it is made under another name and then given its own, and only where nothing tells of an earlier
one. Whatever goes wrong is a `StateError` with a way out; no error of the driver leaves this module.
"""

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self, final

from metier.errors import StateError
from metier.record.place import Place
from metier.record.private import (
    absolute,
    make_private_folder,
    require_own_state,
    require_private_state,
    second_name,
)
from metier.record.turn import Busy, Glance, Reading, Transaction, Turn

if TYPE_CHECKING:
    from threading import RLock

    from metier.record.held import Held

_ONLY_WITH_A_STATE: Final = ("keys", "bundles", "calls")
"""Folders beside the database that nothing fills before there is one."""

SIGN: Final = ".made"
"""What the file beside the database ends in that tells, once the database is gone, that there was one."""

# sqlite3 costs 5 ms to import. A listing with no state yet does not need it, so the functions import it.


@final
class Database:
    """One held connection and a lock around it. Make one per process and close it."""

    def __init__(
        self, path: str, connection: "Held", lock: "RLock", place: Place, patience: float = 5.0
    ) -> None:
        self.path = path
        self._patience = patience
        self._connection: Held | None = connection
        self._lock = lock
        self.place = place
        """Where its files lie."""
        self._own_changes = 0
        self._impatient = False
        self._checked_schema: int | None = None

    @classmethod
    def open(cls, path: str, *, create: bool = True, patience: float = 5.0) -> Self:
        """Open the database at `path`, made first when `create` says so.

        `patience` is how many seconds to wait for another process that is writing.

        Raises:
            StateError: when it cannot be used, or is not there and must not be made.
        """
        path = absolute(path)
        _have(path, patience, create=create)
        require_private_state(path)
        return cls._opened(path, patience)

    @classmethod
    def to_refuse(cls, path: str) -> tuple[Self, str]:
        """Open the database for somebody who only takes something away, and what there is to doubt about it.

        A state that may be changed under another name is good for no yes. A no can be written into it all the same, and
        whoever wants things to stop must not be sent to look for a file first.

        Raises:
            StateError: when it cannot be used.
        """
        path = absolute(path)
        _have(path, 5.0, create=True)
        require_own_state(path)
        doubt = second_name(path)
        return cls._opened(path, 5.0), str(doubt) if doubt else ""

    @classmethod
    def _opened(cls, path: str, patience: float) -> Self:
        from threading import RLock

        from metier.record.connection import connect
        from metier.record.litter import sweep

        sweep(path)
        before = Place(path)
        connection = connect(path, patience)
        # While a connection is open nobody takes its side files away who means well.
        place = Place(path, f"{path}-wal", f"{path}-shm")
        try:
            before.require()
        except StateError:
            connection.close()
            raise
        return cls(path, connection, RLock(), place, patience)

    @classmethod
    def look(cls, path: str) -> Self:
        """Open the database at `path` for reading only, also where nothing can be written.

        Raises:
            StateError: when it is not there or cannot be read.
        """
        path = absolute(path)
        require_private_state(path)
        from threading import RLock

        from metier.record.connection import look

        before = Place(path)
        return cls(path, look(path), RLock(), before)

    def transaction(self, *, quiet: bool = False, wait: bool = True) -> Transaction:
        """All or nothing, and nobody else writes meanwhile. `quiet` changes do not count in `data_version`.

        Raises:
            Busy: where `wait` is False, and somebody else is reading or writing right now.
            StateError: when it cannot be written; then nothing was.
        """
        return Transaction(self, wait=wait, quiet=quiet)

    def reading(self, *, wait: bool = True) -> Reading:
        """Everything read inside is of one moment. `wait` as for `transaction`."""
        return Reading(self, wait=wait)

    def glance(self, *, wait: bool = True) -> Glance:
        """A quick look before a call is recorded, whatever it shows. `wait` as for `transaction`.

        Each thing read inside is at least as new as `version`. That all of it was of one moment, and that the file is in
        its place, is found out in the transaction of the record, before anything comes of it.
        """
        return Glance(self, wait=wait)

    def require_in_place(self) -> None:
        """Refuse when the file at `path` is not the one that is open.

        Raises:
            StateError: when it was removed, moved or replaced.
        """
        self.place.require()

    def data_version(self, *, wait: bool = True) -> int:
        """Another number whenever a view kept in memory may be stale.

        It counts what other processes commit and what this one commits, but not its own audit records. `wait` as for
        `transaction`.
        """
        with Turn(self, wait=wait) as connection:
            self.place.require()
            return connection.execute("PRAGMA data_version").fetchone()[0] + self._own_changes

    @property
    def version(self) -> int:
        """`data_version` of the moment that a transaction, a reading or a glance began. Asked inside of one."""
        return (self._connection.version if self._connection is not None else 0) + self._own_changes

    def flush(self) -> bool:
        """Move everything into the main file and empty the write-ahead file; False when a reader is in the way."""
        with Turn(self, wait=True) as connection:
            self.place.require()
            return connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0

    def close(self) -> None:
        """Give the file back. Closing twice does no harm."""
        import sqlite3

        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                with suppress(sqlite3.Error):  # whatever was committed is on the disk already
                    connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def acquire(self, *, wait: bool) -> "Held":
        """The connection, for whoever's turn it is; `release` gives it back."""
        if not self._lock.acquire(blocking=wait):
            raise Busy
        try:
            connection = self._connection
            if connection is None:
                raise StateError(
                    f"the state database {self.path} was closed", remedy="Open it again to use it"
                )
            if connection.in_transaction:  # of this very thread; to undo the inner one would undo the outer
                raise RuntimeError("a turn with the database was taken inside of a transaction")
            if self._impatient is wait:
                self._have_patience(connection, wait)
        except BaseException:
            self._lock.release()
            raise
        return connection

    def release(self) -> None:
        """The next may have it."""
        self._lock.release()

    def changed(self, connection: "Held") -> None:
        """Something was committed that views in memory should know of."""
        self._own_changes += 1
        connection.changes += 1

    def _have_patience(self, connection: "Held", wait: bool) -> None:
        from metier.record.connection import DRIVER_ERRORS, explain

        try:
            connection.execute(f"PRAGMA busy_timeout={int(self._patience * 1000) if wait else 0}")
        except DRIVER_ERRORS as error:
            raise explain(error, self.path) from error
        self._impatient = not wait

    def require_shape(self, connection: "Held") -> None:
        """Inside the transaction: a trigger that somebody adds later would fire in it.

        This connection never changes the schema, so as long as nobody else committed anything it is the one we know.
        """
        version: int = connection.execute("PRAGMA data_version").fetchone()[0]
        if version == connection.version:
            return
        connection.forget()
        schema: int = connection.execute("PRAGMA schema_version").fetchone()[0]
        if schema != self._checked_schema:
            from metier.record.connection import require_shape

            require_shape(connection, self.path)
            self._checked_schema = schema
        connection.version = version


def _have(path: str, patience: float, *, create: bool) -> None:
    """Have a database at `path`, made first when `create` says so, with the sign beside it that there is one."""
    if not create:
        if not os.path.lexists(path):
            raise StateError(f"there is no state database at {path}", remedy="Check the state folder's name")
        return
    make_private_folder(os.path.dirname(path))
    if not os.path.lexists(path):
        require_none_before(path)
        _create(path, patience)
    leave_sign(path)


def leave_sign(path: str) -> None:
    """Leave the sign that there is a database at `path`.

    It may be there already. Where nothing can be written nothing can be lost either.
    """
    with suppress(OSError):
        descriptor = os.open(path + SIGN, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        if os.name == "posix":
            os.fchmod(descriptor, 0o600)
        os.close(descriptor)


def open_if_there(path: str) -> Database | None:
    """The database at `path` to be looked at, or None where there was none yet. Never makes anything, so looking leaves no trace.

    Raises:
        StateError: when it cannot be read, or is gone.
    """
    path = absolute(path)
    if os.path.lexists(path):
        return Database.look(path)
    require_none_before(path)
    return None


def require_none_before(path: str) -> None:
    """Refuse to begin anew where something tells of a state that is gone: it may have stopped everything.

    Raises:
        StateError: when there is such a thing.
    """
    folder = os.path.dirname(path)
    left = [each for each in (f"{path}-wal", f"{path}-shm", path + SIGN) if os.path.lexists(each)]
    left += [each for name in _ONLY_WITH_A_STATE if _holds_something(each := os.path.join(folder, name))]
    if left and not os.path.lexists(path):  # while we looked another process may have made both
        raise StateError(
            f"the state database {path} is gone, and with it every stop, revocation and disabled skill; "
            f"that there was one is told by {', '.join(left)}",
            remedy="Put it back, or bring a backup back with `metier restore FILE`; to begin anew without anything of it, move "
            f"{' and '.join(left)} away first",
        )


def _holds_something(folder: str) -> bool:
    try:
        return bool(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # nobody can say that it is empty


def _create(path: str, patience: float) -> None:
    """Make the whole database under another name, then link it into place if the place is still free.

    A file that is opened here and closed again would drop SQLite's locks on it, and two processes that
    both turn a new file to WAL get in each other's way. Neither can happen to a file nobody else knows.
    """
    from metier.record.connection import connect

    draft = f"{path}.{os.urandom(8).hex()}.new"
    try:
        descriptor = os.open(
            draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600
        )
        try:
            if os.name == "posix":
                os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
        connect(draft, patience, new=True).close()
        with suppress(FileExistsError):  # another process was faster; its database is as good
            os.link(draft, path)
        _sync_folder(os.path.dirname(path))
    except OSError as error:
        raise StateError(
            f"the state database {path} cannot be made: {error.strerror}",
            remedy="Check the mode of its folder and the free space on the disk",
        ) from error
    finally:
        with suppress(OSError):
            os.unlink(draft)


def _sync_folder(folder: str) -> None:
    """A name is only safe from a power cut once its folder is on the disk."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
