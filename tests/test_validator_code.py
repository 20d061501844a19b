"""A skill's own check of the arguments runs first, in a sandbox, with nothing; only its `true` lets the call go on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import structs

from boxes import Box
from metier.catalog.bundle import Snapshot
from metier.execute import execute
from metier.host.running import Running
from metier.model.call import ApprovedCall, AuthorizedCall, Bytes, Call, Principal, ValidCall
from metier.model.entry import Command, Entry, HttpRequest, InlineCode, Operation, PythonHandler
from metier.model.job import Event, Fault, Job, Report
from metier.model.outcome import Completed, Failed, Refused
from metier.model.permission import PermissionSet
from metier.model.ports import OperationFunction
from metier.model.skill import Skill, Tool
from metier.model.verdict import Verdict
from metier.prepare import Ready, Workshop, prepare
from metier.sandbox.bubblewrap import Bubblewrap
from metier.sandbox.cgroup import find
from metier.sandbox.protocol import Sandbox
from metier.sandbox.python import PythonSandbox

WORK = InlineCode(language="python", source="result = 'worked'")
CHECK = InlineCode(language="python", source="result = True")
TEA = Skill(name="tea", description="", dialect="metahuman", location="/skills/tea")


class Operations:
    def __init__(self) -> None:
        self.ran = 0

    def find(self, module: str, operation: str) -> OperationFunction | None:
        async def work(approved: ApprovedCall) -> Completed | Failed:
            self.ran += 1
            return Completed(call_id="call_1", value="operated")

        return work


class Bench:
    """One tool with a check, and the sandboxes it runs in."""

    def __init__(self, bundle: Path) -> None:
        self.bundle = bundle
        self.tool = Tool(
            name="pour",
            description="",
            parameters={},
            validator=CHECK,
            permissions=PermissionSet(writes=frozenset({str(bundle.parent / "out")})),
            entry=WORK,
        )
        (bundle.parent / "out").mkdir()
        self.answer: Report = Report(ending="returned", value=True)
        self.box = Box(report=self._run)
        self.sandboxes: Sequence[Sandbox] = [self.box]
        self.operations = Operations()
        self.running = Running()
        self.bound: list[bool] = []
        self.first_use = False
        self.disabled: list[str] = []

    async def _run(self, job: Job) -> Report:
        if job.entry == self.tool.validator:
            for event in self.answer.violations:
                job.alarm(event)
            return self.answer
        return Report(ending="returned", value="worked")

    def bind(self, approved: ApprovedCall) -> bool:
        self.bound.append(bool(self.box.jobs))
        return True

    async def call(self, **arguments: Any) -> Completed | Failed | Refused:
        principal = Principal(id="agent:a", kind="agent")
        valid = ValidCall(
            call=Call(id="call_1", principal=principal, tool="pour", arguments=arguments),
            tool=self.tool,
            arguments=arguments,
            skill=TEA,
            permissions=self.tool.permissions,
        )
        bytes_ = Bytes(digest="sha256:x", first_use=self.first_use)
        authorized = AuthorizedCall(valid=valid, verdict=Verdict.allow("test"), bytes=bytes_)
        snapshot = Snapshot(digest="sha256:x", folder=str(self.bundle), files=())
        workshop = Workshop(
            sandboxes=lambda: self.sandboxes,
            snapshot=lambda digest: snapshot,
            bind=self.bind,
            disable=lambda skill, call_id, why, digest: self.disabled.append(why),
            running=self.running,
        )
        ready = await prepare(ApprovedCall(authorized=authorized, evidence="policy"), workshop)
        if isinstance(ready, Refused):
            return ready
        assert isinstance(ready, Ready)
        return await execute(ready, self.operations, workshop)

    @property
    def ran(self) -> list[Entry]:
        return [job.entry for job in self.box.jobs]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    (tmp_path / "bundle").mkdir()
    return Bench(tmp_path / "bundle")


def test_when_the_check_says_true_the_call_goes_on(bench: Bench) -> None:
    outcome = anyio.run(lambda: bench.call(cups=2))
    assert isinstance(outcome, Completed)
    assert outcome.value == "worked"
    assert bench.ran == [CHECK, WORK]


def test_the_check_is_given_the_arguments_and_its_own_folder_and_nothing_else(bench: Bench) -> None:
    anyio.run(lambda: bench.call(cups=2))
    checking, working = bench.box.jobs
    assert checking.arguments == {"cups": 2}
    assert checking.bundle == str(bench.bundle)
    assert (checking.permissions, checking.places, checking.host) == (PermissionSet(), (), None)
    assert (checking.environment, checking.binaries, checking.context) == ({}, {}, {})
    assert working.permissions, "the tool itself has what it was granted"


@pytest.mark.parametrize("said", [False, None, 1, "true", [True], {"valid": True}, 1.0, ""], ids=repr)
def test_anything_but_true_keeps_the_tool_from_running(bench: Bench, said: Any) -> None:
    bench.answer = Report(ending="returned", value=said)
    outcome = anyio.run(lambda: bench.call(cups=2))
    assert isinstance(outcome, Failed)
    assert outcome.code == "invalid_input"
    assert ("neither true nor false" in outcome.message) == (said is not False)
    assert outcome.run is not None
    assert bench.ran == [CHECK]


def test_a_check_that_raises_says_no_in_its_own_words(bench: Bench) -> None:
    bench.answer = Report(ending="raised", fault=Fault(name="ValueError", message="three cups are too many"))
    outcome = anyio.run(lambda: bench.call(cups=3))
    assert isinstance(outcome, Failed)
    assert (outcome.code, "three cups are too many" in outcome.message) == ("invalid_input", True)
    assert bench.ran == [CHECK]


@pytest.mark.parametrize(
    ("ending", "code"),
    [("timed_out", "timed_out"), ("no_result", "no_result"), ("signalled", "crashed"), ("busy", "busy")],
)
def test_a_check_that_does_not_come_to_an_answer_fails_as_what_it_is(
    bench: Bench, ending: Any, code: str
) -> None:
    bench.answer = Report(ending=ending)
    outcome = anyio.run(lambda: bench.call(cups=2))
    assert isinstance(outcome, Failed)
    assert (outcome.code, bench.ran) == (code, [CHECK])


def test_a_violation_of_the_check_bars_the_skill_as_any_other(bench: Bench) -> None:
    bench.answer = Report(ending="stopped", violations=(Event(kind="syscall", detail="mount"),))
    outcome = anyio.run(lambda: bench.call(cups=2))
    assert isinstance(outcome, Failed)
    assert outcome.code == "violation"
    assert bench.ran == [CHECK]
    assert bench.disabled, "it is disabled before its outcome is told"


def test_the_skill_is_bound_to_its_bytes_before_even_the_check_runs(bench: Bench) -> None:
    bench.first_use = True
    assert isinstance(anyio.run(lambda: bench.call(cups=2)), Completed)
    assert bench.bound == [False], "once, and nothing had run"


@pytest.mark.parametrize(
    "entry",
    [
        Command(argv=("true",)),
        HttpRequest(method="GET", url="https://x.example"),
        Operation(module="m", operation="o"),
    ],
    ids=["command", "http", "operation"],
)
def test_only_code_can_be_a_check(bench: Bench, entry: Entry) -> None:
    bench.tool = structs.replace(bench.tool, validator=entry)
    outcome = anyio.run(lambda: bench.call(cups=2))
    assert isinstance(outcome, Refused)
    assert (outcome.code, bench.ran) == ("not_runnable", [])


def test_a_check_that_no_sandbox_can_run_refuses_the_call_before_it_is_announced(bench: Bench) -> None:
    bench.sandboxes = [Box(takes=lambda job: job.entry == WORK)]
    outcome = anyio.run(lambda: bench.call(cups=2))
    assert isinstance(outcome, Refused)
    assert outcome.code == "sandbox_unavailable"


def test_an_operation_of_ours_waits_for_the_check_too(bench: Bench) -> None:
    bench.tool = structs.replace(bench.tool, entry=Operation(module="m", operation="o"))
    assert isinstance(anyio.run(lambda: bench.call(cups=2)), Completed)
    assert bench.operations.ran == 1
    bench.answer = Report(ending="returned", value=False)
    assert isinstance(anyio.run(lambda: bench.call(cups=2)), Failed)
    assert bench.operations.ran == 1


CHECKS = """
import os

