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
from metier.testing.sandbox_kit import acts_wasm, wasm_imports, wat_components
from metier.testing.sandbox_kit.guest import Bare, Prepared
from metier.testing.sandbox_kit.outside import outside
from metier.testing.sandbox_kit.probes_python import PYTHON
from metier.testing.sandbox_kit.wat import Wat

_NOTHING: Final = "a module has only what it imports, and there is nothing of the kind to import"
_WAY: Final = "way"
"""The parameter that says by which name to ask for what there is not."""
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
    wat = Wat()
    if act in acts_wasm.ACTS:
        body = acts_wasm.ACTS[act](wat, params)
    else:
        match params.get(_WAY, 0):
            case int(number):
                return wasm_imports.text_for(wasm_imports.ASKED_FOR[act][number])
            case "offered":
                body = acts_wasm.offered_sockets(wat, params)
            case "connect":
                return wat_components.connects(params["tcp"])
            case interface:
                return wat_components.asks_for_interface(interface)
    more = acts_wasm.MORE.get(act, "")
    text = wat.module(body, more=more, locals_=acts_wasm.LOCALS, at_load=at_load)
    return text[:-1] + f"{acts_wasm.ALLOC})" if act in ("ask", "ask_badly") else text


def _ways(act: str) -> tuple[Mapping[str, Any], ...]:
    """Every name there is for an act, and of the network what is offered to modules and to components."""
    ways: list[int | str] = list(range(len(wasm_imports.ASKED_FOR[act])))
    if wasm_imports.ASKED_FOR[act] is wasm_imports.ASKED_FOR["network"]:
        ways += ["offered", "wasi:http/outgoing-handler@0.2.0"]
    if act == "network":
        ways.append("connect")
    return tuple({_WAY: each} for each in ways)


@final
class WasmGuest:
    """Modules of WASI preview 1; with `components` every act that can be one is a component."""

    def __init__(self, *, components: bool = False) -> None:
        self._components = components
        # What a component holds is not shown, so how it takes a refusal is all that can be told.
        self.leaves_uncaught: Final = frozenset({"out_of_memory", *(("raised",) if components else ())})

    name: Final = "wasm"
    bridged: Final = True
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
                "set_id",
                "other_word",
                "by_grant",
                "read_frames",
                "core_limit",
                "shipped",
            ),
        ),
        _NOTHING,
    )
    ways: Final[Mapping[str, tuple[Mapping[str, Any], ...]]] = {act: _ways(act) for act in absent}
    certain: Final[Mapping[str, tuple[str, ...]]] = {
        "keep_words": ("times",),
        "huge": ("four_gigabytes",),
        "read_outside": ("open", "list", "passwords", "write", "create"),
        "links": ("dots", "made_relative"),
        "change": ("write", "rename"),
        "devices": ("other_processes", "/sys"),
        "files_of_others": ("read", "write", "granted"),
    }

    def prepare(self, act: str, params: Mapping[str, Any], folder: str, *, at_load: bool = False) -> Prepared:
        text = text_of(act, params, at_load=at_load)
        if self._components:
            text = wat_components.component_of(text) or text
        function = "connect" if params.get(_WAY) == "connect" else None
        entry = WasmModule(path=_compiled(act, params, folder, text), function=function)
        return Prepared(entry=entry, arguments=dict(params), bundle=folder)

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
            return os.path.join(cwd, _compiled(act, params, cwd, text_of(act, params)))

        path = await to_thread.run_sync(compiled)
        around = [f"{name}={value}" for name, value in environment.items()]
        given = {"PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
        argv = [PYTHON, "-B", "-c", _BARE, path, cwd, *around]
        return await outside(argv, cwd=cwd, seconds=seconds, environment=given, stdin=stdin)


def _compiled(act: str, params: Mapping[str, Any], folder: str, text: str) -> str:
    from wasmtime import wat2wasm

    data = bytes(wat2wasm(text))
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
