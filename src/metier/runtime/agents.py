"""`agents.run` and `agents.status`: agents of the workspace. Only the bundled `run_agent` has one run, and says which bytes
were agreed to.

A program runs in a sandbox of its own: it reads the workspace's memory, persona, docs and out, writes memory and logs, and has no
network. What it leaves is kept as an artifact; what other calls left is not its to change. An agent that is a text is a model with the tools of the skills it names. One runs once at a time, and none outlives
Metier. Whoever does not wait has it run as a call of its own, whose outcome is recorded when it ends. One that did what no code
may ever do is disabled under its own name, `agent:brain/NAME`, and its bytes under every name.
"""

import logging
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, final

import anyio
from anyio import to_thread
from msgspec.structs import replace

from metier.catalog.agent_files import LANGUAGES, AgentFile, Instructed, find_agent, read_instructions
from metier.catalog.bundle import BundleStore
from metier.errors import MetierError
from metier.gate.principals import BRAIN
from metier.host.agent_lock import PATIENCE, AgentLock, hold, running
from metier.host.model_client import NoAnswer
from metier.host.running import Running
from metier.model.call import ApprovedCall, Call
from metier.model.digest import Json
from metier.model.entry import Program
from metier.model.ground import Ground
from metier.model.job import Event, Job
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.model.permission import WORKSPACE, PermissionSet
from metier.model.skill import Limits
from metier.prepare import program_job
from metier.record.trust import Trusts
from metier.runtime.agent_talk import talk, tools_of
from metier.runtime.inner import Begun, Inner, by_agent, inner_call
from metier.runtime.inner_tools import AGENTS_RUN
from metier.runtime.run_folder import run_folder
from metier.runtime.state import Seen
from metier.sandbox.ending import Violations, outcome_of, told_artifacts
from metier.sandbox.job_places import NoPlace, places
from metier.sandbox.protocol import Sandbox
from metier.sandbox.select import Unavailable, select

_log: Final = logging.getLogger("metier.agents")
MAY: Final = PermissionSet(
    reads=frozenset(f"{WORKSPACE}/{name}" for name in ("memory", "persona", "docs", "out")),
    writes=frozenset(f"{WORKSPACE}/{name}" for name in ("memory", "logs")),
)
LIMITS: Final = Limits(timeout=300.0, memory_mb=512)
MOST_OUTPUT: Final = 8_000
"""Characters that whoever waited is told; the record keeps what the run said."""


