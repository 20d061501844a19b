"""Runs one piece of Python code in a process of its own, and speaks to the host over the bridge.

The code is `async def main(params, context)` (or a plain `def`) in a file of the skill, or inline code that leaves
its answer in `result`; or it is a skill that lives (`python_life.py`). What it prints is output, never an answer; only
plain JSON goes back.

Standard library only: the package is not importable here.
"""

import asyncio
import inspect
import io
import linecache
import os
import sys
import types
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from metier.sandbox.guest.exported import PROBE, contract_of
    from metier.sandbox.guest.python_bridge import (
        AT_ONCE,
        Bridge,
        HostError,
        Message,
        Reply,
        plain,
        show,
        told,
    )
    from metier.sandbox.guest.python_life import Life
    from metier.sandbox.guest.touched import Touched
else:
    from exported import PROBE, contract_of
    from python_bridge import AT_ONCE, Bridge, HostError, Reply, plain, show, told
    from python_life import Life
    from touched import Touched

RAISED, BAD_RESULT = -32000, -32001
MESSAGE_MOST = 8_000


class CallLog:
    """The call's own log, kept by the host."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def write(self, entry: object) -> Reply:
        return self._bridge.ask("call_log.write", {"entry": entry})


class Gateway:
    """The operator's gateway, as far as this call may use it. Who gets a message is not said here."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def post(self, payload: object) -> Reply:
        """Ask for an action; the answer is a text."""
        return self._bridge.ask("gateway.post", {"payload": payload})

    def send_message(self, message: str) -> Reply:
        """Send a message to the operator."""
        return self._bridge.ask("gateway.send_message", {"message": message})

    sendMessage = send_message  # Amber's own spelling


class Http:
    """Requests through the host, which lets through what was granted."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def request(self, method: str, url: str, **more: object) -> Reply:
        return self._bridge.ask("http", {"method": method, "url": url, **more})

    def get(self, url: str, **more: object) -> Reply:
        return self.request("GET", url, **more)

    def post(self, url: str, **more: object) -> Reply:
        return self.request("POST", url, **more)


def frozen(value: "Any") -> "Any":
    """What code is told about its call cannot be changed by one part of it for another."""
    if isinstance(value, dict):
        told: Message = value  # pyright: ignore[reportUnknownVariableType]
        return types.MappingProxyType({name: frozen(each) for name, each in told.items()})
    return value


class Context:
    """What running code may ask of the host, and what it is told about its call."""

    Error = HostError  # for code in a file, which has no other name for it

    def __init__(self, bridge: Bridge, told: "Message") -> None:
        self._bridge = bridge
        self.call_log = self.callLog = CallLog(bridge)
        self.gateway = Gateway(bridge)
        self.http = Http(bridge)
        for name, value in told.items():
            if name.isidentifier() and not hasattr(self, name):
                setattr(self, name, frozen(value))

    def exec(self, argv: "list[str]", **more: object) -> Reply:
        """Run one of the declared programs; its output, or HostError."""
        return self._bridge.ask("exec", {"argv": argv, **more})

    def operate(self, operation: str, arguments: "Message | None" = None) -> Reply:
        """Have one of Metier's own operations done; its value, or HostError."""
        return self._bridge.ask("call", {"operation": operation, "arguments": arguments or {}})

    def log(self, level: str, message: str, **meta: object) -> Reply:
        """Say what is being done. Need not be awaited: many lines in a row wait for each other here."""
        self._bridge.fewer(AT_ONCE)
        return self._bridge.ask("log", {"level": level, "message": message, "meta": meta})

    def ask(self, method: str, **params: object) -> Reply:
        """Anything else the host offers."""
        return self._bridge.ask(method, params)


