"""A machine with one skill, one tool and every door to it. What runs is only counted, by a sandbox of the test's own."""

import json
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from click.testing import CliRunner
from msgspec import structs

import metier.pipeline
import metier.runtime
from boxes import Box
from machine import Machine, write_skill
from metier.blocking import SyncRuntime
from metier.catalog.bundle import BundleStore
from metier.catalog.here import owner
from metier.catalog.hold import bind, declared_by, hold
from metier.config.settings import Settings
from metier.doors.cli import metier as command
from metier.hooks import run_hook
from metier.model.approval import Approval
from metier.model.call import Principal
from metier.model.entry import InlineCode
from metier.model.job import Job, Report
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.model.role import ROLES
from metier.model.skill import Tool
from metier.record.audit import AuditLog
from metier.record.chain import Record
from metier.record.database import Database
from metier.record.deciding import Decider, decide
from metier.record.trust import TrustStore
from metier.record.verify import Verification, verify
from metier.runtime import Runtime, probing, sandboxes, state
from metier.runtime.as_owner import call_as_owner
from metier.runtime.own import OwnRun, run_own

POUR = Tool(
    name="pour",
    description="Pours.",
    parameters={
        "type": "object",
        "properties": {"name": {"type": "string"}, "note": {"type": "string"}},
        "required": ["name"],
        "additionalProperties": False,
    },
    subject="name",
    effect="act",
    risk="low",
    minimum_trust="supervised_auto",
    entry=InlineCode(language="python", source="result = 1"),
)
HOOK = "hooks/handler.ts"
EVENT: dict[str, Any] = {
    "type": "agent",
    "action": "bootstrap",
    "sessionKey": "s-1",
    "context": {"bootstrapFiles": []},
}
OWN = "print('tea')\n"


class Ended(NamedTuple):
    """How a call ended, whichever door told it."""

    how: str
    """`ran`, `refused` or `pending`."""
    code: str = ""
    said: str = ""


