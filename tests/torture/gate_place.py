"""A state folder with one skill and one tool, behind the real runtime. What runs appends the id of its call to a file, so that
nothing can run without leaving its name, and nothing twice without leaving it twice."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import metier.runtime
from boxes import Box
from machine import Machine, write_skill
from metier.model.job import Job, Report
from metier.runtime import Runtime, sandboxes, state
from yard import POUR

RULE = """\
[[rule]]
decision = "ask"
because = "to be sure"
tool = "pour"
when = "args.note.startsWith('asked')"
match = [{ tool = "pour", args = { note = "asked for" } }]
not_match = [{ tool = "pour", args = { note = "free" } }]
"""
ROOM = """\
[approvals]
pending_per_principal = 10000
[budgets.principal]
calls = 1000000000
[budgets.tool]
calls = 1000000000
[budgets.skill]
calls = 1000000000
"""


class Place:
    """Below one folder. `use` makes it the one that this process works in."""

    def __init__(self, top: Path) -> None:
        self.machine = Machine(top)
        self.effects = top.with_name(
            f"{top.name}.effects"
        )  # beside it: a disk that is full must not cut a name off
        self.state = str(self.machine.state / "state.db")

    def make(self) -> None:
        write_skill(self.machine.skills / "tea")
        self.effects.touch()
        for name, text in (("policy.toml", RULE), ("metier.toml", ROOM)):
            file = self.machine.state / name
            file.write_text(text, encoding="utf-8")
            file.chmod(0o600)

    def use(self) -> Box:
        """From now on this process works here. Gives the sandbox that leaves the names."""
        os.environ.update(self.machine.environ)
        os.environ.pop("METIER_HOME", None)
        descriptor = os.open(self.effects, os.O_WRONLY | os.O_APPEND)

        async def leave_its_name(job: Job) -> Report:
            os.write(descriptor, f"{job.call_id}\n".encode())
            return Report(ending="returned", value="done")

        box = Box(report=leave_its_name)
        metier.runtime.OWN_TOOLS = state.OWN_TOOLS = {POUR.name: POUR}  # type: ignore[misc]
        sandboxes.make_sandboxes = lambda settings, tasks=None, watch=None: ((box,), ())  # type: ignore[assignment]
        return box

    @asynccontextmanager
    async def runtime(self) -> AsyncIterator[Runtime]:
        async with Runtime.open(project=str(self.machine.project), watch=False) as opened:
            yield opened

    def ran(self) -> list[str]:
        """The id of each call that ran, as often as it did."""
        return self.effects.read_text(encoding="ascii").split()
