"""The acts as WASM modules, for a sandbox that runs them."""

import hashlib
import os
import sys
from collections.abc import Mapping
from typing import Any, Final, cast, final

from anyio import to_thread

from metier.model.digest import canonical
from metier.model.entry import WasmModule
from metier.model.job import Report
from metier.testing.sandbox_kit import acts_wasm
from metier.testing.sandbox_kit.guest import Bare, Prepared
from metier.testing.sandbox_kit.outside import outside
from metier.testing.sandbox_kit.probes_python import PYTHON
from metier.testing.sandbox_kit.wat import Wat

_NOTHING: Final = "a module has only what it imports, and there is nothing of the kind to import"
_BARE: Final = """
import sys
import wasmtime
path, cwd, environment = sys.argv[1], sys.argv[2], sys.argv[3:]
store = wasmtime.Store(wasmtime.Engine())
config = wasmtime.WasiConfig()
config.preopen_dir("/", "/", True)
config.preopen_dir(cwd, ".", True)
config.env = [each.partition("=")[::2] for each in environment]
config.inherit_stdin()
config.inherit_stdout()
config.inherit_stderr()
store.set_wasi(config)
linker = wasmtime.Linker(store.engine)
linker.define_wasi()
module = wasmtime.Module.from_file(store.engine, path)
try:
    linker.instantiate(store, module).exports(store)["_start"](store)
except wasmtime.ExitTrap as ended:
    sys.exit(ended.code)
"""


def text_of(act: str, params: Mapping[str, Any], *, at_load: bool = False) -> str:
    """The program for an act. One that there is no such thing for asks for it all the same."""
    if act not in acts_wasm.ACTS:
        return f'(module (import "wasi_snapshot_preview1" "{act}" (func)) (memory (export "memory") 1) (func (export "_start")))'
    wat = Wat()
    body = acts_wasm.ACTS[act](wat, params)
    more = acts_wasm.MORE.get(act, "")
    text = wat.module(body, more=more, locals_=acts_wasm.LOCALS, at_load=at_load)
    return text[:-1] + f"{acts_wasm.ALLOC})" if act in ("ask", "ask_badly") else text


@final
class WasmGuest:
    """Modules of WASI preview 1."""

    name: Final = "wasm"
    bridged: Final = True
    leaves_uncaught: Final = frozenset({"out_of_memory"})
    leaves_silent: Final = frozenset({"no_result"})
    odd_as: Final[tuple[type, ...]] = ()
    has_processes: Final = False
    burns_fuel: Final = True
    absent: Final[Mapping[str, str]] = dict.fromkeys(
        (
            *(
                "stop",
                "crash",
                "daemons",
                "deaf",
                "forks",
                "threads",
                "children_memory",
                "system_calls",
                "privilege",
            ),
            *(
                "ask_late",
                "ask_through_others",
                "others",
                "trace",
                "network",
                "unix_sockets",
                "terminal",
                "made_code",
                "forge",
                "shipped",
            ),
        ),
        _NOTHING,
    )
    certain: Final[Mapping[str, tuple[str, ...]]] = {
        "huge": ("four_gigabytes",),
        "read_outside": ("open", "list", "passwords", "write", "create"),
        "links": ("dots", "made_relative"),
        "change": ("write", "rename"),
        "devices": ("other_processes", "/sys"),
    }

    def prepare(self, act: str, params: Mapping[str, Any], folder: str, *, at_load: bool = False) -> Prepared:
        name = _compiled(act, params, folder, at_load=at_load)
        return Prepared(entry=WasmModule(path=name), arguments=dict(params), bundle=folder)

    def said(self, report: Report) -> Any:
        value: Any = report.value
        if isinstance(value, list):
            return [_as_others_say(each) for each in cast("list[Any]", value)]
        return value

    def shown(self, report: Report) -> str:
        return report.stdout + report.stderr

    async def bare(
        self,
        act: str,
        params: Mapping[str, Any],
        *,
        cwd: str,
        seconds: float,
        environment: Mapping[str, str],
        stdin: bytes = b"",
    ) -> Bare:
        def compiled() -> str:
            return os.path.join(cwd, _compiled(act, params, cwd))

        path = await to_thread.run_sync(compiled)
        around = [f"{name}={value}" for name, value in environment.items()]
        given = {"PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
        argv = [PYTHON, "-B", "-c", _BARE, path, cwd, *around]
        return await outside(argv, cwd=cwd, seconds=seconds, environment=given, stdin=stdin)


def _compiled(act: str, params: Mapping[str, Any], folder: str, *, at_load: bool = False) -> str:
    from wasmtime import wat2wasm

    data = bytes(wat2wasm(text_of(act, params, at_load=at_load)))
    name = f"{act}-{hashlib.sha256(data + canonical(dict(params))).hexdigest()[:12]}.wasm"
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)
    return name


def _as_others_say(answer: Any) -> Any:
    """An answer of the host in the words of the other languages."""
    told = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    if "ok" in told:
        return {"value": told["ok"]}
    if "error" in told:
        error: dict[str, Any] = told["error"]
        return {"name": error.get("name"), "shown": str(error.get("message")), "more": sorted(error)}
    return cast("Any", answer)
