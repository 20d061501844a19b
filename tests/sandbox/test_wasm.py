"""How WASM tools are called and how their runs end."""

import math
import os
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from metier.model.entry import Command
from metier.model.guarantee import DEFAULTS, Guarantee
from metier.model.job import Report
from metier.sandbox.wasm import RUNNING, WAITING, WasmSandbox
from wasm_guests import ECHO, JSON_ECHO, NUMBERS, SLEEPING, Bench, imported, printing, wat


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_program_gets_its_arguments_on_stdin_and_its_output_is_the_result(bench: Bench) -> None:
    report = bench.run(ECHO, None, {"b": 1, "a": "grün"})
    assert report.ending == "returned"
    assert report.value == {"a": "grün", "b": 1}
    assert report.stdout == '{"a":"grün","b":1}'
    assert report.exit_code == 0


@pytest.mark.parametrize(
    ("printed", "ending"),
    [
        ("", "no_result"),
        (" \n", "no_result"),
        ("hello", "bad_result"),
        ('{"a":1,"a":2}', "bad_result"),
        ("NaN", "bad_result"),
    ],
)
def test_what_is_not_plain_json_is_no_result(bench: Bench, printed: str, ending: str) -> None:
    assert bench.run(printing(printed)).ending == ending


def test_an_exit_code_is_told(bench: Bench) -> None:
    report = bench.run(
        wat(f'(module {imported("proc_exit")} (memory (export "memory") 1)'
            ' (func (export "_start") (call $proc_exit (i32.const 7))))')
    )  # fmt: skip
    assert (report.ending, report.exit_code) == ("exited", 7)


@pytest.mark.parametrize(
    ("function", "arguments", "value"),
    [
        ("add", {"x": 2, "y": 40}, 42),
        ("add", {"x": 2**31 - 1, "y": 1}, -(2**31)),
        ("add", {"x": 2**32 - 1, "y": 1}, 0),
        ("half", {"x": 5}, 2.5),
        ("both", {"x": -4}, [-4, -8]),
        ("nothing", {}, None),
    ],
)
def test_a_function_is_called_with_numbers(bench: Bench, function: str, arguments: Any, value: Any) -> None:
    report = bench.run(NUMBERS, function, arguments)
    assert (report.ending, report.value) == ("returned", value)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("add", {"x": 1}),
        ("add", {"x": 1, "y": 2, "z": 3}),
        ("add", {"x": 1, "y": 2**32}),
        ("add", {"x": 1, "y": 1.5}),
        ("add", {"x": 1, "y": True}),
        ("add", {"x": 1, "y": "2"}),
        ("absent", {}),
        ("memory", {}),
    ],
)
def test_what_does_not_fit_a_function_never_reaches_it(bench: Bench, function: str, arguments: Any) -> None:
    report = bench.run(NUMBERS, function, arguments)
    assert report.ending == "not_started"
    assert report.fault is not None
    assert report.fault.message


def test_a_number_that_json_cannot_carry_is_a_bad_result(bench: Bench) -> None:
    assert bench.run(NUMBERS, "big").ending == "bad_result"


def test_a_function_can_take_and_give_json(bench: Bench) -> None:
    arguments = {"list": [1, 2.5, None], "text": "ü"}
    assert bench.run(JSON_ECHO, "echo", arguments).value == arguments


@pytest.mark.parametrize(("function", "ending"), [("outside", "bad_result"), ("empty", "no_result")])
def test_a_result_outside_the_memory_is_not_taken(bench: Bench, function: str, ending: str) -> None:
    assert bench.run(JSON_ECHO, function, {"a": 1}).ending == ending


@pytest.mark.parametrize(
    ("function", "arguments", "name"),
    [("trap", {}, "Unreachable"), ("divide", {"x": 0}, "IntegerDivisionByZero")],
)
def test_a_trap_is_told_by_its_name_and_nothing_of_the_host(
    bench: Bench, function: str, arguments: Any, name: str
) -> None:
    report = bench.run(NUMBERS, function, arguments)
    assert report.ending == "raised"
    assert report.fault is not None
    assert report.fault.name == name
    assert "/" not in report.fault.message


