"""One run of a WASM module or component, from a fresh store to a report, in the thread it is called in.

How a run ended is what the engine and our own limits say, with one exception: no engine tells that memory was
refused to a module (it only sees `memory.grow` fail), so a module that ends badly with three quarters of its limit
in use is taken to have run out of it.

Fuel is told where it is known. The engine counts it in a register and books it when a function is called or left, so
what a run burned that was ended by the clock, or by a trap in the middle of a function, nobody knows.
"""

import os
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final, Literal, final

from msgspec import Struct
from msgspec.structs import replace

from metier.model import strictjson
from metier.model.digest import Json
from metier.model.job import Ending, Fault, Place, Report, Usage
from metier.model.ports import Host
from metier.sandbox import wasm_call
from metier.sandbox.admission import not_started
from metier.sandbox.artifacts import is_empty
from metier.sandbox.wall import OUT, Take
from metier.sandbox.wasm_ask import Asking, events
from metier.sandbox.wasm_clock import Clock, Timer
from metier.sandbox.wasm_compile import plain_text
from metier.sandbox.wasm_files import OWN, Folders, Spare, Unusable
from metier.sandbox.wasm_memory import Memory
from metier.sandbox.wasm_module import Composed, Core, Loaded, Modules
from metier.sandbox.wasm_pace import Pace
from metier.sandbox.wasm_values import BadValue
from metier.sandbox.wasm_wasi import Wasi, WasiImports

if TYPE_CHECKING:
    from wasmtime import Engine, Store

_FUEL_A_SECOND: Final = 20_000_000_000
"""More than any machine burns: without a limit of its own a run ends by the clock."""
_BY_ITSELF: Final = ("returned", "raised", "exited", "no_result", "bad_result")
"""Endings of a run that nobody ended by force: what it left is whole, as far as it came."""
_TABLES: Final = 16
_TABLE_ELEMENTS: Final = 100_000
_INSTANCES: Final = 64
_MEMORIES: Final = 1
_BOOKED: Final = ("UNREACHABLE", "STACK_OVERFLOW")
"""Traps before which the engine books the fuel."""


@final
class Work(Struct, frozen=True, kw_only=True):
    """What to run, once the module is at hand."""

    form: Literal["program", "tool", "function"]
    """`program`: stdin, stdout and an exit code. `tool`: a program that prints JSON. `function`: an export."""
    bundle: str
    path: str
    function: str = ""
    arguments: dict[str, Json] = {}
    argv: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    stdin: bytes = b""
    places: tuple[Place, ...] = ()
    names: dict[str, str] = {}
    """Other names than their own that the guest knows places by."""
    show_bundle: bool = True
    own_folder: bool = True
    cwd: str = ""
    seconds: float
    memory_bytes: int
    output_bytes: int
    fuel: int | None = None
    host: Host | None = None
    take: Take | None = None
    """Who takes what it leaves in its `out` folder."""


@final
class Parts(Struct, frozen=True):
    """What all runs share."""

    engine: "Engine"
    clock: Clock
    imports: WasiImports
    modules: Modules
    spare: Spare


