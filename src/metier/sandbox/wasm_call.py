"""The ways in which a WASM module or component is called.

Without a function it is a program: `_start` of a module, `wasi:cli/run` of a component. The arguments come as JSON
on stdin, the result is what it prints.

A function of a module is called in one of two forms, told apart by its type:

- `(i32 address, i32 length) -> i64`, when the module exports `memory` and `alloc` (`(i32 size) -> i32 address`) too:
  the arguments are put down as JSON, the result is JSON at the address in the upper 32 bits, with the length in the
  lower ones.
- anything that takes and gives only numbers: the arguments are taken in their order, the result is the number, null
  for none, or a list for several.

A function of a component takes its arguments by name, or all of them as JSON if it takes one string named `json`
and gives a string (JSON too). `interface#function` names a function inside an exported interface. A
`result<_, string>` is a value or the error that the call ends with.

A module that has `_initialize` has it called first.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast, final

from msgspec import Struct

from metier.model.digest import Json, canonical
from metier.sandbox.wasm_memory import Memory
from metier.sandbox.wasm_module import ALLOC, Composed, Core, Loaded
from metier.sandbox.wasm_raw import A_FUNCTION, A_MEMORY, Item, Raw
from metier.sandbox.wasm_values import BadValue, lift, liftable, numbers, only_numbers, typed

if TYPE_CHECKING:
    from wasmtime import Store, component

_WITH_JSON: Final = (("i32", "i32"), ("i64",))


class Wanted(Protocol):
    """What is to be called."""

    @property
    def form(self) -> str: ...
    @property
    def function(self) -> str: ...
    @property
    def arguments(self) -> dict[str, Json]: ...
    @property
    def output_bytes(self) -> int: ...


@final
class Exited(Struct, frozen=True):
    """A program ended."""

    code: int


@final
class Printed(Struct, frozen=True):
    """A function gave JSON."""

    data: bytes


@final
class Value(Struct, frozen=True):
    """A function gave a value."""

    value: Json


@final
class Threw(Struct, frozen=True):
    """A function gave an error."""

    message: str


@final
class Bad(Struct, frozen=True):
    """What a function gave cannot be taken."""

    why: str


Said: TypeAlias = Exited | Printed | Value | Threw | Bad


def call(store: "Store", raw: Raw, loaded: Loaded, wanted: Wanted, measure: Callable[[Memory], None]) -> Said:
    """Instantiate and call. `measure` is given the module's memory as soon as there is one.

    Raises:
        BadValue: when what is wanted is not there, or the arguments do not fit.
        Trap, WasmtimeError: as the engine does.
    """
    if isinstance(loaded, Core):
        return _call_module(raw.context(store), raw, loaded, wanted, measure)
    if wanted.form != "function":
        return _run_component(store, loaded)
    return _call_component(store, loaded, wanted)


def _call_module(
    context: int, raw: Raw, loaded: Core, wanted: Wanted, measure: Callable[[Memory], None]
) -> Said:
    instance = raw.instantiate(context, loaded.pre)
    found = raw.export(context, instance, b"memory", A_MEMORY) if loaded.memory else None
    memory = None if found is None else Memory(raw, found)
    if memory is not None:
        measure(memory)

    def function(name: str) -> Item:
        item = raw.export(context, instance, name.encode(), A_FUNCTION) if name in loaded.functions else None
        if item is None:
            raise BadValue(f"it exports no function {name}")
        return item

    def act(name: str) -> None:
        item = function(name)
        if loaded.functions[name] != ((), ()):
            raise BadValue(f"its function {name} must take nothing and give nothing")
        raw.call(context, item, (), ())

    if wanted.form != "function":
        act("_start")
        return Exited(0)
    name = wanted.function
    called = function(name)
    if "_initialize" in loaded.functions:
        act("_initialize")
    takes, gives = loaded.functions[name]
    if memory is not None and loaded.has_alloc and (takes, gives) == _WITH_JSON:
        return _call_with_json(context, raw, called, function("alloc"), memory, wanted)
    if not only_numbers(takes) or not only_numbers(gives):
        raise BadValue(f"{name} takes or gives what is not a number")
    said = raw.call(context, called, takes, gives, *numbers(takes, wanted.arguments))
    return Value(None if not said else said[0] if len(said) == 1 else cast(Json, said))


def _call_with_json(
    context: int, raw: Raw, function: Item, alloc: Item, memory: Memory, wanted: Wanted
) -> Said:
    asked = canonical(wanted.arguments)
    at = raw.call(context, alloc, *ALLOC, len(asked))[0]
    try:
        memory.write(context, at, asked)
    except IndexError:
        return Bad("alloc gave no room for the arguments inside the module's memory")
    packed = raw.call(context, function, *_WITH_JSON, at, len(asked))[0] & 0xFFFF_FFFF_FFFF_FFFF
    length = packed & 0xFFFF_FFFF
    if length > wanted.output_bytes:
        return Bad(f"the result has more than {wanted.output_bytes:,} bytes")
    try:
        return Printed(memory.read(context, packed >> 32, length))
    except IndexError:
        return Bad("the result does not lie in the module's memory")


def _run_component(store: "Store", loaded: Composed) -> Said:
    from wasmtime import component

    if not loaded.command:
        raise BadValue("the component is no program: it does not export wasi:cli/run")
    function = _component_function(store, loaded, f"{loaded.command}#run")
    said: Any = function(store)
    failed = isinstance(said, component.Variant) and said.tag == "err"
    return Exited(1 if failed else 0)


def _call_component(store: "Store", loaded: Composed, wanted: Wanted) -> Said:
    from wasmtime import component

    function = _component_function(store, loaded, wanted.function)
    kind = function.type(store)
    takes, gives = kind.params, kind.result
    ok, err = gives, None
    if isinstance(gives, component.ResultType):
        ok, err = gives.ok, gives.err
    if not (liftable(ok) and liftable(err)):
        raise BadValue(f"the type of {wanted.function}'s result is not taken; let it give a string of JSON")
    json = [name for name, _ in takes] == ["json"] and isinstance(takes[0][1], component.String)
    if json:
        given: list[Any] = [canonical(wanted.arguments).decode()]
    else:
        given = typed(takes, wanted.arguments)
    said: Any = function(store, *given)
    if isinstance(gives, component.ResultType):
        failed, said = _unpacked(said, ok, err)
        if failed:
            return Threw(said if isinstance(said, str) else "it reported an error")
    if isinstance(said, str) and len(said) > wanted.output_bytes:
        return Bad(f"the result has more than {wanted.output_bytes:,} bytes")
    if json and isinstance(ok, component.String):
        return Printed(cast(str, said).encode("utf-8", "replace"))
    return Value(lift(said))


def _unpacked(said: Any, ok: Any, err: Any) -> tuple[bool, Any]:
    """wasmtime marks the case only where the two could be mixed up; else the type of the value tells."""
    from wasmtime import component

    if isinstance(said, component.Variant):
        return said.tag == "err", said.payload
    kinds: set[type] = set()
    if err is not None:
        err.add_classes(kinds)
    failed = said is None and ok is not None if err is None else isinstance(said, tuple(kinds))
    return failed, said


def _component_function(store: "Store", loaded: Composed, name: str) -> "component.Func":
    interface, _, function = name.rpartition("#")
    instance = loaded.linker.instantiate(store, loaded.component)
    inside = instance.get_export_index(store, interface) if interface else None
    index = None if interface and inside is None else instance.get_export_index(store, function, inside)
    found = None if index is None else instance.get_func(store, index)
    if found is None:
        raise BadValue(f"it exports no function {name}")
    return found