def test_a_reactor_is_initialised_first(bench: Bench) -> None:
    reactor = wat("""(module (global $n (mut i32) (i32.const 0))
        (func (export "_initialize") (global.set $n (i32.const 5)))
        (func (export "get") (result i32) (global.get $n)))""")
    assert bench.run(reactor, "get").value == 5


def test_nothing_is_kept_between_two_runs(bench: Bench) -> None:
    counter = bench.write(
        wat("""(module (global $n (mut i32) (i32.const 0))
        (func (export "count") (result i32) (global.set $n (i32.add (global.get $n) (i32.const 1))) (global.get $n)))""")
    )
    job = bench.job(counter, "count")

    async def twice(sandbox: WasmSandbox) -> list[Report]:
        return [await sandbox.run(job), await sandbox.run(job)]

    assert [report.value for report in bench.using(twice)] == [1, 1]


def test_the_cost_of_a_run_is_told_however_it_ends(bench: Bench) -> None:
    good = bench.run(ECHO, None, {"a": 1})
    assert good.usage.fuel
    assert good.usage.memory_bytes == 2 * 65_536
    assert good.usage.output_bytes == len('{"a":1}')
    assert 0 < good.usage.cpu_seconds <= good.usage.seconds * 1.5
    late = bench.run(NUMBERS, "spin", limits={"timeout": 0.3})
    assert 0.05 < late.usage.cpu_seconds < 1  # a busy machine gives it less than the time it had
    dry = bench.run(NUMBERS, "spin", limits={"fuel": 1_000_000})
    assert dry.usage.fuel == 1_000_000


def test_a_neighbour_is_not_ended_with_a_run(bench: Bench) -> None:
    bench.write(NUMBERS)
    long = bench.job("m.wasm", "spin", limits={"timeout": 0.8})
    short = bench.job("m.wasm", "spin", limits={"timeout": 0.2})

    async def both(sandbox: WasmSandbox) -> dict[str, Report]:
        ended: dict[str, Report] = {}

        async def one(name: str, job: Any) -> None:
            ended[name] = await sandbox.run(job)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, "long", long)
            tasks.start_soon(one, "short", short)
        return ended

    ended = bench.using(both)
    assert {report.ending for report in ended.values()} == {"timed_out"}
    assert ended["short"].usage.seconds < 0.6
    assert ended["long"].usage.seconds >= 0.8


@pytest.mark.parametrize("module", [pytest.param(NUMBERS, id="loop"), pytest.param(SLEEPING, id="sleep")])
def test_cancelling_ends_a_run_at_once_and_leaves_no_thread_in_it(bench: Bench, module: bytes) -> None:
    job = bench.job(module, "spin" if module is NUMBERS else None)

    async def cancelled(sandbox: WasmSandbox) -> float:
        await sandbox.run(bench.job(bench.write(JSON_ECHO, "warm.wasm"), "echo"))  # the engine is made now
        with anyio.move_on_after(1):
            await sandbox.run(job)
        began = time.monotonic()
        while _busy_threads() and time.monotonic() < began + 2:
            await anyio.sleep(0.01)
        return time.monotonic() - began

    began = time.monotonic()
    assert bench.using(cancelled) < 0.5
    assert time.monotonic() - began < 5
    assert not _busy_threads()


def _busy_threads() -> list[str]:
    import sys

    frames = sys._current_frames()
    return [name for frame in frames.values() for name in _names(frame) if name == "_in_store"]


def _names(frame: Any) -> list[str]:
    names = []
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names


def test_the_loop_goes_on_while_a_module_runs(bench: Bench) -> None:
    job = bench.job(NUMBERS, "spin", limits={"timeout": 0.5})

    async def beats(sandbox: WasmSandbox) -> int:
        count = 0

        async def beat() -> None:
            nonlocal count
            while True:
                await anyio.sleep(0.01)
                count += 1

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(beat)
            await sandbox.run(job)
            tasks.cancel_scope.cancel()
        return count

    assert bench.using(beats) > 10


