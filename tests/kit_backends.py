"""The backends that the contract kit is run on, each as a function, so that another process can open the same."""

import atexit
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from kit_served import Served
from metier.model.guarantee import Guarantee
from metier.sandbox import bwrap_line, cgroup, deno_plan, wasm_wasi
from metier.sandbox.bounds import Bounds
from metier.sandbox.bubblewrap import Bubblewrap
from metier.sandbox.deno import DenoSandbox
from metier.sandbox.deno_where import find_engine
from metier.sandbox.guest import confine, syscall_filter
from metier.sandbox.landlock import Landlock
from metier.sandbox.native import NativeSandbox
from metier.sandbox.protocol import Missing, Sandbox
from metier.sandbox.python import PythonSandbox
from metier.sandbox.wall import Wall
from metier.sandbox.wasm import WasmSandbox
from metier.testing.sandbox_kit import gaps
from metier.testing.sandbox_kit.backend import Backend, Opened
from metier.testing.sandbox_kit.behaviour import Behaviour
from metier.testing.sandbox_kit.bench import TORTURE, KitFailure
from metier.testing.sandbox_kit.granted_names import Names
from metier.testing.sandbox_kit.kit import BEHAVIOURS, NUMBERED, verify
from metier.testing.sandbox_kit.probes_http import HttpGuest
from metier.testing.sandbox_kit.probes_javascript import JavaScriptGuest
from metier.testing.sandbox_kit.probes_python import NativeGuest, PythonGuest
from metier.testing.sandbox_kit.probes_wasm import WasmGuest

TEMPORARY = tempfile.gettempdir()
HERE = os.path.realpath(__file__)
GUEST = os.path.dirname(syscall_filter.__file__)
"""Our own files that run inside."""
FEW = 1_000
"""How many files a run may make here."""
MANY = 20
"""Times two thousand files are tried: enough that somebody looks while they are being made."""
SUPERVISED = frozenset({Guarantee.VIOLATIONS_SEEN, Guarantee.MEMORY_EXACT})


def behaviours(*, third: int | None = None) -> list[Any]:
    """Every behaviour as a parameter of a test. What a backend has not is a gap, and not left out.

    Args:
        third: which third an ordinary run tries, of a backend whose wall and whose guest are each tried whole with another;
            `METIER_TORTURE=1` tries all.
    """
    more = [pytest.mark.timeout(3_600)] if TORTURE else []
    tried = BEHAVIOURS if TORTURE or third is None else BEHAVIOURS[third::3]
    return [
        pytest.param(each, id=str(each), marks=[*more, pytest.mark.slow] if each.slow else more)
        for each in tried
    ]


_TRIED: dict[tuple[int, str], KitFailure | None] = {}


def holds(behaviour: Behaviour | int, make: Callable[[], Backend], folder: Path) -> None:
    """Try a behaviour on a backend, once in a run of the tests: several cases are one behaviour, and share what was found."""
    tried = NUMBERED[behaviour] if isinstance(behaviour, int) else behaviour
    key = (tried.number, make.__name__)
    if key not in _TRIED:
        try:
            anyio.run(verify, tried, make(), str(folder))
        except KitFailure as failure:
            _TRIED[key] = failure
        else:
            _TRIED[key] = None
    if (failure := _TRIED[key]) is not None:
        raise failure


