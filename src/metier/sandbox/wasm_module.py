"""From a file of a skill to something that can be run: read, looked at, compiled apart, linked.

Only WASM in binary form is taken: no text form, no machine code somebody else made. What it imports must be what is offered here: WASI preview 1 and
`metier.ask` for a module, WASI preview 2 without folders and timers for a component.
"""

import hashlib
import importlib.metadata
import json
import os
import sys
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar, final
from weakref import WeakValueDictionary

from msgspec import Struct

from metier.errors import StateError
from metier.model.diagnostic import Diagnostic
from metier.openfile import Signature, is_young, read_small, signature_of
from metier.sandbox import wasm_ask
from metier.sandbox.wasm_cache import Cache
from metier.sandbox.wasm_compile import SETTINGS, NotNow, Refused, Source, compiled, plain_text
from metier.sandbox.wasm_files import Unusable, open_folder
from metier.sandbox.wasm_line import Line
from metier.sandbox.wasm_wasi import WASI, WasiImports

if TYPE_CHECKING:
    from wasmtime import Engine, InstancePre, Linker, Module
    from wasmtime.component import Component
    from wasmtime.component import Linker as ComponentLinker

_K = TypeVar("_K")
_V = TypeVar("_V")

MOST_BYTES: Final = 64 << 20
_MOST_LOADED: Final = 64

_MODULE: Final = b"\0asm\1\0\0\0"
_COMPONENT: Final = b"\0asm\r\0\1\0"
_OFFERED: Final = (
    "wasi:cli/",
    "wasi:clocks/",
    "wasi:filesystem/",
    "wasi:io/",
    "wasi:random/",
    "wasi:sockets/",
)
ALLOC: Final = (("i32",), ("i32",))
"""What a module's `alloc` takes and gives."""
_TIMERS: Final = ("subscribe-duration", "subscribe-instant")
_FILES: Final = ("fd_prestat_get", "path_open")


@final
class Core(Struct, frozen=True):
    """A module ready to be instantiated."""

    pre: "InstancePre"
    wasi: bool
    files: bool
    memory: bool
    """Whether it exports one as `memory`."""
    functions: dict[str, tuple[tuple[str, ...], tuple[str, ...]]]
    """What each exported function takes and gives."""

    @property
    def has_alloc(self) -> bool:
        return self.functions.get("alloc") == ALLOC


@final
class Composed(Struct, frozen=True):
    """A component ready to be instantiated."""

    component: "Component"
    linker: "ComponentLinker"
    command: str
    """The name of its `wasi:cli/run` export; empty when it has none."""


Loaded: TypeAlias = Core | Composed


