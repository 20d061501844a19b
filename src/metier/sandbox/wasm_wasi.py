"""The WASI calls that wasmtime leaves unbounded, bounded: waiting, output, descriptors, and what is put on disk.

Left to itself wasmtime sleeps as long as a guest asks, past every time limit; opens descriptors until the host has
none; writes until the disk is full; and waits for ever in front of a named pipe. So these few functions of preview 1
are ours. Those that touch files go on to wasmtime's own through a small module that lends it the guest's memory.

Whatever happens in them, they answer with an error number.
"""

import os
import resource
import stat
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol, cast, final

from msgspec import Struct

from metier.sandbox.wasm_clock import Timer
from metier.sandbox.wasm_memory import Memory
from metier.sandbox.wasm_pace import Pace
from metier.sandbox.wasm_raw import A_FUNCTION, A_MEMORY, Answer, Guest, Item, Raw

if TYPE_CHECKING:
    from wasmtime import Engine, Linker

WASI: Final = "wasi_snapshot_preview1"
_WASI: Final = WASI.encode()
DISK_BYTES: Final = 256 << 20
"""All that one run may write, the same bytes twice counting twice."""
ENTRIES: Final = 10_000
"""Files, folders and links that one run may make."""
OPEN_FILES: Final = 128

_OK, _BADF, _FAULT, _FBIG, _INVAL, _IO = 0, 8, 21, 22, 28, 29
_MFILE, _NFILE, _NOSPC, _NOTDIR, _PERM = 33, 41, 51, 54, 63
_CREATE: Final = 1
_FIRST_FOLDER: Final = 3
_AT_ONCE: Final = 65_536
_SUBSCRIPTIONS: Final = 4_096
_TO_HOLD: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_CLOCK: Final = 0
_ABSOLUTE: Final = 1

_I32, _I64 = ("i32",), ("i64",)
_SIGNATURES: Final = {
    "path_open": (*_I32 * 5, *_I64 * 2, *_I32 * 2),
    "fd_close": _I32,
    "fd_renumber": _I32 * 2,
    "fd_write": _I32 * 4,
    "fd_pwrite": (*_I32 * 3, *_I64, *_I32),
    "fd_filestat_set_size": (*_I32, *_I64),
    "path_create_directory": _I32 * 3,
    "path_symlink": _I32 * 5,
    "path_link": _I32 * 7,
    "poll_oneoff": _I32 * 4,
}
"""What each takes; all give an error number."""
_PASSED_ON: Final = (
    ("path_open", "fd_close"),
    tuple(name for name in _SIGNATURES if name not in ("path_open", "fd_close", "poll_oneoff")),
)
"""In two parts, because most programs only ever read files and each function that is lent takes its time."""


class Sink(Protocol):
    """Where a guest's output goes."""

    def write(self, data: bytes) -> None: ...


class HasWasi(Protocol):
    """What a store carries: the run it belongs to."""

    wasi: "Wasi"
    pace: Pace


