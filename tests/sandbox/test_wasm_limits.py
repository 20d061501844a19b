"""What a WASM run can use up, and how it is stopped."""

import os
import resource
import time
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from metier.model.digest import Json
from metier.model.ports import Answered
from metier.sandbox.wasm import RUNNING, WasmSandbox
from metier.sandbox.wasm_run import Work
from wasm_guests import GROWING, NUMBERS, SLEEPING, Bench, imported, wat


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_wasm_05_memory_grows_up_to_the_limit_and_not_beyond(bench: Bench) -> None:
    pages = 64 * 16  # 64 MB
    assert bench.run(GROWING, "grow", {"n": pages - 1}, limits={"memory_mb": 64}).value == 1
    assert bench.run(GROWING, "grow", {"n": pages}, limits={"memory_mb": 64}).value == -1


def test_wasm_05_tables_are_bounded(bench: Bench) -> None:
    assert bench.run(GROWING, "elements", {"n": 1_000}).value == 1
    assert bench.run(GROWING, "elements", {"n": 1_000_000}).value == -1


def test_wasm_05_many_tables_and_a_second_memory_are_refused(bench: Bench) -> None:
    tables = wat(f'(module {"(table 1 funcref)" * 17} (func (export "f")))')
    assert bench.run(wat('(module (table 1 funcref) (func (export "f")))'), "f").ending == "returned"
    assert bench.run(tables, "f").ending == "raised"
    memories = wat('(module (memory 1) (memory 1) (func (export "f")))')
    report = bench.run(memories, "f")
    assert report.ending == "not_started"
    assert "not valid" in report.fault.message  # type: ignore[union-attr]


def test_wasm_05_a_hundred_thousand_globals_and_a_large_data_segment_do_no_harm(bench: Bench) -> None:
    text = "(global i64 (i64.const 1))" * 100_000
    data = f'(memory 128) (data (i32.const 0) "{"x" * 4_000_000}")'
    before = _resident()
    assert bench.run(wat(f'(module {text} {data} (func (export "f")))'), "f").ending == "returned"
    assert (
        bench.run(wat(f'(module {data} (func (export "f")))'), "f", limits={"memory_mb": 1}).ending
        == "out_of_memory"
    )
    assert _resident() - before < 100 << 20


def test_res_09_a_memory_bomb_is_stopped_and_the_host_stays_flat(bench: Bench) -> None:
    bench.run(NUMBERS, "add", {"x": 1, "y": 1})  # the engine is loaded
    before = _resident()
    report = bench.run(GROWING, "bomb", limits={"memory_mb": 64})
    assert report.ending == "out_of_memory"
    assert 63 << 20 <= report.usage.memory_bytes <= 64 << 20
    assert _resident() - before < 50 << 20


def test_res_12_a_memory_that_begins_above_the_limit_is_refused_at_once(bench: Bench) -> None:
    huge = wat('(module (memory (export "memory") 65536) (func (export "f")))')
    assert bench.run(huge, "f", limits={"memory_mb": 4096}).ending == "returned"
    report = bench.run(huge, "f", limits={"memory_mb": 64})
    assert report.ending == "out_of_memory"
    assert report.usage.seconds < 1


def test_res_12_there_are_no_threads_to_make(bench: Bench) -> None:
    shared = wat('(module (memory (export "memory") 1 1 shared) (func (export "f")))')
    assert bench.run(shared, "f").ending == "not_started"
    spawn = wat('(module (import "wasi" "thread-spawn" (func (param i32) (result i32))) (func (export "f")))')
    report = bench.run(spawn, "f")
    assert report.ending == "not_started"
    assert "wasi.thread-spawn" in report.fault.message  # type: ignore[union-attr]


def test_wasm_06_fuel_ends_a_loop_and_is_told_apart(bench: Bench) -> None:
    report = bench.run(NUMBERS, "spin", limits={"fuel": 100_000})
    assert report.ending == "out_of_fuel"
    assert report.usage.fuel == 100_000
    assert bench.run(NUMBERS, "add", {"x": 1, "y": 2}, limits={"fuel": 100_000}).value == 3


COUNTING = """(local $i i32) (loop $l
    (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if $l (i32.lt_u (local.get $i) (i32.const 100000))))"""