@final
class Modules:
    """The modules of one engine. `find` blocks and belongs in a thread; `compile` does not."""

    def __init__(self, engine: "Engine", imports: WasiImports, cache: Cache) -> None:
        self._engine = engine
        self._imports = imports
        self._cache = cache
        self._loaded: OrderedDict[str, Loaded] = OrderedDict()
        self._seen: OrderedDict[tuple[str, str], tuple[Signature, str]] = OrderedDict()
        self._lock = threading.Lock()
        self._sources: WeakValueDictionary[str, Source] = WeakValueDictionary()
        """One copy of the bytes, however many wait for them."""
        self._line = Line(self._make)
        self._linker: Linker | None = None
        self._component_linker: ComponentLinker | None = None
        distribution = importlib.metadata.distribution("wasmtime")
        self._packages = str(distribution.locate_file(""))
        version = distribution.version
        self._engine_key = json.dumps([version, sys.platform, SETTINGS], sort_keys=True).encode()

    def find(self, bundle: str, path: str, now_ns: int) -> Loaded | Source:
        """The module at `path` below `bundle`, or its bytes when it has to be compiled first.

        Raises:
            Refused: when it is none we run.
            StateError: when the cache folder is not safe.
        """
        folder, name = self._folder_of(bundle, path)
        try:
            known = self._known(bundle, path, name, folder)
            if known is not None:
                return known
            found = read_small(name, most=MOST_BYTES, hard_links=True, folder=folder)
        finally:
            os.close(folder)
        if isinstance(found, Diagnostic):
            raise Refused(found.message)
        source = self._look_at(found[0], name)
        signature = signature_of(found[1])
        if not is_young(signature, now_ns):
            self._remember(self._seen, (bundle, path), (signature, source.key))
        self._line.check(source.key)
        try:
            return self._ready(source) or source
        except Refused as why:
            self._line.remember(source.key, why)
            raise

    async def compile(self, source: Source, bundle: str, seconds: float) -> None:
        """Have it compiled and kept, so that `find` finds it. Waits for that no longer than `seconds`.

        Raises:
            Refused: when it cannot be compiled, or not within the limits.
            NotNow: when it is not compiled yet.
        """
        await self._line.wait(source, bundle, seconds)

    def close(self) -> None:
        """End what is being compiled."""
        self._line.close()

    def _make(self, source: Source, stopped: threading.Event) -> None:
        from wasmtime import WasmtimeError

        try:
            if self._ready(source) is None:
                self._keep(source, compiled(source, self._packages, stopped))
        except StateError as error:
            raise Refused(str(error), holds=0) from None
        except WasmtimeError:
            raise NotNow("its machine code could not be loaded; the machine may be short of memory") from None

    def _keep(self, source: Source, code: bytes) -> None:
        from wasmtime import Module
        from wasmtime.component import Component

        self._cache.put(source.key, code)
        made = (Component if source.component else Module).deserialize(self._engine, code)
        self._remember(self._loaded, source.key, self._link(made))

    def _ready(self, source: Source) -> Loaded | None:
        with self._lock:
            found = self._loaded.get(source.key)
        if found is not None:
            return found
        made = self._cache.use(source.key, lambda code: self._deserialized(code, source.component))
        if made is None:
            return None
        loaded = self._link(made)
        self._remember(self._loaded, source.key, loaded)
        return loaded

    def _deserialized(self, code: bytes, component: bool) -> "Module | Component | None":
        from wasmtime import Module, WasmtimeError
        from wasmtime.component import Component

        try:  # not from the file, which would stay open, and be the code, for as long as the module is kept
            return (Component if component else Module).deserialize(self._engine, code)
        except WasmtimeError:
            return None  # made for another processor: compile it for this one

    def _folder_of(self, bundle: str, path: str) -> tuple[int, str]:
        parent, _, name = path.rpartition("/")
        if not bundle or path.startswith("/") or name in ("", ".", ".."):
            raise Refused("its path does not lead to a file of the skill")
        try:
            top = open_folder(bundle)
        except Unusable:
            raise Refused("the skill's folder cannot be opened") from None
        if not parent:
            return top, name
        try:
            return open_folder(parent, top), name
        except Unusable:
            raise Refused("there is no such file in the skill, or a link is on the way to it") from None
        finally:
            os.close(top)

    def _known(self, bundle: str, path: str, name: str, folder: int) -> Loaded | None:
        seen = self._seen.get((bundle, path))
        if seen is None:
            return None
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return None
        if signature_of(status) != seen[0]:
            return None
        self._line.check(seen[1])
        with self._lock:
            return self._loaded.get(seen[1])

    def _look_at(self, data: bytes, name: str) -> Source:
        head = data[:8]
        if head not in (_MODULE, _COMPONENT):
            raise Refused(_what_else(data, name))
        key = hashlib.sha256(self._engine_key + head + hashlib.sha256(data).digest()).hexdigest()
        with self._lock:
            return self._sources.setdefault(key, Source(data, head == _COMPONENT, key))

    def _remember(self, memory: OrderedDict[_K, _V], key: _K, value: _V) -> None:
        with self._lock:
            memory[key] = value
            memory.move_to_end(key)
            while len(memory) > _MOST_LOADED:
                memory.popitem(last=False)

    def _link(self, made: "Module | Component") -> Loaded:
        from wasmtime import Module

        return self._link_module(made) if isinstance(made, Module) else self._link_component(made)

    def _link_module(self, module: "Module") -> Core:
        from wasmtime import Linker, MemoryType, WasmtimeError

        wanted = [(each.module, each.name or "") for each in module.imports]
        for place, name in wanted:
            if place != WASI and (place, name) != (wasm_ask.MODULE, wasm_ask.FUNCTION):
                raise Refused(f"it imports {place}.{name}, which is not offered here")
        if self._linker is None:
            self._linker = Linker(self._engine)
            self._imports.define(self._linker)
            wasm_ask.define(self._linker, self._imports.raw)
        try:
            pre = self._linker.instantiate_pre(module)
        except WasmtimeError as error:
            raise Refused(f"it imports what is not offered here: {plain_text(str(error))}") from None
        names = {name for place, name in wanted if place == WASI}
        has_memory = any(
            each.name == "memory" and isinstance(each.type, MemoryType) for each in module.exports
        )
        return Core(pre, bool(names), not names.isdisjoint(_FILES), has_memory, _functions(module))

    def _link_component(self, component: "Component") -> Composed:
        from wasmtime.component import ComponentInstanceType, Linker

        for name, item in component.type.imports(self._engine).items():
            if not name.startswith(_OFFERED):
                raise Refused(f"it imports {name}, which is not offered here")
            kind = item.ty
            inside = kind.exports(self._engine) if isinstance(kind, ComponentInstanceType) else {}
            if name.startswith("wasi:clocks/") and any(timer in inside for timer in _TIMERS):
                raise Refused(
                    "it is a component that can wait for a clock, and such a wait could not be ended in time;"
                    " build it as a preview 1 module"
                )
        if self._component_linker is None:
            self._component_linker = Linker(self._engine)
            self._component_linker.add_wasip2()
        exports = component.type.exports(self._engine)
        command = next((name for name in exports if name.startswith("wasi:cli/run@")), "")
        return Composed(component, self._component_linker, command)


def _functions(module: "Module") -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    from wasmtime import FuncType

    kinds = {export.name: export.type for export in module.exports}
    return {
        name: (tuple(str(each) for each in kind.params), tuple(str(each) for each in kind.results))
        for name, kind in kinds.items()
        if isinstance(kind, FuncType)
    }


def _what_else(data: bytes, name: str) -> str:
    if data.startswith(b"\x7fELF"):
        return f"{name} is machine code, which is never taken from a skill; bring the .wasm it was made from"
    if data.lstrip()[:1] == b"(":
        return f"{name} is WASM in text form; bring the binary form (wat2wasm makes it)"
    if data.startswith(b"\0asm"):
        return f"{name} is cut off, or in a version of WASM that is not known here"
    return f"{name} is not WASM"