@final
class WasiImports:
    """The functions themselves, made once for an engine."""

    def __init__(self, engine: "Engine", raw: Raw) -> None:
        from wasmtime import Linker, Module, wat2wasm

        self.raw: Final = raw
        self._plain = Linker(engine)
        self._plain.define_wasi()
        self._lenders = [Module(engine, bytes(wat2wasm(_lender_text(names)))) for names in _PASSED_ON]
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most_open = min(soft // 4 if soft > 0 else 4_096, 4_096)
        self._open = 0
        self._lock = threading.Lock()

    def define(self, linker: "Linker") -> None:
        """All of preview 1, with our functions in the place of wasmtime's."""
        from wasmtime import FuncType, ValType

        linker.allow_shadowing = True
        linker.define_wasi()
        kinds = {"i32": ValType.i32, "i64": ValType.i64}
        for name, takes in _SIGNATURES.items():
            kind = FuncType([kinds[each]() for each in takes], [ValType.i32()])
            self.raw.define(linker, (WASI, name), kind, self._answering(name, takes), _IO)
        linker.allow_shadowing = False

    def _answering(self, name: str, takes: Sequence[str]) -> Answer:
        ours: Callable[..., int] = getattr(Wasi, name)
        raw = self.raw

        def answer(guest: Guest) -> int:
            run = cast(HasWasi, raw.data(guest.context))
            run.pace.step()
            wasi = run.wasi
            memory = wasi.memory(guest)
            try:
                return _FAULT if memory is None else ours(wasi, guest, memory, *guest.numbers(takes))
            except IndexError:
                return _FAULT

        return answer

    def lend(self, name: str, guest: Guest, memory: Memory) -> dict[str, Item]:
        """wasmtime's own function of that name, and some others, working on the caller's memory."""
        raw, context = self.raw, guest.context
        part = 0 if name in _PASSED_ON[0] else 1
        names = _PASSED_ON[part]
        imports = [raw.linked(context, self._plain, _WASI, each.encode()) for each in names]
        lender = raw.new_instance(context, self._lenders[part], [memory.item, *imports])
        lent = {each: raw.export(context, lender, each.encode(), A_FUNCTION) for each in names}
        return {each: item for each, item in lent.items() if item is not None}

    def take(self, count: int) -> bool:
        """Take that many descriptors out of what all runs together may have; negative: give them back."""
        with self._lock:
            if count > 0 and self._open + count > self._most_open:
                return False
            self._open += count
            return True


def _lender_text(names: Sequence[str]) -> str:
    lines = ['(module (import "guest" "memory" (memory 0))']
    bodies = ['(export "memory" (memory 0))']
    for name in names:
        takes = _SIGNATURES[name]
        kinds = " ".join(takes)
        lines.append(f'(import "w" "{name}" (func ${name} (param {kinds}) (result i32)))')
        given = " ".join(f"(local.get {number})" for number in range(len(takes)))
        bodies.append(f'(func (export "{name}") (param {kinds}) (result i32) (call ${name} {given}))')
    return "\n".join([*lines, *bodies]) + ")"


@final
class _Stdin:
    """Read by wasmtime itself."""


@final
class _File(Struct, frozen=True):
    """Something opened. A folder is held by a descriptor of our own as well: its path may mean another one by now."""

    folder: int = -1
    """The descriptor, for a folder."""
    counted: bool = True
    """Whether the guest opened it."""


@final
class Wasi:
    """What one run has used up and has open."""

    def __init__(
        self, imports: WasiImports, timer: Timer, streams: tuple[Sink, Sink], folders: Sequence[int]
    ) -> None:
        """`folders` are descriptors of the preopened folders, in their order."""
        self._imports = imports
        self._timer = timer
        self._open: dict[int, _Stdin | Sink | _File] = {0: _Stdin(), 1: streams[0], 2: streams[1]}
        for number, folder in enumerate(folders, _FIRST_FOLDER):
            self._open[number] = _File(folder, counted=False)
        self._taken = 0
        self._written = 0
        self._made = 0
        self._began = time.monotonic_ns()
        self._memory: Memory | None = None
        self._lent: dict[str, Item] = {}
        self.disk_was_full = False

    def begin(self) -> None:
        """As soon as the store has its clocks: the guest's monotonic one counts from there."""
        self._began = time.monotonic_ns()

    def close(self) -> None:
        """Once the store is closed: its descriptors are free again."""
        for fd in tuple(self._open):
            self._forget(fd)
        self._imports.take(-self._taken)
        self._taken = 0

    def memory(self, guest: Guest) -> Memory | None:
        """The memory that the calling module exports."""
        if self._memory is None:
            item = self._imports.raw.export_of(guest, b"memory", A_MEMORY)
            self._memory = None if item is None else Memory(self._imports.raw, item)
        return self._memory

    def _pass_on(self, name: str, guest: Guest, memory: Memory) -> int:
        """wasmtime's own function does it, with the numbers that the guest gave."""
        if name not in self._lent:
            self._lent |= self._imports.lend(name, guest, memory)
        said = self._imports.raw.pass_on(guest, self._lent[name])
        return _IO if said is None else said

    def fd_write(self, guest: Guest, memory: Memory, fd: int, parts: int, count: int, answer: int) -> int:
        at, length = _first_part(guest, memory, parts, count)
        sink = self._open.get(fd)
        if sink is None or isinstance(sink, _File | _Stdin):
            return self._put("fd_write", guest, memory, length, answer)
        data = memory.read(guest.context, at, min(length, _AT_ONCE)) if length else b""
        memory.write_u32(guest.context, answer, len(data))
        sink.write(data)
        return _OK

    def fd_pwrite(
        self, guest: Guest, memory: Memory, fd: int, parts: int, count: int, offset: int, answer: int
    ) -> int:
        length = _first_part(guest, memory, parts, count)[1]
        return self._put("fd_pwrite", guest, memory, length, answer)

    def _put(self, name: str, guest: Guest, memory: Memory, length: int, answer: int) -> int:
        # wasmtime writes the first part only, so its length is the most that this call can add.
        if self._written + length > DISK_BYTES:
            return self._full()
        error = self._pass_on(name, guest, memory)
        if error == _OK:
            self._written += memory.read_u32(guest.context, answer)
        return error

    def fd_filestat_set_size(self, guest: Guest, memory: Memory, fd: int, size: int) -> int:
        if not 0 <= size <= DISK_BYTES:
            return _FBIG
        return self._pass_on("fd_filestat_set_size", guest, memory)

    def path_create_directory(self, guest: Guest, memory: Memory, *numbers: int) -> int:
        return self._make("path_create_directory", guest, memory)

    def path_symlink(self, guest: Guest, memory: Memory, *numbers: int) -> int:
        return self._make("path_symlink", guest, memory)

    def path_link(self, guest: Guest, memory: Memory, *numbers: int) -> int:
        return self._make("path_link", guest, memory)

    def _make(self, name: str, guest: Guest, memory: Memory) -> int:
        if self._made >= ENTRIES:
            return self._full()
        self._made += 1
        return self._pass_on(name, guest, memory)

    def _full(self) -> int:
        self.disk_was_full = True
        return _NOSPC

    def path_open(self, guest: Guest, memory: Memory, *numbers: int) -> int:
        folder, _, path_at, path_length, flags, *_, answer = numbers
        where = self._open.get(folder)
        if not isinstance(where, _File) or where.folder < 0:
            return _BADF if where is None else _NOTDIR
        path = memory.read(guest.context, path_at, path_length)
        # What leads out of the folder is not even looked at: who knows what waits there.
        if os.path.normpath(path).startswith((b"/", b"..")) or _would_wait(where.folder, path):
            return _PERM
        if flags & _CREATE:
            if self._made >= ENTRIES:
                return self._full()
            self._made += 1
        if self._taken >= OPEN_FILES:
            return _MFILE
        if not self._imports.take(1):
            return _NFILE
        self._taken += 1
        error = self._pass_on("path_open", guest, memory)
        if error == _OK:
            self._open[memory.read_u32(guest.context, answer)] = _File(_held(where.folder, path))
        else:
            self._give_back()
        return error

    def fd_close(self, guest: Guest, memory: Memory, fd: int) -> int:
        error = self._pass_on("fd_close", guest, memory)
        if error == _OK:
            self._forget(fd)
        return error

    def fd_renumber(self, guest: Guest, memory: Memory, source: int, target: int) -> int:
        error = self._pass_on("fd_renumber", guest, memory)
        if error == _OK and source != target and source in self._open:
            self._forget(target)
            self._open[target] = self._open.pop(source)
        return error

    def _forget(self, fd: int) -> None:
        gone = self._open.pop(fd, None)
        if isinstance(gone, _File) and gone.counted:
            if gone.folder >= 0:
                os.close(gone.folder)
            self._give_back()

    def _give_back(self) -> None:
        self._taken -= 1
        self._imports.take(-1)

    def poll_oneoff(
        self, guest: Guest, memory: Memory, wanted: int, events: int, count: int, answer: int
    ) -> int:
        if not 0 < count <= _SUBSCRIPTIONS:
            return _INVAL
        asked = memory.read(guest.context, wanted, count * 48)
        each = [asked[at : at + 48] for at in range(0, len(asked), 48)]
        clocks = [(one, self._wait_of(one)) for one in each if one[8] == _CLOCK]
        happened = [self._event(one) for one in each if one[8] != _CLOCK]
        wait = 0.0 if happened else min(wait for _, wait in clocks)
        until = time.monotonic() + wait
        while (left := until - time.monotonic()) > 0 and not self._timer.expired():
            self._timer.due.wait(min(left, self._timer.left))
        happened += [self._event(one) for one, until in clocks if until <= wait]
        memory.write(guest.context, events, b"".join(happened))
        memory.write_u32(guest.context, answer, len(happened))
        return _OK

    def _wait_of(self, one: bytes) -> float:
        """Seconds from now until a clock subscription is due."""
        clock, until = int.from_bytes(one[16:20], "little"), int.from_bytes(one[24:32], "little")
        if int.from_bytes(one[40:42], "little") & _ABSOLUTE:
            until -= time.time_ns() if clock == 0 else time.monotonic_ns() - self._began
        return max(0.0, until / 1e9)

    def _event(self, one: bytes) -> bytes:
        kind = one[8]
        fd = int.from_bytes(one[16:20], "little")
        known = kind == _CLOCK or fd in self._open
        ready = 0 if kind == _CLOCK or not known else 1
        error = _OK if known else _BADF
        return (
            one[:8]
            + error.to_bytes(2, "little")
            + bytes([kind])
            + bytes(5)
            + ready.to_bytes(8, "little")
            + bytes(8)
        )


def _first_part(guest: Guest, memory: Memory, parts: int, count: int) -> tuple[int, int]:
    """Place and length of the first part that is not empty, as wasmtime chooses it too."""
    for number in range(min(count & 0xFFFFFFFF, _SUBSCRIPTIONS)):
        at = (parts & 0xFFFFFFFF) + number * 8  # signed when it comes from the guest
        length = memory.read_u32(guest.context, at + 4)
        if length:
            return memory.read_u32(guest.context, at), length
    return 0, 0


def _held(folder: int, path: bytes) -> int:
    """A descriptor of our own where `path` is a folder, else -1."""
    try:
        return os.open(path or b".", _TO_HOLD, dir_fd=folder)
    except (OSError, ValueError):
        return -1


def _would_wait(folder: int, path: bytes) -> bool:
    """Whether opening it could wait for another program: a named pipe, a socket or a device."""
    try:
        mode = os.stat(path or b".", dir_fd=folder).st_mode
    except (OSError, ValueError):
        return False  # wasmtime finds that out by itself, and says it in the guest's terms
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