def _burning(end: str) -> bytes:
    """A long loop, and then the end of it."""
    return wat(f"""(module {imported("proc_exit", "fd_write")} (memory (export "memory") 1)
        (func (export "f") {COUNTING} {end}) (func (export "_start") {COUNTING} {end}))""")


def test_wasm_06_fuel_is_told_where_the_engine_knows_it(bench: Bench) -> None:
    known = [bench.run(_burning(end), "f").usage.fuel for end in ("", "unreachable")]
    known += [bench.run(_burning("(call $proc_exit (i32.const 3))")).usage.fuel]
    for fuel in known:
        assert fuel is not None
        assert 100_000 < fuel < 2_000_000


@pytest.mark.parametrize(
    "end", ["(drop (i32.load (i32.const -1)))", "(drop (i32.div_u (i32.const 1) (i32.const 0)))"]
)
def test_wasm_06_no_fuel_is_told_for_a_trap_before_which_it_was_not_booked(bench: Bench, end: str) -> None:
    report = bench.run(_burning(end), "f")
    assert report.ending == "raised"
    assert report.usage.fuel is None


def test_wasm_06_no_fuel_is_told_for_a_run_that_the_clock_ended(bench: Bench) -> None:
    report = bench.run(NUMBERS, "spin", limits={"timeout": 0.3})
    assert report.ending == "timed_out"
    assert report.usage.fuel is None
    assert report.usage.cpu_seconds > 0


def test_wasm_06_fuel_ends_a_start_function(bench: Bench) -> None:
    start = wat('(module (func $s (loop $l (br $l))) (start $s) (func (export "f")))')
    assert bench.run(start, "f", limits={"fuel": 100_000}).ending == "out_of_fuel"


def test_wasm_06_fuel_runs_out_around_host_calls(bench: Bench) -> None:
    calling = wat(f"""(module {imported("random_get")} (memory (export "memory") 1)
        (func (export "_start") (loop $l (drop (call $random_get (i32.const 0) (i32.const 8))) (br $l))))""")
    assert bench.run(calling, limits={"fuel": 100_000}).ending == "out_of_fuel"


def test_wasm_06_the_store_of_a_run_that_failed_is_never_used_again(bench: Bench) -> None:
    module = bench.write(
        wat("""(module (memory (export "memory") 1)
        (func (export "spoil") (i32.store (i32.const 0) (i32.const 7)) unreachable)
        (func (export "look") (result i32) (i32.load (i32.const 0))))""")
    )

    async def both(sandbox):  # type: ignore[no-untyped-def]
        return await sandbox.run(bench.job(module, "spoil")), await sandbox.run(bench.job(module, "look"))

    spoiled, looked = bench.using(both)
    assert spoiled.ending == "raised"
    assert looked.value == 0


def test_res_01_an_endless_loop_ends_in_time(bench: Bench) -> None:
    report = bench.run(NUMBERS, "spin", limits={"timeout": 0.3})
    assert report.ending == "timed_out"
    assert 0.3 <= report.usage.seconds < 1.3


def test_res_01_a_loop_in_a_start_function_ends_in_time(bench: Bench) -> None:
    start = wat('(module (func $s (loop $l (br $l))) (start $s) (func (export "f")))')
    report = bench.run(start, "f", limits={"timeout": 0.3})
    assert report.ending == "timed_out"
    assert report.usage.seconds < 1.3


def test_res_02_an_hour_of_sleep_ends_in_time(bench: Bench) -> None:
    report = bench.run(SLEEPING, limits={"timeout": 0.3})
    assert report.ending == "timed_out"
    assert 0.3 <= report.usage.seconds < 1.3
    assert report.usage.cpu_seconds < 0.2


def test_a_short_sleep_is_slept(bench: Bench) -> None:
    nap = wat(f"""(module {imported("poll_oneoff", "fd_write")} (memory (export "memory") 1) (data (i32.const 512) "1")
        (func (export "_start")
            (i64.store (i32.const 24) (i64.const 150000000)) (i32.store (i32.const 16) (i32.const 1))
            (if (call $poll_oneoff (i32.const 0) (i32.const 64) (i32.const 1) (i32.const 128)) (then unreachable))
            (if (i32.ne (i32.load (i32.const 128)) (i32.const 1)) (then unreachable))
            (i32.store (i32.const 256) (i32.const 512)) (i32.store (i32.const 260) (i32.const 1))
            (drop (call $fd_write (i32.const 1) (i32.const 256) (i32.const 1) (i32.const 264)))))""")
    began = time.monotonic()
    report = bench.run(nap)
    assert (report.ending, report.value) == ("returned", 1)
    assert report.usage.seconds >= 0.15
    assert time.monotonic() - began < 5


