"""The backends that the contract kit is run on, each as a function, so that another process can open the same."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

import pytest

from metier.model.guarantee import Guarantee
from metier.sandbox import bwrap_line, cgroup
from metier.sandbox.bubblewrap import Bubblewrap
from metier.sandbox.deno import DenoSandbox
from metier.sandbox.guest import confine
from metier.sandbox.landlock import Landlock
from metier.sandbox.native import NativeSandbox
from metier.sandbox.protocol import Sandbox
from metier.sandbox.python import PythonSandbox
from metier.sandbox.wall import Wall
from metier.sandbox.wasm import WasmSandbox
from metier.testing.sandbox_kit import gaps
from metier.testing.sandbox_kit.backend import Backend, Opened
from metier.testing.sandbox_kit.bench import TORTURE
from metier.testing.sandbox_kit.kit import BEHAVIOURS
from metier.testing.sandbox_kit.probes_javascript import JavaScriptGuest
from metier.testing.sandbox_kit.probes_python import NativeGuest, PythonGuest
from metier.testing.sandbox_kit.probes_wasm import WasmGuest

TEMPORARY = tempfile.gettempdir()
HERE = os.path.realpath(__file__)
SUPERVISED = frozenset({Guarantee.VIOLATIONS_SEEN, Guarantee.MEMORY_EXACT})


def behaviours(numbers: Collection[int] = range(1, 61)) -> list[Any]:
    """The behaviours of these numbers as parameters of a test."""
    more = [pytest.mark.timeout(3_600)] if TORTURE else []
    return [
        pytest.param(each, id=str(each), marks=[*more, pytest.mark.slow] if each.slow else more)
        for each in BEHAVIOURS
        if each.number in numbers
    ]


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


def _bubblewrap(make: Callable[[Wall], Sandbox], *, groups: bool = True) -> Callable[[str], Opened]:
    def opened(folder: str) -> Opened:
        wall = Bubblewrap(groups=cgroup.find() if groups else None)
        return Walled(wall, make(wall))

    return opened


def _landlock(make: Callable[[Wall], Sandbox], *, groups: bool = True) -> Callable[[str], Opened]:
    def opened(folder: str) -> Opened:
        wall = Landlock(groups=cgroup.find() if groups else None)
        return Walled(wall, make(wall))

    return opened


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
        "x86-64": _lacking(whole, confine, "SUPPORTED", False),
        "a control group": _bubblewrap(make, groups=False),
    }


def _landlock_lacks(make: Callable[[Wall], Sandbox]) -> dict[str, Callable[[str], Opened]]:
    whole = _landlock(make)
    without: dict[str, Callable[[str], Opened]] = {
        "Landlock 6": _lacking(whole, confine, "landlock_abi", lambda: 5),
        "x86-64": _lacking(whole, confine, "SUPPORTED", False),
    }
    if os.geteuid() == 0:
        without["a control group"] = _landlock(make, groups=False)
    return without


def bubblewrap_native() -> Backend:
    return Backend(
        name="native behind bubblewrap",
        open=_bubblewrap(NativeSandbox),
        guest=NativeGuest(),
        gaps=gaps.BUBBLEWRAP_NATIVE,
        without=_bubblewrap_lacks(NativeSandbox),
        elsewhere=f"{HERE}:bubblewrap_native",
    )


def bubblewrap_straight() -> Backend:
    """Every run the first of its kind: no supervisor, no control group."""
    return Backend(
        name="native straight behind bubblewrap",
        open=_bubblewrap(NativeSandbox, groups=False),
        guest=NativeGuest(),
        gaps=gaps.BUBBLEWRAP_STRAIGHT,
        withhold=SUPERVISED,
        always_new=True,
        elsewhere=f"{HERE}:bubblewrap_straight",
    )


def bubblewrap_python() -> Backend:
    return Backend(
        name="Python behind bubblewrap",
        open=_bubblewrap(PythonSandbox),
        guest=PythonGuest(),
        gaps=gaps.BUBBLEWRAP_PYTHON,
        without=_bubblewrap_lacks(PythonSandbox),
        elsewhere=f"{HERE}:bubblewrap_python",
    )


def landlock_native() -> Backend:
    return Backend(
        name="native behind Landlock",
        open=_landlock(NativeSandbox),
        guest=NativeGuest(),
        gaps=gaps.LANDLOCK_NATIVE,
        without=_landlock_lacks(NativeSandbox),
        elsewhere=f"{HERE}:landlock_native",
    )


def landlock_python() -> Backend:
    return Backend(
        name="Python behind Landlock",
        open=_landlock(PythonSandbox),
        guest=PythonGuest(),
        gaps=gaps.LANDLOCK_PYTHON,
        without=_landlock_lacks(PythonSandbox),
        elsewhere=f"{HERE}:landlock_python",
    )


@cache
def _engine_cache() -> str:
    """What the engine keeps, once for all tests of this process."""
    folder = tempfile.mkdtemp(prefix="kit-deno-", dir=TEMPORARY)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _deno(wall: Wall) -> Sandbox:
    return DenoSandbox(wall, cache=_engine_cache())


def bubblewrap_deno() -> Backend:
    return Backend(
        name="Deno behind bubblewrap",
        open=_bubblewrap(_deno),
        guest=JavaScriptGuest(),
        gaps=gaps.BUBBLEWRAP_DENO,
        without=_bubblewrap_lacks(_deno),
        elsewhere=f"{HERE}:bubblewrap_deno",
    )


def landlock_deno() -> Backend:
    return Backend(
        name="Deno behind Landlock",
        open=_landlock(_deno),
        guest=JavaScriptGuest(),
        gaps=gaps.LANDLOCK_DENO,
        without=_landlock_lacks(_deno),
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


def wasm() -> Backend:
    def opened(folder: str) -> Opened:
        return Alone(WasmSandbox(_code_cache()))

    return Backend(
        name="WASM",
        open=opened,
        guest=WasmGuest(),
        gaps=gaps.WASM,
        elsewhere=f"{HERE}:wasm",
    )
