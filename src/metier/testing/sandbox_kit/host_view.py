"""What of the machine a run may see, and where to look for more: every folder at its top, home, the host's state.

The list is the kit's own. Whoever gives his runs more than this has to say so (`Backend.own_files`).
"""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import anyio

from metier.model.job import Place
from metier.sandbox.wall import OUT
from metier.testing.sandbox_kit import acts_files, leftovers
from metier.testing.sandbox_kit.bench import Bench
from metier.testing.sandbox_kit.probes_python import PREFIX

MACHINE: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/dev"),
    *("/etc/ld.so.cache", "/etc/alternatives"),
)
"""Programs and libraries; `proc_sys_and_dev_are_minimal` looks into the rest."""
_SECONDS: Final = 10.0
_PLACES: Final = (
    *("/", "/etc", "/home", "/root", "/opt", "/srv", "/var", "/var/lib", "/var/log", "/run", "/mnt"),
    *("/media", "/boot", "/tmp", "/var/tmp"),  # noqa: S108  looked at, not used
)


async def nothing_is_seen(bench: Bench, home: str) -> None:
    """List and open what is the host's own; `home` is a folder with a file in it that nobody was granted."""
    # What the bench itself grants so that a run is the first.
    own = os.path.join(os.path.dirname(home), "new")
    starts = _starts(os.path.dirname(home), home)
    may_be_seen = [*MACHINE, PREFIX, *bench.backend.own_files]
    files = [each for each in map(_some_file, starts) if each and not _lies_in(each, may_be_seen)]
    asked: dict[str, Any] = {
        "starts": starts,
        "files": files,
        "may_be_seen": [*may_be_seen, own],
        "kept": OUT,
    }
    control = await bench.control("around", asked)
    certain = {"/", "/etc", home, _some_file(home)}
    bench.prove(certain <= set(control["did"]), f"of {sorted(certain)} {control['did']} were seen outside")
    # Others make and remove files meanwhile. One that nobody can open any more says nothing about a wall.
    asked["files"] = [each for each in files if each in control["did"]]
    said = await bench.value("around", asked)
    seen: dict[str, list[str]] = said.get("seen") or {each: [each] for each in said["did"]}
    for start, paths in seen.items():
        more = [path for path in paths if not path.startswith(own)]
        bench.expect("host_folders", not more, f"from {start}: {more}")
    if bench.guest.has_processes and "system_calls" in bench.guest.absent:
        await _seen_by_its_process(bench, asked)


async def _seen_by_its_process(bench: Bench, asked: Mapping[str, Any]) -> None:
    """What an engine does not show may lie there all the same. So its process is looked at: from out here, while it
    holds a file by which it is found. Without a file system of its own it has ours, and there is nothing to look at."""
    meet = bench.folder("meet")
    ready = os.path.join(meet, "ready")
    stay = partial(bench.run, "break_itself", {"how": "stay", "crash": False, "meet": meet})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(stay, places=(Place(path=meet, writable=True),)))
        with anyio.move_on_after(_SECONDS):
            while not os.path.exists(ready):  # noqa: ASYNC110, ASYNC240
                await anyio.sleep(0.01)
        found = leftovers.holders(ready)
        bench.need("guest", bool(found), "the process of the run was not found")
        root = f"/proc/{found[0]}/root"
        if not os.path.samefile(root, "/"):  # noqa: ASYNC240
            own = [*asked["may_be_seen"], meet, _temporary(found[0])]
            seen = acts_files.around({**asked, "may_be_seen": own, "root": root})["seen"]
            bench.expect("host_folders", not seen, f"in its process: {seen}")
        tasks.cancel_scope.cancel()


def _temporary(pid: int) -> str:
    with open(f"/proc/{pid}/environ", "rb") as file:
        told = [each.removeprefix(b"TMPDIR=") for each in file.read().split(b"\0") if each[:7] == b"TMPDIR="]
    return os.fsdecode(told[0]) if told else ""


def _starts(*more: str) -> list[str]:
    """Folders that are there: those of any machine, our user's home and where Metier keeps its state."""
    state = os.environ.get("METIER_HOME") or os.path.expanduser("~/.metier")
    every = dict.fromkeys((*_PLACES, os.path.expanduser("~"), state, *more))
    return [each for each in every if os.path.isdir(each)]


def _some_file(folder: str) -> str:
    """A file right in it that we ourselves can read; an empty text where there is none."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False) and os.access(entry.path, os.R_OK):
                    return entry.path
    except OSError:
        pass
    return ""


def _lies_in(path: str, folders: Sequence[str]) -> bool:
    return any(path == each or path.startswith(each + "/") for each in folders)
