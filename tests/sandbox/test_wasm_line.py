"""Who compiles when: shared, fair, bounded, and a refusal is remembered."""

import os
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest

from metier.sandbox import wasm_line
from metier.sandbox.wasm_compile import NotNow, Refused, Source
from metier.sandbox.wasm_line import Line


class Workshop:
    """Compiles nothing: it notes what it is given, and is done when told."""

    def __init__(self, *, open_: bool = False) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.problems: dict[str, Exception] = {}
        self._doors = threading.Condition()
        self._open = open_
        self._may_end: set[str] = set()

    def make(self, source: Source, stopped: threading.Event) -> None:
        with self._doors:
            self.begun.append(source.key)
            while not (self._open or source.key in self._may_end or stopped.is_set()):
                self._doors.wait(0.05)
            self.ended.append(source.key)
        if source.key in self.problems:
            raise self.problems[source.key]

    def finish(self, *keys: str) -> None:
        with self._doors:
            self._may_end.update(keys)
            self._doors.notify_all()


def source(key: str) -> Source:
    return Source(b"", False, key)


async def until(what: Callable[[], object]) -> None:
    with anyio.fail_after(20):
        while not what():
            await anyio.sleep(0.005)


def using(line: Line, act: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    try:
        return anyio.run(act)
    finally:
        line.close()


async def outcome(line: Line, key: str, bundle: str = "skill", seconds: float = 20) -> str:
    try:
        await line.wait(source(key), bundle, seconds)
    except (Refused, NotNow) as error:
        return f"{type(error).__name__}: {error}"
    return "compiled"


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def workers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "metier-wasm-compile"]


def test_all_who_want_a_module_share_one_compile_and_its_end() -> None:
    shop = Workshop()
    line = Line(shop.make)
    told: list[str] = []

    async def main() -> None:
        async def one() -> None:
            told.append(await outcome(line, "a"))

        async with anyio.create_task_group() as tasks:
            for _ in range(30):
                tasks.start_soon(one)
            await until(lambda: shop.begun)
            shop.finish("a")

    using(line, main)
    assert told == ["compiled"] * 30
    assert shop.begun == ["a"]


def test_those_who_wait_are_all_told_when_some_of_them_leave() -> None:
    shop = Workshop()
    line = Line(shop.make)
    told: list[str] = []

    async def main() -> None:
        async def one(seconds: float) -> None:
            told.append((await outcome(line, "a", seconds=seconds)).partition(":")[0])

        async with anyio.create_task_group() as tasks:
            for number in range(10):
                tasks.start_soon(one, 20 if number % 2 else 0.05)
            await until(lambda: len(told) == 5)
            shop.finish("a")

    using(line, main)
    assert told == ["NotNow"] * 5 + ["compiled"] * 5


def test_wasm_12_a_refusal_is_remembered_by_digest() -> None:
    shop = Workshop(open_=True)
    shop.problems["bad"] = Refused("it is not valid")
    line = Line(shop.make)

    async def main() -> list[str]:
        return [await outcome(line, key) for key in ("bad", "bad", "good", "bad")]

    refused = "Refused: it is not valid"
    assert using(line, main) == [refused, refused, "compiled", refused]
    assert shop.begun == ["bad", "good"]
    with pytest.raises(Refused, match="not valid"):
        line.check("bad")
    line.check("good")


def test_a_refusal_that_holds_for_a_time_is_forgotten_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Workshop(open_=True)
    shop.problems["slow"] = Refused("it took too long", holds=600)
    line = Line(shop.make)
    assert "too long" in using(line, lambda: outcome(line, "slow"))
    with pytest.raises(Refused):
        line.check("slow")
    now = time.monotonic()
    monkeypatch.setattr(wasm_line.time, "monotonic", lambda: now + 601)
    line.check("slow")


def test_refusals_are_remembered_in_a_bounded_number() -> None:
    line = Line(Workshop().make)
    for number in range(wasm_line._MOST_REFUSED + 1):
        line.remember(f"m{number}", Refused("no"))
    line.check("m0")
    with pytest.raises(Refused):
        line.check("m1")


def test_what_is_no_fault_of_the_module_is_tried_again() -> None:
    shop = Workshop(open_=True)
    shop.problems["a"] = NotNow("no process is to be had")
    line = Line(shop.make)

    async def main() -> list[str]:
        first = await outcome(line, "a")
        shop.problems.clear()
        return [first, await outcome(line, "a")]

    assert using(line, main) == ["NotNow: no process is to be had", "compiled"]