def within(arguments, context):
    try:
        open(arguments["mark"], "w").close()
    except OSError:
        pass
    return os.path.exists(__file__) and arguments["cups"] < 3

def work(arguments, context):
    open(arguments["mark"] + "-work", "w").close()
    return "worked"
"""


@pytest.mark.slow
def test_in_a_real_sandbox_the_check_can_say_yes_and_no_and_touch_nothing(
    bench: Bench, tmp_path: Path
) -> None:
    (bench.bundle / "checks.py").write_text(CHECKS)
    out = bench.bundle.parent / "out"
    mark = out / "mark"
    bench.tool = structs.replace(
        bench.tool,
        validator=PythonHandler(path="checks.py", function="within"),
        entry=PythonHandler(path="checks.py", function="work"),
    )

    async def both() -> tuple[object, object]:
        wall = Bubblewrap(groups=find())
        bench.sandboxes = [PythonSandbox(wall)]
        try:
            return await bench.call(cups=5, mark=str(mark)), await bench.call(cups=2, mark=str(mark))
        finally:
            await wall.aclose()

    no, yes = anyio.run(both)
    assert isinstance(no, Failed), no
    assert no.code == "invalid_input"
    assert isinstance(yes, Completed), yes
    assert yes.value == "worked"
    assert [each.name for each in out.iterdir()] == ["mark-work"], (
        "the tool may write there, its check may not"
    )
