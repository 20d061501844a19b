"""What is handed to the engine without its own checks is checked here: types, numbers, addresses, folders."""

import os
from pathlib import Path
from typing import Any

import pytest

from metier.model.ports import Answered, NotAnswered
from metier.sandbox.wasm_files import NotAFolder, Unusable, open_folder, walk
from metier.sandbox.wasm_run import Work
from wasm_guests import Bench, imported, wat


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize("kind", ["(param i32)", "(result i32)", "(param externref)"])
@pytest.mark.parametrize("name", ["_start", "_initialize"])
def test_a_start_function_of_another_type_is_not_called(bench: Bench, name: str, kind: str) -> None:
    gives = "(i32.const 1)" if "result" in kind else ""
    module = wat(f'(module (func (export "{name}") {kind} {gives}) (func (export "f")))')
    report = bench.run(module, None if name == "_start" else "f")
    assert report.ending == "not_started"
    assert report.fault is not None
    assert name in report.fault.message


def with_alloc(kind: str, gives: str = "") -> bytes:
    return wat(f"""(module (import "metier" "ask" (func $ask (param i32 i32) (result i64)))
        (memory (export "memory") 1) (data (i32.const 8) "{{\\"method\\":\\"m\\",\\"params\\":{{}}}}")
        (func (export "alloc") {kind} {gives})
        (func (export "ask") (result i64) (call $ask (i32.const 8) (i32.const 26)))
        (func (export "f") (param i32 i32) (result i64) (i64.extend_i32_s (i32.sub (local.get 0) (local.get 1)))))""")


OTHER_ALLOCS = [
    ("", ""),
    ("(param i64) (result i64)", "(local.get 0)"),
    ("(param i32 i32) (result i32)", "(local.get 0)"),
]


class Told:
    """Answers whatever it is asked."""

    async def ask(self, method: str, params: Any) -> Answered | NotAnswered:
        return Answered(value=method)


@pytest.mark.parametrize(("kind", "gives"), OTHER_ALLOCS)
def test_a_function_that_is_only_called_alloc_is_not_called(bench: Bench, kind: str, gives: str) -> None:
    module = with_alloc(kind, gives)
    assert bench.run(module, "ask", host=Told()).value == -2  # no room for the answer
    assert bench.run(module, "f", {"a": 7, "b": 9}).value == -2  # numbers, not JSON


def test_an_alloc_of_the_agreed_type_is_called(bench: Bench) -> None:
    module = with_alloc("(param i32) (result i32)", "(i32.const 1024)")
    assert bench.run(module, "ask", host=Told()).value == 1024 << 32 | len(b'{"ok":"m"}')


def test_numbers_of_every_kind_arrive_and_come_back(bench: Bench) -> None:
    module = wat("""(module (func (export "f") (param i32 i64 f32 f64 i32 i64) (result i64 f64 f32 i64 i32 i32)
        (local.get 5) (local.get 3) (local.get 2) (local.get 1) (local.get 4) (local.get 0)))""")
    given = {"a": -(2**31), "b": 2**53 - 1, "c": 0.5, "d": -1e300, "e": 2**32 - 1, "f": -(2**53) + 1}
    assert bench.run(module, "f", given).value == [-(2**53) + 1, -1e300, 0.5, 2**53 - 1, -1, -(2**31)]


def test_memory_is_found_again_after_it_grew(bench: Bench) -> None:
    module = wat(f"""(module {imported("fd_write")} (memory (export "memory") 1)
        (func $print (param i32)
            (i32.store8 (local.get 0) (i32.const 120))
            (i32.store (i32.const 0) (local.get 0)) (i32.store (i32.const 4) (i32.const 1))
            (drop (call $fd_write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 8))))
        (func (export "f") (result i32)
            (call $print (i32.const 100)) (drop (memory.grow (i32.const 400))) (call $print (i32.const 26000000))
            (i32.store (i32.const 0) (i32.const 27000000))
            (call $fd_write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 8))))""")
    report = bench.run(module, "f")
    assert report.value == 21  # the last address lies outside
    assert report.stderr == "xx"


def test_a_long_input_arrives_whole(bench: Bench) -> None:
    echo = wat(f"""(module {imported("fd_read", "fd_write")} (memory (export "memory") 1)
        (func (export "_start") (loop $again
            (i32.store (i32.const 0) (i32.const 64)) (i32.store (i32.const 4) (i32.const 50000))
            (drop (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
            (i32.store (i32.const 4) (i32.load (i32.const 8)))
            (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
            (br_if $again (i32.load (i32.const 4))))))""")
    given = bytes(range(32, 127)) * 5_000
    work = Work(
        form="program",
        bundle=str(bench.bundle),
        path=bench.write(echo),
        stdin=given,
        seconds=10,
        memory_bytes=1 << 26,
        output_bytes=1 << 20,
    )
    assert bench.using(lambda sandbox: sandbox.run_work(work)).stdout.encode() == given


def tree(top: Path) -> str:
    """A folder with a file, and with links to it and to itself."""
    top = top.resolve()
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "file").write_text("x")
    (top / "link").symlink_to(top / "a")
    (top / "a" / "last").symlink_to(top / "a" / "b")
    return str(top)


def parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def test_a_folder_is_found_in_one_step_and_part_by_part(tmp_path: Path) -> None:
    wanted = os.path.join(tree(tmp_path), "a", "b")
    below = open_folder(os.path.dirname(wanted))
    found = [open_folder(wanted), walk(parts(wanted), None), open_folder("b", below), walk(["b"], below)]
    try:
        assert all(os.path.samestat(os.fstat(each), os.stat(wanted)) for each in found)
        assert all(os.listdir(each) == [] for each in found)
    finally:
        for each in (below, *found):
            os.close(each)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("link/b", Unusable),
        ("a/last", Unusable),
        ("a/nothing", Unusable),
        ("a/file", NotAFolder),
        ("a/file/b", Unusable),
        ("a/../a/b", Unusable),
    ],
)
def test_links_files_and_what_is_not_there_are_refused_either_way(
    tmp_path: Path, path: str, why: type[Exception]
) -> None:
    path = os.path.join(tree(tmp_path), path)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(why):
        open_folder(path)
    if ".." not in path:
        with pytest.raises(why):
            walk(parts(path), None)
    assert len(os.listdir("/proc/self/fd")) == before