def test_an_error_nobody_foresaw_is_told_and_the_line_goes_on() -> None:
    shop = Workshop(open_=True)
    shop.problems["a"] = RuntimeError("/a/place/of/the/host")
    line = Line(shop.make)

    async def main() -> list[str]:
        return [await outcome(line, key) for key in ("a", "b", "a")]

    told = using(line, main)
    assert told[1] == "compiled"
    assert told[0] == told[2]
    assert told[0].startswith("NotNow")
    assert "/a/place" not in told[0]


def test_wasm_12_one_skill_never_holds_both_places_to_compile() -> None:
    shop = Workshop()
    line = Line(shop.make)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for key in ("a1", "a2", "a3"):
                tasks.start_soon(outcome, line, key, "a")
            await until(lambda: shop.begun)
            tasks.start_soon(outcome, line, "b1", "b")
            await until(lambda: len(shop.begun) == 2)
            assert shop.begun == ["a1", "b1"]
            tasks.start_soon(outcome, line, "c1", "c")
            shop.finish("b1")
            await until(lambda: len(shop.begun) == 3)
            assert shop.begun == ["a1", "b1", "c1"]
            assert len(workers()) == 2
            shop.finish("c1", "a1", "a2", "a3")
        assert sorted(shop.ended) == ["a1", "a2", "a3", "b1", "c1"]

    using(line, main)


def test_wasm_12_a_call_waits_a_bounded_time_and_the_compile_goes_on_for_the_next() -> None:
    shop = Workshop()
    line = Line(shop.make)

    async def main() -> None:
        began = time.monotonic()
        said = await outcome(line, "a", seconds=0.2)
        assert time.monotonic() - began < 5
        assert said == "NotNow: its module is still being compiled after 0.2 seconds; try again shortly"
        said = await outcome(line, "b", seconds=0.2)
        assert (
            said == "NotNow: its module is still in line to be compiled after 0.2 seconds; try again shortly"
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(outcome, line, "a")
            await anyio.wait_all_tasks_blocked()  # it has asked, and waits for the one that is being compiled
            shop.finish("a")
        assert shop.ended == ["a"]

    using(line, main)
    assert shop.begun == ["a"]


def test_what_nobody_waits_for_any_more_is_not_begun() -> None:
    shop = Workshop()
    line = Line(shop.make)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(outcome, line, "first")
            await until(lambda: shop.begun)
            await outcome(line, "left", seconds=0.05)
            shop.finish("first")
        shop.finish("last")
        assert await outcome(line, "last") == "compiled"

    using(line, main)
    assert shop.begun == ["first", "last"]


def test_wasm_12_one_skill_cannot_fill_the_line_nor_one_module_the_waiting_room() -> None:
    shop = Workshop()
    line = Line(shop.make)
    told: list[str] = []

    async def main() -> None:
        async def one(key: str, bundle: str) -> None:
            told.append(await outcome(line, key, bundle))

        async with anyio.create_task_group() as tasks:
            for number in range(wasm_line._MOST_OF_A_SKILL + 5):
                tasks.start_soon(one, f"a{number}", "a")
            await until(lambda: len(told) == 5)
            for _ in range(wasm_line._MOST_CALLS + 3):
                tasks.start_soon(one, "b", "b")
            await until(lambda: len(told) == 8)
            assert all(each.startswith("NotNow: ") and "try again" in each for each in told)
            shop.finish("c")
            tasks.start_soon(one, "c", "c")
            shop.finish("b")
            await until(lambda: "c" in shop.ended)
            tasks.cancel_scope.cancel()

    using(line, main)


def test_it_leaves_no_descriptor_thread_or_place_behind() -> None:
    shop = Workshop(open_=True)
    shop.problems["bad"] = Refused("no")
    line = Line(shop.make)

    async def main() -> tuple[int, int]:
        before = descriptors()
        for number in range(20):
            await outcome(line, f"m{number}")
            await outcome(line, "bad")
            await outcome(line, f"late{number}", seconds=0)
        await until(lambda: not workers())
        return before, descriptors()

    before, after = using(line, main)
    assert after <= before
    assert not line._orders


def test_closing_ends_what_waits_and_what_is_compiled() -> None:
    shop = Workshop()
    line = Line(shop.make)
    told: list[str] = []

    async def main() -> None:
        async def one(key: str) -> None:
            told.append(await outcome(line, key))

        async with anyio.create_task_group() as tasks:
            for key in ("a", "b"):
                tasks.start_soon(one, key)
            await until(lambda: shop.begun)
            await anyio.to_thread.run_sync(line.close)
        told.append(await outcome(line, "c"))

    using(line, main)
    assert len(told) == 3
    assert "NotNow: the sandbox is being closed" in told
    assert not workers()
