"""What a native run starts: a declared program of the machine, or a script of the skill with the interpreter we choose.

An interpreter is there for that one script. The run's PATH then names the declared programs and those small ones that can
only do what the script could do by itself. Another is not started by its name or its path, unless Landlock is not there to
hold it or something was declared that may start others anyway. The system's loader, which all of them need, can still be
told to load another: that is no way around anything, for what any of them can reach, the wall says.
"""

import os
import sys
from contextlib import suppress
from typing import Final, final

from msgspec import Struct

from metier.model.entry import Command, Program
from metier.model.job import Fault, Job, Place
from metier.sandbox.deno_where import find_engine
from metier.sandbox.job_binaries import keeps_to_itself, package_of, small_programs
from metier.sandbox.job_environment import without_settings
from metier.sandbox.mounts import is_system
from metier.sandbox.own_file import not_in_bundle
from metier.sandbox.protocol import Missing

SHELLS: Final = {
    "sh": ("/bin/sh", "/usr/bin/sh"),
    "bash": ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"),
}
_LEAST_HEAP_MB: Final = 16
_ENGINES: Final = frozenset(["node", "nodejs", "deno", "bun", "pnpm"])
"""What they reserve is far more than they hold. The last one is also given out as one file, with its engine inside."""
_WRITES: Final = frozenset(["cp", "mv", "ln", "mkdir", "touch", "mktemp", "truncate", "tee", "shuf", "uniq"])
"""Programs that start no other one and can leave a file behind all the same."""


_NEEDS_NO_OTHER: Final = frozenset(["sed", "ed", "sort", "split", "diff", "sqlite3", "dc", "bc", "gnuplot"])
"""Programs that can be told to start another one, and never have to."""


@final
class Line(Struct, frozen=True, kw_only=True):
    """A program to start, and what it needs besides what its job says."""

    argv: tuple[str, ...]
    """The first is the file to start."""
    called: str = ""
    """Its name there, where it was declared by another than its file has: one file may be many programs."""
    places: tuple[Place, ...] = ()
    programs: tuple[str, ...] | None = None
    """Files that may be started; None for any of the machine."""
    named: dict[str, str] | None = None
    """Which of them are found by name; None for the machine's own PATH."""
    environment: dict[str, str] = {}
    bare_heap: bool = False
    leaves: bool = True
    """Whether it could leave files behind."""


def line_of(job: Job) -> Line | Fault:
    """What to start for a job. Blocking: it looks at the disk, at few enough files to wait for."""
    entry = job.entry
    if isinstance(entry, Program):
        return _script(job, entry)
    name = entry.argv[0] if isinstance(entry, Command) and entry.argv else ""
    file = job.binaries.get(name) or (name if name in job.binaries.values() else None)
    if file is None:
        return Fault(name="NotDeclared", message=f"the program {name!r} was not declared, so it is not run")
    if not os.path.isabs(file) or os.path.realpath(file) != file or not os.path.isfile(file):
        return Fault(name="NotFound", message=f"the program {name!r} is not where it was found before")
    argv = (file, *(entry.argv[1:] if isinstance(entry, Command) else ()))
    folder, own_name = os.path.split(file)
    leaves = not keeps_to_itself(file) or own_name in _WRITES
    return Line(
        argv=argv,
        called="" if name in (file, own_name) else os.path.join(folder, name),
        places=() if is_system(file) else (Place(path=package_of(file) or file),),
        programs=(file,) if own_name in _NEEDS_NO_OTHER else None,
        environment=without_settings(file),
        bare_heap=_has_engine(file),
        leaves=leaves,
    )


def interpreter_problem(language: str) -> str:
    """Why no script in this language can be run here; empty when one can."""
    if language in SHELLS:
        return "" if _shell(language) else f"{language} is not installed on this machine"
    if language == "python":
        return ""
    engine = find_engine()
    return f"{engine.why}; {engine.remedy}" if isinstance(engine, Missing) else ""


def _script(job: Job, entry: Program) -> Line | Fault:
    script = os.path.join(job.bundle, entry.path)
    if why := not_in_bundle(entry.path, job.bundle):
        return Fault(name="NotFound", message=why)
    match entry.language:
        case "sh" | "bash":
            before: tuple[str, ...] | Fault = (_shell(entry.language),)
            environment: dict[str, str] = {}
        case "python":
            # Unbuffered: what a script said before it was ended is shown.
            before = (os.path.realpath(sys.executable), "-B", "-s", "-u")
            environment = {"PYTHONPATH": os.pathsep.join(job.packages)} if job.packages else {}
        case "javascript" | "typescript":
            before = _engine(job)
            environment = {"DENO_NO_UPDATE_CHECK": "1", "NO_COLOR": "1"}
    if isinstance(before, Fault):
        return before
    if not before[0]:
        return Fault(name="NotFound", message=f"{entry.language} is not installed on this machine")
    file = os.path.realpath(before[0])
    return Line(
        argv=(*before, script, *entry.args),
        places=() if is_system(file) else (Place(path=file),),
        programs=_startable(file, job.binaries),
        named={**small_programs(), **job.binaries},
        environment=environment,
        bare_heap=entry.language in ("javascript", "typescript"),
    )


def _has_engine(file: str) -> bool:
    """Whether a program is a JavaScript engine, or a script for one."""
    first = b""
    with suppress(OSError), open(file, "rb") as opened:  # what can be run cannot always be read
        first = opened.read(256).split(b"\n")[0]
    words = os.fsdecode(first[2:]).split() if first.startswith(b"#!") else [file]
    return not _ENGINES.isdisjoint(map(os.path.basename, words))


def _shell(name: str) -> str:
    return next((path for path in SHELLS[name] if os.path.isfile(path)), "")


def _startable(interpreter: str, declared: dict[str, str]) -> tuple[str, ...] | None:
    """The files that a script may start, where that can be said at all: a declared program that may start others can
    start any."""
    if not all(keeps_to_itself(file) for file in declared.values()):
        return None
    small = (os.path.realpath(file) for file in small_programs().values())
    return tuple(sorted({interpreter, *small, *declared.values()}))


def _engine(job: Job) -> tuple[str, ...] | Fault:
    """The engine on a script of the skill. Its flags say again what the wall holds; it is not the wall."""
    engine = find_engine()
    if isinstance(engine, Missing):
        return Fault(name="NotFound", message=f"{engine.why}; {engine.remedy}")
    reads = (job.bundle, *job.packages, *(place.path for place in job.places), ".")
    writes = (*(place.path for place in job.places if place.writable), ".")
    for path in reads:
        if "," in path:
            return Fault(
                name="NotStarted", message=f"the engine cannot be granted {path!r}: a comma is in it"
            )
    variables = sorted({*job.environment, "METIER_OUT", "TMPDIR", "HOME", "LANG"})
    flags = [
        f"--allow-read={','.join(reads)}",
        f"--allow-write={','.join(writes)}",
        f"--allow-env={','.join(variables)}",
        f"--v8-flags=--max-old-space-size={max(_LEAST_HEAP_MB, job.limits.memory_mb)}",
    ]
    if job.binaries:
        flags.append(f"--allow-run={','.join(sorted(job.binaries))}")
    if job.permissions.hosts:
        flags.append("--allow-net")  # behind the wall there is no network but our proxy
    fixed = ("--no-prompt", "--quiet", "--no-config", "--no-lock", "--no-remote", "--no-npm")
    return (engine.path, "run", *fixed, *flags)
