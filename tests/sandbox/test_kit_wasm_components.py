"""The contract kit on WASM components, and on what modules ask for that there is not."""

from pathlib import Path

import pytest
from wasmtime import Engine, FuncType, Linker, Module, Store, ValType, wat2wasm

from kit_backends import holds, wasm_components
from metier.model.entry import WasmModule
from metier.testing.sandbox_kit.probes_wasm import WasmGuest
from metier.testing.sandbox_kit.wasm_imports import ASKED_FOR, text_for

pytestmark = pytest.mark.slow

COMPONENTS = (5, 10, 11, 12, 13, 19, 27, 28, 30, 31, 32, 33, 34, 47, 60)
"""Where an act of the behaviour can be a component: the engine runs those by another way, with limits of its own."""


@pytest.mark.parametrize("number", COMPONENTS)
def test_wasm_components(number: int, tmp_path: Path) -> None:
    holds(number, wasm_components, tmp_path)


def test_the_acts_that_the_components_are_tried_with_are_components(tmp_path: Path) -> None:
    guest = wasm_components().guest
    for act, params in {
        "echo": {},
        "loop": {},
        "memory": {"kind": "grown", "mb": 8},
        "flood": {"mb": 1},
        "recursion": {},
    }.items():
        entry = guest.prepare(act, params, str(tmp_path)).entry
        assert isinstance(entry, WasmModule)
        assert (tmp_path / entry.path).read_bytes()[:8] == b"\0asm\r\0\1\0"


def test_what_a_module_asks_for_in_vain_is_refused_for_its_name_alone() -> None:
    """Where it is offered, the same module starts."""
    asked = {each for act in WasmGuest.absent for each in ASKED_FOR[act]}
    assert len(asked) > 12
    for each in asked:
        engine = Engine()
        store, module = Store(engine), Module(engine, wat2wasm(text_for(each)))
        linker = Linker(engine)
        takes, gives = ([ValType.i32()] * len(letters) for letters in (each.takes, each.gives))
        linker.define_func(each.place, each.name, FuncType(takes, gives), lambda *_: 0)
        linker.instantiate(store, module).exports(store)["_start"](store)
