"""WASM programs for tests, written as text and turned into bytes here, and the jobs to run them with."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
from wasmtime import wat2wasm

from metier.model.digest import Json
from metier.model.entry import WasmModule
from metier.model.job import Job, Place, Report
from metier.model.permission import PermissionSet
from metier.model.skill import Limits
from metier.sandbox.wasm import WasmSandbox
from metier.sandbox.wasm_run import Work

WASI = "wasi_snapshot_preview1"
SIGNATURES = {
    "path_open": "iiiiiIIii",
    "fd_close": "i",
    "fd_renumber": "ii",
    "fd_read": "iiii",
    "fd_write": "iiii",
    "fd_pwrite": "iiiIi",
    "fd_filestat_set_size": "iI",
    "fd_filestat_set_times": "iIIi",
    "path_create_directory": "iii",
    "path_symlink": "iiiii",
    "path_link": "iiiiiii",
    "path_rename": "iiiiii",
    "path_unlink_file": "iii",
    "path_filestat_get": "iiiii",
    "path_filestat_set_times": "iiiiIIi",
    "fd_prestat_get": "ii",
    "environ_sizes_get": "ii",
    "environ_get": "ii",
    "args_sizes_get": "ii",
    "args_get": "ii",
    "random_get": "ii",
    "clock_res_get": "ii",
    "poll_oneoff": "iiii",
    "proc_exit": "i",
}
READ_AND_WRITE = 0x0FFFFFFF
OPENED = "(i32.load (i32.const 8))"
"""The descriptor that the last `path_open` gave."""
_TYPES = {"i": "i32", "I": "i64"}
_ERRNO_AT, _TEXT_AT, _BUFFER_AT = 64, 4096, 32_768


def wat(text: str) -> bytes:
    return bytes(wat2wasm(text))


def imported(*names: str) -> str:
    lines = []
    for name in names:
        takes = " ".join(_TYPES[letter] for letter in SIGNATURES[name])
        gives = "" if name == "proc_exit" else "(result i32)"
        lines.append(f'(import "{WASI}" "{name}" (func ${name} (param {takes}) {gives}))')
    return "\n".join(lines)


def literal(data: bytes) -> str:
    return "".join(f"\\{byte:02x}" for byte in data)


def open_step(folder: int | str, path: bytes, flags: int = 0, rights: int = 2) -> tuple[Any, ...]:
    """Open a path, following links. Flags: 1 create, 2 folder, 8 truncate. Rights: 2 read, 64 write."""
    return ("path_open", folder, 1, path, flags, rights, rights, 0, 8)


def read_step(length: int = 100) -> tuple[Any, ...]:
    """Read from what was opened last and print it after the error numbers."""
    return ("fd_read", OPENED, 16, 1, 24, length)


def write_step(length: int = 1, fd: int | str = OPENED) -> tuple[Any, ...]:
    return ("fd_write", fd, 16, 1, 24, length)


def program(*steps: tuple[Any, ...], pages: int = 2) -> bytes:
    """A program that makes these WASI calls and prints the error number of each as one character, and then what
    `read_step` read. Bytes among the arguments stand for their address and length."""
    texts, body, at = [], [], _TEXT_AT
    for number, (name, *arguments) in enumerate(steps):
        letters = iter(SIGNATURES[name])
        given = []
        if name in ("fd_read", "fd_write") and len(arguments) == 5:
            length = arguments.pop()
            body.append(f"(i32.store (i32.const 16) (i32.const {_BUFFER_AT}))")
            body.append(f"(i32.store (i32.const 20) (i32.const {length}))")
        for argument in arguments:
            kind = _TYPES[next(letters)]
            if isinstance(argument, bytes):
                next(letters)
                texts.append(f'(data (i32.const {at}) "{literal(argument)}")')
                given += [f"(i32.const {at})", f"(i32.const {len(argument)})"]
                at += len(argument)
            else:
                given.append(argument if isinstance(argument, str) else f"({kind}.const {argument})")
        body.append(f"(i32.store8 (i32.const {_ERRNO_AT + number}) (call ${name} {' '.join(given)}))")
        if name == "fd_read":
            body.append("(global.set $read (i32.load (i32.const 24)))")
    names = dict.fromkeys([name for name, *_ in steps] + ["fd_write"])
    return wat(f"""(module {imported(*names)}
        (memory (export "memory") {pages}) (global $read (mut i32) (i32.const 0)) {" ".join(texts)}
        (func $print (param i32 i32)
            (i32.store (i32.const 0) (local.get 0)) (i32.store (i32.const 4) (local.get 1))
            (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 24))))
        (func (export "_start") {" ".join(body)}
            (call $print (i32.const {_ERRNO_AT}) (i32.const {len(steps)}))
            (call $print (i32.const {_BUFFER_AT}) (global.get $read))))""")


def printing(text: str) -> bytes:
    """A tool that prints `text`, whatever it is given."""
    data = text.encode()
    return wat(f"""(module {imported("fd_write")} (memory (export "memory") 1)
        (data (i32.const 64) "{literal(data)}")
        (func (export "_start")
            (i32.store (i32.const 0) (i32.const 64)) (i32.store (i32.const 4) (i32.const {len(data)}))
            (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))""")


ECHO = wat(f"""(module {imported("fd_read", "fd_write")} (memory (export "memory") 2)
    (func (export "_start")
        (i32.store (i32.const 0) (i32.const 64)) (i32.store (i32.const 4) (i32.const 60000))
        (drop (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
        (i32.store (i32.const 4) (i32.load (i32.const 8)))
        (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))""")

NUMBERS = wat("""(module
    (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))
    (func (export "half") (param f64) (result f64) (f64.div (local.get 0) (f64.const 2)))
    (func (export "both") (param i64) (result i64 i64) (local.get 0) (i64.mul (local.get 0) (i64.const 2)))
    (func (export "big") (result i64) (i64.const 9007199254740993))
    (func (export "nothing")) (func (export "trap") unreachable)
    (func (export "divide") (param i32) (result i32) (i32.div_s (i32.const 1) (local.get 0)))
    (func $deep (export "deep") (call $deep))
    (func (export "spin") (loop $again (br $again))))""")

JSON_ECHO = wat("""(module (memory (export "memory") 4) (global $next (mut i32) (i32.const 1024))
    (func (export "alloc") (param i32) (result i32)
        (global.get $next) (global.set $next (i32.add (global.get $next) (local.get 0))))
    (func (export "echo") (param i32 i32) (result i64)
        (i64.or (i64.shl (i64.extend_i32_u (local.get 0)) (i64.const 32)) (i64.extend_i32_u (local.get 1))))
    (func (export "outside") (param i32 i32) (result i64) (i64.const -1))
    (func (export "empty") (param i32 i32) (result i64) (i64.const 0)))""")

GROWING = wat("""(module (memory (export "memory") 1) (table 1 funcref)
    (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
    (func (export "elements") (param i32) (result i32) (table.grow (ref.null func) (local.get 0)))
    (func (export "bomb") (loop $again (br_if $again (i32.ge_s (memory.grow (i32.const 16)) (i32.const 0)))) unreachable))
    """)

SLEEPING = wat(f"""(module {imported("poll_oneoff")} (memory (export "memory") 1)
    (func (export "_start")
        (i64.store (i32.const 24) (i64.const 3600000000000)) (i32.store (i32.const 16) (i32.const 1))
        (drop (call $poll_oneoff (i32.const 0) (i32.const 64) (i32.const 1) (i32.const 128)))))""")


class Bench:
    """A skill's folder with modules in it, and a sandbox to run them in."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.bundle = top / "bundle"
        self.bundle.mkdir(exist_ok=True)
        self.cache = top / "cache"

    def write(self, data: bytes, name: str = "m.wasm") -> str:
        (self.bundle / name).write_bytes(data)
        return name

    def job(
        self,
        module: bytes | str,
        function: str | None = None,
        arguments: dict[str, Json] | None = None,
        **more: Any,
    ) -> Job:
        limits = Limits(**{"timeout": 10.0, **more.pop("limits", {})})
        path = self.write(module) if isinstance(module, bytes) else module
        return Job(
            call_id="call",
            entry=WasmModule(path=path, function=function),
            arguments=arguments or {},
            bundle=str(self.bundle),
            permissions=PermissionSet(),
            limits=limits,
            needs=frozenset(),
            **more,
        )

    def run(self, module: bytes | str, function: str | None = None, *arguments: Any, **more: Any) -> Report:
        job = self.job(module, function, *arguments, **more)
        return self.using(lambda sandbox: sandbox.run(job))

    def steps(self, *steps: tuple[Any, ...], places: tuple[Place, ...] = (), **more: Any) -> Report:
        """Run a program of WASI calls with these places alone, so that the first of them is descriptor 3."""
        work = Work(
            form="program",
            bundle=str(self.bundle),
            path=self.write(program(*steps)),
            places=places,
            show_bundle=False,
            own_folder=False,
            **{"seconds": 10.0, "memory_bytes": 1 << 26, "output_bytes": 1 << 16, **more},
        )
        return self.using(lambda sandbox: sandbox.run_work(work))

    def using(self, act: Callable[[WasmSandbox], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            sandbox = WasmSandbox(str(self.cache))
            try:
                return await act(sandbox)
            finally:
                await sandbox.aclose()

        return anyio.run(main)


def numbers_of(report: Report, count: int) -> list[int]:
    """The error numbers that a `program` printed."""
    assert report.ending == "returned", report
    return [ord(sign) for sign in report.stdout[:count]]