@final
class Agents:
    """The agents that one runtime runs."""

    def __init__(
        self,
        inner: Inner,
        sandboxes: Callable[[], Sequence[Sandbox]],
        running: Running,
        trusts: Callable[[], Trusts],
    ) -> None:
        """`trusts` reads what is disabled, from the disk."""
        self._inner = inner
        self._sandboxes = sandboxes
        self._running = running
        self._trusts = trusts
        self._pids: dict[str, Callable[[int], None]] = {}

    async def run(self, approved: ApprovedCall, seen: Seen) -> Completed | Failed:
        """The operation `agents.run`."""
        valid = approved.authorized.valid
        name, digest = str(valid.arguments["agentName"]), str(valid.arguments["digest"])
        if valid.arguments.get("wait") is not True:
            return await self._started(valid.call, name, digest)
        try:
            agent, held = await to_thread.run_sync(self._taken, seen, name, digest)
        except (MetierError, OSError) as error:
            _log.warning("the agent %s could not be started: %s", name, error)
            return _not_run(
                valid.call, f"the agent {name!r} could not be started; the log of Metier says why"
            )
        if isinstance(agent, str) or held is None:
            return _not_run(valid.call, str(agent))
        try:
            return await self._ran(agent, approved, seen, partial(self._told, valid.call.id, held))
        finally:
            held.release()

    async def status(self, approved: ApprovedCall, seen: Seen) -> Completed | Failed:
        """The operation `agents.status`."""
        valid = approved.authorized.valid
        name = str(valid.arguments["agentName"])
        pid = await to_thread.run_sync(running, seen.settings.home, name)
        value: dict[str, Json] = {"running": pid is not None}
        return Completed(call_id=valid.call.id, value={**value, "pid": pid} if pid else value)

    async def _started(self, call: Call, name: str, digest: str) -> Completed | Failed:
        """Have it run as a call of its own; which process it is, as soon as that is known."""
        asked: dict[str, Json] = {"agentName": name, "digest": digest, "wait": True}
        made = inner_call(call, call.principal, AGENTS_RUN, asked)
        known = anyio.Event()
        pids: list[int] = []

        def told(pid: int) -> None:
            pids.append(pid)
            known.set()

        self._pids[made.id] = told
        begun = self._inner.start(made)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_set_after, begun, known)
                await known.wait()
                tasks.cancel_scope.cancel()
        finally:
            self._pids.pop(made.id, None)
        if pids:
            return Completed(call_id=call.id, value={"pid": pids[0]})
        return _as(call, begun.outcome)

    def _told(self, call_id: str, held: AgentLock, pid: int) -> None:
        held.note(pid)
        if (told := self._pids.get(call_id)) is not None:
            told(pid)

    async def _ran(
        self, agent: AgentFile, approved: ApprovedCall, seen: Seen, told: Callable[[int], None]
    ) -> Completed | Failed:
        call = approved.authorized.valid.call
        if agent.ending not in LANGUAGES:
            return await self._talked(agent, call, seen, told)
        pids: list[int] = []

        def begun(pid: int) -> None:
            pids.append(pid)
            told(pid)

        seen_of_it = Violations()
        try:
            with run_folder(os.path.join(seen.settings.cache, "runs")) as folder:
                job = await to_thread.run_sync(_job, agent, approved, seen, folder)
                if isinstance(job, str):
                    return _not_run(call, job)
                job, withheld = job
                sandbox = await to_thread.run_sync(select, job, self._sandboxes())
                if isinstance(sandbox, Unavailable):
                    return _not_run(call, ". ".join(("; ".join(sandbox.reasons), sandbox.remedy)))
                report = await sandbox.run(replace(job, begun=begun, alarm=seen_of_it.add))
                for each in report.violations:
                    seen_of_it.add(each)
        except (MetierError, OSError) as error:
            _log.warning("the agent %s could not be run: %s", agent.name, error)
            return _not_run(call, f"the agent {agent.name!r} could not be run; the log of Metier says why")
        finally:  # a run that was cancelled reports nothing, and yet it is known
            self._bar(agent, call.id, seen_of_it.seen)
        outcome = outcome_of(job, report, sandbox=sandbox.name)
        if isinstance(outcome, Failed) and report.violations:
            return replace(outcome, message=f"the agent {agent.name!r} is disabled: {outcome.message}")
        if report.ending not in ("returned", "exited"):
            return outcome
        value: dict[str, Json] = {
            "exitCode": report.exit_code or 0,
            "output": withheld + _end(report.stdout + report.stderr),
        }
        if pids:
            value["pid"] = pids[0]
        if report.artifacts:
            value["artifacts"] = told_artifacts(report.artifacts)
        return Completed(call_id=call.id, value=value, run=outcome.run, artifacts=outcome.artifacts)

    def _bar(self, agent: AgentFile, call_id: str, violations: tuple[Event, ...]) -> None:
        """Let none of it begin again, for what it did: it, and not the skill that started it."""
        if violations:
            kinds = sorted({each.kind for each in violations})
            why = f"it tried what no skill may ever do: {', '.join(kinds)}"
            self._running.bar(f"{BRAIN}{agent.name}", call_id, why, agent.digest)

    def _taken(self, seen: Seen, name: str, digest: str) -> tuple[AgentFile | str, AgentLock | None]:
        """The agent and its lock, or why there is none. Blocking."""
        agent = find_agent(seen.ground.workspace, name)
        if isinstance(agent, str):
            return agent, None
        if agent.digest != digest:
            return f"the agent {name!r} is no longer the one that was agreed to; call again", None
        id, trusts = f"{BRAIN}{name}", self._trusts()
        off = self._running.barred(id, digest) or trusts.disabled.get(id)
        other = trusts.disabled_bytes.get(digest)
        if off or other:
            why = off or f"the same bytes were disabled as {other}"
            return (
                f"the agent {name!r} is disabled: {why}; `metier skills enable {other or id}` lifts it",
                None,
            )
        held = hold(seen.settings.home, name, patience=PATIENCE)
        if held is None:
            why = "is running already, and runs once at a time; wait until it has ended"
            return f"the agent {name!r} {why}", None
        return agent, held

    async def _talked(
        self, agent: AgentFile, call: Call, seen: Seen, told: Callable[[int], None]
    ) -> Completed | Failed:
        settings = seen.settings.agents
        text = await to_thread.run_sync(read_instructions, agent.data)
        if not isinstance(text, Instructed):
            return _not_run(call, f"the agent {agent.name!r} cannot be run: {text}")
        tools = tools_of(text, seen.catalog.usable())
        if isinstance(tools, str):
            return _not_run(call, f"the agent {agent.name!r} cannot be run: {tools}")
        model = text.model or settings.model
        if not model:
            return _not_run(
                call,
                f"the agent {agent.name!r} names no model; write `model` in its frontmatter, or the operator writes one"
                " under [agents] in metier.toml",
            )
        principal = by_agent(agent.name, call.principal)

        async def make(tool: str, arguments: Json) -> Outcome:
            return await self._inner.run(inner_call(call, principal, tool, arguments))

        # It has no process but ours.
        told(os.getpid())
        said: str | NoAnswer = NoAnswer(f"it took longer than {LIMITS.timeout:g} s and was ended")
        with anyio.move_on_after(LIMITS.timeout):
            said = await talk(text, model, tools, settings, make, seen.settings.home)
        if isinstance(said, NoAnswer):
            message = f"the agent {agent.name!r} did not come to its end: {said.message}"
            return Failed(call_id=call.id, code="reported", message=message)
        value: dict[str, Json] = {"exitCode": 0, "output": _end(said), "pid": os.getpid()}
        return Completed(call_id=call.id, value=value)


