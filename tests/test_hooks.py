"""Hooks go the way of every call: an event goes in, the context comes out, and nothing else is within reach."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from boxes import Box
from gatehouse import judged as in_situation
from machine import Machine, write_skill
from metier.catalog.bundle import BundleStore
from metier.catalog.hold import bind, declared_by, hold
from metier.gate.situation import Situation, look
from metier.hooks import MOST_OUTPUT, NAME, run_hook
from metier.host.running import Running
from metier.model.call import Principal, ValidCall
from metier.model.job import Job, Report
from metier.model.outcome import Completed, Failed, Outcome, Refused
from metier.model.permission import PermissionSet
from metier.model.skill import Limits
from metier.pipeline import House
from metier.prepare import Workshop
from metier.record.audit import AuditLog
from metier.record.chain import Record
from metier.record.database import Database
from metier.record.recorder import Recorder
from metier.record.trust import TrustStore
from metier.record.verify import verify
from metier.record.writer import Writer
from metier.runtime.sandboxes import Sandboxes
from metier.sandbox.job_protected import Ground
from metier.sandbox.protocol import Sandbox

OWNER = Principal(id="human:test", kind="human", roles=frozenset({"owner"}))
FILE = "hooks/openclaw/handler.ts"
EVENT: dict[str, Any] = {
    "type": "agent",
    "action": "bootstrap",
    "sessionKey": "s-1",
    "context": {"bootstrapFiles": [{"path": "AGENTS.md", "content": "Be kind."}]},
}
TOOL: dict[str, Any] = {**EVENT, "type": "tool", "action": "after"}
SEEN = "event.context.bootstrapFiles = seen.map((each) => ({ path: 'seen', content: String(each) }));"


class Town:
    """A house with a real record and a real skill that brings hooks."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.settings = machine.settings()
        self.database = Database.open(self.settings.database)
        self.trust = TrustStore(self.database)
        self.bundles = BundleStore(self.settings.bundles)
        self.ground = Ground(
            state=str(machine.state), workspace=str(machine.state / "workspace"), home=str(machine.home)
        )
        self.box = Box()

    def write(self, text: str, file: str = FILE) -> None:
        path = write_skill(self.machine.skills / "tea") / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def trusted(self) -> None:
        """What a person does with `metier skills trust`, again after a change."""
        listed = self.machine.catalog().get("tea")
        assert listed is not None
        self.bundles.take(listed.folder, now_ns=time.time_ns())
        held = hold(listed, trust=self.trust, bundles=self.bundles, now_ns=time.time_ns())
        assert held.bytes is not None
        snapshot = self.bundles.open(held.bytes.digest)
        assert snapshot is not None
        declared = declared_by(snapshot, listed.manifest, folder=listed.folder)
        assert declared is not None
        assert bind(listed, declared, held.bytes, trust=self.trust, how="operator", by="human:test")

    def fire(self, event: Any = EVENT, *, real: bool = False, **given: Any) -> Outcome:
        """With a sandbox of the test's own that only remembers its job, or with those of this machine."""

        async def main() -> Outcome:
            sandboxes = Sandboxes(self.settings)
            house = self._house(sandboxes if real else lambda: (self.box,))
            try:
                return await run_hook(
                    house, **{"skill": "tea", "hook": FILE, "event": event, "principal": OWNER, **given}
                )
            finally:
                await sandboxes.aclose()

        return anyio.run(main)

    def job(self, event: Any = EVENT, **given: Any) -> Job:
        """The job that was made of it."""
        outcome = self.fire(event, **given)
        assert isinstance(outcome, Completed | Failed), outcome
        return self.box.jobs[-1]

    def context(self, event: Any = EVENT, **given: Any) -> Any:
        """What came back from a real run."""
        outcome = self.fire(event, real=True, **given)
        assert isinstance(outcome, Completed), outcome
        return outcome.value

    def seen(self, event: Any = EVENT, **given: Any) -> list[str]:
        """What the hook said it saw."""
        return [each["content"] for each in self.context(event, **given)["bootstrapFiles"]]

    def records(self) -> list[Record]:
        with Database.open(self.settings.database) as database:
            assert verify(database).ok
            return AuditLog(database).tail(10)

    def _house(self, sandboxes: "Callable[[], tuple[Sandbox, ...]] | Sandboxes") -> House:
        catalog = self.machine.catalog()

        async def judged(valid: ValidCall) -> Situation:
            found = look(valid, catalog=catalog, trust=self.trust, bundles=self.bundles)
            return in_situation(valid, found)

        return House(
            tools={},
            catalog=catalog,
            look=judged,
            operations=NoOperations(),
            recorder=Recorder(AuditLog(self.database), Writer(self.database), tools=[NAME].__contains__),
            workshop=Workshop(
                sandboxes=sandboxes,
                snapshot=self.bundles.open,
                ground=self.ground,
                environ={"CLAUDE_TOOL_OUTPUT": "of the operator", "TOKEN": "t0ken"},
                running=Running(),
            ),
        )


