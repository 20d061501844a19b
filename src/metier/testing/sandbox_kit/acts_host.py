"""Acts of a guest: asking the host, and results that are none. Each function is a program of its own."""

# pyright: basic, reportUnknownMemberType=false
# Programs for the other side: plain, and not worth a type for every list.

from typing import Any

from metier.testing.sandbox_kit.tries import Tries


async def ask(params: dict[str, Any], context: Any) -> Any:
    """Ask the host each of `asks` in turn; what came back, or the whole of the error."""
    said = []
    for method, given in params["asks"]:
        try:
            said.append({"value": await context.ask(method, **given)})
        except BaseException as error:  # noqa: BLE001  whatever it is, it is what we want to see
            said.append(
                {"name": getattr(error, "name", ""), "shown": repr(error), "more": sorted(vars(error))}
            )
    return said


async def ask_late(params: dict[str, Any], context: Any) -> Any:
    """Be over, and leave somebody who goes on asking with everything the run had."""
    import os
    import time

    await context.ask("first")
    if os.fork() == 0:
        for _ in range(100):
            time.sleep(0.02)  # noqa: ASYNC251  in a process of its own
            context.ask("late")
        os._exit(0)
    return "over"


async def read_frames(params: dict[str, Any], context: Any) -> Any:
    """Look at what comes in from the host, beside the library that it is meant for. Nothing is taken away."""
    import os
    import select
    import socket
    import sys

    tries = Tries()
    answer = context.ask("who")
    with tries(params["by"]):
        if params["by"] == "library" and params["word"] not in sys.stdin.read():
            raise OSError("it is not there")
        select.select([3], [], [], 2)
        with socket.socket(fileno=os.dup(3)) as wire:
            if params["word"].encode() not in wire.recv(4096, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                raise OSError("it is not there")
    await answer
    return tries.said()


async def ask_badly(params: dict[str, Any], context: Any) -> Any:
    """Requests that are none. Which were answered with an error that this language has a name for."""
    said = []
    for bad in (object(), float("nan"), "\ud800"):
        try:
            await context.ask("bad", value=bad)
        except BaseException as error:  # noqa: BLE001  whatever it is, it is what we want to see
            said.append(type(error).__name__)
    return said


def ask_through_others(params: dict[str, Any]) -> Any:
    """Find somebody else's bridge and ask through that."""
    import os
    from contextlib import suppress

    tries = Tries()
    pids = {str(pid) for pid in params["pids"]}
    with suppress(OSError):
        if params.get("only"):
            raise OSError("outside there are others whose bridge is none of ours")
        pids |= {name for name in os.listdir("/proc") if name.isdigit()}
    line = b'{"jsonrpc":"2.0","id":1,"method":"stolen","params":{}}\n'
    for pid in pids - {str(os.getpid())}:
        for number in range(3, 10):
            with tries(f"{pid}_{number}"):
                opened = os.open(f"/proc/{pid}/fd/{number}", os.O_WRONLY)
                os.write(opened, line)
    return tries.said()


def no_bridge(params: dict[str, Any]) -> Any:
    """What a program without a bridge can do to ask: find a descriptor that is not a standard one."""
    import os

    tries = Tries()
    for number in range(3, 64):
        with tries(f"descriptor_{number}"):
            os.fstat(number)
    return tries.said()


def forge(params: dict[str, Any]) -> Any:
    """Write a line to the bridge that is not from who may."""
    import os

    line = b'{"jsonrpc":"2.0","id":0,"result":"forged"}\n'
    os.write(1, line)
    os.write(2, line)
    if params["on_bridge"]:
        os.write(3, (b"0" * 32 + b" " if params["with_key"] else b"") + line)
    return "true"


def odd_result(params: dict[str, Any]) -> Any:
    """A result that is not plain data."""
    import json

    cycle: list[Any] = []
    cycle.append(cycle)
    deep: Any = 0
    for _ in range(100_000):
        deep = [deep]

    class Odd:
        def __reduce__(self) -> Any:
            return (print, ("ran in the host",))

        def __str__(self) -> str:
            raise SystemError("ran in the host")

    class Text(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            raise SystemError("ran in the host")

        __hash__ = str.__hash__

    def patched(*given: Any, **named: Any) -> str:
        return "not json\n{"

    match params["kind"]:
        case "object":
            return Odd()
        case "set":
            return {1, 2}
        case "cycle":
            return cycle
        case "deep":
            return deep
        case "not_a_number":
            return float("nan")
        case "bytes":
            return b"bytes"
        case "long":
            return "x" * (params["bytes"] + 100)
        case "half_a_character":
            return "\ud800"
        case "great_number":
            return 10**400
        case "text":
            return Text("plain")
        case "proto":
            return {"__proto__": {"polluted": True}, "constructor": 1}
        case _:
            setattr(json, "dumps", patched)  # noqa: B010
            return "patched"
