"""The contract of a sandbox as sixty behaviours, and the one function that tries one of them on a backend.

A behaviour that a backend does not have is a `Gap`: a line of data with its reason. The gap is tried too, and when
it turns out to be closed, the line is wrong and says so. A behaviour whose check was to make a control and made none
has shown nothing, and fails.
"""

# ruff: noqa: ASYNC240
# Files of a test, quick to look at.

import gc
import os
import shutil
import tempfile
from collections.abc import Sequence
from typing import Final

import anyio
from msgspec.structs import replace

from metier.model.guarantee import Guarantee
from metier.testing.sandbox_kit import (
    checks_files,
    checks_fresh,
    checks_host,
    checks_kill,
    checks_many,
    checks_output,
    checks_size,
    checks_start,
    checks_time,
    checks_walls,
    leftovers,
    only_outside,
)
from metier.testing.sandbox_kit.backend import Backend
from metier.testing.sandbox_kit.behaviour import Behaviour
from metier.testing.sandbox_kit.bench import LATE_SECONDS, Bench, Broken, Heart, KitFailure, settled

BEHAVIOURS: Final[tuple[Behaviour, ...]] = (
    *checks_start.BEHAVIOURS,
    *checks_time.BEHAVIOURS,
    *checks_size.BEHAVIOURS,
    *checks_kill.BEHAVIOURS,
    *checks_output.BEHAVIOURS,
    *checks_files.BEHAVIOURS,
    *checks_fresh.BEHAVIOURS,
    *checks_walls.BEHAVIOURS,
    *checks_host.BEHAVIOURS,
    *checks_many.BEHAVIOURS,
)
NUMBERED: Final = {each.number: each for each in BEHAVIOURS}
FRAME: Final = frozenset({"left behind", "ping", "could not be tried"})
"""What is looked at for every behaviour, and can never be a gap."""
_AWAKE: Final[set[str]] = set()
"""Backends that have run here before."""
_PROVEN: Final = frozenset[Guarantee]().union(*(each.guarantees for each in BEHAVIOURS))


async def verify(behaviour: Behaviour, backend: Backend, folder: str) -> None:
    """Try one behaviour. Raises KitFailure with everything that was not as it must be."""
    inner = os.path.join(os.path.realpath(folder), "kit")
    os.mkdir(inner)
    told, temporary = tempfile.tempdir, tempfile.mkdtemp(prefix="metier-kit-")
    os.chmod(temporary, 0o755)  # noqa: S103  a sandbox may run as a user of its own
    tempfile.tempdir = temporary
    try:
        before = await _begun(backend, inner)
        broken, longest = await _tried(behaviour, backend, inner)
        gc.collect()  # what a library lets go of when its objects go is not left behind
        left = [*await settled(before), *(f"temporary file: {name}" for name in os.listdir(temporary))]
    finally:
        tempfile.tempdir = told
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(inner, ignore_errors=True)
    broken += [Broken(what="left behind", seen=each) for each in left]
    if longest > LATE_SECONDS:
        broken.append(Broken(what="ping", seen=f"the host did not answer for {longest:.1f} s"))
    _judge(behaviour, backend, broken)


async def _begun(backend: Backend, folder: str) -> leftovers.Seen:
    """What there is before a behaviour is tried.

    An engine that lives in our own process starts with its first run what it needs for as long as the program lasts, so
    there is one first. Of that run itself nothing is left but what such an engine holds open.
    """
    before = leftovers.look()
    if backend.guest.has_processes or backend.name in _AWAKE:
        return before
    _AWAKE.add(backend.name)
    state = os.path.join(folder, "first")
    os.mkdir(state)
    opened = backend.open(state)
    try:
        await Bench(opened.sandbox, backend, state).run("echo")
    finally:
        await opened.aclose()
    return replace(before, descriptors=leftovers.look().descriptors)


async def _tried(behaviour: Behaviour, backend: Backend, folder: str) -> tuple[list[Broken], float]:
    state = os.path.join(folder, "state")
    os.mkdir(state)
    heart = Heart()
    opened = backend.open(state)
    try:
        bench = Bench(opened.sandbox, backend, folder, proven=_PROVEN)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(heart.beat)
            try:
                await _check(behaviour, bench)
            except* KitFailure as failures:
                # An expectation that makes going on senseless may lie inside a task group of the behaviour's own.
                bench.expect("could not be tried", False, _words(failures))
            tasks.cancel_scope.cancel()
        return list(bench.broken), heart.longest
    finally:
        await opened.aclose()


async def _check(behaviour: Behaviour, bench: Bench) -> None:
    gaps = [each for each in bench.backend.gaps if each.behaviour == behaviour.number and each.needs]
    if gaps:
        bench.controls.extend(await only_outside.controls(behaviour, bench))
    for act in (act for each in gaps for act in each.needs):
        bench.need("gap", await bench.absent(act), f"the guest can {act}, so the behaviour can be tried")
    if not gaps:
        await behaviour.check(bench)
    if behaviour.control == "outside":
        bench.need("control", bool(bench.controls), "no control was made")


def _words(failures: BaseExceptionGroup[KitFailure]) -> str:
    return "; ".join(
        _words(each) if isinstance(each, BaseExceptionGroup) else str(each) for each in failures.exceptions
    )


def _judge(behaviour: Behaviour, backend: Backend, broken: Sequence[Broken]) -> None:
    gaps = [each for each in backend.gaps if each.behaviour == behaviour.number]
    known = frozenset[str]().union(*(each.what for each in gaps)) - FRAME
    wrong = [str(each) for each in broken if each.what not in known]
    closed = known - {each.what for each in broken}
    wrong += [f"{each}: listed as a gap, and yet it holds" for each in sorted(closed)]
    if wrong:
        raise KitFailure(f"{behaviour} on {backend.name}:\n  " + "\n  ".join(wrong))
