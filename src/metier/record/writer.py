"""One transaction for all that is written in the same moment.

A commit waits for the disk, and it waits as long for one record as for sixty-four. So whoever comes first leads: he lets
the others of this moment join, does the work of all in one transaction, and hands everyone his own result. Work that
fails undoes the whole group; then each is tried alone, so that nobody pays for another's fault. Where nobody joined for a
while, he lets them only now and then: to wait for nobody would cost a lonely call as much as half its record. The quicker
the disk is, the less there is to be shared, and the rarer that is.

A quick disk is waited for where we are, which costs less than going to a thread and back. A slow one, or a database that
somebody else is writing to, is waited for in a thread, and the loop goes on meanwhile.
"""

import sqlite3
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar, final

import anyio
from anyio import to_thread
from anyio.lowlevel import cancel_shielded_checkpoint

from metier.errors import StateError
from metier.record.turn import Busy

if TYPE_CHECKING:
    from metier.record.database import Database

_T = TypeVar("_T")
Work: TypeAlias = Callable[[sqlite3.Connection], _T]
"""What to do inside the transaction. May be tried again after an undo, so it changes nothing but the database."""

QUICK_SECONDS: Final = 0.002
"""A commit that takes longer on average is waited for in a thread."""
_WEIGHT: Final = 0.2
MOST: Final = 256
"""How many join one transaction."""
LONELY: Final = 16
"""After so many writes that nobody joined, only each so-manieth asks whether somebody does."""
LONELY_AND_QUICK: Final = 64
"""The same where a commit takes no longer than asking."""


class _Place(Generic[_T]):
    """Somebody's work in the line, and what became of it."""

    __slots__ = ("error", "leads", "ready", "result", "work")

    def __init__(self, work: Work[_T]) -> None:
        self.work = work
        self.result: _T | None = None
        self.error: BaseException | None = _not_written()
        """Until the commit is through nothing is written, whatever happens to whoever was to write it."""
        self.ready: anyio.Event | None = None
        self.leads = False


@final
class Writer:
    """Belongs to one loop."""

    def __init__(self, database: "Database", *, before_commit: Callable[[], None] | None = None) -> None:
        """`before_commit` is for those who want to know what a slow disk does."""
        self._database = database
        self._before_commit = before_commit
        self._line: list[_Place[Any]] = []
        self._led = False
        self._seconds = 0.0
        self._alone = 0
        """How many writes in a row nobody joined."""

    async def write(self, work: Work[_T]) -> _T:
        """Do `work` in a transaction and give its result once that is on the disk. Being cancelled does not stop it.

        Raises:
            StateError: when it could not be written; then nothing of it was.
        """
        if not self._led and not self._may_be_joined():
            try:
                return self._alone_now(work)
            except Busy:
                pass  # then in line, and in a thread
        place = _Place(work)
        self._line.append(place)
        try:
            if self._led:
                place.ready = anyio.Event()
                with anyio.CancelScope(shield=True):
                    await place.ready.wait()
            else:
                self._led = place.leads = True
                if self._may_be_joined():
                    await cancel_shielded_checkpoint()  # whoever is about to write in this moment joins
            if place.leads:
                await self._lead()
        except BaseException:  # asyncio's own cancelling heeds no shield
            self._leave(place)
            raise
        if place.error is not None:
            raise place.error
        return place.result  # pyright: ignore[reportReturnType]

    def _leave(self, place: _Place[Any]) -> None:
        """Somebody goes away in the middle: what he wanted is not written, and others need not wait for him."""
        if place in self._line:
            self._line.remove(place)
        if place.leads:
            place.leads = False
            self._next_leads()

    def _next_leads(self) -> None:
        if not self._line:
            self._led = False
            return
        self._line[0].leads = True
        ready = self._line[0].ready
        if ready is not None:
            ready.set()

    def _may_be_joined(self) -> bool:
        """Whether waiting for others is worth it: with a slow disk, in company, and each so-manieth time."""
        if self._alone < LONELY or self._seconds > QUICK_SECONDS / 4:
            return True
        return self._alone % (LONELY if self._seconds > QUICK_SECONDS / 16 else LONELY_AND_QUICK) == 0

    def _alone_now(self, work: Work[_T]) -> _T:
        """Write for oneself, without waiting for anybody."""
        with self._database.transaction(quiet=True, wait=False) as connection:
            made = work(connection)
            began = self._about_to_commit()
        self._committed(began)
        self._alone += 1
        return made

    async def _lead(self) -> None:
        """Write for the first in line, oneself among them; then the next one leads."""
        group, self._line = self._line[:MOST], self._line[MOST:]
        self._alone = self._alone + 1 if len(group) == 1 else 0
        try:
            await self._commit(group)
        finally:
            for place in group:
                place.leads = False
                if place.ready is not None:
                    place.ready.set()
            self._next_leads()

    async def _commit(self, group: list[_Place[Any]]) -> None:
        if self._seconds <= QUICK_SECONDS:
            try:
                self._transaction(group, wait=False)
            except (Busy, _AtFault):
                pass
            except StateError as error:
                _fail(group, error)
                return
            else:
                return
        try:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(self._patiently, group)
        except RuntimeError as error:  # no thread is to be had
            _fail(group, _not_written(error))

    def _patiently(self, group: list[_Place[Any]]) -> None:
        try:
            self._transaction(group, wait=True)
        except StateError as error:
            _fail(group, error)
        except _AtFault as fault:
            if len(group) == 1:
                _fail(group, fault.error)
                return
            for place in group:
                self._patiently([place])

    def _transaction(self, group: list[_Place[Any]], *, wait: bool) -> None:
        with self._database.transaction(quiet=True, wait=wait) as connection:
            for place in group:
                try:
                    place.result = place.work(connection)
                except Exception as error:
                    if len(group) == 1 and isinstance(error, sqlite3.Error):
                        raise  # the database says in words what is wrong
                    raise _AtFault(error) from error
            began = self._about_to_commit()
        for place in group:
            place.error = None
        self._committed(began)

    def _about_to_commit(self) -> float:
        began = time.monotonic()
        if self._before_commit is not None:
            self._before_commit()
        return began

    def _committed(self, began: float) -> None:
        self._seconds += _WEIGHT * (time.monotonic() - began - self._seconds)


def _not_written(why: Exception | None = None) -> StateError:
    said = f" ({why})" if why is not None else ""
    return StateError(f"it could not be written{said}", remedy="Nothing was done; try again")


def _fail(group: list[_Place[Any]], error: Exception) -> None:
    for place in group:
        place.error = error


class _AtFault(Exception):
    """Somebody's own work failed, not the transaction."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error
