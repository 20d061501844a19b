"""From a job to the process that runs it: the wall's policy, the engine's flags, and the order it is given.

The flags name exactly what may be touched: the skill's own files and the runner to read, granted places, granted
variables by name. Never whole kinds: programs, native code and the network are not to be had from the engine at all.
Whatever differs between two calls of one tool travels in the order, so that a waiting process can serve either.
"""

import os
import re
import stat
from typing import Final, final

import msgspec
from msgspec import Struct

from metier.model.digest import Json
from metier.model.entry import InlineCode, ScriptHandler
from metier.model.guarantee import Guarantee
from metier.model.hook import HOOK
from metier.model.job import Job, Place
from metier.sandbox.deno_imports import import_map
from metier.sandbox.job_environment import no_variable
from metier.sandbox.own_file import not_in_bundle
from metier.sandbox.policy import cpu_seconds
from metier.sandbox.wall import Policy
from metier.sandbox.wire_message import MOST_BYTES

GUEST: Final = os.path.join(os.path.dirname(os.path.realpath(__file__)), "guest", "js")
AUDIT: Final = "/proc/self/fd/2"
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_LEAST_HEAP_MB: Final = 16
_BASE_FLAGS: Final = (
    "run",
    "--no-prompt",
    "--quiet",
    "--no-config",
    "--no-lock",
    "--no-remote",
    "--no-npm",
)


@final
class Shape(Struct, frozen=True, kw_only=True):
    """A kind of process. Equal shapes are interchangeable until an order is given."""

    policy: Policy
    argv: tuple[str, ...]
    cwd: str
    cache: str
    bundle: str = ""
    stamp: tuple[int, ...] = ()
    """What the folder of the skill looked like; another one is another shape."""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    exact_memory: bool = False

    @property
    def environment(self) -> dict[str, str]:
        return {
            "DENO_DIR": self.cache,
            "DENO_NO_UPDATE_CHECK": "1",
            "DENO_AUDIT_PERMISSIONS": AUDIT,
            "HOME": "/nonexistent",
            "NO_COLOR": "1",
        }


@final
class NotPossible(Struct, frozen=True, kw_only=True):
    """Why a job cannot be run as it is. For people."""

    why: str


def takes(job: Job) -> bool:
    """Whether it is JavaScript or TypeScript at all."""
    return isinstance(job.entry, ScriptHandler) or (
        isinstance(job.entry, InlineCode) and job.entry.language in ("javascript", "typescript")
    )


def shape_of(job: Job, *, engine: str, cache: str) -> Shape | NotPossible:
    """The process for a job. It looks at the skill's folder and the granted places, at few enough files to wait for."""
    for name in job.environment:
        if not _VARIABLE.fullmatch(name):
            return NotPossible(why=no_variable(name))
    stamp = stamp_of(job.bundle) if job.bundle else ()
    if isinstance(stamp, NotPossible):
        return stamp
    if isinstance(job.entry, ScriptHandler) and (problem := not_in_bundle(job.entry.path, job.bundle)):
        return NotPossible(why=problem)
    for place in job.places:
        if problem := _moved(place):
            return NotPossible(why=problem)
    own = tuple(Place(path=path) for path in (engine, GUEST, cache, job.bundle, *job.packages) if path)
    policy = Policy(
        places=tuple(sorted({*own, *job.places})),
        memory_mb=job.limits.memory_mb,
        processes=job.limits.processes,
        cpu_seconds=cpu_seconds(job),
        bare_heap=True,
    )
    # Without a folder of its own it starts in its temporary one, the only other thing it may write.
    temporary = () if job.cwd else (".",)
    reads = (GUEST, job.bundle, *job.packages, *(place.path for place in job.places), *temporary)
    writes = (*(place.path for place in job.places if place.writable), *temporary)
    shape = Shape(
        policy=policy,
        argv=(),
        cwd=job.cwd,
        cache=cache,
        bundle=job.bundle,
        stamp=stamp,
        reads=tuple(path for path in reads if path),
        writes=writes,
        variables=tuple(sorted(job.environment)),
        exact_memory=Guarantee.MEMORY_EXACT in job.needs,
    )
    for path in (*shape.reads, *shape.writes):
        if "," in path:
            return NotPossible(why=f"the engine cannot be granted {path!r}: it has a comma in its name")
    return msgspec.structs.replace(shape, argv=_argv(shape, engine, job))


def order_of(job: Job) -> dict[str, Json]:
    """What the runner is told: everything about this one call."""
    order: dict[str, Json] = {
        "params": job.arguments,
        "context": {name: value for name, value in job.context.items() if name != HOOK},
        "environment": dict(job.environment),
        "most_message": MOST_BYTES,
        "most_result": job.limits.output_bytes,
        "out": not job.cwd,
    }
    match job.entry:
        case InlineCode(language=language, source=source):
            return {**order, "kind": "inline", "language": language, "source": source}
        case ScriptHandler(path=path, export=export):
            order |= {"kind": "handler", "file": os.path.join(job.bundle, path), "export": export}
            if job.life is not None:
                order["kind"] = "life"
            elif HOOK in job.context:
                order |= {"kind": "hook", "event": job.context[HOOK]}
            return order
        case _:
            raise AssertionError("not JavaScript; `takes` says so")


def _argv(shape: Shape, engine: str, job: Job) -> tuple[str, ...]:
    flags = [f"--allow-read={','.join(shape.reads)}"]
    if shape.writes:
        flags.append(f"--allow-write={','.join(shape.writes)}")
    if shape.variables:
        flags.append(f"--allow-env={','.join(shape.variables)}")
    return (
        engine,
        *_BASE_FLAGS,
        f"--import-map={import_map(job, GUEST)}",
        *flags,
        f"--v8-flags=--max-old-space-size={max(_LEAST_HEAP_MB, job.limits.memory_mb)}",
        f"{GUEST}/runner.mjs",
    )


def _moved(place: Place) -> str:
    if not place.inode:
        return ""
    try:
        now = os.lstat(place.path)
    except OSError:
        return f"{place.path!r} is not there any more"
    if (now.st_dev, now.st_ino) != (place.device, place.inode):
        return f"{place.path!r} is not what it was when this call was judged"
    return ""


def stamp_of(folder: str) -> tuple[int, ...] | NotPossible:
    """What the folder of a skill is now; another one, or one that was changed, has another stamp."""
    try:
        top = os.lstat(folder)
    except OSError as error:
        return NotPossible(why=f"the folder of the skill cannot be read: {error.strerror}")
    if not stat.S_ISDIR(top.st_mode):
        return NotPossible(why="the folder of the skill is not a folder")
    return (top.st_dev, top.st_ino, top.st_mtime_ns, top.st_ctime_ns)


def only_plain_files(folder: str) -> NotPossible | None:
    """Why a folder cannot be run from. The engine follows links inside what it may read, so there must be none."""
    waiting = [folder]
    try:
        while waiting:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        waiting.append(entry.path)
                    elif not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                        name = os.path.relpath(entry.path, folder)
                        return NotPossible(
                            why=f"{name!r} in the skill is a link or no file; only plain files run"
                        )
    except OSError as error:
        return NotPossible(why=f"the folder of the skill cannot be read: {error.strerror}")
    return None
