"""From an approved call to a report: what a sandbox is given, how each end is told, and what a violation costs."""

import os
import signal
import sqlite3
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, get_args

import anyio
import anyio.from_thread
import pytest
from anyio import to_thread
from msgspec import structs

from boxes import EVERYTHING, Box
from gatehouse import judged as in_situation
from machine import Machine, write_skill
from metier.catalog.bundle import BundleStore, Snapshot, measure
from metier.catalog.hold import bind, declared_by, hold
from metier.errors import StateError
from metier.gate.situation import Situation, look
from metier.host.running import Running
from metier.model.call import ApprovedCall, Call, Principal, Surroundings, ValidCall
from metier.model.digest import Json
from metier.model.entry import Command, Entry, HttpRequest, InlineCode, PythonHandler
from metier.model.guarantee import Guarantee, needed
from metier.model.job import Ending, Event, Fault, Job, Report, Usage
from metier.model.outcome import Completed, Failed, Outcome, Refused, Request
from metier.model.permission import PermissionSet
from metier.model.ports import Answered, Host, NotAnswered
from metier.model.skill import Limits, Tool
from metier.pipeline import House, run
from metier.prepare import Workshop, trial
from metier.record.audit import AuditLog
from metier.record.chain import Record
from metier.record.database import Database
from metier.record.disabling import disable, enable
from metier.record.recorder import Recorder
from metier.record.trust import TrustStore
from metier.record.verify import verify
from metier.record.writer import Writer
from metier.runtime import Runtime
from metier.sandbox.ending import outcome_of
from metier.sandbox.job_protected import Ground
from metier.sandbox.protocol import Missing

CODE = InlineCode(language="python", source="result = 1")
MOUNT = Event(kind="syscall", detail="mount")
READ = Event(kind="read", detail="/etc/shadow", count=3)


def tool(entry: Entry = CODE, **fields: Any) -> Tool:
    made = Tool(
        name="work",
        description="",
        parameters={"type": "object", "additionalProperties": True, "required": ["name"]},
        subject="name",
        effect="read",
        risk="low",
        entry=entry,
    )
    return structs.replace(made, **fields)


class Silent:
    """A host that knows nothing; it remembers whether its call is over."""

    def __init__(self) -> None:
        self.closed = False

    async def ask(self, method: str, params: dict[str, Json]) -> Answered | NotAnswered:
        return NotAnswered(name="NotFound", message="no")