class Yard:
    """Everything below one temporary folder. Gates are closed and opened by what operators do."""

    def __init__(self, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.machine = Machine(top)
        self.patch = monkeypatch
        self.box = Box(report=self._report)
        self.tool = POUR
        self.arguments: dict[str, Any] = {"name": "tea"}
        self.event = EVENT
        self.hook_by = Principal(id=owner(), kind="human")
        self.hook_workspace = ""
        self.run_options: tuple[str, ...] = ()
        self.own = OwnRun(name="own.py", data=OWN.encode(), entry=InlineCode(language="python", source=OWN))
        self.while_asked: Callable[[], object] = lambda: None
        self.meanwhile: Callable[[], object] = lambda: None
        """Done by somebody else after the call was judged and before it begins."""
        for name in ("kettle", "sh"):
            self.machine.program(name)
        hook = self.machine.skills / "tea" / HOOK
        hook.parent.mkdir(parents=True)
        hook.write_text("export default async () => {}\n", encoding="utf-8")
        (self.machine.state / "workspace").mkdir(exist_ok=True)
        (self.machine.project / "own.py").write_text(OWN, encoding="utf-8")
        monkeypatch.setenv("HOME", str(self.machine.home))
        monkeypatch.setenv("PATH", str(self.machine.bin))
        monkeypatch.delenv("METIER_HOME", raising=False)
        monkeypatch.chdir(self.machine.project)
        monkeypatch.setattr(sandboxes, "make_sandboxes", lambda settings, tasks=None: ((self.box,), ()))
        self.path = self.machine.settings().database
        self.written()
        real = metier.pipeline.prepare

        async def prepare(*given: Any) -> Any:
            ready = await real(*given)
            self.meanwhile()
            return ready

        monkeypatch.setattr(metier.pipeline, "prepare", prepare)

    # --- what operators do

    def opened(self) -> Database:
        """The state as another process would open it."""
        return Database.open(self.path)

    def configured(self, text: str) -> None:
        (self.machine.state / "metier.toml").write_text(text, encoding="utf-8")

    def ruled(self, decision: str, because: str = "so it is") -> None:
        """Rules about everything that there is here."""
        rule = '[[rule]]\ndecision = "{}"\nbecause = "{}"\ntool = "{}"\n'
        names = ("pour", "hooks.run", "operator.run", probing.NAME)
        file = self.machine.state / "policy.toml"
        file.write_text("".join(rule.format(decision, because, name) for name in names), encoding="utf-8")
        file.chmod(0o600)

    def always_asked(self) -> None:
        self.tool = structs.replace(self.tool, approval="always")

    def approve(self, approval: str, *, in_its_process: bool = False) -> None:
        with self.opened() as database:
            made = decide(database, approval, by=DECIDER, decision="approve", in_its_process=in_its_process)
            assert isinstance(made, Approval), made

    def written(self, **fields: str) -> None:
        """The skill as it lies there now, which the operator looked at and trusts."""
        needs = '{"openclaw": {"requires": {"bins": ["kettle", "sh"]}}}'
        write_skill(self.machine.skills / "tea", metadata=needs, **fields)
        settings = self.machine.settings()
        with self.opened() as database:
            trust, bundles = TrustStore(database), BundleStore(settings.bundles)
            listed = self.machine.catalog().get("tea")
            assert listed is not None
            bundles.take(listed.folder, now_ns=time.time_ns())
            held = hold(listed, trust=trust, bundles=bundles, now_ns=time.time_ns())
            assert held.bytes is not None, held
            snapshot = bundles.open(held.bytes.digest)
            assert snapshot is not None
            declared = declared_by(snapshot, listed.manifest, folder=listed.folder)
            assert declared is not None
            assert bind(listed, declared, held.bytes, trust=trust, how="operator", by=owner())

    # --- what can be seen afterwards

    @property
    def ran(self) -> int:
        return len(self.box.jobs)

    def head(self) -> int:
        with self.opened() as database:
            return AuditLog(database).head()[0]

    def calls_since(self, seq: int) -> list[Record]:
        """The records of calls after record `seq`, of a log that is whole."""
        with self.opened() as database:
            assert verify(database).ok, verify(database)
            return [each for each in AuditLog(database).tail(1000) if each.seq > seq and each.call_id]

    def verified(self) -> Verification:
        return verify(self.path)

    # --- what callers do

    def with_runtime(self, act: Callable[[Runtime], Awaitable[Any]]) -> Any:
        """Do something with a runtime that is opened for it, as a program that was started just now would."""
        self._show_tool()

        async def main() -> Any:
            async with Runtime.open(project=str(self.machine.project), watch=False) as runtime:
                return await act(runtime)

        return anyio.run(main)

    def with_blocking(self, act: Callable[[SyncRuntime], Any]) -> Any:
        self._show_tool()
        with SyncRuntime.open(project=str(self.machine.project), watch=False) as runtime:
            return act(runtime)

    def command(self, *args: str) -> Ended:
        """A command line, in this process."""
        self._show_tool()
        done = CliRunner().invoke(command, [*args, "--json"])
        assert "Traceback" not in done.output, done.output
        assert done.exit_code in (0, 1, 3, 4), (done.exit_code, done.output, done.exception)
        return ended(json.loads(done.stdout))

    def queued(self) -> Pending:
        """A call that waits for somebody's word."""
        self.always_asked()
        outcome = self.with_runtime(lambda runtime: runtime.call(self.tool.name, self.arguments))
        assert isinstance(outcome, Pending), outcome
        return outcome

    def approved(self) -> Pending:
        """A call that somebody approved and nobody ran yet."""
        pending = self.queued()
        self.approve(pending.approval_id)
        return pending

    def hook(self) -> Ended:
        async def fire(runtime: Runtime) -> Outcome:
            return await run_hook(
                runtime._house(),
                skill="tea",
                hook=HOOK,
                event=self.event,
                principal=self.hook_by,
                workspace=self.hook_workspace,
            )

        return ended(self.with_runtime(fire))

    def tested(self) -> Ended:
        """The owner calls a tool of a skill himself."""
        return ended(
            self.with_runtime(lambda runtime: call_as_owner(runtime, self.tool.name, self.arguments))
        )

    def read_by_running(self) -> Ended:
        """The skill is run to be read, as one is that exists only as code."""
        self.patch.setattr(probing, "_tool", lambda listed: self.reader)
        outcomes: list[Outcome] = []
        real = metier.pipeline.run

        async def run(*given: Any) -> Outcome:
            outcomes.append(await real(*given))
            return outcomes[-1]

        self.patch.setattr(probing, "run", run)

        async def read(runtime: Runtime) -> None:
            listed = runtime._house().catalog.get("tea")
            assert listed is not None
            await probing.probe([listed], runtime._house(), runtime._state.bundles)

        self.with_runtime(read)
        [outcome] = outcomes
        return ended(outcome)

    @property
    def reader(self) -> Tool:
        """What the gate judges when the skill is read: what the yard's tool is, under the name and schema of reading."""
        return structs.replace(
            self.tool, name=probing.NAME, parameters=probing._PARAMETERS, audience="operator", subject="skill"
        )

    def inside(self) -> Ended:
        """The skill's code makes the call, inside of one that an agent made and that runs."""

        async def operate(runtime: Runtime) -> Outcome:
            outer = runtime._call(self.tool.name, self.arguments)
            with runtime._inner.under(outer):
                return await runtime._inner.call(outer.id, "tea", self.tool.name, self.arguments)

        return ended(self.with_runtime(operate))

    def run_and_answer(self) -> Ended:
        """The owner runs a file of his own, is asked, and says yes."""

        async def ask(settings: Settings, approval: str) -> None:
            self.while_asked()
            self.approve(approval, in_its_process=True)

        return ended(anyio.run(run_own, self.machine.settings(), self.own, ask))

    def as_a_provider_writes_it(self) -> list[dict[str, Any]]:
        function = {"name": self.tool.name, "arguments": json.dumps(self.arguments)}
        return [{"id": "c1", "type": "function", "function": function}]

    def _show_tool(self) -> None:
        for module in (metier.runtime, state):
            self.patch.setattr(module, "OWN_TOOLS", {self.tool.name: self.tool})

    async def _report(self, job: Job) -> Report:
        hook = job.context.get("hook")
        value = hook["context"] if isinstance(hook, dict) else "done"
        return Report(ending="returned", value=value)


DECIDER = Decider(id=owner(), kind="human", rights=ROLES["owner"])


def ended(outcome: Any) -> Ended:
    """How a call ended, from an outcome, or from what a door printed."""
    match outcome:
        case Completed() | {"outcome": "completed"}:
            return Ended("ran")
        case Failed(code=code) | {"outcome": "failed", "code": code}:
            return Ended("ran", code, str(outcome))
        case Refused(code=code) | {"outcome": "refused", "code": code}:
            return Ended("refused", code, str(outcome))
        case Pending() | {"outcome": "pending"} | {"error": "pending_approval"}:
            return Ended("pending", "", str(outcome))
        case {"error": code}:
            return Ended("refused", code, str(outcome))
        case "done":
            return Ended("ran")
        case _:
            raise AssertionError(f"no end of a call: {outcome!r}")


def answered(messages: list[dict[str, Any]]) -> Ended:
    """How the one call ended that a provider's message answers."""
    [message] = messages
    text = message["content"]
    return ended(json.loads(text) if text.startswith("{") else text)


def away(path: str) -> None:
    """The database is taken away from under who has it open."""
    os.rename(path, f"{path}.away")


def back(path: str) -> None:
    os.rename(f"{path}.away", path)
