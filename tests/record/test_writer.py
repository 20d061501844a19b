"""Who writes in the same moment shares a transaction; nobody is forgotten, and nobody pays for another."""

import sqlite3
import time
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from metier.errors import RecordError
from metier.record.audit import AuditLog, Intent
from metier.record.chain import Act
from metier.record.database import Database
from metier.record.verify import verify
from metier.record.writer import LONELY, LONELY_AND_QUICK, QUICK_SECONDS, Writer


class Counted:
    """A writer that counts its commits, each of which takes at least so many seconds."""

    def __init__(self, database: Database, seconds: float = 0.0) -> None:
        self.commits = 0
        self.database = database
        self._seconds = seconds
        self.writer = Writer(database, before_commit=self._count)

    def _count(self) -> None:
        self.commits += 1
        time.sleep(self._seconds)

    async def one_by_one(self, works: list[Callable[[sqlite3.Connection], Any]]) -> list[Any]:
        return [await self.writer.write(work) for work in works]

    async def at_once(self, works: list[Callable[[sqlite3.Connection], Any]]) -> list[Any]:
        made: dict[int, Any] = {}

        async def one(place: int, work: Callable[[sqlite3.Connection], Any]) -> None:
            try:
                made[place] = await self.writer.write(work)
            except Exception as error:  # noqa: BLE001  a test's own net
                made[place] = error

        async with anyio.create_task_group() as tasks:
            for place, work in enumerate(works):
                tasks.start_soon(one, place, work)
        return [made[place] for place in range(len(works))]


def notes(log: AuditLog, count: int, of: str = "call") -> list[Callable[[sqlite3.Connection], Any]]:
    return [
        log.noting("skill_execution_blocked", Act(principal="agent:cli", call_id=f"{of}-{number}"))
        for number in range(count)
    ]


def recorded(log: AuditLog) -> list[str]:
    return [record.call_id for record in log.tail(10_000)]


def test_sixty_four_at_once_share_a_transaction_or_two(database: Database, log: AuditLog) -> None:
    counted = Counted(database)
    assert anyio.run(counted.at_once, notes(log, 64)) == list(range(1, 65))
    assert counted.commits <= 2
    assert sorted(recorded(log)) == sorted(f"call-{number}" for number in range(64))


def test_also_after_a_long_time_alone_most_of_them_share_one(database: Database, log: AuditLog) -> None:
    alone, many = 5 * LONELY_AND_QUICK + 3, 4 * LONELY_AND_QUICK
    counted = Counted(database)
    assert anyio.run(commits_after_being_alone, counted, log, alone, many) <= LONELY_AND_QUICK + 2
    assert len(recorded(log)) == alone + many


def test_the_slower_the_disk_the_sooner_they_share_one(database: Database, log: AuditLog) -> None:
    counted = Counted(database, seconds=QUICK_SECONDS / 16)
    assert anyio.run(commits_after_being_alone, counted, log, 2 * LONELY_AND_QUICK + 3, 64) <= LONELY + 2


async def commits_after_being_alone(counted: Counted, log: AuditLog, alone: int, many: int) -> int:
    """On a disk that takes no time at all."""
    with counted.database.glance() as connection:
        connection.execute("PRAGMA synchronous=OFF")
    await counted.one_by_one(notes(log, alone, of="alone"))
    before = counted.commits
    await counted.at_once(notes(log, many))
    return counted.commits - before


def test_one_alone_is_written_each_time_at_once(database: Database, log: AuditLog) -> None:
    counted = Counted(database)
    works = notes(log, 4 * LONELY)
    assert anyio.run(counted.one_by_one, works) == list(range(1, len(works) + 1))
    assert counted.commits == len(works)


@pytest.mark.parametrize("before", [0, 3 * LONELY], ids=["in company", "alone"])
def test_being_cancelled_does_not_stop_a_write(database: Database, log: AuditLog, before: int) -> None:
    counted = Counted(database)

    async def work() -> None:
        await counted.one_by_one(notes(log, before, of="before"))
        with anyio.CancelScope() as scope:
            scope.cancel()
            await counted.writer.write(notes(log, 1, of="cancelled")[0])

    anyio.run(work)
    assert "cancelled-0" in recorded(log)


def test_being_cancelled_does_not_stop_a_write_that_waits_in_a_thread(
    database: Database, log: AuditLog, intruder: sqlite3.Connection
) -> None:
    counted = Counted(database)

    async def work() -> None:
        intruder.execute("BEGIN IMMEDIATE")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(counted.writer.write, notes(log, 1, of="cancelled")[0])
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
            intruder.execute("ROLLBACK")

    anyio.run(work)
    assert recorded(log) == ["cancelled-0"]


def test_nobody_pays_for_the_fault_of_another(database: Database, log: AuditLog) -> None:
    counted = Counted(database)
    twice = log.ending(Intent(seq=99, act=Act(principal="agent:cli")), "skill_executed")
    made = anyio.run(counted.at_once, [*notes(log, 3), twice, *notes(log, 3, of="after")])
    assert isinstance(made[3], RecordError)
    assert sorted(recorded(log)) == sorted([f"{of}-{each}" for of in ("call", "after") for each in range(3)])


def test_what_another_process_wrote_in_between_is_what_the_next_record_follows(
    database: Database, log: AuditLog, path: str
) -> None:
    counted = Counted(database)
    with Database.open(path) as other:
        theirs = AuditLog(other)

        async def work() -> None:
            for number in range(20):
                await counted.writer.write(notes(log, 1, of=f"ours-{number}")[0])
                if number % 3 == 0:
                    theirs.refused(Act(principal="agent:other"), code="forbidden", reasons=("no",))

        anyio.run(work)
    assert verify(path).ok
    assert len(log.tail(100)) == 27


def test_what_was_undone_is_not_what_the_next_record_follows(
    database: Database, log: AuditLog, path: str
) -> None:
    log.refused(Act(principal="agent:cli"), code="forbidden", reasons=("no",))
    with pytest.raises(KeyError), database.transaction() as connection:
        assert notes(log, 1, of="undone")[0](connection) == 2
        raise KeyError
    assert log.refused(Act(principal="agent:cli"), code="forbidden", reasons=("no",)) == 2
    assert verify(path).ok