class Forge:
    """A house with a real record and a real skill, whose sandboxes are the test's own."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        settings = machine.settings()
        self.path = settings.database
        self.database = Database.open(self.path, patience=0.05)
        self.trust = TrustStore(self.database)
        self.bundles = BundleStore(settings.bundles)
        self.running = Running()
        self.sandboxes: list[Box] = [Box()]
        self.tool = tool()
        self.bind: Callable[[ApprovedCall], bool] = lambda approved: True
        self.opening = self.bundles.open
        self.disabling = self.disable
        self.hosts: list[Silent] = []
        self.caps = Limits(timeout=300, memory_mb=4096, processes=512, output_bytes=16_777_216, fuel=10**13)
        self.environ = {"PATH": str(machine.bin), "TOKEN": "t0ken", "OTHER": "private"}

    @asynccontextmanager
    async def host(self, job: Job) -> AsyncGenerator[Host]:
        assert job.host is None
        made = Silent()
        self.hosts.append(made)
        try:
            yield made
        finally:
            made.closed = True

    def disable(self, name: str, call_id: str, why: str, digest: str = "") -> None:
        disable(self.database, name, call_id=call_id, why=why, digest=digest)

    @property
    def house(self) -> House:
        catalog = self.machine.catalog()

        async def judged(valid: ValidCall) -> Situation:
            found = look(valid, catalog=catalog, trust=self.trust, bundles=self.bundles)
            return in_situation(valid, found, granted=valid.permissions)  # as if all of it had been granted

        state = str(self.machine.state)
        return House(
            tools={self.tool.name: self.tool},
            catalog=catalog,
            look=judged,
            operations=NoOperations(),
            recorder=Recorder(
                AuditLog(self.database), Writer(self.database), tools=[self.tool.name].__contains__
            ),
            workshop=Workshop(
                sandboxes=lambda: self.sandboxes,
                snapshot=self.opening,
                bind=self.bind,
                disable=self.disabling,
                host=self.host,
                ground=Ground(state=state, workspace=f"{state}/workspace", home=str(self.machine.home)),
                caps=self.caps,
                environ=self.environ,
                running=self.running,
            ),
        )

    def call(self, *, skill: str = "tea", **given: Any) -> Outcome:
        return anyio.run(run, asked(skill, **given), self.house)

    def job(self, **given: Any) -> Job:
        """The job the sandbox was given."""
        outcome = self.call(**given)
        assert isinstance(outcome, Completed), outcome
        return self.sandboxes[0].jobs[-1]

    def refused(self, **given: Any) -> Refused:
        outcome = self.call(**given)
        assert isinstance(outcome, Refused), outcome
        assert outcome.reasons
        assert outcome.remedy
        assert [job for box in self.sandboxes for job in box.jobs] == []
        assert [each.event for each in self.records()] == ["skill_execution_blocked"]
        return outcome

    def records(self) -> list[Record]:
        with Database.open(self.path) as database:
            assert verify(database).ok
            return [each for each in AuditLog(database).tail(100) if each.call_id == "call_1"]

    def events(self) -> list[tuple[str, str]]:
        return [(each.event, each.code) for each in self.records()]

    def trusted(self, name: str) -> None:
        listed = self.machine.catalog().get(name)
        assert listed is not None
        held = hold(listed, trust=self.trust, bundles=self.bundles, now_ns=time.time_ns())
        assert held.bytes is not None
        snapshot = self.bundles.open(held.bytes.digest)
        assert snapshot is not None
        declared = declared_by(snapshot, listed.manifest, folder=listed.folder)
        assert declared is not None
        assert bind(listed, declared, held.bytes, trust=self.trust, how="operator", by="human:test")


class NoOperations:
    def find(self, module: str, operation: str) -> None:
        return None


_attempts = count(1)


def asked(skill: str = "tea", *, cwd: str | None = None, **arguments: Any) -> Call:
    return Call(
        id="call_1",
        attempt=next(_attempts),
        principal=Principal(id="agent:test", kind="agent", on_behalf_of="human:test"),
        tool="work",
        arguments={"name": skill, **arguments},
        cwd=cwd,
        surroundings=Surroundings(channel="telegram"),
    )


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Forge]:
    machine = Machine(tmp_path)
    write_skill(machine.skills / "tea")
    write_skill(machine.skills / "coffee")
    made = Forge(machine)
    made.trusted("tea")
    made.trusted("coffee")
    yield made
    made.database.close()


# --- what a sandbox is given


def test_a_sandbox_is_given_the_call_as_it_was_judged_and_nothing_else(forge: Forge) -> None:
    job = forge.job(word="pour")
    assert (job.call_id, job.skill, job.entry) == ("call_1", "tea", CODE)
    assert job.arguments == {"name": "tea", "word": "pour"}
    assert (job.places, job.environment, job.binaries, job.cwd, job.packages) == ((), {}, {}, "", ())
    assert job.permissions == PermissionSet()
    assert job.limits == Limits()
    assert job.needs == needed(CODE, network=False)
    assert job.context == {"call": {"channel": "telegram", "id": "call_1"}, "operator": {"id": "human:test"}}
    assert (Path(job.bundle) / "SKILL.md").read_text(encoding="utf-8").startswith("---")


def test_the_files_are_those_of_the_stored_copy_and_not_of_the_folder(forge: Forge) -> None:
    forge.tool = tool(PythonHandler(path="main.py"))
    job = forge.job()
    assert Path(job.bundle).is_relative_to(forge.machine.state / "bundles")
    assert job.entry == PythonHandler(path="main.py")


def test_grants_become_places_variables_and_programs(forge: Forge, tmp_path: Path) -> None:
    (tmp_path / "data" / "deep").mkdir(parents=True)
    forge.machine.program("kettle")
    data = str(tmp_path / "data")
    forge.tool = tool(
        permissions=PermissionSet(
            reads=frozenset({data, "{baseDir}"}),
            writes=frozenset({"{workspace}/out"}),
            env=frozenset({"TOKEN", "ABSENT"}),
            binaries=frozenset({"kettle", "absent"}),
        )
    )
    job = forge.job(cwd=f"{data}/deep")
    out = str(forge.machine.state / "workspace" / "out")
    assert {place.path: place.writable for place in job.places} == {data: False, out: True}
    assert all(place.inode == os.stat(place.path).st_ino for place in job.places)
    assert job.environment == {"TOKEN": "t0ken"}
    assert job.binaries == {"kettle": str(forge.machine.bin / "kettle")}
    assert job.cwd == f"{data}/deep"


def test_a_working_folder_that_was_not_granted_is_not_used(forge: Forge, tmp_path: Path) -> None:
    assert forge.job(cwd=str(tmp_path)).cwd == ""


def test_hosts_change_what_the_sandbox_has_to_promise(forge: Forge) -> None:
    forge.tool = tool(permissions=PermissionSet(hosts=frozenset({"tea.example"})))
    job = forge.job()
    assert Guarantee.NETWORK_BY_GRANT in job.needs
    assert Guarantee.NO_NETWORK not in job.needs


def test_limits_are_brought_down_to_what_the_operator_allows(forge: Forge) -> None:
    forge.caps = Limits(timeout=10, memory_mb=100, processes=5, output_bytes=1000, fuel=None)
    forge.tool = tool(limits=Limits(timeout=10_000, memory_mb=2**63, processes=64, fuel=9))
    assert forge.job().limits == Limits(timeout=10, memory_mb=100, processes=5, output_bytes=1000, fuel=9)


@pytest.mark.parametrize("limits", [Limits(timeout=-1), Limits(memory_mb=0), Limits(timeout=float("nan"))])
def test_res_21_a_tool_with_a_limit_that_is_none_does_not_run(forge: Forge, limits: Limits) -> None:
    forge.tool = tool(limits=limits)
    assert forge.refused().code == "not_runnable"


def test_a_command_is_its_own_program_with_the_arguments_in_their_places(forge: Forge) -> None:
    forge.machine.program("kettle")
    granted = PermissionSet(binaries=frozenset({"kettle"}))
    forge.tool = tool(Command(argv=("kettle", "--to", "{{degrees}}")), permissions=granted)
    job = forge.job(degrees="9 0; rm")
    assert job.entry == Command(argv=("kettle", "--to", "9 0; rm"))
    assert job.binaries == {"kettle": str(forge.machine.bin / "kettle")}


def test_a_program_that_may_start_others_is_watched_like_code(forge: Forge) -> None:
    forge.environ["PATH"] = os.defpath + os.pathsep + "/usr/bin"
    for name, watched in (("find", True), ("ls", False)):
        granted = PermissionSet(binaries=frozenset({name}))
        forge.tool = tool(Command(argv=(name, "{{file}}")), permissions=granted)
        assert (Guarantee.VIOLATIONS_SEEN in forge.job(file="x").needs) == watched


def test_a_program_that_was_not_declared_does_not_run(forge: Forge) -> None:
    forge.machine.program("kettle")
    forge.tool = tool(Command(argv=("kettle",)))
    assert "'kettle'" in forge.refused().reasons[0]


def test_an_argument_that_is_missing_in_a_command_is_refused(forge: Forge) -> None:
    forge.machine.program("kettle")
    granted = PermissionSet(binaries=frozenset({"kettle"}))
    forge.tool = tool(Command(argv=("kettle", "{{degrees}}")), permissions=granted)
    assert "'degrees'" in forge.refused().reasons[0]


@pytest.mark.parametrize(
    ("permissions", "code"),
    [
        (PermissionSet(writes=frozenset({"{baseDir}"})), "forbidden"),
        (PermissionSet(writes=frozenset({"/etc"})), "forbidden"),
        (PermissionSet(env=frozenset({"LD_PRELOAD"})), "forbidden"),
        (PermissionSet(reads=frozenset({"/no/such/place"})), "not_runnable"),
    ],
)
def test_what_cannot_be_granted_is_refused_with_the_reason(
    forge: Forge, permissions: PermissionSet, code: str
) -> None:
    forge.tool = tool(permissions=permissions)
    assert forge.refused().code == code


def test_without_a_sandbox_that_keeps_every_promise_nothing_runs_and_nothing_is_announced(
    forge: Forge,
) -> None:
    lost = frozenset({Guarantee.NO_PRIVILEGE})
    why = Missing(what="bubblewrap", why="not found", remedy="apt install bubblewrap", costs=lost)
    forge.sandboxes = [Box("weak", promises=EVERYTHING - lost, lacks=(why,))]
    said = forge.refused()
    assert said.code == "sandbox_unavailable"
    assert "no privilege to gain" in said.reasons[0]
    assert said.remedy == "apt install bubblewrap"
    forge.sandboxes.append(Box("strong"))
    assert isinstance(forge.call(), Completed)


def test_what_a_run_asks_is_answered_while_it_runs_and_not_after(forge: Forge) -> None:
    async def work(job: Job) -> Report:
        [host] = forge.hosts
        assert not host.closed
        assert job.host is not None
        answer = await job.host.ask("log", {"level": "info", "message": "hello"})
        assert isinstance(answer, NotAnswered)
        return Report(ending="returned", value=answer.message)

    forge.sandboxes = [Box(report=work)]
    outcome = forge.call()
    assert isinstance(outcome, Completed)
    assert outcome.value == "no"
    assert outcome.run is not None
    assert outcome.run.requests == (Request(method="log", detail="info", answer="NotFound"),)
    assert forge.hosts[0].closed


# --- how it ended


def failed(report: Report, entry: Entry = CODE) -> Failed:
    outcome = outcome_of(trial(entry), report, sandbox="box")
    assert isinstance(outcome, Failed), outcome
    assert outcome.message
    assert "\n" not in outcome.message
    return outcome


ENDINGS: dict[Ending, tuple[str, str]] = {
    "raised": ("raised", "ValueError: no tea"),
    "exited": ("command_failed", "exit code 3"),
    "signalled": ("crashed", "signal 11"),
    "no_result": ("no_result", "without a result"),
    "bad_result": ("bad_result", "plain JSON"),
    "timed_out": ("timed_out", "30 s"),
    "out_of_memory": ("out_of_memory", "256 MB"),
    "out_of_fuel": ("out_of_fuel", "fuel"),
    "out_of_disk": ("out_of_disk", "wrote more"),
    "stopped": ("violation", "stopped"),
    "not_started": ("not_started", "metier doctor"),
    "busy": ("busy", "try again"),
}


def test_every_ending_has_its_code() -> None:
    assert set(ENDINGS) | {"returned"} == set(get_args(Ending))


@pytest.mark.parametrize("ending", ENDINGS)
def test_each_ending_is_a_failure_of_its_own_with_words_that_help(ending: Ending) -> None:
    fault = Fault(name="ValueError", message="no tea") if ending == "raised" else None
    report = Report(ending=ending, fault=fault, exit_code=3, signal=signal.SIGSEGV.value)
    code, words = ENDINGS[ending]
    said = failed(report)
    assert said.code == code
    assert words in said.message


def test_a_command_gives_what_it_printed_and_its_exit_code() -> None:
    report = Report(ending="returned", exit_code=0, stdout="hot", stderr="warm", truncated=True)
    outcome = outcome_of(trial(Command(argv=("kettle",))), report, sandbox="box")
    assert isinstance(outcome, Completed)
    assert outcome.value == {"stdout": "hot", "stderr": "warm", "exit_code": 0, "truncated": True}


def test_a_command_that_failed_says_what_it_said() -> None:
    said = failed(Report(ending="exited", exit_code=2, stderr="no water\n"), Command(argv=("kettle",)))
    assert said.message == "it ended with exit code 2: no water"


def test_an_http_error_has_its_code_and_detail() -> None:
    request = HttpRequest(method="GET", url="https://tea.example/")
    said = failed(Report(ending="raised", fault=Fault(name="Http404", message="no leaves")), request)
    assert (said.code, said.message) == ("http_error", "Http404: no leaves")


@pytest.mark.parametrize("name", ["PermissionDenied", "PermissionError", "NotCapable"])
def test_a_refusal_that_ended_the_run_is_told_as_one(name: str) -> None:
    fault = Fault(name=name, message="no")
    said = failed(Report(ending="raised", fault=fault, denials=(READ,)))
    assert said.code == "permission_denied"
    assert "/etc/shadow" in said.message
    assert failed(Report(ending="raised", fault=fault)).code == "raised", (
        "the code's word alone is not enough"
    )


def test_what_the_sandbox_saw_comes_with_the_outcome_and_into_the_record(forge: Forge) -> None:
    usage = Usage(seconds=0.5, cpu_seconds=0.25, memory_bytes=7, output_bytes=9, fuel=11)
    report = Report(
        ending="returned",
        value=1,
        usage=usage,
        stdout="said",
        stderr="sighed",
        truncated=True,
        denials=(READ,),
    )
    forge.sandboxes = [Box(report=report)]
    outcome = forge.call()
    assert isinstance(outcome, Completed)
    seen = outcome.run
    assert seen is not None
    assert (seen.sandbox, seen.seconds, seen.memory_bytes, seen.fuel) == ("box", 0.5, 7, 11)
    assert (seen.stdout, seen.stderr, seen.truncated) == ("said", "sighed", True)
    assert [(each.kind, each.detail, each.count) for each in seen.denials] == [("read", "/etc/shadow", 3)]
    ended = forge.records()[-1]
    assert set(ended.payloads) == {"result", "run"}
    with forge.database.reading() as connection:
        query = "SELECT kept FROM audit WHERE seq = ?"
        kept = connection.execute(query, (ended.seq,)).fetchone()[0]
    assert b"/etc/shadow" in kept
    assert b"said" not in kept, "what it printed is not kept unasked"


def test_an_error_of_a_sandbox_itself_is_a_failure_that_shows_nothing_of_it(forge: Forge) -> None:
    async def broken(job: Job) -> Report:
        raise RuntimeError("hunter2")

    forge.sandboxes = [Box(report=broken)]
    outcome = forge.call()
    assert isinstance(outcome, Failed)
    assert outcome.code == "internal"
    assert "hunter2" not in outcome.message
    assert forge.events() == [("skill_execution_started", ""), ("skill_execution_error", "internal")]


# --- denied, and violation


def test_lnx_19_a_violation_is_recorded_and_disables_the_skill_until_a_person_enables_it(
    forge: Forge,
) -> None:
    forge.sandboxes = [Box(report=Report(ending="returned", value=1, violations=(MOUNT,)))]
    outcome = forge.call()
    assert isinstance(outcome, Failed), "what came back beside it is not handed out"
    assert outcome.code == "violation"
    assert "mount" in outcome.message
    assert forge.events() == [
        ("skill_execution_started", ""),
        ("skill_disabled", "violation"),
        ("skill_execution_error", "violation"),
    ]
    listed = forge.machine.catalog().get("tea")
    assert listed is not None
    assert listed.shown == "disabled"
    assert "syscall" in listed.why
    assert "call_1" in listed.why
    forge.sandboxes = [Box()]
    again = forge.call()
    assert isinstance(again, Refused)
    assert again.code == "skill_disabled"
    assert "metier skills enable" in again.remedy
    assert forge.sandboxes[0].jobs == []
    assert isinstance(forge.call(skill="coffee"), Completed), "only that one"
    assert enable(forge.database, "tea", by="human:test")
    assert isinstance(forge.call(), Completed)


def test_lnx_19_other_bytes_under_the_name_stay_disabled_too(forge: Forge) -> None:
    forge.disable("tea", "call_0", "mount")
    folder = write_skill(forge.machine.skills / "tea", body="All new.")
    found = measure(str(folder), now_ns=time.time_ns())
    assert forge.trust.grant(
        "tea", found.digest, permissions=PermissionSet(), by="human:x", how="operator", path=str(folder)
    )
    outcome = forge.call()
    assert isinstance(outcome, Refused)
    assert outcome.code == "skill_disabled"


def test_lnx_19_a_skill_disabled_while_a_call_was_judged_does_not_run(forge: Forge) -> None:
    house = forge.house

    async def late(valid: ValidCall) -> Situation:
        found = await house.look(valid)
        forge.disable("tea", "call_0", "mount")
        return found

    outcome = anyio.run(run, asked(), structs.replace(house, look=late))
    assert isinstance(outcome, Refused)
    assert outcome.code == "skill_disabled"
    assert forge.sandboxes[0].jobs == []
    assert forge.events() == [("skill_execution_blocked", "skill_disabled")]


def test_lnx_19_the_other_runs_of_a_disabled_skill_are_ended_at_once(forge: Forge) -> None:
    async def main() -> list[Outcome]:
        met = anyio.Event()
        began: list[Job] = []
        ended: list[Outcome] = []

        async def behave(job: Job) -> Report:
            began.append(job)
            if len(began) == 2:
                met.set()
            await met.wait()
            if job.arguments.get("bad"):
                return Report(ending="stopped", violations=(MOUNT,))
            await anyio.sleep(30)
            return Report(ending="returned")

        forge.sandboxes = [Box(report=behave)]
        house = forge.house

        async def one(**given: Any) -> None:
            ended.append(await run(asked(**given), house))

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: one())
                tasks.start_soon(lambda: one(bad=True))
        return ended

    ended = anyio.run(main)
    assert sorted(each.code for each in ended if isinstance(each, Failed)) == ["interrupted", "violation"]
    assert all(host.closed for host in forge.hosts)
    assert forge.running.skills == frozenset()


def test_lnx_19_no_run_begins_while_its_skill_is_being_disabled(forge: Forge) -> None:
    """The violation is seen and not written yet: what is called now must not slip through."""
    meanwhile: list[Outcome] = []

    async def bad(job: Job) -> Report:
        return Report(ending="stopped", violations=(MOUNT,))

    def slowly(name: str, call_id: str, why: str, digest: str) -> None:
        forge.sandboxes = [Box()]
        meanwhile.append(anyio.from_thread.run(run, structs.replace(asked(), id="call_2"), house))
        forge.disable(name, call_id, why, digest)

    forge.disabling = slowly
    forge.sandboxes = [Box(report=bad)]
    house = forge.house
    outcome = forge.call()
    assert isinstance(outcome, Failed)
    assert outcome.code == "violation"
    (second,) = meanwhile
    assert isinstance(second, Refused), second
    assert second.code == "skill_disabled"
    assert "metier skills enable" in second.remedy
    assert forge.sandboxes[0].jobs == []


def test_lnx_19_a_run_that_was_announced_and_had_not_begun_does_not_begin(forge: Forge) -> None:
    """Between the intent and the run lies the binding of a first use; here the skill is disabled in just that moment."""
    held = threading.Event()
    write_skill(forge.machine.skills / "new")

    def bind(approved: ApprovedCall) -> bool:
        assert held.wait(10)
        return True

    async def behave(job: Job) -> Report:
        if job.arguments.get("bad"):
            return Report(ending="stopped", violations=(MOUNT,))
        return Report(ending="returned", value="it ran")

    async def main() -> dict[str, Outcome]:
        ended: dict[str, Outcome] = {}
        forge.sandboxes = [Box(report=behave)]

        async def one(number: str, house: House, **given: Any) -> None:
            ended[number] = await run(structs.replace(asked("new", **given), id=number), house)

        async with anyio.create_task_group() as tasks:
            forge.bind = bind
            tasks.start_soon(lambda: one("call_1", forge.house))
            with anyio.fail_after(10):
                while not forge.events():
                    await anyio.sleep(0.01)
            forge.bind = lambda approved: True
            await one("call_2", forge.house, bad=True)
            held.set()
        return ended

    ended = anyio.run(main)
    assert {number: getattr(each, "code", each) for number, each in ended.items()} == {
        "call_1": "interrupted",
        "call_2": "violation",
    }
    assert [job.call_id for job in forge.sandboxes[0].jobs] == ["call_2"]
    assert forge.running.skills == frozenset()


def test_lnx_19_a_run_prepared_before_a_violation_does_not_begin_after_it(forge: Forge) -> None:
    """It was judged while nothing was wrong, and its intent is recorded before the disabling is."""
    prepared, violated, announced = threading.Event(), threading.Event(), threading.Event()

    def slow_opening(digest: str) -> Snapshot | None:
        prepared.set()
        assert violated.wait(10)
        return forge.bundles.open(digest)

    def slow_disabling(name: str, call_id: str, why: str, digest: str) -> None:
        violated.set()
        assert announced.wait(10)
        forge.disable(name, call_id, why, digest)

    async def behave(job: Job) -> Report:
        if job.call_id == "call_2":
            return Report(ending="stopped", violations=(MOUNT,))
        return Report(ending="returned", value="it ran")

    async def main() -> dict[str, Outcome]:
        ended: dict[str, Outcome] = {}
        forge.sandboxes = [Box(report=behave)]

        async def one(number: str, house: House) -> None:
            ended[number] = await run(structs.replace(asked(), id=number), house)

        async with anyio.create_task_group() as tasks:
            forge.opening = slow_opening
            tasks.start_soon(one, "call_1", forge.house)
            assert await to_thread.run_sync(prepared.wait, 10)
            forge.opening, forge.disabling = forge.bundles.open, slow_disabling
            tasks.start_soon(one, "call_2", forge.house)
            with anyio.fail_after(10):
                while not forge.events():
                    await anyio.sleep(0.01)
            announced.set()
        return ended

    ended = anyio.run(main)
    assert {number: getattr(each, "code", each) for number, each in ended.items()} == {
        "call_1": "interrupted",
        "call_2": "violation",
    }
    assert [job.call_id for job in forge.sandboxes[0].jobs] == ["call_2"]


def test_lnx_19_a_violation_counts_at_once_also_while_the_record_cannot_be_written(forge: Forge) -> None:
    elsewhere = sqlite3.connect(forge.path, isolation_level=None, check_same_thread=False)

    async def locked(job: Job) -> Report:
        elsewhere.execute("BEGIN IMMEDIATE")
        return Report(ending="stopped", violations=(MOUNT,))

    async def main() -> None:
        forge.sandboxes = [Box(report=locked)]
        house = forge.house
        await run(asked(), house)
        elsewhere.execute("ROLLBACK")
        assert "tea" not in forge.trust.all().disabled, "else this proves nothing"
        forge.sandboxes = [Box()]
        again = await run(structs.replace(asked(), id="call_2"), house)
        assert isinstance(again, Refused)
        assert again.code == "skill_disabled"
        assert forge.sandboxes[0].jobs == []
        assert forge.running.unsettled
        await forge.running.settle(forge.disable)
        assert "tea" in forge.trust.all().disabled
        assert not forge.running.unsettled
        assert enable(forge.database, "tea", by="human:test")
        assert isinstance(await run(structs.replace(asked(), id="call_3"), forge.house), Completed)

    anyio.run(main)
    elsewhere.close()


def test_a_violation_is_told_also_when_disabling_had_to_wait(forge: Forge) -> None:
    def full(name: str, call_id: str, why: str, digest: str) -> None:
        raise StateError("the disk is full", remedy="Free some space")

    forge.disabling = full
    forge.sandboxes = [Box(report=Report(ending="stopped", violations=(MOUNT,)))]
    outcome = forge.call()
    assert isinstance(outcome, Failed)
    assert outcome.code == "violation"
    assert outcome.run is not None
    assert forge.running.unsettled


@pytest.mark.parametrize(
    "report",
    [
        Report(ending="returned", value=1, denials=(READ, Event(kind="socket", detail="AF_INET"))),
        Report(ending="raised", fault=Fault(name="PermissionError", message="no"), denials=(READ,)),
        Report(ending="raised", fault=Fault(name="FileNotFoundError", message="no such file")),
        Report(ending="exited", exit_code=1, stderr="Permission denied"),
        Report(ending="timed_out"),
        Report(ending="signalled", signal=11),
        # An address that a redirect or a name server came up with: refused and counted, not the skill's doing.
        Report(
            ending="raised",
            fault=Fault(name="Violation", message="127.0.0.1"),
            denials=(Event(kind="egress", detail="redirect to 127.0.0.1"),),
        ),
    ],
)
def test_lnx_20_what_was_only_refused_or_failed_leaves_the_skill_enabled(
    forge: Forge, report: Report
) -> None:
    forge.sandboxes = [Box(report=report)]
    forge.call()
    assert "skill_disabled" not in [event for event, _ in forge.events()]
    listed = forge.machine.catalog().get("tea")
    assert listed is not None
    assert listed.shown == "usable"


def test_a_violation_counts_also_when_the_caller_went_away_meanwhile(forge: Forge) -> None:
    async def main() -> None:
        with anyio.CancelScope() as scope:

            async def behave(job: Job) -> Report:
                scope.cancel()
                return Report(ending="stopped", violations=(MOUNT,))

            forge.sandboxes = [Box(report=behave)]
            await run(asked(), forge.house)

    anyio.run(main)
    assert "skill_disabled" in [event for event, _ in forge.events()]


@pytest.mark.parametrize("watch", [True, False])
def test_lnx_19_what_another_process_disables_is_ended_here_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watch: bool
) -> None:
    machine = Machine(tmp_path)
    write_skill(machine.skills / "tea")
    write_skill(machine.skills / "coffee")
    monkeypatch.setenv("HOME", str(machine.home))
    monkeypatch.delenv("METIER_HOME", raising=False)

    async def main() -> None:
        async with Runtime.open(project=str(machine.project), watch=watch) as runtime:
            with (
                runtime._engine.running.under("coffee") as coffee,
                runtime._engine.running.under("tea") as tea,
            ):
                with Database.open(str(machine.state / "state.db")) as elsewhere:
                    disable(elsewhere, "tea", call_id="call_9", why="mount")
                with anyio.move_on_after(5):
                    await anyio.sleep_forever()
                raise AssertionError("nobody ended it")
            assert (bool(tea.why), bool(coffee.why)) == (True, False)

    anyio.run(main)


def test_what_could_not_be_written_is_written_as_soon_as_it_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path)
    write_skill(machine.skills / "tea")
    write_skill(machine.skills / "coffee")
    monkeypatch.setenv("HOME", str(machine.home))
    monkeypatch.delenv("METIER_HOME", raising=False)

    async def main() -> None:
        async with Runtime.open(project=str(machine.project), watch=False) as runtime:
            runtime._engine.running.bar("tea", "call_9", "mount")
            with anyio.fail_after(5):
                while runtime._engine.running.unsettled:
                    await anyio.sleep(0.02)
            runtime._engine.running.bar(
                "coffee", "call_10", "mount"
            )  # and what is left is written at the end

    anyio.run(main)
    with Database.open(str(machine.state / "state.db")) as database:
        assert set(TrustStore(database).all().disabled) == {"tea", "coffee"}


def test_what_another_process_disables_is_ended_here_when_it_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path)
    write_skill(machine.skills / "tea")
    write_skill(machine.skills / "coffee")
    monkeypatch.setenv("HOME", str(machine.home))
    monkeypatch.delenv("METIER_HOME", raising=False)

    async def main() -> None:
        async with Runtime.open(project=str(machine.project), watch=False) as runtime:
            with (
                runtime._engine.running.under("tea") as tea,
                runtime._engine.running.under("coffee") as coffee,
            ):
                await runtime.reload()
                assert not tea.why
                with Database.open(str(machine.state / "state.db")) as elsewhere:
                    disable(elsewhere, "tea", call_id="call_9", why="mount")
                await runtime.reload()
                assert (bool(tea.why), bool(coffee.why)) == (True, False)
                with anyio.CancelScope(shield=True):
                    outcome = await runtime.call("read_skill", {"name": "tea"})
            assert isinstance(outcome, Refused)
            assert outcome.code == "skill_disabled"

    anyio.run(main)
