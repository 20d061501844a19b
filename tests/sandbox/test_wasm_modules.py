"""Which modules are loaded at all, and where machine code is kept."""

import os
import time
from pathlib import Path

import pytest
from wasmtime import Config, Engine, Module

from metier.sandbox import wasm_compile
from metier.sandbox.wasm import WasmSandbox
from metier.sandbox.wasm_cache import Cache
from metier.sandbox.wasm_compile import SETTINGS
from wasm_guests import NUMBERS, Bench, wat


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def refusal(bench: Bench, module: bytes) -> str:
    report = bench.run(module, "add", {"x": 1, "y": 1})
    assert report.ending == "not_started"
    assert report.fault is not None
    assert str(bench.top) not in report.fault.message
    return report.fault.message


def test_wasm_10_an_import_that_is_not_offered_refuses_the_module_by_name(bench: Bench) -> None:
    wanted = [
        ('(import "env" "system" (func (param i32) (result i32)))', "env.system"),
        (
            '(import "wasi_unstable" "fd_write" (func (param i32 i32 i32 i32) (result i32)))',
            "wasi_unstable.fd_write",
        ),
        ('(import "env" "memory" (memory 1))', "env.memory"),
        ('(import "metier" "tell" (func))', "metier.tell"),
        ('(import "wasi_snapshot_preview1" "fork" (func (result i32)))', "fork"),
    ]
    for text, named in wanted:
        assert named in refusal(bench, wat(f'(module {text} (func (export "add")))'))


def test_wasm_10_an_import_of_the_wrong_type_refuses_the_module(bench: Bench) -> None:
    for text in (
        '(import "wasi_snapshot_preview1" "fd_write" (func (param i64)))',
        '(import "metier" "ask" (func (param i64 i64) (result i64)))',
        '(import "metier" "ask" (global i32))',
    ):
        assert "not offered" in refusal(bench, wat(f'(module {text} (func (export "add")))'))


def test_wasm_10_names_given_twice_refuse_the_module(bench: Bench) -> None:
    twice = bytearray(wat('(module (func (export "ab")) (func (export "ac")))'))
    at = twice.index(b"ac")
    twice[at : at + 2] = b"ab"
    assert "not valid" in refusal(bench, bytes(twice))


def test_wasm_12_a_module_above_the_size_limit_is_not_even_read(bench: Bench) -> None:
    bench.write(b"")
    with (bench.bundle / "m.wasm").open("wb") as file:
        file.write(b"\0asm\1\0\0\0")
        file.truncate(200 << 20)
    began = time.monotonic()
    report = bench.run("m.wasm", "add", {"x": 1, "y": 1})
    assert report.ending == "not_started"
    assert "200" in report.fault.message or "209,715,200" in report.fault.message  # type: ignore[union-attr]
    assert time.monotonic() - began < 2


@pytest.mark.slow
def test_wasm_12_what_takes_too_long_to_compile_is_given_up(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "(i32.add (i32.mul (local.get 0) (i32.const 3)) (local.get 1))"
    functions = f"(func (param i32 i32) (result i32) {body})" * 100_000
    bomb = wat(f'(module {functions} (func (export "add")))')
    monkeypatch.setattr(wasm_compile, "COMPILE_SECONDS", 1.0)
    began = time.monotonic()
    assert "could not be compiled" in refusal(bench, bomb)
    assert time.monotonic() - began < 10


def test_wasm_12_compiling_has_a_memory_limit(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    # Room for the interpreter, so that it is the compiler that runs short: CPython itself may spin when it does.
    monkeypatch.setattr(wasm_compile, "COMPILE_MB", 20)
    large = wat(f'(module {"(func)" * 20_000} (func (export "add")))')
    assert "could not be compiled" in refusal(bench, large)
    monkeypatch.setattr(wasm_compile, "COMPILE_MB", 512)
    assert bench.run("m.wasm", "add", {}).ending == "returned"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not WASM"),
        (b"hello", "not WASM"),
        (b"#!/bin/sh\nexit 0\n", "not WASM"),
        (b'(module (func (export "add")))', "text form"),
        (b"  (component)", "text form"),
        (b"\0asm", "cut off"),
        (b"\0asm\2\0\0\0", "not known"),
        (NUMBERS[:60], "not valid"),
        (b"\0asm\1\0\0\0\xff\xff\xff", "not valid"),
    ],
)
def test_wasm_13_what_is_no_binary_module_is_refused_and_says_why(
    bench: Bench, data: bytes, words: str
) -> None:
    assert words in refusal(bench, data)


def test_wasm_13_the_text_form_would_have_been_taken_by_wasmtime(bench: Bench) -> None:
    assert Module(Engine(), b'(module (func (export "add")))').exports[0].name == "add"


def test_wasm_13_a_program_is_refused_when_it_is_no_program(bench: Bench) -> None:
    report = bench.run(NUMBERS)
    assert report.ending == "not_started"
    assert "_start" in report.fault.message  # type: ignore[union-attr]


def machine_code() -> bytes:
    config = Config()
    for name, value in SETTINGS.items():
        setattr(config, name, value)
    return bytes(Module(Engine(config), NUMBERS).serialize())


def test_wasm_14_machine_code_of_a_skill_is_never_loaded(bench: Bench) -> None:
    code = machine_code()
    assert "machine code" in refusal(bench, code)
    bench.write(NUMBERS)
    bench.write(code, "m.cwasm")
    assert bench.run("m.cwasm", "add", {"x": 1, "y": 1}).ending == "not_started"


