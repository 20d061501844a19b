"""What a module that is slow to compile costs the others, and its own calls."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from metier.model.job import Report
from metier.sandbox import wasm, wasm_compile
from metier.sandbox.guest import compile_wasm
from metier.sandbox.wasm import RUNNING, WasmSandbox
from wasm_guests import NUMBERS, Bench, wat


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def slow(functions: int) -> bytes:
    """Valid, and about a second of work for every ten thousand functions."""
    body = "(i32.add (i32.mul (local.get 0) (i32.const 3)) (local.get 1))"
    each = f"(func (param i32 i32) (result i32) {body})"
    return wat(f'(module {each * functions} (func (export "f") (result i32) (i32.const 7)))')


def compilers(of: int) -> list[int]:
    """Processes below `of` that compile."""
    found = []
    for thread in Path(f"/proc/{of}/task").iterdir():
        try:
            children = (thread / "children").read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # the thread ended between two looks
        for child in children:
            try:
                line = Path(f"/proc/{child}/cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if os.path.basename(compile_wasm.__file__).encode() in line:
                found.append(int(child))
    return found


@pytest.mark.slow
def test_wasm_12_calls_of_a_slow_module_end_together_and_keep_nobody_from_running(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wasm_compile, "COMPILE_SECONDS", 2.0)
    bomb, good = bench.write(slow(100_000), "bomb.wasm"), bench.write(NUMBERS, "good.wasm")
    many = 3 * RUNNING
    ended: list[tuple[float, Report]] = []

    async def main(sandbox: WasmSandbox) -> tuple[float, float]:
        job = bench.job(good, "add", {"x": 1, "y": 2})
        assert (await sandbox.run(job)).value == 3
        start = time.monotonic()

        async def one() -> None:
            report = await sandbox.run(bench.job(bomb, "f", limits={"timeout": 1.0}))
            ended.append((time.monotonic() - start, report))

        async with anyio.create_task_group() as tasks:
            for _ in range(many):
                tasks.start_soon(one)
            with anyio.fail_after(20):
                while not compilers(os.getpid()):
                    await anyio.sleep(0.01)
            began = time.monotonic()
            assert (await sandbox.run(job)).value == 3
            neighbour = time.monotonic() - began
            assert not ended
        began = time.monotonic()
        again = await sandbox.run(bench.job(bomb, "f"))
        assert again.ending == "not_started"
        return neighbour, time.monotonic() - began

    neighbour, again = bench.using(main)
    assert neighbour < 1.5
    assert again < 1.0  # remembered, not tried again
    assert len(ended) == many
    assert {report.ending for _, report in ended} == {"not_started"}
    assert all("could not be compiled within" in report.fault.message for _, report in ended if report.fault)
    assert max(seconds for seconds, _ in ended) < 6


def test_wasm_12_a_call_that_waited_long_enough_is_busy_and_the_next_finds_it_compiled(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wasm, "LEAST_WAIT", 0.1)
    name = bench.write(slow(4_000))

    async def main(sandbox: WasmSandbox) -> tuple[Report, list[int], Report]:
        first = await sandbox.run(bench.job(name, "f", limits={"timeout": 0.1}))
        going_on = compilers(os.getpid())
        with anyio.fail_after(30):
            while compilers(os.getpid()):
                await anyio.sleep(0.02)
        return first, going_on, await sandbox.run(bench.job(name, "f", limits={"timeout": 10.0}))

    first, going_on, second = bench.using(main)
    assert first.ending == "busy"
    assert first.fault is not None
    assert "still being compiled after 0.1 seconds; try again" in first.fault.message
    assert len(going_on) == 1
    assert second.value == 7
    assert len(list(bench.cache.glob("*.cwasm"))) == 1


def test_wasm_12_a_cancelled_call_takes_the_compile_from_nobody(bench: Bench) -> None:
    name = bench.write(slow(3_000))

    async def main(sandbox: WasmSandbox) -> tuple[set[int], Report]:
        seen: set[int] = set()
        reports: list[Report] = []

        async def stays() -> None:
            reports.append(await sandbox.run(bench.job(name, "f")))

        async with anyio.create_task_group() as staying:
            async with anyio.create_task_group() as leaving:
                leaving.start_soon(sandbox.run, bench.job(name, "f"))
                with anyio.fail_after(20):
                    while not seen:
                        await anyio.sleep(0.005)
                        seen.update(compilers(os.getpid()))
                staying.start_soon(stays)
                await anyio.sleep(0.01)
                leaving.cancel_scope.cancel()
            while not reports:
                await anyio.sleep(0.005)
                seen.update(compilers(os.getpid()))
        return seen, reports[0]

    seen, report = bench.using(main)
    assert report.value == 7
    assert len(seen) == 1


def test_a_machine_that_starts_no_process_now_may_do_so_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = bench.write(NUMBERS)
    interpreter = sys.executable

    async def main(sandbox: WasmSandbox) -> list[Report]:
        monkeypatch.setattr(sys, "executable", str(bench.top / "not-there"))
        first = await sandbox.run(bench.job(name, "add", {"x": 1, "y": 1}))
        monkeypatch.setattr(sys, "executable", interpreter)
        return [first, await sandbox.run(bench.job(name, "add", {"x": 1, "y": 1}))]

    first, second = bench.using(main)
    assert first.ending == "busy"
    assert first.fault is not None
    assert "try again" in first.fault.message
    assert str(bench.top) not in first.fault.message
    assert second.value == 2


def test_an_import_that_is_not_offered_is_remembered_too(bench: Bench) -> None:
    name = bench.write(wat('(module (import "env" "system" (func)) (func (export "f")))'))

    async def main(sandbox: WasmSandbox) -> list[Report]:
        first = await sandbox.run(bench.job(name, "f"))
        for file in bench.cache.glob("*.cwasm"):
            file.unlink()
        return [first, await sandbox.run(bench.job(name, "f"))]

    first, second = bench.using(main)
    assert first.ending == second.ending == "not_started"
    assert first.fault == second.fault
    assert not list(bench.cache.glob("*.cwasm"))


def test_closing_ends_a_compile(bench: Bench) -> None:
    name = bench.write(slow(50_000))

    async def main(sandbox: WasmSandbox) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sandbox.run, bench.job(name, "f"))
            with anyio.fail_after(20):
                while not compilers(os.getpid()):
                    await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()

    bench.using(main)
    assert compilers(os.getpid()) == []


HOST = """
import sys
sys.path[:0] = sys.argv[3:]
from wasm_guests import Bench
from pathlib import Path
bench = Bench(Path(sys.argv[1]))
bench.run(sys.argv[2], "f")
"""


@pytest.mark.slow
def test_a_compile_dies_with_its_host(bench: Bench) -> None:
    name = bench.write(slow(100_000))
    host = subprocess.Popen([sys.executable, "-c", HOST, str(bench.top), name, *filter(None, sys.path)])
    try:
        until = time.monotonic() + 20
        while not (found := compilers(host.pid)) and time.monotonic() < until:
            time.sleep(0.02)
        (child,) = found
        # It has all of the module once it is at work: one that is cut off ends by itself.
        while _worked(child) < 0.5 and time.monotonic() < until:
            time.sleep(0.02)
    finally:
        host.send_signal(signal.SIGKILL)
        host.wait()
    until = time.monotonic() + 2
    while (alive := _runs(child)) and time.monotonic() < until:
        time.sleep(0.02)
    assert not alive


def _worked(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / os.sysconf("SC_CLK_TCK")


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
