"""wasmtime's C functions, called directly: values go as numbers and things as addresses.

Its Python package makes an object of every value, type, pointer and export, at every call. For a small run that is
most of its time, so what every run does goes through here; the rest stays with the package.

Nothing is checked on the way: whoever calls a function of a guest knows from its module what it takes and gives.
"""

import ctypes
import importlib
from collections.abc import Callable, Sequence
from ctypes import byref, c_bool, c_size_t, c_uint64, c_void_p
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

if TYPE_CHECKING:
    from wasmtime import FuncType, InstancePre, Linker, Module, Store, WasiConfig

A_FUNCTION: Final = 0
A_MEMORY: Final = 3
"""Kinds of things that a module exports."""
_SLOT: Final = 16
"""Bytes that a number takes on its way in or out."""
_NUMBERS: Final[dict[str, Any]] = {
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
}
_HOST_FUNCTION: Final = ctypes.CFUNCTYPE(c_size_t, c_void_p, c_void_p, c_void_p, c_size_t)


@final
class Item:
    """A function or memory of a store; good for as long as the store is open."""

    __slots__ = ("address", "extern")

    def __init__(self, extern: Any, address: int) -> None:
        self.extern = extern
        self.address: Final = address
        """Inside `extern`, past the word that says what it is."""


@final
class Guest:
    """A guest's call of a host function; good until that returns."""

    __slots__ = ("caller", "context", "count", "slots")

    def __init__(self, caller: int, context: int, slots: int, count: int) -> None:
        self.caller: Final = caller
        self.context: Final = context
        self.slots: Final = slots
        """Where its arguments are, and its result will be."""
        self.count: Final = count

    def numbers(self, kinds: Sequence[str]) -> list[int]:
        """Its arguments, which are integers; they come signed."""
        return _read(self.slots, kinds)


Answer: TypeAlias = Callable[[Guest], int]


