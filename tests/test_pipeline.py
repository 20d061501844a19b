"""Nothing runs that was not recorded first, and whatever ran leaves its outcome in the record."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from msgspec import structs

from gatehouse import judged
from machine import Machine, write_skill
from metier.catalog.bundle import BundleStore
from metier.catalog.hold import bind, declared_by, hold
from metier.errors import BundleError, StateError
from metier.gate.situation import Situation, look
from metier.host.running import Running
from metier.model.call import ApprovedCall, Call, Principal, ValidCall
from metier.model.entry import InlineCode, Operation
from metier.model.outcome import Completed, Failed, Outcome, Refused
from metier.model.ports import OperationFunction
from metier.model.skill import Tool
from metier.pipeline import House, run
from metier.prepare import Workshop
from metier.record.audit import AuditLog
from metier.record.chain import Record
from metier.record.database import Database
from metier.record.recorder import Recorder
from metier.record.trust import TrustStore
from metier.record.verify import verify
from metier.record.writer import Writer

ASK = Principal(id="agent:test", kind="agent", on_behalf_of="human:test")
POUR = Tool(
    name="pour",
    description="",
    parameters={
        "type": "object",
        "properties": {"name": {"type": "string"}, "note": {}},
        "required": ["name"],
    },
    subject="name",
    effect="read",
    risk="low",
    entry=Operation(module="tea", operation="pour"),
)
BOIL = structs.replace(POUR, name="boil", entry=InlineCode(language="python", source="result = 100"))
STEEP = structs.replace(POUR, name="steep", entry=Operation(module="tea", operation="steep"))
SPILL = structs.replace(POUR, name="spill", effect="act")
FLOOD = structs.replace(SPILL, name="flood", minimum_trust="bounded_auto")
TOOLS = (POUR, BOIL, STEEP, SPILL, FLOOD)


class Kitchen:
    """A house made by hand: a real record, real trust in a real skill, and one operation that counts its runs."""

    def __init__(self, machine: Machine) -> None:
        settings = machine.settings()
        self.path = settings.database
        self.database = Database.open(self.path, patience=0.05)
        self.log = AuditLog(self.database)
        self.trust = TrustStore(self.database)
        self.bundles = BundleStore(settings.bundles)
        self.catalog = machine.catalog()
        self.ran = 0
        self.work: Callable[[ApprovedCall], Completed | Failed] = lambda approved: Completed(
            call_id=approved.authorized.valid.call.id, value="poured"
        )
        self.after_look: Callable[[], object] = lambda: None
        self.before_work: Callable[[], object] = lambda: None

    def find(self, module: str, operation: str) -> OperationFunction | None:
        self.before_work()
        return self._count if (module, operation) == ("tea", "pour") else None

    async def _count(self, approved: ApprovedCall) -> Completed | Failed:
        self.ran += 1
        return await to_thread.run_sync(self.work, approved)

    async def look(self, valid: ValidCall) -> Situation:
        found = look(valid, catalog=self.catalog, trust=self.trust, bundles=self.bundles)
        self.after_look()
        return judged(valid, found)

    @property
    def house(self) -> House:
        return House(
            tools={each.name: each for each in TOOLS},
            catalog=self.catalog,
            look=self.look,
            operations=self,
            recorder=Recorder(
                self.log, Writer(self.database), tools=[each.name for each in TOOLS].__contains__
            ),
            workshop=Workshop(snapshot=self.bundles.open, running=Running()),
        )

    def call(self, tool: str = "pour", **arguments: Any) -> Outcome:
        return anyio.run(run, asked(tool, **arguments), self.house)

    def trusted(self, name: str) -> None:
        """What a person does with `metier skills trust`."""
        listed = self.catalog.get(name)
        assert listed is not None
        held = hold(listed, trust=self.trust, bundles=self.bundles, now_ns=time.time_ns())
        assert held.bytes is not None
        snapshot = self.bundles.open(held.bytes.digest)
        assert snapshot is not None
        declared = declared_by(snapshot, listed.manifest, folder=listed.folder)
        assert declared is not None
        assert bind(listed, declared, held.bytes, trust=self.trust, how="operator", by="human:test")

    def records(self) -> list[Record]:
        """What the file holds about the call, read as another process would."""
        with Database.open(self.path) as database:
            assert verify(database).ok
            return AuditLog(database).tail(100, call_id="call_1")

    def events(self) -> list[tuple[str, str]]:
        return [(record.event, record.code) for record in self.records()]


_attempts = count(1)


def asked(tool: str = "pour", **arguments: Any) -> Call:
    return Call(
        id="call_1",
        attempt=next(_attempts),
        principal=ASK,
        tool=tool,
        arguments={"name": "tea", **arguments},
    )


@pytest.fixture
def kitchen(tmp_path: Path) -> Iterator[Kitchen]:
    machine = Machine(tmp_path)
    write_skill(machine.skills / "tea", body="Boil, then pour.")
    write_skill(machine.skills / "coffee", metadata='{"openclaw": {"requires": {"bins": ["grinder"]}}}')
    write_skill(machine.skills / "mine", disable_model_invocation="true")
    write_skill(machine.project / "skills" / "theirs")
    made = Kitchen(machine)
    made.trusted("tea")
    yield made
    made.database.close()


# --- the order of things


def test_the_intent_is_on_the_disk_before_the_work_begins_and_the_outcome_after_it(kitchen: Kitchen) -> None:
    seen: list[tuple[str, str]] = []

    def work(approved: ApprovedCall) -> Completed:
        seen.extend(kitchen.events())
        assert [record.call_id for record in kitchen.log.open_intents()] == ["call_1"]
        return Completed(call_id="call_1", value="poured")

    kitchen.work = work
    assert kitchen.call() == Completed(call_id="call_1", value="poured")
    assert kitchen.ran == 1
    assert seen == [("skill_execution_started", "")]
    started, ended = kitchen.records()
    assert (started.event, ended.event) == ("skill_execution_started", "skill_executed")
    assert ended.about == started.seq
    assert (started.principal, started.on_behalf_of) == ("agent:test", "human:test")
    assert (started.tool, started.skill) == ("pour", "tea")
    assert started.skill_digest.startswith("sha256:")
    assert started.reasons == ("reading a trusted skill is disclosure, not an act",)
    assert kitchen.log.open_intents() == []


def test_the_work_is_given_the_call_as_it_was_judged(kitchen: Kitchen) -> None:
    given: list[ApprovedCall] = []

    def work(approved: ApprovedCall) -> Completed:
        given.append(approved)
        return Completed(call_id="call_1", value=None)

    kitchen.work = work
    kitchen.call(note=1.0)
    [approved] = given
    assert approved.evidence == "policy"
    assert approved.authorized.valid.arguments == {"name": "tea", "note": 1}
    found = approved.authorized.bytes
    assert found is not None
    assert found.digest == kitchen.records()[0].skill_digest


# --- what is refused


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("poor", {}, "unknown_tool"),
        ("pour", {"name": "no-such"}, "unknown_skill"),
        ("pour", {"name": 7}, "invalid_arguments"),
        ("pour", {"name": "theirs"}, "not_trusted"),
        ("pour", {"name": "coffee"}, "skill_unavailable"),
        ("pour", {"name": "mine"}, "forbidden"),
        ("flood", {}, "forbidden"),
    ],
)
def test_a_refused_call_runs_nothing_and_is_exactly_one_record(
    kitchen: Kitchen, tool: str, arguments: dict[str, Any], code: str
) -> None:
    outcome = kitchen.call(tool, **arguments)
    assert isinstance(outcome, Refused)
    assert (outcome.call_id, outcome.code) == ("call_1", code)
    assert outcome.reasons
    assert kitchen.ran == 0
    assert kitchen.events() == [("skill_execution_blocked", code)]


def closed(kitchen: Kitchen) -> object:
    return kitchen.database.close()


def read_only(kitchen: Kitchen) -> object:
    with kitchen.database.reading() as connection:
        return connection.execute("PRAGMA query_only=ON")


def full(kitchen: Kitchen) -> object:
    with kitchen.database.transaction() as connection:
        free: int = connection.execute("PRAGMA freelist_count").fetchone()[0]
        connection.execute("INSERT INTO seen VALUES (zeroblob(?), '', '', '', '')", (4096 * free,))
    with kitchen.database.reading() as connection:
        return connection.execute("PRAGMA max_page_count=1").fetchone()


def without_a_table(kitchen: Kitchen) -> object:
    with kitchen.database.transaction() as connection:
        return connection.execute("ALTER TABLE open_intent RENAME TO elsewhere")


HINDRANCES = [closed, read_only, full, without_a_table]
LONG = "x" * 60_000


@pytest.mark.parametrize("hinder", HINDRANCES)
def test_without_a_recorded_intent_nothing_runs(
    kitchen: Kitchen, hinder: Callable[[Kitchen], object]
) -> None:
    kitchen.after_look = lambda: hinder(kitchen)
    outcome = kitchen.call(note=LONG)
    assert isinstance(outcome, Refused)
    assert outcome.code == "record_unavailable"
    assert "could not be recorded" in outcome.reasons[0]
    assert outcome.remedy
    assert kitchen.ran == 0
    if hinder is not without_a_table:
        assert kitchen.records() == []


def test_with_a_record_that_works_the_same_call_does_run(kitchen: Kitchen) -> None:
    assert isinstance(kitchen.call(note=LONG), Completed)
    assert kitchen.ran == 1


def test_while_another_process_holds_the_record_nothing_runs(kitchen: Kitchen) -> None:
    other = sqlite3.connect(kitchen.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    outcome = kitchen.call()
    assert isinstance(outcome, Refused)
    assert (outcome.code, kitchen.ran) == ("record_unavailable", 0)
    other.execute("ROLLBACK")
    other.close()
    assert isinstance(kitchen.call(), Completed)


@pytest.mark.parametrize("hinder", [closed, read_only, full])
def test_a_refusal_that_cannot_be_recorded_is_still_a_refusal_and_keeps_its_reason(
    kitchen: Kitchen, hinder: Callable[[Kitchen], object]
) -> None:
    kitchen.after_look = lambda: hinder(kitchen)
    outcome = kitchen.call("flood", note="x" * 15_000)  # as much as is kept of a refusal, so it needs room
    assert isinstance(outcome, Refused)
    assert outcome.code == "record_unavailable"
    assert "asks for trust level" in outcome.reasons[0]
    assert "could not be recorded" in outcome.reasons[1]
    assert kitchen.ran == 0


def test_facts_that_cannot_be_gathered_are_a_refusal_with_a_way_out(kitchen: Kitchen) -> None:
    def fail() -> None:
        raise StateError("the disk is gone", remedy="Put it back")

    kitchen.after_look = fail
    outcome = kitchen.call()
    assert isinstance(outcome, Refused)
    assert "the disk is gone" in outcome.reasons
    assert outcome.remedy == "Put it back"
    assert kitchen.ran == 0
    assert kitchen.events() == [("skill_execution_blocked", outcome.code)]


# --- what changes while a call is judged


def test_trust_taken_back_after_the_look_still_counts(kitchen: Kitchen) -> None:
    kitchen.after_look = lambda: kitchen.trust.revoke("tea", by="human:test")
    outcome = kitchen.call()
    assert isinstance(outcome, Refused)
    assert outcome.code == "not_trusted"
    assert "trust" in outcome.reasons[0]
    assert kitchen.ran == 0
    assert kitchen.events() == [("skill_execution_blocked", "not_trusted")]


def test_a_call_that_comes_too_late_is_told_the_way_out_like_any_other(kitchen: Kitchen) -> None:
    kitchen.after_look = lambda: kitchen.trust.revoke("tea", by="human:test")
    late = kitchen.call()
    kitchen.after_look = lambda: None
    plain = kitchen.call()
    assert isinstance(late, Refused)
    assert isinstance(plain, Refused)
    assert "metier skills trust" in plain.remedy
    assert late.remedy == plain.remedy


def test_trust_taken_back_before_a_first_use_still_counts(kitchen: Kitchen, tmp_path: Path) -> None:
    write_skill(Machine(tmp_path).skills / "milk")
    kitchen.catalog = Machine(tmp_path).catalog()
    assert isinstance(kitchen.call(name="milk"), Completed), "the operator vouches for the place"
    write_skill(Machine(tmp_path).skills / "sugar")
    kitchen.catalog = Machine(tmp_path).catalog()
    kitchen.after_look = lambda: kitchen.trust.revoke("sugar", by="human:test")
    outcome = kitchen.call(name="sugar")
    assert isinstance(outcome, Refused)
    assert (outcome.code, kitchen.ran) == ("not_trusted", 1)


def test_trust_given_to_other_bytes_does_not_stretch_to_these(kitchen: Kitchen) -> None:
    def swap() -> None:
        with kitchen.database.transaction() as connection:
            connection.execute("UPDATE trust SET digest = 'sha256:other' WHERE name = 'tea'")

    kitchen.after_look = swap
    outcome = kitchen.call()
    assert isinstance(outcome, Refused)
    assert (outcome.code, kitchen.ran) == ("not_trusted", 0)


# --- how it ends


def test_what_an_operation_reports_as_failed_is_recorded_as_failed(kitchen: Kitchen) -> None:
    failed = Failed(call_id="call_1", code="not_found", message="no such leaf")
    kitchen.work = lambda approved: failed
    assert kitchen.call() == failed
    assert kitchen.events() == [("skill_execution_started", ""), ("skill_execution_error", "not_found")]


def test_an_error_of_ours_inside_an_operation_is_a_failure_with_its_words(kitchen: Kitchen) -> None:
    def work(approved: ApprovedCall) -> Completed:
        raise BundleError("the snapshot is gone", remedy="Call again")

    kitchen.work = work
    assert kitchen.call() == Failed(
        call_id="call_1", code="internal", message="the snapshot is gone. Call again"
    )
    assert kitchen.events() == [("skill_execution_started", ""), ("skill_execution_error", "internal")]


@pytest.mark.parametrize("error", [ValueError, KeyError, RecursionError, MemoryError, TimeoutError])
def test_any_other_error_inside_an_operation_is_a_failure_too_and_a_value(
    kitchen: Kitchen, error: type[Exception]
) -> None:
    def work(approved: ApprovedCall) -> Completed:
        raise error("hunter2")

    kitchen.work = work
    outcome = kitchen.call()
    assert isinstance(outcome, Failed)
    assert (outcome.call_id, outcome.code) == ("call_1", "internal")
    assert "hunter2" not in outcome.message, "nobody knows what such an error quotes"
    assert kitchen.events() == [("skill_execution_started", ""), ("skill_execution_error", "internal")]
    assert kitchen.ran == 1


def test_an_operation_that_no_module_offers_is_a_failure_and_is_recorded(kitchen: Kitchen) -> None:
    outcome = kitchen.call("steep")
    assert isinstance(outcome, Failed)
    assert (outcome.code, "'steep'" in outcome.message) == ("internal", True)
    assert kitchen.events() == [("skill_execution_started", ""), ("skill_execution_error", "internal")]


def test_an_entry_that_no_sandbox_can_run_is_refused_before_anything_is_announced(kitchen: Kitchen) -> None:
    outcome = kitchen.call("boil")
    assert isinstance(outcome, Refused)
    assert outcome.code == "sandbox_unavailable"
    assert "metier doctor" in outcome.remedy
    assert kitchen.events() == [("skill_execution_blocked", "sandbox_unavailable")]


@pytest.mark.parametrize("hinder", [closed, read_only, full])
def test_a_result_that_cannot_be_recorded_is_not_handed_out(
    kitchen: Kitchen, hinder: Callable[[Kitchen], object]
) -> None:
    def work(approved: ApprovedCall) -> Completed:
        hinder(kitchen)
        return Completed(call_id="call_1", value=LONG)

    kitchen.work = work
    outcome = kitchen.call()
    assert isinstance(outcome, Failed)
    assert outcome.code == "unrecorded"
    assert kitchen.ran == 1
    assert kitchen.events() == [("skill_execution_started", "")]
    with Database.open(kitchen.path) as database:
        assert [record.call_id for record in AuditLog(database).open_intents()] == ["call_1"]


# --- the caller goes away


class Slow:
    """Work that begins, and ends when it is let go."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.go = threading.Event()

    def __call__(self, approved: ApprovedCall) -> Completed:
        self.began.set()
        assert self.go.wait(20)
        return Completed(call_id="call_1", value="poured")