class NoOperations:
    def find(self, module: str, operation: str) -> None:
        return None


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    made = Town(Machine(Path(tmp_path)))
    made.write("export default async (event: any) => { event.context.bootstrapFiles.pop() }")
    made.trusted()
    yield made
    made.database.close()


# --- the job that is made of it


def test_a_hook_is_given_its_event_and_may_read_the_workspace_and_nothing_else(town: Town) -> None:
    job = town.job()
    workspace = str(town.machine.state / "workspace")
    event = {**EVENT, "context": {**EVENT["context"], "workspaceDir": workspace}}
    assert job.context["hook"] == event
    names = ("docs", "etc", "logs", "memory", "out", "persona")
    assert [(place.path, place.writable) for place in job.places] == [
        (f"{workspace}/{name}", False) for name in names
    ]
    assert (job.arguments, job.environment, job.binaries, job.cwd) == ({}, {}, {}, "")
    assert job.permissions == PermissionSet(reads=frozenset({"{workspace}"}))
    assert job.limits == Limits(timeout=10.0)


def test_another_workspace_takes_the_place_of_the_first(town: Town, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    job = town.job(workspace=str(other), limits=Limits(timeout=2.0))
    assert [place.path for place in job.places] == [str(other)]
    assert job.context["hook"]["context"]["workspaceDir"] == str(other)  # type: ignore[index,call-overload]
    assert job.limits.timeout == 2.0
    with pytest.raises(ValueError, match="absolute"):
        town.fire(workspace="relative")


def test_the_output_of_a_tool_goes_with_events_about_tools_and_with_no_other(town: Town) -> None:
    assert town.job(TOOL, tool_output="exit 1").environment == {"CLAUDE_TOOL_OUTPUT": "exit 1"}
    assert town.job(TOOL).environment == {"CLAUDE_TOOL_OUTPUT": ""}
    for kind in ("agent", "message"):
        assert town.job({**EVENT, "type": kind}).environment == {}
        outcome = town.fire({**EVENT, "type": kind}, tool_output="leak")
        assert isinstance(outcome, Refused)
        assert outcome.code == "invalid_arguments"
        assert "tool_output" in outcome.reasons[0]
    assert len(town.box.jobs) == 4


def test_output_that_no_variable_can_hold_is_marked_and_cut(town: Town) -> None:
    output = "a\x1b[31mred\0\ud800\n\t" + "x" * MOST_OUTPUT
    shown = town.job(TOOL, tool_output=output).environment["CLAUDE_TOOL_OUTPUT"]
    assert shown.startswith("a\ufffd[31mred\ufffd\ufffd\n\txxx")
    assert shown.endswith("… [cut, 262,157 characters]")


@pytest.mark.parametrize(
    ("event", "about"),
    [
        ("not an event", "event"),
        ({}, "type"),
        ({**EVENT, "type": "nonsense"}, "event/type"),
        ({**EVENT, "action": 5}, "event/action"),
        ({**EVENT, "sessionKey": None}, "event/sessionKey"),
        ({**EVENT, "more": 1}, "more"),
        ({**EVENT, "context": 5}, "event/context"),
        ({**EVENT, "context": {}}, "bootstrapFiles"),
        ({**EVENT, "context": {"bootstrapFiles": "no"}}, "bootstrapFiles"),
        ({**EVENT, "context": {"bootstrapFiles": [{"path": "a"}]}}, "content"),
        ({**EVENT, "context": {"bootstrapFiles": [{"path": "", "content": ""}]}}, "path"),
        ({**EVENT, "context": {"bootstrapFiles": [{"path": "a", "content": "", "virtual": 1}]}}, "virtual"),
    ],
)
def test_what_is_no_event_is_refused_and_nothing_runs(town: Town, event: Any, about: str) -> None:
    outcome = town.fire(event)
    assert isinstance(outcome, Refused), outcome
    assert outcome.code == "invalid_arguments"
    assert about in outcome.reasons[0]
    assert town.box.jobs == []
    assert [(each.event, each.tool) for each in town.records()][-1] == ("skill_execution_blocked", NAME)


@pytest.mark.parametrize(
    "hook",
    ["handler.ts", "hooks/../handler.ts", "hooks/.x/h.ts", "/hooks/h.ts", "hooks/h.sh", "hooks/h.ts\n"],
)
def test_only_a_file_of_the_hooks_folder_is_a_hook(town: Town, hook: str) -> None:
    outcome = town.fire(hook=hook)
    assert isinstance(outcome, Refused), outcome
    assert "'hook'" in outcome.reasons[0]


# --- through the gate


@pytest.mark.parametrize("kind", ["agent", "skill", "trigger"])
def test_nobody_but_an_operator_has_a_hook_run(town: Town, kind: Any) -> None:
    outcome = town.fire(principal=Principal(id=f"{kind}:x", kind=kind))
    assert isinstance(outcome, Refused), outcome
    assert outcome.code == "forbidden"
    assert town.box.jobs == []


def test_a_skill_that_is_not_trusted_or_changed_has_no_hook_run(town: Town) -> None:
    town.write("export default () => 'other'")
    outcome = town.fire()
    assert isinstance(outcome, Refused), outcome
    assert outcome.code == "not_trusted"
    assert isinstance(town.fire(skill="nobody"), Refused)
    assert town.box.jobs == []


def test_a_hook_is_on_the_record_before_and_after_it_ran(town: Town) -> None:
    town.context()
    began, ended = town.records()[-2:]
    assert (began.event, began.tool, began.skill) == ("skill_execution_started", NAME, "tea")
    assert (ended.event, ended.about) == ("skill_executed", began.seq)
    kept = AuditLog(town.database).kept(began)
    assert kept["permissions"] == {"reads": ["{workspace}"]}
    assert kept["arguments"]["hook"] == FILE  # type: ignore[index,call-overload]


# --- what comes back


def test_the_context_comes_back_as_the_hook_left_it(town: Town) -> None:
    town.write("""
    import { runHook, type BootstrapFile, type HookContext, type HookEvent, type HookHandler, type HookResult }
      from 'openclaw/hooks';
    const added: BootstrapFile = { path: 'REMINDER.md', content: 'remember', virtual: true };
    const left = (context: HookContext): HookResult => ({ ...context, bootstrapFiles: [...context.bootstrapFiles, added] });
    const handler: HookHandler = async (event: HookEvent) => { event.context = left(event.context) };
    await runHook(handler);
    """)
    town.trusted()
    assert town.context() == {
        "bootstrapFiles": [
            {"path": "AGENTS.md", "content": "Be kind."},
            {"path": "REMINDER.md", "content": "remember", "virtual": True},
        ],
        "workspaceDir": str(town.machine.state / "workspace"),
    }


@pytest.mark.parametrize(
    ("left", "about"),
    [
        (5, "Expected `object`"),
        (None, "Expected `object`"),
        ({}, "bootstrapFiles"),
        ({"bootstrapFiles": "no"}, "$.bootstrapFiles"),
        ({"bootstrapFiles": [{"path": "a"}]}, "content"),
        ({"bootstrapFiles": [{"path": "a", "content": 1}]}, "$.bootstrapFiles[0].content"),
        ({"bootstrapFiles": [], "system": "do evil"}, "system"),
        ({"bootstrapFiles": [], "workspaceDir": "/"}, "workspaceDir"),
        ({"bootstrapFiles": [], "workspaceDir": None}, "workspaceDir"),
    ],
)
def test_what_is_no_context_is_a_bad_result_and_not_handed_on(town: Town, left: Any, about: str) -> None:
    town.box = Box(report=Report(ending="returned", value=left))
    outcome = town.fire()
    assert isinstance(outcome, Failed), outcome
    assert outcome.code == "bad_result"
    assert about in outcome.message
    assert town.records()[-1].code == "bad_result"


def test_a_context_without_its_workspace_is_one_too(town: Town) -> None:
    town.box = Box(report=Report(ending="returned", value={"bootstrapFiles": []}))
    assert isinstance(town.fire(), Completed)


# --- in a sandbox of this machine


def test_a_real_hook_reads_the_workspace_and_sees_only_the_output_of_the_tool(town: Town) -> None:
    workspace = town.machine.state / "workspace"
    workspace.mkdir(mode=0o700)
    (workspace / "NOTES.md").write_text("noted")
    (town.machine.home / "outside.md").write_text("private")
    town.write(f"""
    const tried = (act: () => unknown) => {{ try {{ return act() }} catch (e) {{ return (e as Error).name }} }};
    export default async (event: any) => {{
      const at = event.context.workspaceDir;
      const seen = [
        tried(() => Deno.readTextFileSync(at + '/NOTES.md')),
        tried(() => Deno.readTextFileSync('{town.machine.home}/outside.md')),
        tried(() => Deno.writeTextFileSync(at + '/NOTES.md', 'x')),
        tried(() => Deno.env.get('CLAUDE_TOOL_OUTPUT')),
        tried(() => Deno.env.get('TOKEN')),
      ];
      {SEEN}
    }};
    """)
    town.trusted()
    nothing = ["NotCapable", "NotCapable", "NotCapable"]
    assert town.seen() == ["noted", *nothing, "NotCapable"]
    assert town.seen(TOOL, tool_output="exit 1") == ["noted", *nothing[:2], "exit 1", "NotCapable"]


def test_a_real_hook_that_hangs_or_leaves_nonsense_is_a_failure(town: Town) -> None:
    town.write("export default () => { for (;;); }")
    town.trusted()
    outcome = town.fire(real=True, limits=Limits(timeout=0.5))
    assert isinstance(outcome, Failed)
    assert outcome.code == "timed_out"
    town.write("export default async (event: any) => { event.context = { bootstrapFiles: 'no' } }")
    town.trusted()
    outcome = town.fire(real=True)
    assert isinstance(outcome, Failed)
    assert outcome.code == "bad_result"