@final
class Raw:
    """The functions of the library. One is enough for an engine, and lives as long as it."""

    def __init__(self) -> None:
        self._bindings: Any = importlib.import_module("wasmtime._bindings")
        self._package: Any = importlib.import_module("wasmtime")
        self._objects: Any = importlib.import_module("wasmtime._value").SLAB
        self._extern: Any = self._bindings.wasmtime_extern_t
        self._of: int = self._extern.of.offset
        self._host_functions: list[Any] = []
        quick, long, at = self._quick, self._long, c_void_p
        self._store_context = quick("wasmtime_store_context", at, at)
        self._caller_context = quick("wasmtime_caller_context", at, at)
        self._get_data = quick("wasmtime_context_get_data", at, at)
        self._caller_export = quick("wasmtime_caller_export_get", c_bool, at, at, c_size_t, at)
        self._instance_export = quick("wasmtime_instance_export_get", c_bool, at, at, at, c_size_t, at)
        self._linker_get = quick("wasmtime_linker_get", c_bool, at, at, at, c_size_t, at, c_size_t, at)
        self._memory_data = quick("wasmtime_memory_data", at, at, at)
        self._memory_size = quick("wasmtime_memory_data_size", c_size_t, at, at)
        self._set_argv = quick("wasi_config_set_argv", c_bool, at, c_size_t, at)
        self._set_env = quick("wasi_config_set_env", c_bool, at, c_size_t, at, at)
        self._set_stdin = quick("wasi_config_set_stdin_bytes", None, at, at)
        self._new_bytes = quick("wasm_byte_vec_new", None, at, c_size_t, at)
        self._delete_error = quick("wasmtime_error_delete", None, at)
        self._delete_trap = quick("wasm_trap_delete", None, at)
        self._instantiate = long("wasmtime_instance_pre_instantiate", at, at, at, at, at)
        self._new_instance = long("wasmtime_instance_new", at, at, at, at, c_size_t, at, at)
        self._call = long("wasmtime_func_call_unchecked", at, at, at, at, c_size_t, at)

    def _quick(self, name: str, gives: Any, *takes: Any) -> Callable[..., Any]:
        """A function that is back at once and calls nothing of ours: it keeps Python's lock."""
        return ctypes.PYFUNCTYPE(gives, *takes)((name, self._bindings.dll))

    def _long(self, name: str, gives: Any, *takes: Any) -> Callable[..., Any]:
        """A function in which a guest may run: the rest of the program goes on meanwhile."""
        return ctypes.CFUNCTYPE(gives, *takes)((name, self._bindings.dll))

    def context(self, store: "Store") -> int:
        """What most functions know a store by."""
        return self._store_context(store.ptr())

    def data(self, context: int) -> Any:
        """What the store was made with."""
        return self._objects.get(self._get_data(context) - 1)

    def instantiate(self, context: int, pre: "InstancePre") -> Any:
        """Raises Trap, WasmtimeError."""
        instance, trap = self._bindings.wasmtime_instance_t(), c_void_p()
        self._check(self._instantiate(pre.ptr(), context, byref(instance), byref(trap)), trap)
        return instance

    def new_instance(self, context: int, module: "Module", imports: Sequence[Item]) -> Any:
        """Raises Trap, WasmtimeError."""
        given = _many(self._extern, len(imports))(*(each.extern for each in imports))
        instance, trap = self._bindings.wasmtime_instance_t(), c_void_p()
        error = self._new_instance(context, module.ptr(), given, len(imports), byref(instance), byref(trap))
        self._check(error, trap)
        return instance

    def export(self, context: int, instance: Any, name: bytes, kind: int) -> Item | None:
        """What an instance exports by that name, if it is of that kind."""
        item = self._extern()
        found = self._instance_export(context, byref(instance), name, len(name), byref(item))
        return self._item(item) if found and item.kind == kind else None

    def export_of(self, guest: Guest, name: bytes, kind: int) -> Item | None:
        """As `export`, of the instance that calls."""
        item = self._extern()
        found = self._caller_export(guest.caller, name, len(name), byref(item))
        return self._item(item) if found and item.kind == kind else None

    def linked(self, context: int, linker: "Linker", module: bytes, name: bytes) -> Item:
        """What a linker would give to a module of this store."""
        item = self._extern()
        place = linker.ptr()
        if not self._linker_get(place, context, module, len(module), name, len(name), byref(item)):
            raise LookupError(name)
        return self._item(item)

    def _item(self, extern: Any) -> Item:
        return Item(extern, ctypes.addressof(extern) + self._of)

    def memory(self, context: int, memory: Item) -> tuple[int, int]:
        """Where it lies now, and how many bytes it has."""
        place = memory.address
        return self._memory_data(context, place) or 0, self._memory_size(context, place)

    def call(
        self, context: int, function: Item, takes: Sequence[str], gives: Sequence[str], *numbers: float
    ) -> list[Any]:
        """Call a function that takes and gives just that.

        Raises:
            Trap, WasmtimeError: as the engine does.
        """
        count = max(len(takes), len(gives))
        slots = _many(c_uint64, 2 * count)()
        start = ctypes.addressof(slots)
        for place, (kind, number) in enumerate(zip(takes, numbers, strict=True)):
            _NUMBERS[kind].from_address(start + place * _SLOT).value = number
        trap = c_void_p()
        self._check(self._call(context, function.address, start, count, byref(trap)), trap)
        return _read(start, gives)

    def pass_on(self, guest: Guest, function: Item) -> int | None:
        """What a function of the same type says to the arguments of this call, an `i32`; None where it traps."""
        trap = c_void_p()
        error = self._call(guest.context, function.address, guest.slots, guest.count, byref(trap))
        if error:
            self._delete_error(error)
        if trap.value:
            self._delete_trap(trap)
        return None if error or trap.value else _read(guest.slots, ("i32",))[0]

    def _check(self, error: int | None, trap: c_void_p) -> None:
        pointer: Any = ctypes.POINTER
        if error:
            held = ctypes.cast(error, pointer(self._bindings.wasmtime_error_t))
            raise self._package.WasmtimeError._from_ptr(held)
        if trap.value:
            held = ctypes.cast(trap, pointer(self._bindings.wasm_trap_t))
            raise self._package.Trap._from_ptr(held)

    def define(
        self, linker: "Linker", names: tuple[str, str], kind: "FuncType", answer: Answer, otherwise: int
    ) -> None:
        """Offer guests a function of ours that gives an integer; `otherwise` is what it gives where `answer` raises.

        An exception must never get out of it: it has nowhere to go, and the engine would take whatever then lies on
        the stack for a trap."""
        context_of = self._caller_context
        result = _NUMBERS[str(kind.results[0])]

        def called(_: int | None, caller: int, slots: int, count: int) -> int:
            try:
                number = answer(Guest(caller, context_of(caller), slots, count))
            except BaseException:  # noqa: BLE001  a cancelled wait ends with one that is no Exception
                number = otherwise
            result.from_address(slots).value = number
            return 0

        function = _HOST_FUNCTION(called)
        self._host_functions.append(function)
        raw = self._bindings
        module, name = (each.encode() for each in names)
        error = raw.wasmtime_linker_define_func_unchecked(
            linker.ptr(),
            ctypes.create_string_buffer(module),
            len(module),
            ctypes.create_string_buffer(name),
            len(name),
            kind.ptr(),
            ctypes.cast(function, raw.wasmtime_func_unchecked_callback_t),
            None,
            raw._wasmtime_linker_define_func_unchecked.argtypes[-1](),
        )
        if error:
            raise self._package.WasmtimeError._from_ptr(error)

    def describe(
        self, config: "WasiConfig", argv: Sequence[str], environment: dict[str, str], stdin: bytes
    ) -> None:
        """Say what a program is given. Its input are bytes, which the package has no word for: it knows files, and
        those are read by another thread that every read then waits for.

        Raises:
            WasmtimeError: when it is not taken.
        """
        place, names = config.ptr(), sorted(environment)
        values = [environment[name] for name in names]
        taken = self._set_argv(place, len(argv), _texts(argv))
        if names:
            taken = taken and self._set_env(place, len(names), _texts(names), _texts(values))
        if not taken:
            raise self._package.WasmtimeError("its arguments and environment are not taken")
        if stdin:
            held = self._bindings.wasm_byte_vec_t()
            self._new_bytes(byref(held), len(stdin), stdin)
            self._set_stdin(place, byref(held))


def _read(slots: int, kinds: Sequence[str]) -> list[Any]:
    return [_NUMBERS[kind].from_address(slots + place * _SLOT).value for place, kind in enumerate(kinds)]


def _texts(texts: Sequence[str]) -> Any:
    return _many(ctypes.c_char_p, len(texts))(*(text.encode() for text in texts))


@lru_cache(64)
def _many(kind: Any, count: int) -> Any:
    """The type of that many in a row. Making a type takes long, and nothing else would hold it."""
    return kind * count