def test_beyond_capacity_the_answer_is_busy_and_all_others_are_right(bench: Bench) -> None:
    name = bench.write(NUMBERS)
    many = RUNNING + WAITING + 20

    async def all_at_once(sandbox: WasmSandbox) -> list[tuple[int, Report]]:
        await sandbox.run(bench.job(name, "add", {"x": 0, "y": 0}))
        ended: list[tuple[int, Report]] = []

        async def one(number: int) -> None:
            ended.append((number, await sandbox.run(bench.job(name, "add", {"x": number, "y": 1}))))

        async with anyio.create_task_group() as tasks:
            for number in range(many):
                tasks.start_soon(one, number)
        return ended

    ended = bench.using(all_at_once)
    assert len(ended) == many
    returned = [(number, report.value) for number, report in ended if report.ending == "returned"]
    assert all(value == number + 1 for number, value in returned)
    assert {report.ending for _, report in ended} == {"returned", "busy"}
    assert len(returned) >= RUNNING + WAITING


@pytest.mark.parametrize(
    "limits",
    [
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": math.nan},
        {"timeout": math.inf},
        {"memory_mb": 0},
        {"memory_mb": -5},
        {"fuel": 0},
        {"output_bytes": -1},
    ],
)
def test_a_limit_that_means_nothing_refuses_the_run(bench: Bench, limits: dict[str, Any]) -> None:
    assert bench.run(NUMBERS, "add", {"x": 1, "y": 1}, limits=limits).ending == "not_started"


def test_limits_beyond_the_greatest_are_cut(bench: Bench) -> None:
    report = bench.run(
        NUMBERS, "add", {"x": 1, "y": 1}, limits={"timeout": 1e9, "memory_mb": 2**40, "fuel": 2**63}
    )
    assert report.value == 2


def test_it_promises_all_that_a_wasm_tool_needs(bench: Bench) -> None:
    sandbox = WasmSandbox(str(bench.cache))
    assert DEFAULTS[type(bench.job(NUMBERS).entry)] <= sandbox.guarantees()
    assert Guarantee.MEMORY_EXACT in sandbox.guarantees()
    assert Guarantee.NETWORK_BY_GRANT not in sandbox.guarantees()
    assert sandbox.missing() == ()


def test_it_takes_wasm_only(bench: Bench) -> None:
    import msgspec

    sandbox = WasmSandbox(str(bench.cache))
    job = bench.job(NUMBERS)
    assert sandbox.takes(job)
    assert not sandbox.takes(msgspec.structs.replace(job, entry=Command(argv=("true",))))


def test_without_wasmtime_it_promises_nothing_and_says_what_to_install(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "wasmtime", None)
    sandbox = WasmSandbox(str(bench.cache))
    assert sandbox.guarantees() == frozenset()
    (missing,) = sandbox.missing()
    assert missing.remedy == "pip install 'metier[wasm]'"
    job = bench.job(b"\0asm\1\0\0\0", "add")
    report = anyio.run(sandbox.run, job)
    assert report.ending == "not_started"
    assert "metier[wasm]" in report.fault.message  # type: ignore[union-attr]


def test_many_runs_leave_nothing_behind(bench: Bench, tmp_path: Path) -> None:
    jobs = [
        bench.job(bench.write(ECHO, "echo.wasm"), None, {"a": 1}),
        bench.job(bench.write(NUMBERS, "numbers.wasm"), "trap"),
        bench.job("numbers.wasm", "spin", limits={"fuel": 10_000}),
        bench.job("numbers.wasm", "spin", limits={"timeout": 0.01}),
    ]

    async def many(sandbox: WasmSandbox) -> tuple[int, int]:
        for job in jobs * 2:
            await sandbox.run(job)
        before = len(os.listdir("/proc/self/fd"))
        for job in jobs * 25:
            await sandbox.run(job)
        return before, len(os.listdir("/proc/self/fd"))

    before, after = bench.using(many)
    assert after <= before + 1
    assert [thread.name for thread in threading.enumerate() if "wasm" in thread.name] == []
    assert not [path for path in bench.cache.iterdir() if path.is_dir()]