def _job(agent: AgentFile, approved: ApprovedCall, seen: Seen, folder: str) -> tuple[Job, str] | str:
    """A copy of the agent with what it may touch, and in words what it is not let write now. Blocking."""
    given = os.path.join(folder, "given")
    os.mkdir(given, 0o700)
    path = f"{agent.name}{agent.ending}"
    with open(os.path.join(given, path), "xb") as file:
        file.write(agent.data)
    bundles = BundleStore(os.path.join(folder, "bundles"))
    snapshot = bundles.open(bundles.take(given, now_ns=time.time_ns()).digest)
    if snapshot is None:
        return f"the agent {agent.name!r} could not be copied"
    granted, withheld = _given(seen.ground, snapshot.folder)
    made = program_job(
        approved,
        Program(path=path, language=LANGUAGES[agent.ending]),
        snapshot.folder,
        granted=granted,
        limits=LIMITS,
        ground=seen.ground,
        environment={"METIER_WORKSPACE": os.path.realpath(seen.ground.workspace)},
    )
    return f"{made.reason}. {made.remedy}" if isinstance(made, NoPlace) else (made, withheld)


def _given(ground: Ground, bundle: str) -> tuple[PermissionSet, str]:
    """What agents may touch, without the folders that cannot be written now, and why those cannot, a line each: an agent may
    itself have made what stands in the way, and the others go on working."""
    refused = {
        folder: found.reason
        for folder in sorted(MAY.writes)
        if isinstance(
            found := places(PermissionSet(writes=frozenset({folder})), ground, bundle=bundle), NoPlace
        )
        and found.code == "forbidden"
    }
    lines = "".join(f"[{reason}]\n" for reason in refused.values())
    return replace(MAY, writes=MAY.writes - refused.keys()), lines


async def _set_after(begun: Begun, known: anyio.Event) -> None:
    await begun.ended.wait()
    known.set()


def _as(call: Call, outcome: Outcome) -> Completed | Failed:
    """How the other call ended, as the end of this one."""
    match outcome:
        case Completed(value=value):
            return Completed(call_id=call.id, value=value)
        case Failed(code=code, message=message):
            return Failed(call_id=call.id, code=code, message=message)
        case Refused(reasons=reasons, remedy=remedy):
            return _not_run(call, ". ".join(filter(None, ("; ".join(reasons), remedy))))
        case Pending(reasons=reasons, approval_id=id):
            return _not_run(call, f"it waits for somebody's word ({id}): {'; '.join(reasons)}")


def _not_run(call: Call, message: str) -> Failed:
    return Failed(call_id=call.id, code="not_started", message=message)


def _end(text: str) -> str:
    return text if len(text) <= MOST_OUTPUT else f"…{text[-MOST_OUTPUT:]}"
