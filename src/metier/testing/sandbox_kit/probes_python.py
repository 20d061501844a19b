"""The acts in Python: as code for a Python sandbox, and as a program for a sandbox of programs."""

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType
from typing import Any, Final, final

import msgspec

from metier.model.entry import Command, InlineCode, PythonHandler
from metier.model.job import Place, Report
from metier.testing.sandbox_kit import (
    acts_files,
    acts_host,
    acts_network,
    acts_privilege,
    acts_run,
    acts_size,
    acts_walls,
    leftovers,
    tries,
)
from metier.testing.sandbox_kit.guest import Bare, Prepared
from metier.testing.sandbox_kit.outside import last_line, outside

PYTHON: Final = os.path.realpath(sys.executable)
PREFIX: Final = os.path.realpath(sys.base_prefix)
CERTAIN: Final = {
    "huge": ("eight_gigabytes", "one_terabyte"),
    "read_outside": (
        "open",
        "descriptor_of_folder",
        "map",
        "list",
        "import",
        "passwords",
        "home",
        "write",
        "create",
    ),
    "links": ("shipped_to_file", "shipped_to_folder", "dots", "made_to_file", "made_to_folder", "moved_out"),
    "change": ("write", "truncate", "mode", "times", "rename"),
    "devices": ("other_processes", "/sys"),
    "network": ("tcp", "udp", "listen", "sees_tcp", "sees_udp", "sees_sockets"),
    "by_grant": ("plain", "tunnel", "other", "other_port", "other_tunnel", "redirected"),
    "unix_sockets": ("abstract_stream", "abstract_datagram", "path_stream", "path_by_a_pair"),
    "system_calls": ("unshare", "clone", "ptrace", "keyctl", "clone3"),
    "set_id": tuple(
        f"{how}_{who}"
        for how in ("chmod", "fchmod", "fchmodat", "open", "openat", "openat2", "creat", "mknod")
        for who in ("user", "group")
    ),
    "files_of_others": ("read", "write", "list", "beside", "granted", "by_its_folder", "by_its_descriptors"),
    "keep_words": ("shared_memory", "semaphores", "messages", "mode", "times"),
    "made_code": (
        *("evaluated", "by_its_frames", "by_foreign_functions", "by_a_shell", "by_another_interpreter"),
        *("by_the_loader", "from_memory", "by_a_copy", "by_a_script", "by_its_own_interpreter"),
    ),
}
"""What can be done outside on every machine."""


@cache
def acts() -> dict[str, Callable[..., Any]]:
    """Every act by its name."""
    found: dict[str, Callable[..., Any]] = {}
    for module in (acts_run, acts_size, acts_files, acts_privilege, acts_network, acts_walls, acts_host):
        found |= {name: each for name, each in vars(module).items() if _is_act(each, module)}
    return found


def _is_act(each: object, module: ModuleType) -> bool:
    return inspect.isfunction(each) and each.__module__ == module.__name__


@cache
def source_of(act: str) -> str:
    """The text of one act, with what it needs."""
    return f"from typing import Any\n{inspect.getsource(tries)}\n\n{inspect.getsource(acts()[act])}\n"


def _program(act: str) -> str:
    """As a program; its first line lets us tell whose it is."""
    ending = f"import json, sys\nsays = {act}(json.loads(sys.argv[1]))\nprint()\nprint(json.dumps(says))\n"
    return f"# {leftovers.mark()}\n{source_of(act)}{ending}"


async def _outside(
    act: str,
    params: Mapping[str, Any],
    cwd: str,
    seconds: float,
    environment: Mapping[str, str],
    stdin: bytes,
) -> Bare:
    argv = [PYTHON, "-I", "-S", "-B", "-c", _program(act), msgspec.json.encode(params).decode()]
    return await outside(argv, cwd=cwd, seconds=seconds, environment=environment, stdin=stdin)


@final
class PythonGuest:
    """Code for a sandbox that runs Python."""

    name: Final = "python"
    absent: Final[Mapping[str, str]] = {}
    ways: Final[Mapping[str, tuple[Mapping[str, Any], ...]]] = {}
    certain: Final[Mapping[str, tuple[str, ...]]] = CERTAIN
    bridged: Final = True
    leaves_uncaught: Final = frozenset({"out_of_memory"})
    leaves_silent: Final = frozenset({"no_result"})
    odd_as: Final[tuple[type, ...]] = ()
    has_processes: Final = True
    burns_fuel: Final = False

    def prepare(self, act: str, params: Mapping[str, Any], folder: str, *, at_load: bool = False) -> Prepared:
        text = source_of(act)
        awaited = inspect.iscoroutinefunction(acts()[act])
        if not at_load:
            call = f"result = {'await ' if awaited else ''}{act}(params{', context' if awaited else ''})\n"
            return Prepared(entry=InlineCode(language="python", source=text + call), arguments=dict(params))
        with open(f"{folder}/handler.py", "w", encoding="utf-8") as file:
            file.write(
                f"{text}\nimport json\nsays = {act}(json.loads({msgspec.json.encode(params).decode()!r}))\n"
            )
            file.write("def main(params, context):\n    return says\n")
        return Prepared(entry=PythonHandler(path="handler.py"), arguments=dict(params), bundle=folder)

    def said(self, report: Report) -> Any:
        return report.value

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
        return await _outside(act, params, cwd, seconds, environment, stdin)


@final
class NativeGuest:
    """A program for a sandbox that runs programs. It is this interpreter, which can make every system call."""

    name: Final = "native"
    absent: Final[Mapping[str, str]] = {
        "ask": "a program has no bridge: there is no descriptor to speak on",
        "ask_late": "a program has no bridge: there is no descriptor to speak on",
        "ask_badly": "a program has no bridge: there is no descriptor to speak on",
        "ask_through_others": "a program has no bridge: there is no descriptor to speak on",
        "read_frames": "a program has no bridge: there is no descriptor to speak on",
        "forge": "a program has no bridge: there is no descriptor to speak on",
    }
    ways: Final[Mapping[str, tuple[Mapping[str, Any], ...]]] = {}
    certain: Final[Mapping[str, tuple[str, ...]]] = CERTAIN
    bridged: Final = False
    leaves_uncaught: Final = frozenset({"out_of_memory", "exited", "signalled"})
    leaves_silent: Final = frozenset({"no_result"})
    odd_as: Final[tuple[type, ...]] = ()
    has_processes: Final = True
    burns_fuel: Final = False

    def prepare(self, act: str, params: Mapping[str, Any], folder: str, *, at_load: bool = False) -> Prepared:
        program = "no_bridge" if act in self.absent else act
        argv = (PYTHON, "-I", "-S", "-B", "-c", _program(program), msgspec.json.encode(params).decode())
        return Prepared(entry=Command(argv=argv), binaries={"python": PYTHON}, places=(Place(path=PREFIX),))

    def said(self, report: Report) -> Any:
        return last_line(report.stdout.encode())

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
        return await _outside(act, params, cwd, seconds, environment, stdin)
