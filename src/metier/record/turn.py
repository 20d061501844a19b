"""Whose turn it is with the one connection of a `Database`: to write all or nothing, to read one moment, or to glance.

Whatever the driver says inside comes out in words. These are classes and not generators, which would cost every call of a
tool several times as much.
"""

from types import TracebackType
from typing import TYPE_CHECKING, Protocol, final

from metier.record.place import Place

if TYPE_CHECKING:
    from metier.record.held import Held

# sqlite3 costs 5 ms to import. A listing with no state yet does not need it, so the functions import it.


class Busy(Exception):
    """Somebody else is at it. Nothing was done, and waiting would help."""


class Keeper(Protocol):
    """Has the connection, and gives it to one at a time."""

    path: str
    place: Place

    def acquire(self, *, wait: bool) -> "Held":
        """The connection."""
        ...

    def release(self) -> None:
        """The next may have it."""
        ...

    def require_shape(self, connection: "Held") -> None:
        """Refuse a database that is not made as Metier makes it."""
        ...

    def changed(self, connection: "Held") -> None:
        """Something was committed that views in memory should know of."""
        ...


class Turn:
    """The connection, for one at a time."""

    __slots__ = ("_connection", "_database", "_wait")

    def __init__(self, database: Keeper, *, wait: bool) -> None:
        self._database = database
        self._wait = wait

    def __enter__(self) -> "Held":
        connection = self._database.acquire(wait=self._wait)
        self._connection = connection
        try:
            self._begin(connection)
        except BaseException as error:
            self._leave(error)
            raise
        return connection

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        if error is None:
            try:
                self._end(self._connection)
            except BaseException as failure:
                self._leave(failure)
                raise
            self._database.release()
        else:
            self._leave(error)

    def _begin(self, connection: "Held") -> None:
        """Nothing to begin."""

    def _end(self, connection: "Held") -> None:
        """Nothing to end."""

    def _undo(self, connection: "Held") -> None:
        """Nothing to undo."""

    def _leave(self, error: BaseException) -> None:
        """Give the connection back after `error`; raises what the driver meant."""
        import sqlite3

        try:
            self._undo(self._connection)
        except sqlite3.Error as further:
            error = further
        finally:
            self._database.release()
        if not isinstance(error, sqlite3.Error | UnicodeDecodeError):
            return
        if not self._wait and getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
            raise Busy from None
        from metier.record.connection import explain

        raise explain(error, self._database.path) from error


@final
class Glance(Turn):
    """A look at what is there, one thing after the other."""

    __slots__ = ()

    def _begin(self, connection: "Held") -> None:
        self._database.require_shape(connection)


@final
class Reading(Turn):
    """A look at one moment."""

    __slots__ = ()

    def _begin(self, connection: "Held") -> None:
        self._database.place.require()
        connection.execute("BEGIN")
        self._database.require_shape(connection)

    def _end(self, connection: "Held") -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")

    _undo = _end


@final
class Transaction(Turn):
    """All or nothing."""

    __slots__ = ("_quiet",)

    def __init__(self, database: Keeper, *, wait: bool, quiet: bool) -> None:
        super().__init__(database, wait=wait)
        self._quiet = quiet

    def _begin(self, connection: "Held") -> None:
        connection.execute("BEGIN IMMEDIATE")
        self._database.require_shape(connection)

    def _end(self, connection: "Held") -> None:
        self._database.place.require()  # here it counts: what is not in place now would be lost
        connection.execute("COMMIT")
        if not self._quiet:
            self._database.changed(connection)

    def _undo(self, connection: "Held") -> None:
        connection.forget()
        if connection.in_transaction:
            connection.execute("ROLLBACK")