def test_a_call_cancelled_while_it_runs_leaves_how_it_ended(kitchen: Kitchen) -> None:
    kitchen.work = slow = Slow()

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, asked(), kitchen.house)
            assert await to_thread.run_sync(slow.began.wait, 10)
            tasks.cancel_scope.cancel()
            slow.go.set()

    anyio.run(main)
    # The work cannot be stopped halfway, so it came to its end, and that is what the record says.
    assert kitchen.events() == [("skill_execution_started", ""), ("skill_executed", "")]
    assert kitchen.log.open_intents() == []


def test_a_call_cancelled_before_its_work_began_is_recorded_as_interrupted(kitchen: Kitchen) -> None:
    async def main() -> None:
        with anyio.CancelScope() as scope:
            kitchen.before_work = scope.cancel
            await run(asked(), kitchen.house)
            pytest.fail("it was cancelled")
        assert scope.cancelled_caught

    anyio.run(main)
    assert kitchen.ran == 0
    assert kitchen.events() == [("skill_execution_started", ""), ("skill_execution_error", "interrupted")]
    assert kitchen.log.open_intents() == []


def test_a_plain_task_that_is_cancelled_leaves_an_outcome_while_the_work_still_runs(kitchen: Kitchen) -> None:
    kitchen.work = slow = Slow()

    async def main() -> None:
        task = asyncio.ensure_future(run(asked(), kitchen.house))
        assert await asyncio.to_thread(slow.began.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert kitchen.events() == [("skill_execution_started", ""), ("skill_execution_error", "interrupted")]
        slow.go.set()

    asyncio.run(main())
    assert kitchen.ran == 1
    assert kitchen.log.open_intents() == []
