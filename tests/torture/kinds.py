"""The runs of the storm: how each behaves, and how it may end."""

import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import anyio

from metier.model.digest import Json
from metier.model.entry import Command, Entry, InlineCode, WasmModule
from metier.model.guarantee import Guarantee, needed
from metier.model.job import Job, Place
from metier.model.permission import PermissionSet
from metier.model.ports import Answered, NotAnswered
from metier.model.skill import Limits
from metier.sandbox.protocol import Sandbox

TIMED_OUT = frozenset({"timed_out"})
PROGRAMS = {name: os.path.realpath(f"/bin/{name}") for name in ("sh", "sleep", "tail", "yes")}


class Kind(NamedTuple):
    """One way for a run to behave."""

    name: str
    sandbox: Sandbox
    make: Callable[[], Job]
    endings: frozenset[str]


class Waits:
    """A host that never answers."""

    async def ask(self, method: str, params: dict[str, Json]) -> Answered | NotAnswered:
        await anyio.sleep_forever()
        return Answered()


def job(entry: Entry, *, timeout: float = 10.0, **more: Any) -> Job:
    needs = needed(entry, network=False)
    limits = Limits(timeout=timeout)
    return Job(
        call_id="storm",
        entry=entry,
        arguments={},
        permissions=PermissionSet(),
        limits=limits,
        needs=needs,
        **more,
    )


NATIVE: tuple[tuple[str, str, float, str], ...] = (
    ("good", "echo fine", 10, "returned"),
    ("writes", "echo fine > here; mkdir -p a/b; echo more > $TMPDIR/there", 10, "returned"),
    ("failing", "exit 3", 10, "exited"),
    ("crashing", "kill -SEGV $$", 10, "signalled"),
    ("daemons", "for i in 1 2 3; do setsid sh -c 'sleep 1000 & sleep 1000' & done; exit 0", 10, "returned"),
    ("hungry", "exec tail /dev/zero", 10, "exited signalled out_of_memory"),
    ("looping", "while :; do :; done", 0.4, "timed_out"),
    ("sleeping", "sleep 1000", 0.3, "timed_out"),
    ("stopped", "kill -STOP $$", 0.3, "timed_out"),
    ("deaf", "trap '' TERM INT HUP; while :; do sleep 1000; done", 0.3, "timed_out"),
    ("many", "for i in 1 2 3 4 5 6 7 8 9 10; do setsid sleep 1000 & done; sleep 1000", 0.4, "timed_out"),
    ("flooding", "exec yes", 0.3, "timed_out"),
)
"""Name, shell text, time limit, how it may end."""

BOMB = ("forking", "f() { f | f & }; f; sleep 1000", 0.4, "timed_out exited returned signalled")
"""Only where the wall bounds processes."""

PYTHON: tuple[tuple[str, str, float, str], ...] = (
    ("good", "print('fine')\nresult = 1", 10, "returned"),
    ("failing", "1 / 0", 10, "raised"),
    ("leaving", "import os\nos._exit(0)", 10, "no_result"),
    ("crashing", "import os\nos.kill(os.getpid(), 11)", 10, "signalled no_result"),
    (
        "daemons",
        "import os, time\nfor _ in range(3):\n if os.fork() == 0:\n  os.setsid()\n  os.fork()\n  time.sleep(1000)\nresult = 1",
        10,
        "returned",
    ),
    ("hungry", "kept = []\nwhile True:\n kept.append(bytearray(1 << 24))", 10, "raised out_of_memory signalled"),
    ("looping", "while True:\n pass", 0.4, "timed_out"),
    ("sleeping", "import time\ntime.sleep(1000)", 0.3, "timed_out"),
    ("blocked", "result = await context.exec(['x'])", 0.3, "timed_out"),
    ("flooding", "while True:\n print('x' * 60_000)", 0.3, "timed_out"),
    ("threads", "import threading, time\nfor _ in range(9):\n threading.Thread(target=time.sleep, args=(1000,)).start()", 0.4, "timed_out no_result returned"),
)  # fmt: skip

JAVASCRIPT: tuple[tuple[str, str, float, str], ...] = (
    ("good", "result = 1", 10, "returned"),
    ("failing", "throw new Error('no')", 10, "raised"),
    ("leaving", "Deno.exit(0)", 10, "no_result"),
    ("looping", "while (true) {}", 0.6, "timed_out"),
    ("blocked", "result = await context.exec(['x'])", 0.6, "timed_out"),
    ("hungry", "const kept = []; while (true) kept.push(new Array(1e6).fill(1.5))", 20, "out_of_memory"),
)

WASM: tuple[tuple[str, str, float, str], ...] = (
    ("good", '(module (func (export "go") (result i32) (i32.const 1)))', 10, "returned"),
    ("failing", '(module (func (export "go") unreachable))', 10, "raised"),
    ("looping", '(module (func (export "go") (loop $l (br $l))))', 0.3, "timed_out"),
    (
        "hungry",
        '(module (memory 1) (func (export "go") (loop $l (br_if $l'
        ' (i32.ne (memory.grow (i32.const 64)) (i32.const -1))) unreachable)))',
        10,
        "out_of_memory raised",
    ),
)  # fmt: skip


def native(sandbox: Sandbox, folder: str) -> Iterator[Kind]:
    bounded = Guarantee.PROCESSES_BOUNDED in sandbox.guarantees()
    for name, text, timeout, endings in (*NATIVE, *([BOMB] if bounded else [])):
        entry = Command(argv=("sh", "-c", text))

        def make(entry: Command = entry, timeout: float = timeout, inside: bool = name == "writes") -> Job:
            places = (Place(path=folder, writable=True),) if inside else ()
            return job(entry, timeout=timeout, binaries=PROGRAMS, places=places, cwd=folder if inside else "")

        yield Kind(f"native {name}", sandbox, make, frozenset(endings.split()))


def code(sandbox: Sandbox, language: Any, rows: tuple[tuple[str, str, float, str], ...]) -> Iterator[Kind]:
    for name, text, timeout, endings in rows:
        entry = InlineCode(language=language, source=text)

        def make(entry: InlineCode = entry, timeout: float = timeout) -> Job:
            return job(entry, timeout=timeout, host=Waits())

        yield Kind(f"{language} {name}", sandbox, make, frozenset(endings.split()))


def wasm(sandbox: Sandbox, bundle: str) -> Iterator[Kind]:
    import wasmtime

    for name, text, timeout, endings in WASM:
        with open(os.path.join(bundle, f"{name}.wasm"), "wb") as file:
            file.write(wasmtime.wat2wasm(text))
        entry = WasmModule(path=f"{name}.wasm", function="go")

        def make(entry: WasmModule = entry, timeout: float = timeout) -> Job:
            return job(entry, timeout=timeout, bundle=bundle)

        yield Kind(f"wasm {name}", sandbox, make, frozenset(endings.split()))