@pytest.mark.parametrize(
    "path", ["../m.wasm", "/etc/hostname", "sub/../../m.wasm", "", "..", "link.wasm", "folder/m.wasm"]
)
def test_a_module_comes_from_the_skill_itself(bench: Bench, path: str) -> None:
    (bench.top / "m.wasm").write_bytes(NUMBERS)
    (bench.bundle / "link.wasm").symlink_to("../m.wasm")
    (bench.bundle / "folder").symlink_to("..")
    assert bench.run(path, "add", {"x": 1, "y": 1}).ending == "not_started"


def test_a_module_may_lie_in_a_folder_of_the_skill(bench: Bench) -> None:
    (bench.bundle / "tools").mkdir()
    assert bench.run(bench.write(NUMBERS, "tools/m.wasm"), "add", {"x": 1, "y": 1}).value == 2


def test_a_module_that_changed_is_compiled_anew(bench: Bench) -> None:
    first = wat('(module (func (export "f") (result i32) (i32.const 1)))')
    second = wat('(module (func (export "f") (result i32) (i32.const 2)))')

    async def both(sandbox: WasmSandbox) -> list[object]:
        values = []
        for module in (first, second):
            path = bench.bundle / bench.write(module)
            os.utime(path, (1, 1))
            values += [(await sandbox.run(bench.job("m.wasm", "f"))).value for _ in range(2)]
        return values

    assert bench.using(both) == [1, 1, 2, 2]


def kept(bench: Bench) -> list[Path]:
    return sorted(bench.cache.glob("*.cwasm"))


def test_wasm_16_machine_code_is_kept_privately_and_used_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bench.run(NUMBERS, "add", {"x": 1, "y": 1}).value == 2
    (file,) = kept(bench)
    assert bench.cache.stat().st_mode & 0o777 == 0o700
    assert file.stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(wasm_compile, "COMPILE_SECONDS", 0.0)  # whoever compiles now fails
    assert bench.run(NUMBERS, "add", {"x": 1, "y": 2}).value == 3
    file.unlink()
    assert bench.run(NUMBERS, "add", {"x": 1, "y": 2}).ending == "not_started"


def test_a_kept_file_is_closed_once_its_code_is_loaded(bench: Bench) -> None:
    bench.run(NUMBERS, "add", {"x": 1, "y": 1})  # compiled, and kept

    async def held(sandbox: WasmSandbox) -> list[str]:
        assert (await sandbox.run(bench.job("m.wasm", "add", {"x": 1, "y": 2}))).value == 3
        return open_files()

    assert [path for path in bench.using(held) if path.endswith(".cwasm")] == []


def open_files() -> list[str]:
    links = (f"/proc/self/fd/{each}" for each in os.listdir("/proc/self/fd"))
    return [os.readlink(link) for link in links if os.path.lexists(link)]


def test_wasm_16_a_kept_file_that_was_changed_is_not_used(bench: Bench) -> None:
    bench.run(NUMBERS, "add", {"x": 1, "y": 1})
    (file,) = kept(bench)
    good = file.read_bytes()
    for bad in (good[:-1] + bytes([good[-1] ^ 1]), b"", good + b"x"):
        file.write_bytes(bad)
        assert bench.run(NUMBERS, "add", {"x": 1, "y": 1}).value == 2
        assert kept(bench) == [file]
        assert file.read_bytes() != bad


@pytest.mark.parametrize("how", ["readable by others", "a link", "a second name"])
def test_wasm_16_a_kept_file_that_others_could_reach_is_not_used(bench: Bench, how: str) -> None:
    cache = Cache(str(bench.cache))
    cache.put("key", b"code")
    (file,) = kept(bench)
    assert cache.use("key", bytes) == b"code"
    if how == "readable by others":
        file.chmod(0o644)
    elif how == "a link":
        file.rename(bench.top / "elsewhere")
        file.symlink_to(bench.top / "elsewhere")
    else:
        os.link(file, bench.top / "elsewhere")
    assert cache.use("key", bytes) is None


def test_wasm_16_a_folder_that_others_may_write_refuses_the_run(bench: Bench) -> None:
    bench.cache.mkdir()
    bench.cache.chmod(0o777)
    report = bench.run(NUMBERS, "add", {"x": 1, "y": 1})
    assert report.ending == "not_started"
    assert not kept(bench)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_wasm_16_a_file_or_folder_of_another_user_is_not_used(bench: Bench) -> None:
    cache = Cache(str(bench.cache))
    cache.put("key", b"code")
    (file,) = kept(bench)
    os.chown(file, 65_534, 65_534)
    assert cache.use("key", bytes) is None
    os.chown(bench.cache, 65_534, 65_534)
    assert bench.run(NUMBERS, "add", {"x": 1, "y": 1}).ending == "not_started"


def test_a_module_wanted_by_many_at_once_is_compiled_once(bench: Bench) -> None:
    import anyio

    name = bench.write(NUMBERS)

    async def many(sandbox: WasmSandbox) -> list[object]:
        values: list[object] = []

        async def one(number: int) -> None:
            values.append((await sandbox.run(bench.job(name, "add", {"x": number, "y": 0}))).value)

        async with anyio.create_task_group() as tasks:
            for number in range(10):
                tasks.start_soon(one, number)
        return values

    assert sorted(bench.using(many)) == list(range(10))
    assert len(kept(bench)) == 1