def main(descriptor: int, request: "Message") -> int:
    """Run what the host says over the bridge. The exit code of this process."""
    bridge = Bridge(descriptor)
    surroundings(request, bridge.run["environment"])
    own = [sys.base_prefix, sys.prefix, *request["packages"]]
    touched = Touched(own, bridge.run["places"], os.environ["TMPDIR"])
    try:
        value = run(bridge)
    except SystemExit:
        return 0  # it left without an answer, and the host will say so
    except BaseException as error:  # noqa: BLE001  the code's own, whatever it is
        show(error)
        tell(bridge, touched)
        name, message = type(error).__name__, told(error)[:MESSAGE_MOST]
        bridge.send({"id": 0, "error": {"code": RAISED, "message": message, "data": {"name": name}}})
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    tell(bridge, touched)
    return give(bridge, value)


def tell(bridge: Bridge, touched: "Touched") -> None:
    """What was looked for and could not be had."""
    for kind, path in touched.refused():
        what = path.encode("utf-8", "replace").decode()
        bridge.send({"method": "refused", "params": {"kind": kind, "what": what}})


def surroundings(request: "Message", environment: "dict[str, str]") -> None:
    """The environment, the standard streams and the import path of this run, instead of the supervisor's.

    Granted variables come over the bridge: what the supervisor had read would be in the memory of every later run.
    """
    os.environ.clear()
    os.environ.update(environment | request["environment"])
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    for number, name in ((1, "stdout"), (2, "stderr")):
        raw = io.FileIO(number, "w", closefd=False)
        setattr(sys, name, io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", "backslashreplace"))
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    # After the standard library: a file of a skill never stands in for a module of it.
    sys.path[:] = [*sys.path[1:], *request["packages"]]
    sys.argv[:] = [""]


def run(bridge: Bridge) -> object:
    """Load the code and have it run."""
    asked = bridge.run
    if asked["kind"] == "life":
        Life(bridge).live()
        return None
    params = asked["arguments"]
    context = Context(bridge, {**asked["context"], "out": os.environ["METIER_OUT"]})
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    if asked["kind"] == "inline":
        module.__dict__.update(params=params, context=context, result=None, HostError=HostError)
        code = compiled(asked["source"], "<code>")
        finish(eval(code, module.__dict__))  # noqa: S307  this is what it is for
        return module.__dict__.get("result")
    path = asked["path"]
    if asked["function"] == PROBE:
        return contract_of(path, params["module"])
    with open(path, encoding="utf-8") as file:
        source = file.read()
    module.__dict__.update(__file__=path, __name__="skill")
    exec(compile(source, path, "exec"), module.__dict__)  # noqa: S102
    function = module.__dict__.get(asked["function"])
    if not callable(function):
        raise AttributeError(f"the file has no function {asked['function']!r}")
    takes = len(inspect.signature(function).parameters)
    return finish(function(*(params, context)[:takes]))


def compiled(source: str, name: str) -> types.CodeType:
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    return compile(source, name, "exec", PyCF_ALLOW_TOP_LEVEL_AWAIT)


def finish(value: object) -> object:
    """The value itself, also of a coroutine."""
    if not inspect.isawaitable(value):
        return value

    async def whole() -> object:
        return await value

    return asyncio.new_event_loop().run_until_complete(whole())


def give(bridge: Bridge, value: object) -> int:
    """Send the result, if it is plain JSON. What was asked for before the end is done before the end."""
    if bridge.run["kind"] != "life":  # which has waited already, as long as it does
        bridge.fewer(1)
    most = bridge.run["most_result"]
    try:
        text = plain(value)
        if len(text) <= most:
            bridge.write(bridge.line(f'{{"jsonrpc":"2.0","id":0,"result":{text}}}'))
            return 0
        name, message = "TooLarge", f"the result is larger than the limit of {most} bytes"
    except MemoryError:
        message = f"there is not enough memory to send the result; return less, and at most {most} bytes"
        name = "TooLarge"
    except (TypeError, ValueError, RecursionError, UnicodeEncodeError) as error:
        name = type(error).__name__
        message = f"what the code returned is not plain JSON: {error}"[:MESSAGE_MOST]
    # Only here: what was made of the result before it failed is gone now, and there is room to say so.
    bridge.send({"id": 0, "error": {"code": BAD_RESULT, "message": message, "data": {"name": name}}})
    return 1
