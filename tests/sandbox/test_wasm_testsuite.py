"""A checkout of the WASI test suite can be pointed at the sandbox."""

import json
import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from metier.sandbox.guest.aftermath import empty
from metier.sandbox.wasm import WasmSandbox
from metier.testing.wasi_testsuite import Verdict, run_suite
from wasm_guests import Bench, imported, open_step, program, wat, write_step

ARGUMENTS = wat(f"""(module {imported("args_sizes_get", "args_get", "fd_write", "proc_exit")} (memory (export "memory") 1)
    (func (export "_start")
        (drop (call $args_sizes_get (i32.const 16) (i32.const 20)))
        (drop (call $args_get (i32.const 1024) (i32.const 4096)))
        (i32.store (i32.const 0) (i32.load (i32.const 1028))) (i32.store (i32.const 4) (i32.const 5))
        (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
        (call $proc_exit (i32.const 3))))""")


def suite(top: Path) -> Path:
    folder = top / "suite" / "tests" / "own" / "testsuite" / "wasm32-wasip1"
    (folder / "some.dir").mkdir(parents=True)
    (folder / "some.dir" / "there").write_text("x")

    def add(name: str, module: bytes, **expected: object) -> None:
        (folder / f"{name}.wasm").write_bytes(module)
        if expected:
            (folder / f"{name}.json").write_text(json.dumps(expected))

    add("arguments", ARGUMENTS, args=["hello"], exit_code=3, stdout="hello")
    add("wrong", ARGUMENTS, args=["hello"], exit_code=0)
    add("plain", wat('(module (memory (export "memory") 1) (func (export "_start")))'))
    files = program(
        open_step(3, b"there"), open_step(3, b"made", 1, 64), write_step(3), ("fd_prestat_get", 4, 256)
    )
    add("files", files, dirs=["some.dir"], stdout="\0\0\0\x08")
    other = top / "suite" / "tests" / "own" / "testsuite" / "wasm32-wasip3"
    other.mkdir()
    (other / "later.wasm").write_bytes(b"\0asm\r\0\1\0")
    return top / "suite"


def test_wasm_18_each_test_of_a_suite_is_run_and_judged(tmp_path: Path) -> None:
    async def main() -> list[Verdict]:
        sandbox = WasmSandbox(str(tmp_path / "cache"))
        try:
            return await run_suite(suite(tmp_path), sandbox)
        finally:
            await sandbox.aclose()

    verdicts = {os.path.basename(verdict.test): verdict.why for verdict in anyio.run(main)}
    assert verdicts.keys() == {"arguments.wasm", "wrong.wasm", "plain.wasm", "files.wasm"}
    assert verdicts.pop("wrong.wasm").startswith("exit code 3 instead of 0")
    assert not any(verdicts.values()), verdicts
    assert not list(tmp_path.rglob("made"))  # the checkout is as it was


def test_wasm_18_the_command_prints_the_sum_and_fails_with_a_test(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "metier.testing.wasi_testsuite"]
    done = subprocess.run(
        [*command, str(suite(tmp_path))], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "3 passed, 1 failed"
    next((tmp_path / "suite").rglob("wrong.wasm")).unlink()
    done = subprocess.run(
        [*command, str(tmp_path / "suite")], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("shape", ["a clock and a file", "an unknown descriptor"])
def test_wasm_18_polling_tells_which_descriptors_are_ready(tmp_path: Path, shape: str) -> None:
    fd, error = (1, 0) if shape == "a clock and a file" else (77, 8)
    module = wat(f"""(module {imported("poll_oneoff")} (memory (export "memory") 1)
        (func (export "f") (result i32 i32 i32 i64)
            (i64.store (i32.const 0) (i64.const 11)) (i64.store (i32.const 24) (i64.const 3600000000000))
            (i32.store (i32.const 16) (i32.const 1))
            (i64.store (i32.const 48) (i64.const 22)) (i32.store8 (i32.const 56) (i32.const 2))
            (i32.store (i32.const 64) (i32.const {fd}))
            (call $poll_oneoff (i32.const 0) (i32.const 256) (i32.const 2) (i32.const 512))
            (i32.load (i32.const 512)) (i32.load16_u (i32.const 264)) (i64.load (i32.const 256))))""")
    assert Bench(tmp_path).run(module, "f").value == [0, 1, error, 22]


def test_wasm_18_a_time_of_the_clock_can_be_waited_for(tmp_path: Path) -> None:
    module = wat(f"""(module {imported("poll_oneoff")}
        (import "wasi_snapshot_preview1" "clock_time_get" (func $now (param i32 i64 i32) (result i32)))
        (memory (export "memory") 1)
        (func (export "f") (param $clock i32) (result i64) (local $then i64)
            (drop (call $now (local.get $clock) (i64.const 1) (i32.const 512)))
            (local.set $then (i64.add (i64.load (i32.const 512)) (i64.const 100000000)))
            (i32.store (i32.const 16) (local.get $clock)) (i64.store (i32.const 24) (local.get $then))
            (i32.store16 (i32.const 40) (i32.const 1))
            (drop (call $poll_oneoff (i32.const 0) (i32.const 256) (i32.const 1) (i32.const 600)))
            (drop (call $now (local.get $clock) (i64.const 1) (i32.const 512)))
            (i64.sub (i64.load (i32.const 512)) (local.get $then))))""")
    bench = Bench(tmp_path)
    for clock in (0, 1):
        late = bench.run(module, "f", {"clock": clock}).value
        assert -5_000_000 < late < 2_000_000_000


def test_wasm_18_a_folder_may_be_deeper_than_calls_nest_and_than_a_path_can_say(tmp_path: Path) -> None:
    top = suite(tmp_path)
    deep = top / "deep"
    deep.mkdir()
    _nest(deep, 3_000)

    async def main() -> list[Verdict]:
        sandbox = WasmSandbox(str(tmp_path / "cache"))
        try:
            return await run_suite(top, sandbox)
        finally:
            await sandbox.aclose()

    try:
        verdicts = anyio.run(main)
    finally:
        empty(str(deep))
    assert len(verdicts) == 4


def _nest(folder: Path, depth: int) -> None:
    inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=inner)
        below = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=inner)
        os.close(inner)
        inner = below
    os.close(inner)
