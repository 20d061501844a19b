"""How a WASM module asks the host: the import `metier.ask`, a function `(i32 address, i32 length) -> i64`.

The request is JSON, `{"method": …, "params": {…}}`. The answer is JSON too, `{"ok": …}` or `{"error": {"name": …,
"message": …}}`. It is put where the module's own export `alloc` (`(i32 size) -> i32 address`) says, and the result is
its address in the upper and its length in the lower 32 bits.

A negative number above -16 is no answer: -1 the request does not lie in the module's memory or has more than 1 MiB, -2 there is no room
for the answer, -3 it was asked while an answer was being put down. A request that is not JSON of that form ends the
run as a violation. Who asks is known from the store: a request has no place to say it.
"""

from typing import TYPE_CHECKING, Final, Protocol, cast, final

import anyio
from anyio import from_thread

from metier.model import strictjson
from metier.model.digest import Json, canonical
from metier.model.job import Event
from metier.model.ports import Answered, Host, NotAnswered
from metier.sandbox.wasm_clock import Clock, Timer
from metier.sandbox.wasm_memory import Memory
from metier.sandbox.wasm_pace import Pace
from metier.sandbox.wasm_raw import A_FUNCTION, A_MEMORY, Guest, Item, Raw

if TYPE_CHECKING:
    from wasmtime import Linker

MODULE: Final = "metier"
FUNCTION: Final = "ask"
_OUTSIDE, _NO_ROOM, _NESTED = -1, -2, -3
_EVENTS: Final = 100
"""Kinds of refusal that are told apart; more are counted with the last."""


class HasAsking(Protocol):
    """What a store carries: the run it belongs to. It is the store that says who asks, never the guest."""

    asking: "Asking"
    pace: Pace


def define(linker: "Linker", raw: Raw) -> None:
    from wasmtime import FuncType, ValType

    def answer(guest: Guest) -> int:
        run = cast(HasAsking, raw.data(guest.context))
        run.pace.step()
        return run.asking.answer(raw, guest, *guest.numbers(("i32", "i32")))

    kind = FuncType([ValType.i32(), ValType.i32()], [ValType.i64()])
    raw.define(linker, (MODULE, FUNCTION), kind, answer, _NO_ROOM)


@final
class Asking:
    """What one run asked, and was refused."""

    def __init__(self, host: Host | None, clock: Clock, timer: Timer, *, has_alloc: bool) -> None:
        self._has_alloc = has_alloc
        self._host = host
        self._clock = clock
        self._timer = timer
        self._answering = False
        self.denials: dict[tuple[str, str], int] = {}
        self.violations: dict[tuple[str, str], int] = {}

    def answer(self, raw: Raw, guest: Guest, at: int, length: int) -> int:
        if self._answering:
            return _NESTED  # `alloc` asks in turn: without an end that would be our stack, not the guest's
        if self._timer.expired():
            return _NO_ROOM
        found = raw.export_of(guest, b"memory", A_MEMORY)
        if found is None or length > strictjson.MAX_BYTES:
            return _OUTSIDE  # nobody may ask that much; it is not even copied
        memory = Memory(raw, found)
        try:
            request = memory.read(guest.context, at, length)
        except IndexError:
            _count(self.denials, "host_call", "a request outside the module's memory")
            return _OUTSIDE
        reply = canonical(self._reply(request))
        self._answering = True
        try:
            alloc = raw.export_of(guest, b"alloc", A_FUNCTION) if self._has_alloc else None
            return _NO_ROOM if alloc is None else _put_down(raw, guest, memory, alloc, reply)
        finally:
            self._answering = False

    def _reply(self, request: bytes) -> dict[str, Json]:
        try:
            method, params = _read(request)
        except ValueError as error:
            # Nothing can be forged here: the store says who asks. An odd value may well be a server's.
            _count(self.denials, "host_call", "a request that is not of the agreed form")
            return _refusal(NotAnswered(name="InvalidRequest", message=str(error)))
        if self._host is None:
            return _refusal(NotAnswered(name="NotAvailable", message="nobody answers requests of this run"))
        said = from_thread.run(self._ask, self._host, method, params)
        if isinstance(said, Answered):
            return {"ok": said.value}
        if said.kind == "denied":
            _count(self.denials, "host_call", method)
        elif said.kind == "violation":
            self._violation("host_call", method)
        return _refusal(said)

    async def _ask(self, host: Host, method: str, params: dict[str, Json]) -> Answered | NotAnswered:
        with anyio.move_on_after(self._timer.left):
            return await host.ask(method, params)
        return NotAnswered(name="TimedOut", message="the run is over")

    def _violation(self, kind: str, detail: str) -> None:
        _count(self.violations, kind, detail)
        self._clock.stop(self._timer, "stopped")


def events(counted: dict[tuple[str, str], int]) -> tuple[Event, ...]:
    return tuple(Event(kind=kind, detail=detail, count=count) for (kind, detail), count in counted.items())


def _count(counted: dict[tuple[str, str], int], kind: str, detail: str) -> None:
    key = (kind, detail[:200])
    if key not in counted and len(counted) >= _EVENTS:
        key = next(reversed(counted))
    counted[key] = counted.get(key, 0) + 1


def _refusal(why: NotAnswered) -> dict[str, Json]:
    return {"error": {"name": why.name, "message": why.message}}


def _read(request: bytes) -> tuple[str, dict[str, Json]]:
    match strictjson.loads(request):
        case {"method": str(method), "params": dict(params), **rest} if not rest:
            return method, params
        case _:
            raise ValueError('a request is {"method": "…", "params": {…}}')


def _put_down(raw: Raw, guest: Guest, memory: Memory, alloc: Item, reply: bytes) -> int:
    from wasmtime import Trap, WasmtimeError

    try:
        at = raw.call(guest.context, alloc, ("i32",), ("i32",), len(reply))[0]
        memory.write(guest.context, at, reply)
    except (IndexError, WasmtimeError, Trap):
        return _NO_ROOM  # what trapped `alloc` (fuel, time) traps the caller as soon as we return
    address = (at & 0xFFFFFFFF) << 32 | len(reply)
    return address - (1 << 64) if address >= 1 << 63 else address
