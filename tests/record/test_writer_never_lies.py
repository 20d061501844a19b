"""Many writes, one transaction: everyone gets his own result, and nobody takes for written what is not on the disk."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio import to_thread

from metier.errors import StateError
from metier.record import writer as writers
from metier.record.database import Database
from metier.record.writer import Work, Writer


def note(name: str) -> Work[str]:
    def work(connection: sqlite3.Connection) -> str:
        connection.execute("INSERT INTO setting VALUES (?, 'x', '', '')", (name,))
        return name

    return work


def fails(error: Exception) -> Work[str]:
    def work(connection: sqlite3.Connection) -> str:
        connection.execute("INSERT INTO setting VALUES ('half', 'x', '', '')")
        raise error

    return work


def written(database: Database) -> set[str]:
    with database.reading() as connection:
        return {name for (name,) in connection.execute("SELECT name FROM setting")}


async def all_of(writer: Writer, works: list[Work[str]]) -> list[Any]:
    ended: list[Any] = [None] * len(works)

    async def one(index: int) -> None:
        try:
            ended[index] = await writer.write(works[index])
        except Exception as error:  # noqa: BLE001  it is what is looked at
            ended[index] = error

    async with anyio.create_task_group() as tasks:
        for index in range(len(works)):
            tasks.start_soon(one, index)
    return ended


def test_those_of_one_moment_share_a_commit_and_each_has_his_own_result(database: Database) -> None:
    commits: list[int] = []
    writer = Writer(database, before_commit=lambda: commits.append(1))
    names = [f"n{number}" for number in range(64)]
    assert anyio.run(all_of, writer, [note(name) for name in names]) == names
    assert written(database) == set(names)
    assert len(commits) == 1


def test_a_work_that_fails_costs_only_whose_it_is(database: Database) -> None:
    works = [note("a"), fails(ValueError("mine")), note("b"), fails(KeyError("too")), note("c")]
    ended = anyio.run(all_of, Writer(database), works)
    assert [ended[0], ended[2], ended[4]] == ["a", "b", "c"]
    assert isinstance(ended[1], ValueError)
    assert isinstance(ended[3], KeyError)
    assert written(database) == {"a", "b", "c"}


def test_a_fault_of_the_database_is_told_in_words_to_whose_it_is(database: Database) -> None:
    def nonsense(connection: sqlite3.Connection) -> str:
        return str(connection.execute("SELECT nonsense"))

    ended = anyio.run(all_of, Writer(database), [note("a"), nonsense])
    assert ended[0] == "a"
    assert isinstance(ended[1], StateError)


def busy(path: str) -> sqlite3.Connection:
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    return other


def test_aud_07_where_no_thread_is_to_be_had_nobody_takes_his_work_for_written(
    path: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none_left(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    other = busy(path)
    with monkeypatch.context() as patch:
        patch.setattr(writers.to_thread, "run_sync", none_left)
        ended = anyio.run(all_of, Writer(database), [note(f"n{number}") for number in range(4)])
    other.close()
    assert [type(each) for each in ended] == [StateError] * 4
    assert written(database) == set()


@pytest.mark.parametrize("error", [MemoryError(), OSError("gone"), RuntimeError("shutting down")])
def test_aud_07_whatever_breaks_the_leader_the_others_are_not_told_that_it_is_written(
    database: Database, error: Exception
) -> None:
    def breaks() -> None:
        raise error

    writer = Writer(database, before_commit=breaks)
    ended = anyio.run(all_of, writer, [note(f"n{number}") for number in range(4)])
    assert all(isinstance(each, Exception) for each in ended), ended
    assert written(database) == set()


def test_a_database_that_is_busy_is_waited_for_and_the_loop_goes_on(path: str, database: Database) -> None:
    beats: list[int] = []

    async def main() -> str:
        other = busy(path)
        writer = Writer(database)

        async def heart() -> None:
            for _ in range(10):
                beats.append(1)
                await anyio.sleep(0.01)
            other.execute("ROLLBACK")
            other.close()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(heart)
            await anyio.lowlevel.checkpoint()
            return await writer.write(note("a"))

    assert anyio.run(main) == "a"
    assert len(beats) == 10
    assert written(database) == {"a"}


def cancelled(
    at: Callable[[asyncio.Task[str], asyncio.Task[str]], asyncio.Task[str]], database: Database
) -> Any:
    """Two write; one of them is cancelled the way asyncio does it, which heeds no shield. What a third one gets."""

    async def main() -> Any:
        writer = Writer(database)
        first = asyncio.create_task(writer.write(note("first")))
        second = asyncio.create_task(writer.write(note("second")))
        await asyncio.sleep(0)  # the first leads and lets others join
        at(first, second).cancel()
        with anyio.fail_after(5):
            third = await writer.write(note("third"))
            done = await asyncio.gather(first, second, return_exceptions=True)
        return [*done, third]

    return asyncio.run(main())


def test_who_leads_and_goes_away_leaves_nobody_waiting(database: Database) -> None:
    first, second, third = cancelled(lambda first, _second: first, database)
    assert isinstance(first, asyncio.CancelledError)
    assert (second, third) == ("second", "third")
    assert written(database) == {"second", "third"}, "and what he wanted is not written"


def test_who_waits_and_goes_away_leaves_nobody_waiting(database: Database) -> None:
    first, second, third = cancelled(lambda _first, second: second, database)
    assert (first, third) == ("first", "third")
    assert isinstance(second, asyncio.CancelledError)
    assert {"first", "third"} <= written(database)


def test_being_cancelled_does_not_stop_a_write_that_began(path: str, database: Database) -> None:
    other = busy(path)
    released = threading.Event()

    async def main() -> list[str]:
        done: list[str] = []

        async def one() -> None:
            done.append(await Writer(database).write(note("a")))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one)
            await anyio.sleep(0.05)
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(lambda: (other.execute("ROLLBACK"), other.close(), released.set()))
        return done

    assert anyio.run(main) == ["a"]
    assert released.is_set()
    assert written(database) == {"a"}


def test_a_thousand_lonely_writes_and_then_company_all_are_written(database: Database) -> None:
    async def main() -> list[Any]:
        writer = Writer(database)
        alone = [await writer.write(note(f"alone{number}")) for number in range(100)]
        return alone + await all_of(writer, [note(f"together{number}") for number in range(100)])

    ended = anyio.run(main)
    assert written(database) == set(ended)
    assert len(set(ended)) == 200