def test_wasm_08_deep_recursion_is_a_trap_and_the_host_lives(bench: Bench) -> None:
    report = bench.run(NUMBERS, "deep")
    assert report.ending == "raised"
    assert report.fault is not None
    assert report.fault.name == "StackOverflow"
    assert bench.run(NUMBERS, "add", {"x": 1, "y": 1}).value == 2


def test_res_08_a_flood_of_output_is_cut_and_the_host_stays_flat(bench: Bench) -> None:
    flood = wat(f"""(module {imported("fd_write")} (memory (export "memory") 16)
        (func (export "_start") (local $n i32)
            (i32.store (i32.const 0) (i32.const 64)) (i32.store (i32.const 4) (i32.const 1000000))
            (loop $l
                (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
                (drop (call $fd_write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 8)))
                (local.set $n (i32.add (local.get $n) (i32.const 1)))
                (br_if $l (i32.lt_u (local.get $n) (i32.const 1000))))))""")
    bench.run(NUMBERS, "add", {"x": 1, "y": 1})
    before = _resident()
    report = bench.run(flood, limits={"output_bytes": 100_000})
    assert report.ending == "bad_result"
    assert report.truncated
    assert len(report.stdout) == len(report.stderr) == 100_000
    assert report.usage.output_bytes == 2 * 1_000 * 65_536
    assert _resident() - before < 50 << 20


CHATTY = {
    "fd_write": "(call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))",
    "fd_close": "(call $fd_close (i32.const 99))",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHATTY)
def test_res_01_many_runs_that_talk_without_a_pause_end_in_time_and_the_loop_goes_on(
    bench: Bench, name: str
) -> None:
    talking = wat(f"""(module {imported(name)} (memory (export "memory") 1)
        (func (export "_start")
            (i32.store (i32.const 0) (i32.const 64)) (i32.store (i32.const 4) (i32.const 2))
            (loop $l (drop {CHATTY[name]}) (br $l))))""")
    work = Work(
        form="program",
        bundle=str(bench.bundle),
        path=bench.write(talking),
        seconds=2.0,
        memory_bytes=1 << 20,
        output_bytes=1 << 10,
    )
    took: list[float] = []
    late: list[float] = []

    async def all_at_once(sandbox: WasmSandbox) -> None:
        await sandbox.run_work(replace(work, seconds=0.01))  # compiled

        async def one() -> None:
            began = time.monotonic()
            assert (await sandbox.run_work(work)).ending == "timed_out"
            took.append(time.monotonic() - began)

        async def beat() -> None:
            while True:
                began = time.monotonic()
                await anyio.sleep(0.01)
                late.append(time.monotonic() - began)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(beat)
            async with anyio.create_task_group() as runs:
                for _ in range(64):
                    runs.start_soon(one)
            tasks.cancel_scope.cancel()

    bench.using(all_at_once)
    assert len(took) == 64
    assert max(took) <= 3.0
    assert max(late) <= 1.0


def test_runs_at_once_are_bounded_by_the_processors(bench: Bench) -> None:
    assert min(64, max(8, 4 * (os.cpu_count() or 1))) == RUNNING
    module = bench.write(
        wat("""(module (import "metier" "ask" (func $ask (param i32 i32) (result i64)))
        (memory (export "memory") 1) (data (i32.const 0) "{\\22method\\22:\\22m\\22,\\22params\\22:{}}")
        (func (export "f") (drop (call $ask (i32.const 0) (i32.const 26)))))""")
    )
    within, most = 0, 0
    enough = anyio.Event()

    class Counting:
        async def ask(self, method: str, params: dict[str, Json]) -> Answered:
            nonlocal within, most
            within += 1
            most = max(most, within)
            if within >= RUNNING:
                enough.set()
            await enough.wait()
            await anyio.sleep(0.05)
            within -= 1
            return Answered(value=None)

    async def all_at_once(sandbox: WasmSandbox) -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(2 * RUNNING):
                tasks.start_soon(sandbox.run, bench.job(module, "f", host=Counting()))

    bench.using(all_at_once)
    assert most == RUNNING