class Walled:
    """A sandbox with the wall it stands behind."""

    def __init__(self, wall: Wall, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self._wall = wall

    async def aclose(self) -> None:
        await self.sandbox.aclose()
        await self._wall.aclose()


@contextmanager
def changed(where: Any, name: str, value: Any) -> Iterator[None]:
    """Another value there for as long as this lasts."""
    before = getattr(where, name)
    setattr(where, name, value)
    try:
        yield
    finally:
        setattr(where, name, before)


class FewFiles:
    """A backend whose runs may make fewer files than others, until it is closed.

    Sixty thousand take a busy disk half a minute. Who counts them does it the same way whatever the number is, and
    under torture it is the real one.
    """

    def __init__(self, open_it: Callable[[], Opened]) -> None:
        self._few = ExitStack()
        if not TORTURE:
            fewer: dict[str, Any] = {**(Bounds.__init__.__kwdefaults__ or {}), "files_most": FEW}
            self._few.enter_context(changed(Bounds.__init__, "__kwdefaults__", fewer))
            self._few.enter_context(changed(wasm_wasi, "ENTRIES", FEW))
        self._opened = open_it()
        self.sandbox = self._opened.sandbox

    async def aclose(self) -> None:
        await self._opened.aclose()
        self._few.close()


def _bubblewrap(make: Callable[[Wall], Sandbox], *, groups: bool = True) -> Callable[[str], Opened]:
    def opened() -> Opened:
        wall = Bubblewrap(groups=cgroup.find() if groups else None)
        return Walled(wall, make(wall))

    return lambda folder: FewFiles(opened)


def _landlock(make: Callable[[Wall], Sandbox], *, groups: bool = True) -> Callable[[str], Opened]:
    def opened() -> Opened:
        wall = Landlock(groups=cgroup.find() if groups else None)
        return Walled(wall, make(wall))

    return lambda folder: FewFiles(opened)


class Lacking:
    """A backend on a machine where something is not there, until it is closed."""

    def __init__(
        self, open_it: Callable[[str], Opened], folder: str, where: Any, name: str, value: Any
    ) -> None:
        self._without = ExitStack()
        self._without.enter_context(changed(where, name, value))
        self._opened = open_it(folder)
        self.sandbox = self._opened.sandbox

    async def aclose(self) -> None:
        await self._opened.aclose()
        self._without.close()


def _lacking(open_it: Callable[[str], Opened], where: Any, name: str, value: Any) -> Callable[[str], Opened]:
    return lambda folder: Lacking(open_it, folder, where, name, value)


def _bubblewrap_lacks(make: Callable[[Wall], Sandbox]) -> dict[str, Callable[[str], Opened]]:
    whole = _bubblewrap(make)
    return {
        "bubblewrap": _lacking(whole, bwrap_line, "WHERE", ("/nowhere/bwrap",)),
        "namespaces for ordinary users": _lacking(whole, bwrap_line, "_WALLS", ("--no-such-option",)),
        "x86-64": _lacking(whole, syscall_filter, "SUPPORTED", False),
        "a control group": _bubblewrap(make, groups=False),
    }


def _straight_lacks() -> dict[str, Callable[[str], Opened]]:
    """As the others, but for the control group, which it never has."""
    lacks = _bubblewrap_lacks(NativeSandbox)
    return {part: lacks[part] for part in lacks if part != "a control group"}


def _landlock_lacks(make: Callable[[Wall], Sandbox]) -> dict[str, Callable[[str], Opened]]:
    whole = _landlock(make)
    without: dict[str, Callable[[str], Opened]] = {
        "Landlock 6": _lacking(whole, confine, "landlock_abi", lambda: 5),
        "x86-64": _lacking(whole, syscall_filter, "SUPPORTED", False),
    }
    if os.geteuid() == 0:
        without["a control group"] = _landlock(make, groups=False)
    return without


def bubblewrap_native() -> Backend:
    names = Names()
    return Backend(
        name="native behind bubblewrap",
        open=_bubblewrap(lambda wall: NativeSandbox(wall, names.egress)),
        names=names,
        guest=NativeGuest(),
        gaps=gaps.BUBBLEWRAP_NATIVE,
        without=_bubblewrap_lacks(NativeSandbox),
        own_files=(GUEST,),
        small_files=MANY,
        elsewhere=f"{HERE}:bubblewrap_native",
    )


def bubblewrap_straight() -> Backend:
    """Every run the first of its kind: no supervisor, no control group."""
    names = Names()
    return Backend(
        name="native straight behind bubblewrap",
        open=_bubblewrap(lambda wall: NativeSandbox(wall, names.egress), groups=False),
        names=names,
        guest=NativeGuest(),
        gaps=gaps.BUBBLEWRAP_STRAIGHT,
        without=_straight_lacks(),
        withhold=SUPERVISED,
        always_new=True,
        own_files=(GUEST,),
        small_files=MANY,
        elsewhere=f"{HERE}:bubblewrap_straight",
    )


def bubblewrap_python() -> Backend:
    names = Names()
    return Backend(
        name="Python behind bubblewrap",
        open=_bubblewrap(lambda wall: PythonSandbox(wall, names.egress)),
        names=names,
        guest=PythonGuest(),
        gaps=gaps.BUBBLEWRAP_PYTHON,
        without=_bubblewrap_lacks(PythonSandbox),
        own_files=(GUEST,),
        small_files=MANY,
        elsewhere=f"{HERE}:bubblewrap_python",
    )


def landlock_native() -> Backend:
    return Backend(
        name="native behind Landlock",
        open=_landlock(NativeSandbox),
        guest=NativeGuest(),
        gaps=gaps.LANDLOCK_NATIVE,
        without=_landlock_lacks(NativeSandbox),
        own_files=(GUEST,),
        small_files=MANY,
        elsewhere=f"{HERE}:landlock_native",
    )


def landlock_python() -> Backend:
    return Backend(
        name="Python behind Landlock",
        open=_landlock(PythonSandbox),
        guest=PythonGuest(),
        gaps=gaps.LANDLOCK_PYTHON,
        without=_landlock_lacks(PythonSandbox),
        own_files=(GUEST,),
        small_files=MANY,
        elsewhere=f"{HERE}:landlock_python",
    )


@cache
def _engine_cache() -> str:
    """What the engine keeps, once for all tests of this process."""
    folder = tempfile.mkdtemp(prefix="kit-deno-", dir=TEMPORARY)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _engine() -> tuple[str, ...]:
    found = find_engine()
    return () if isinstance(found, Missing) else (found.path,)


def _deno(wall: Wall) -> Sandbox:
    return DenoSandbox(wall, cache=_engine_cache())


def _without_runner(whole: Callable[[str], Opened]) -> dict[str, Callable[[str], Opened]]:
    """Without the files of ours that run inside."""
    return {"/nowhere/guest": _lacking(whole, deno_plan, "GUEST", "/nowhere/guest")}


def bubblewrap_deno() -> Backend:
    return Backend(
        name="Deno behind bubblewrap",
        open=_bubblewrap(_deno),
        guest=JavaScriptGuest(),
        gaps=gaps.BUBBLEWRAP_DENO,
        names=Names(),
        without={**_bubblewrap_lacks(_deno), **_without_runner(_bubblewrap(_deno))},
        own_files=(GUEST, _engine_cache(), *_engine()),
        small_files=MANY,
        elsewhere=f"{HERE}:bubblewrap_deno",
    )


def landlock_deno() -> Backend:
    return Backend(
        name="Deno behind Landlock",
        open=_landlock(_deno),
        guest=JavaScriptGuest(),
        gaps=gaps.LANDLOCK_DENO,
        names=Names(),
        without={**_landlock_lacks(_deno), **_without_runner(_landlock(_deno))},
        own_files=(GUEST, _engine_cache(), *_engine()),
        small_files=MANY,
        elsewhere=f"{HERE}:landlock_deno",
    )


class Alone:
    """A sandbox that needs no wall."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    async def aclose(self) -> None:
        await self.sandbox.aclose()


@cache
def _code_cache() -> str:
    folder = tempfile.mkdtemp(prefix="kit-wasm-", dir=TEMPORARY)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _without_wasmtime(name: str, package: str | None = None) -> Any:
    return None if name == "wasmtime" else _find_spec(name, package)


_find_spec = importlib.util.find_spec


def wasm() -> Backend:
    def opened(folder: str) -> Opened:
        return FewFiles(lambda: Alone(WasmSandbox(_code_cache())))

    return Backend(
        name="WASM",
        open=opened,
        guest=WasmGuest(),
        gaps=gaps.WASM,
        small_files=MANY,
        without={"wasmtime": _lacking(opened, importlib.util, "find_spec", _without_wasmtime)},
        elsewhere=f"{HERE}:wasm",
    )


def wasm_components() -> Backend:
    """The same sandbox, where every act that can be one is a component: those go another way through the engine."""
    return replace(
        wasm(),
        name="WASM components",
        guest=WasmGuest(components=True),
        gaps=gaps.WASM_COMPONENTS,
        elsewhere=f"{HERE}:wasm_components",
    )


def http() -> Backend:
    served: list[Served] = []
    names = Names()

    def opened(folder: str) -> Opened:
        served.append(Served(names))
        return served[-1]

    return Backend(
        name="HTTP",
        open=opened,
        guest=HttpGuest(lambda: served[-1].port),
        gaps=gaps.HTTP,
        names=names,
        elsewhere=f"{HERE}:http",
    )