@final
class Kept:
    """One output stream: kept up to a limit, counted beyond it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self.total = 0

    def write(self, data: bytes) -> None:
        self.total += len(data)
        room = self._limit - len(self._data)
        if room > 0:
            self._data += data[:room]

    @property
    def truncated(self) -> bool:
        return self.total > self._limit

    @property
    def data(self) -> bytes:
        return bytes(self._data)

    @property
    def text(self) -> str:
        return self._data.decode("utf-8", "replace")


@final
class Run:
    """The store carries this, so that what the guest calls finds the run it belongs to."""

    def __init__(self, work: Work, loaded: Loaded, parts: Parts, timer: Timer) -> None:
        self._work = work
        self._loaded = loaded
        self._parts = parts
        self._clock = parts.clock
        self._timer = timer
        self.out, self.err = Kept(work.output_bytes), Kept(work.output_bytes)
        self._raw = parts.imports.raw
        has_alloc = isinstance(loaded, Core) and loaded.has_alloc
        self.asking = Asking(work.host, parts.clock, timer, has_alloc=has_alloc)
        self.wasi = Wasi(parts.imports, timer, (self.out, self.err), ())
        self.pace = Pace(timer)
        self._memory_of: Callable[[], int] = lambda: 0
        self._fuel_is_booked = False

    def go(self) -> Report:
        """Run it to its end.

        Raises:
            StateError: when the folder for what runs write is not safe.
        """
        import wasmtime

        began, cpu = time.monotonic(), time.thread_time()
        self._clock.enter(self._timer)
        try:
            report = self._with_folders()
        except Unusable as error:
            report = not_started(str(error))
        except OSError as error:
            report = not_started(f"its folders could not be set up: {error.strerror}")
        except wasmtime.WasmtimeError:
            report = not_started("the engine could not be set up for it; the machine may be short of memory")
        finally:
            self._clock.leave(self._timer)
        used = replace(
            report.usage,
            seconds=time.monotonic() - began,
            cpu_seconds=time.thread_time() - cpu,
            output_bytes=self.out.total + self.err.total,
        )
        return replace(
            report,
            usage=used,
            stdout=self.out.text,
            stderr=self.err.text,
            truncated=report.truncated or self.out.truncated or self.err.truncated,
            denials=events(self.asking.denials),
            violations=events(self.asking.violations),
        )

    def _with_folders(self) -> Report:
        work, loaded = self._work, self._loaded
        if isinstance(loaded, Composed):
            if work.places:
                return not_started(
                    "a component cannot be given folders here, because what it opens and writes there could not be"
                    " bounded; build it as a preview 1 module"
                )
            return self._in_store(None)
        if not loaded.files:
            return self._in_store(None)
        bundle = work.bundle if work.show_bundle else ""
        with Folders(
            work.places,
            bundle=bundle,
            cwd=work.cwd,
            spare=self._parts.spare,
            own=work.own_folder,
        ) as folders:
            shown = [each.descriptor for each in folders.shown]
            self.wasi = Wasi(self._parts.imports, self._timer, (self.out, self.err), shown)
            report = self._in_store(folders)
            if report.ending in _BY_ITSELF and folders.left:
                self._have_taken(folders.left)
            return report

    def _have_taken(self, folder: str) -> None:
        with suppress(OSError):  # it put something else in the place of the folder
            left = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if self._work.take is not None and not is_empty(left):
                    self._work.take(left)
            finally:
                os.close(left)

    def _in_store(self, folders: Folders | None) -> Report:
        import wasmtime

        work = self._work
        fuel = work.fuel or int(work.seconds * _FUEL_A_SECOND) + _FUEL_A_SECOND
        with ExitStack() as closing:
            store = wasmtime.Store(self._parts.engine, self)
            closing.callback(self.wasi.close)
            closing.callback(self._clock.attach(store, self._timer))
            closing.callback(store.close)
            store.set_limits(
                memory_size=work.memory_bytes,
                table_elements=_TABLE_ELEMENTS,
                instances=_INSTANCES,
                tables=_TABLES,
                memories=_MEMORIES,
            )
            store.set_fuel(fuel)
            if isinstance(self._loaded, Composed) or self._loaded.wasi:
                self._set_wasi(store, folders)
            report = self._ended(store)
            memory = self._memory_of()
            report = self._for_a_reason(report, memory)
            usage = Usage(memory_bytes=memory, fuel=self._burned(store, fuel, report))
            return replace(report, usage=usage)

    def _burned(self, store: "Store", given: int, report: Report) -> int | None:
        if report.ending == "out_of_fuel":
            return given
        return given - store.get_fuel() if self._fuel_is_booked else None

    def _set_wasi(self, store: "Store", folders: Folders | None) -> None:
        import wasmtime

        work = self._work
        config = wasmtime.WasiConfig()
        out = {"METIER_OUT": f"{OWN}/{OUT}"} if folders and folders.left and work.take else {}
        self._raw.describe(config, work.argv, {**work.environment, **out}, work.stdin)
        if isinstance(self._loaded, Composed):  # what a module prints comes to us without a detour
            config.stdout_custom = self._paced(self.out)
            config.stderr_custom = self._paced(self.err)
        for each in folders.shown if folders else ():
            name = work.names.get(each.guest, each.guest)
            config.preopen_dir(f"/proc/self/fd/{each.descriptor}", name, each.writable)
        store.set_wasi(config)
        self.wasi.begin()

    def _paced(self, stream: Kept) -> Callable[[bytes], None]:
        def write(data: bytes) -> None:
            self.pace.step()
            stream.write(data)

        return write

    def _ended(self, store: "Store") -> Report:
        import wasmtime

        try:
            if self._timer.expired():
                raise wasmtime.WasmtimeError("it was over before it began")
            said = wasm_call.call(store, self._raw, self._loaded, self._work, self._measure(store))
            self._fuel_is_booked = True
            return self._told(said)
        except wasmtime.ExitTrap as exit:
            self._fuel_is_booked = True
            return self._told(wasm_call.Exited(exit.code))
        except BadValue as error:
            return not_started(str(error), name="BadArguments")
        except wasmtime.Trap as trap:
            code = trap.trap_code
            self._fuel_is_booked = code is not None and code.name in _BOOKED
            name = "Trap" if code is None else code.name.title().replace("_", "")
            return _failed(
                "out_of_fuel" if code is wasmtime.TrapCode.OUT_OF_FUEL else "raised",
                name,
                plain_text(str(trap)),
            )
        except wasmtime.WasmtimeError as error:
            return _from_text(str(error))

    def _measure(self, store: "Store") -> Callable[[Memory], None]:
        context = self._raw.context(store)

        def measured(memory: Memory) -> None:
            self._memory_of = lambda: memory.size(context)

        return measured

    def _told(self, said: wasm_call.Said) -> Report:
        """A report of what a call that came back said."""
        match said:
            case wasm_call.Exited(code=0) if self._work.form == "program":
                return Report(ending="returned", exit_code=0)
            case wasm_call.Exited(code=0):
                return self._parsed(self.out.data, self.out.truncated, exit_code=0)
            case wasm_call.Exited(code=code):
                return Report(ending="exited", exit_code=code)
            case wasm_call.Printed(data=data):
                return self._parsed(data, False)
            case wasm_call.Value(value=value):
                return _checked(value)
            case wasm_call.Threw(message=message):
                return _failed("raised", "Error", message[: self._work.output_bytes])
            case wasm_call.Bad(why=why):
                return _failed("bad_result", "BadResult", why)

    def _parsed(self, data: bytes, truncated: bool, exit_code: int | None = None) -> Report:
        if truncated:
            most = f"{self._work.output_bytes:,} bytes"
            report = _failed("bad_result", "BadResult", f"the result has more than {most}")
        elif not data.strip():
            report = _failed("no_result", "NoResult", "it ended without printing a result")
        else:
            try:
                report = Report(ending="returned", value=strictjson.loads(data))
            except ValueError as error:
                report = _failed("bad_result", "BadResult", f"the result is not plain JSON: {error}")
        return replace(report, exit_code=exit_code)

    def _for_a_reason(self, report: Report, memory: int) -> Report:
        """Why it ended badly, where a limit of ours is the reason."""
        if report.ending in ("not_started", "out_of_fuel"):
            return report
        if self._timer.expired():
            if self._timer.why == "stopped":
                return _failed("stopped", "Stopped", "it did what no skill may do")
            seconds = f"{self._work.seconds:g} seconds"
            return _failed("timed_out", "TimedOut", f"it was not done after {seconds}")
        if report.ending in ("returned", "no_result", "bad_result"):
            return report
        if self.wasi.disk_was_full:
            return replace(report, ending="out_of_disk")
        if report.ending == "out_of_memory" or memory >= self._work.memory_bytes * 3 // 4:
            most = f"{self._work.memory_bytes >> 20} MB"
            fault = Fault(name="OutOfMemory", message=f"it wanted more than the {most} it may have")
            return replace(report, ending="out_of_memory", fault=fault)
        return report


def _failed(ending: Ending, name: str, message: str) -> Report:
    return Report(ending=ending, fault=Fault(name=name, message=message))


def _checked(value: Json) -> Report:
    try:
        strictjson.check(value)
    except ValueError as error:
        return _failed("bad_result", "BadResult", f"the result is not plain JSON: {error}")
    return Report(ending="returned", value=value)


def _from_text(text: str) -> Report:
    """Components, and what fails before the first instruction, tell the cause in words only."""
    why = plain_text(text)
    if "all fuel consumed" in text:
        return _failed("out_of_fuel", "OutOfFuel", why)
    if "exceeds memory limits" in text:
        return _failed("out_of_memory", "OutOfMemory", why)
    if "call stack exhausted" in text:
        return _failed("raised", "StackOverflow", why)
    return _failed("raised", "Trap", why)
