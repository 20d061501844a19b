"""What this machine can promise: every sandbox, every guarantee, what is missing and the command that adds it.

Nothing of a skill runs here. Each sandbox is asked, and finds out by trying.
"""

import os
import platform
from collections.abc import Mapping, Sequence
from typing import final

from anyio import to_thread
from msgspec import Struct

from metier.model.guarantee import Guarantee
from metier.model.job import Job
from metier.sandbox.protocol import Missing, Sandbox
from metier.sandbox.select import Unavailable, select


@final
class Machine(Struct, frozen=True, kw_only=True):
    """What the walls are built of here."""

    system: str
    kernel: str
    landlock_abi: int
    """0: there is none."""
    cgroups: str
    """`v2`, `v1` or `none`."""
    bubblewrap: str
    """Its version; empty when there is none."""
    follows_links_out: bool = False
    """Whether it has CVE-2026-87766, found out by trying. No mount of ours gives it the occasion."""


@final
class Backend(Struct, frozen=True, kw_only=True):
    """One sandbox as it is here."""

    name: str
    guarantees: frozenset[Guarantee]
    missing: tuple[Missing, ...]


@final
class Kind(Struct, frozen=True, kw_only=True):
    """Whether one kind of entry can run."""

    name: str
    sandbox: str = ""
    """Which sandbox would run it; empty when none can."""
    network: bool = False
    """Whether it can also be given hosts to reach."""
    reasons: tuple[str, ...] = ()
    remedy: str = ""


@final
class Examination(Struct, frozen=True, kw_only=True):
    """All of it."""

    machine: Machine
    backends: tuple[Backend, ...]
    kinds: tuple[Kind, ...]

    @property
    def ok(self) -> bool:
        """Whether every kind can run."""
        return all(kind.sandbox for kind in self.kinds)


async def examine(sandboxes: Sequence[Sandbox], trials: Mapping[str, tuple[Job, Job]]) -> Examination:
    """Ask every sandbox.

    Args:
        trials: by kind, a job without and one with hosts to reach; neither is run.
    """
    bubblewrap = await _bubblewrap()

    def ask() -> Examination:
        backends = tuple(
            Backend(name=each.name, guarantees=each.guarantees(), missing=each.missing())
            for each in sandboxes
        )
        kinds = tuple(_kind(name, *jobs, sandboxes) for name, jobs in trials.items())
        return Examination(machine=_machine(bubblewrap), backends=backends, kinds=kinds)

    return await to_thread.run_sync(ask)


def _kind(name: str, job: Job, with_hosts: Job, sandboxes: Sequence[Sandbox]) -> Kind:
    found = select(job, sandboxes)
    if isinstance(found, Unavailable):
        return Kind(name=name, reasons=found.reasons, remedy=found.remedy)
    return Kind(
        name=name, sandbox=found.name, network=not isinstance(select(with_hosts, sandboxes), Unavailable)
    )


def _machine(bubblewrap: tuple[str, bool]) -> Machine:
    from metier.sandbox.guest.confine import landlock_abi

    cgroups = "none"
    if os.path.isdir("/sys/fs/cgroup"):
        cgroups = "v2" if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else "v1"
    return Machine(
        system=f"{platform.system()} {platform.machine()}",
        kernel=platform.release(),
        landlock_abi=landlock_abi() if platform.system() == "Linux" else 0,
        cgroups=cgroups,
        bubblewrap=bubblewrap[0],
        follows_links_out=bubblewrap[1],
    )


async def _bubblewrap() -> tuple[str, bool]:
    """Its version, and whether it follows a link out to the host."""
    from metier.sandbox.bwrap_line import find
    from metier.sandbox.bwrap_probe import follows_links_out
    from metier.sandbox.process import run_limited

    program = find()
    if program is None:
        return "", False
    code, out, _ = await run_limited(
        [program, "--version"], stdin=b"", seconds=5, memory_mb=64, output_bytes=4096
    )
    said = out.decode("utf-8", "replace").strip().removeprefix("bubblewrap ")
    return said[:40] if code == 0 and said else "unknown version", await follows_links_out(program)
