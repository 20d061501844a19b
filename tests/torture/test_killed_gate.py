"""What was told is true after any crash and with any failing disk: nothing told is lost, nothing runs twice or ungated, and what
was cut off is named.

Killing and full disks are done to programs of their own; the n-th statement that fails is a connection of ours that says so.
"""

import itertools
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio
import pytest
from anyio import to_thread

from metier.errors import MetierError, RecordError
from metier.model.approval import Approval
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.record.approvals import approvals_in, find
from metier.record.database import Database
from metier.record.deciding import decide
from metier.record.verify import verify
from metier.runtime import Runtime
from yard import DECIDER, Yard

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # its programs share modules with it

from gate_judge import ungated, unkept, unnamed  # noqa: E402
from gate_place import ROOM, RULE  # noqa: E402

RUNS = int(os.environ.get("METIER_TORTURE_RUNS", "50")) if os.environ.get("METIER_TORTURE") else 50
SEED = int(os.environ.get("METIER_TORTURE_SEED", "1"))
SECONDS = 60 + 2 * RUNS
FREE: Final = {"name": "tea", "note": "free"}
ASKED: Final = {"name": "tea", "note": "asked"}

pytestmark = pytest.mark.slow


def program(name: str, *arguments: str, around: tuple[str, ...] = ()) -> dict[str, Any]:
    """What a program of this folder prints."""
    done = subprocess.run(
        [*around, sys.executable, str(HERE / name), *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# --- killed


@pytest.fixture(scope="module")
def storm(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return program("gate_storm.py", str(RUNS), str(SEED), str(tmp_path_factory.mktemp("storm")))


@pytest.mark.timeout(SECONDS)
def test_rel_01_killed_at_any_moment_nothing_told_is_lost_and_nothing_runs_twice(
    storm: dict[str, Any],
) -> None:
    assert storm["problems"] == []
    assert storm["rounds"] == RUNS
    assert storm["killed"] == 2 * RUNS
    # It was a storm: everything that can be told was told, many times.
    counts = {what: storm[what] for what in ("done", "refused", "pending", "approved", "denied", "taken")}
    assert min(counts.values()) >= RUNS // 10, counts


@pytest.mark.timeout(SECONDS)
def test_apr_31_who_was_killed_between_two_steps_left_calls_that_are_named_and_never_run_again(
    storm: dict[str, Any],
) -> None:
    assert storm["interrupted"] >= RUNS // 10, "calls were cut off, and each is named by the verification"
    assert storm["problems"] == []


@pytest.mark.timeout(SECONDS)
def test_apr_30_what_was_approved_before_everybody_was_killed_is_taken_up_by_who_comes_after(
    storm: dict[str, Any],
) -> None:
    assert storm["later"] >= RUNS // 10
    assert storm["problems"] == []


def test_the_judge_finds_what_runs_without_an_intent(tmp_path: Path) -> None:
    """The positive control: the same storm, where nothing is written down before it runs."""
    found = program("gate_storm.py", "6", str(SEED), str(tmp_path), "careless")
    assert any("no intent is recorded" in each for each in found["problems"]), found


INTENT = {"seq": 2, "event": "skill_execution_started", "call_id": "c", "evidence": "apr_1"}
OUTCOME = {"seq": 3, "event": "skill_executed", "call_id": "c", "about": 2}
QUEUED = {"seq": 1, "event": "skill_approval_queued", "call_id": "c", "approval": "apr_1"}
APPROVED = {"seq": 4, "event": "skill_approved", "approval": "apr_1"}


def test_the_judge_finds_everything_that_is_not_as_it_was_promised() -> None:
    whole = [QUEUED, APPROVED, INTENT, OUTCOME]
    told = [("pending", "apr_1", "c"), ("approved", "apr_1"), ("done", "c")]
    assert unkept(told, whole) == ungated(["c"], whole) == unnamed(whole, set()) == []
    for missing in whole:
        assert len(unkept(told, [each for each in whole if each is not missing])) == 1
    assert unkept([("refused", "d"), ("denied", "apr_1")], whole) != []
    assert ungated(["c", "c"], whole) == ["c ran 2 times"]
    assert ungated(["d"], whole) == ["d ran, and no intent is recorded"]
    assert ungated(["c"], [QUEUED, INTENT]) == ["c ran, and nobody said yes"]
    assert ungated(["c"], [*whole, {**APPROVED, "event": "skill_rejected"}]) == ["c ran, and nobody said yes"]
    assert ungated([], [QUEUED, INTENT, {**INTENT, "call_id": "d"}]) == ["apr_1 was used twice"]
    assert unnamed([INTENT], set()) == ["record 2 has no outcome, and is not named"]
    assert unnamed([INTENT], {2}) == []


# --- the n-th statement fails


class Fault(NamedTuple):
    name: str
    code: int
    """Of SQLite."""
    lasting: bool
    """Whether everything fails from then on."""
    undone: bool
    """Whether SQLite rolled the transaction back by itself, as it does for some."""
    late: bool = False
    """Only commits fail, and what they say is wrong: it is on the disk."""


FAULTS: Final = (
    Fault("one I/O error", 10, lasting=False, undone=False),
    Fault("one I/O error that undid the transaction", 10, lasting=False, undone=True),
    Fault("a full disk from then on", 13, lasting=True, undone=True),
    Fault("I/O errors from then on", 10, lasting=True, undone=False),
)


class Faulty:
    """A connection whose n-th statement fails."""

    def __init__(self, real: sqlite3.Connection) -> None:
        self._real = real
        self._left = 0
        self._fault: Fault | None = None
        self.hit = 0

    def arm(self, number: int, fault: Fault) -> None:
        self._left, self._fault, self.hit = number, fault, 0

    def disarm(self) -> None:
        self._fault = None

    def execute(self, statement: str, *given: Any) -> Any:
        self._count(statement)
        return self._real.execute(statement, *given)

    def executemany(self, statement: str, *given: Any) -> Any:
        self._count(statement)
        return self._real.executemany(statement, *given)

    def _count(self, statement: str) -> None:
        fault = self._fault
        if fault is None or statement == "ROLLBACK" or statement.startswith("PRAGMA busy_timeout"):
            return  # neither needs the disk
        if fault.late and statement != "COMMIT":
            return
        self._left -= 1
        if self._left == 0 or (self._left < 0 and fault.lasting):
            self.hit += 1
            if fault.late:
                self._real.execute("COMMIT")
            if fault.undone and self._real.in_transaction:
                self._real.execute("ROLLBACK")
            error = sqlite3.OperationalError("disk I/O error" if fault.code == 10 else "disk is full")
            error.sqlite_errorcode = fault.code
            raise error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@pytest.fixture
def yard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Yard:
    made = Yard(tmp_path, monkeypatch)
    made.configured(ROOM)
    file = made.machine.state / "policy.toml"
    file.write_text(RULE, encoding="utf-8")
    file.chmod(0o600)
    return made


Act = Callable[[Runtime, Any], Awaitable[Any]]
Prepare = Callable[[Runtime], Awaitable[Any]]
Check = Callable[[Runtime, Any, Any], Awaitable[None]]


def for_every_statement(
    yard: Yard, fault: Fault, *, prepare: Prepare, act: Act, check: Check, least: int = 4
) -> Counter[str]:
    """Do the act with the first statement failing, then the second, until none of its statements is left to fail. Gives how often
    it ended in which way. After each, with a disk that works again, a call runs and the record verifies."""
    ends: Counter[str] = Counter()

    async def main(runtime: Runtime) -> None:
        database = runtime._engine.state.database
        assert database._connection is not None
        faulty = Faulty(database._connection)
        database._connection = faulty  # type: ignore[assignment]
        number = 0
        while True:
            number += 1
            given = await prepare(runtime)
            faulty.arm(number, fault)
            try:
                made = await act(runtime, given)
            finally:
                faulty.disarm()
            ends[name_of(made)] += 1
            await check(runtime, given, made)
            again = await runtime.call("pour", FREE)
            assert isinstance(again, Completed), (number, made, again)
            found = verify(yard.path)
            assert found.ok, (number, found)
            if not faulty.hit:
                break
            assert number < 400
        assert number >= least

    yard.with_runtime(main)
    return ends


def name_of(made: Any) -> str:
    code = "" if isinstance(made, Exception) else getattr(made, "code", "")
    return str(code or type(made).__name__)


async def nothing(runtime: Runtime) -> None:
    return None


def recorded(yard: Yard, call_id: str) -> list[str]:
    return [each.event for each in yard.calls_since(0) if each.call_id == call_id]


def ran(yard: Yard, call_id: str) -> int:
    return sum(job.call_id == call_id for job in yard.box.jobs)


def as_promised(yard: Yard, made: Outcome) -> None:
    """What holds for a call however it ended."""
    events, times = recorded(yard, made.call_id), ran(yard, made.call_id)
    if isinstance(made, Refused):
        assert times == 0
        assert made.code in ("record_unavailable", "setup_unusable"), made
        assert "skill_executed" not in events
        return
    assert isinstance(made, Completed | Failed), made
    assert "skill_execution_started" in events, "nothing runs that was not recorded first"
    assert times <= 1
    if isinstance(made, Completed):
        assert (times, events[-1]) == (1, "skill_executed")
        return
    assert made.code == "unrecorded", made
    named = {each.seq for each in yard.calls_since(0) if each.call_id == made.call_id}
    assert named & set(verify(yard.path).open_intents), "it is named as cut off"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_rel_02_whichever_statement_of_a_call_fails_it_is_refused_or_done(yard: Yard, fault: Fault) -> None:
    async def check(runtime: Runtime, given: Any, made: Outcome) -> None:
        as_promised(yard, made)

    ends = for_every_statement(
        yard, fault, prepare=nothing, act=lambda runtime, _: runtime.call("pour", FREE), check=check
    )
    assert ends["record_unavailable"] >= 3
    assert ends["unrecorded"] >= 1, "the outcome's own statements failed too"
    assert ends["Completed"] >= 1


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_apr_32_where_a_request_cannot_be_stored_nobody_waits_and_nothing_runs(
    yard: Yard, fault: Fault
) -> None:
    async def check(runtime: Runtime, given: Any, made: Outcome) -> None:
        with yard.opened() as database, database.reading() as connection:
            stored = {each.call_id for each in approvals_in(connection)}
        assert ran(yard, made.call_id) == 0
        if isinstance(made, Pending):
            assert made.call_id in stored
            assert recorded(yard, made.call_id) == ["skill_approval_queued"]
        else:
            assert isinstance(made, Refused), made
            assert made.code in ("record_unavailable", "setup_unusable")
            assert made.call_id not in stored
            assert "skill_approval_queued" not in recorded(yard, made.call_id)

    ends = for_every_statement(
        yard, fault, prepare=nothing, act=lambda runtime, _: runtime.call("pour", ASKED), check=check
    )
    assert ends["record_unavailable"] >= 3
    assert ends["Pending"] >= 1


def test_rel_02_a_commit_that_is_told_to_have_failed_and_did_not_runs_nothing_ungated_or_twice(
    yard: Yard,
) -> None:
    late = Fault("late", 10, lasting=False, undone=False, late=True)

    async def once(runtime: Runtime, given: Any, made: Outcome) -> None:
        id = made.call_id or given.call_id
        events = recorded(yard, id)
        assert ran(yard, id) == (0 if isinstance(made, Refused) else 1)
        assert ran(yard, id) == 0 or "skill_execution_started" in events
        if given is not None:
            assert isinstance(await runtime.resume(given.approval_id), Refused), (
                "it began, as far as anybody knows"
            )
            assert ran(yard, id) <= 1

    calls = for_every_statement(
        yard, late, prepare=nothing, act=lambda runtime, _: runtime.call("pour", FREE), check=once, least=2
    )
    assert calls == {"record_unavailable": 1, "unrecorded": 1, "Completed": 1}
    taken = for_every_statement(
        yard,
        late,
        prepare=approved,
        act=lambda runtime, given: runtime.resume(given.approval_id),
        check=once,
        least=2,
    )
    assert taken == calls


_rounds: Final = itertools.count()


async def queued(runtime: Runtime) -> Pending:
    # Each another act: the same, asked again, runs on a yes that an earlier round left unused.
    made = await runtime.call("pour", {**ASKED, "note": f"asked {next(_rounds)}"})
    assert isinstance(made, Pending), made
    return made


async def approved(runtime: Runtime) -> Pending:
    made = await queued(runtime)
    assert isinstance(decide_now(runtime, made, "approve"), Approval)
    return made


def decide_now(runtime: Runtime, pending: Pending, word: Any) -> Any:
    try:
        return decide(runtime._engine.state.database, pending.approval_id, by=DECIDER, decision=word)
    except MetierError as error:
        return error


def state(yard: Yard, pending: Pending) -> str:
    with yard.opened() as database:
        found = find(database, pending.approval_id)
    assert found is not None
    return found.state


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_apr_33_whatever_cannot_be_recorded_is_not_approved(yard: Yard, fault: Fault) -> None:
    async def act(runtime: Runtime, pending: Pending) -> Any:
        return await to_thread.run_sync(decide_now, runtime, pending, "approve")

    async def check(runtime: Runtime, pending: Pending, made: Any) -> None:
        yes = [
            each
            for each in yard.calls_since(0)
            if each.event == "skill_approved" and each.call_id == pending.call_id
        ]
        assert isinstance(made, Approval | MetierError), made
        assert (state(yard, pending), len(yes)) == (
            ("approved", 1) if isinstance(made, Approval) else ("pending", 0)
        )
        outcome = await runtime.resume(pending.approval_id)
        assert isinstance(outcome, Completed if isinstance(made, Approval) else Refused)
        assert ran(yard, pending.call_id) == isinstance(made, Approval)

    ends = for_every_statement(yard, fault, prepare=queued, act=act, check=check)
    assert ends["StateError"] >= 3
    assert ends["Approval"] >= 1


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_apr_32_a_decision_is_used_up_with_the_record_of_its_use_or_not_at_all(
    yard: Yard, fault: Fault
) -> None:
    async def check(runtime: Runtime, pending: Pending, made: Outcome) -> None:
        if isinstance(made, Refused) and made.code == "approval_void" and not made.call_id:
            return  # what it was to run could not even be read
        as_promised(yard, made)
        begun = "skill_execution_started" in recorded(yard, pending.call_id)
        assert (state(yard, pending) == "spent") == begun
        again = await runtime.resume(pending.approval_id)
        assert isinstance(again, Refused if begun else Completed)
        assert ran(yard, pending.call_id) <= 1

    async def act(runtime: Runtime, pending: Pending) -> Any:
        try:
            return await runtime.resume(pending.approval_id)
        except MetierError as error:
            return Refused(call_id="", code="approval_void", reasons=(str(error),))

    ends = for_every_statement(yard, fault, prepare=approved, act=act, check=check)
    assert ends["record_unavailable"] >= 3
    assert ends["Completed"] >= 1


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_no_never_waits_for_the_record_and_what_fails_altogether_leaves_it_undecided(
    yard: Yard, fault: Fault
) -> None:
    async def act(runtime: Runtime, pending: Pending) -> Any:
        return await to_thread.run_sync(decide_now, runtime, pending, "deny")

    async def check(runtime: Runtime, pending: Pending, made: Any) -> None:
        now = state(yard, pending)
        assert now in ("denied", "pending")
        assert (now == "denied") == isinstance(made, Approval | RecordError), made
        assert isinstance(await runtime.resume(pending.approval_id), Refused)
        assert ran(yard, pending.call_id) == 0
        if isinstance(made, RecordError):
            assert "deny it once more" in verify(yard.path).problem
            assert isinstance(decide_now(runtime, pending, "deny"), Approval)
        assert ("skill_rejected" in recorded(yard, pending.call_id)) == (now == "denied")

    ends = for_every_statement(yard, fault, prepare=queued, act=act, check=check)
    assert ends["Approval"] >= 1
    assert ends["StateError" if fault.lasting else "RecordError"] >= 3


# --- a disk that is full


def holds(found: dict[str, Any]) -> None:
    assert found["problems"] == []
    assert found["ends"]["record_unavailable"] >= 5
    assert found["ends"]["completed"] >= 50


def test_rel_05_where_files_cannot_grow_calls_are_refused_and_with_room_again_they_run(
    tmp_path: Path,
) -> None:
    holds(program("gate_full.py", "limit", str(max(60, RUNS // 2)), str(SEED), str(tmp_path / "state")))


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes a small disk")
def test_rel_05_on_a_disk_that_is_full_calls_are_refused_and_with_room_again_they_run(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f'mount -t tmpfs -o size=24m none {disk} && exec "$@"'
    around = ("unshare", "--mount", "--propagation", "private", "sh", "-c", mount, "sh")
    found = program(
        "gate_full.py", "disk", str(min(200, max(60, RUNS // 2))), str(SEED), str(disk), around=around
    )
    holds(found)


# --- many at once


def test_rel_12_two_hundred_callers_who_wait_all_get_what_was_decided_once(yard: Yard) -> None:
    """The short form: everybody asks at once, an approver of another connection decides about fifty a second."""
    callers = 200

    def approve_all(stopped: list[bool]) -> int:
        decided = 0
        with Database.open(yard.path) as database:
            while not stopped:
                with database.reading() as connection:
                    open_ones = [each for each in approvals_in(connection) if each.state == "pending"]
                for each in open_ones[:10]:
                    word: Any = "deny" if decided % 4 == 3 else "approve"
                    assert isinstance(decide(database, each.id, by=DECIDER, decision=word), Approval)
                    decided += 1
                time.sleep(0.1)
        return decided

    async def main(runtime: Runtime) -> tuple[list[Outcome], int]:
        outcomes: list[Outcome] = []
        stopped: list[bool] = []
        decided: list[int] = []

        async def one() -> None:
            outcomes.append(await runtime.call("pour", ASKED, wait=45))

        async def approver() -> None:
            decided.append(await to_thread.run_sync(approve_all, stopped))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(approver)
            async with anyio.create_task_group() as asking:
                for _ in range(callers):
                    asking.start_soon(one)
            stopped.append(True)
        return outcomes, decided[0]

    outcomes, decided = yard.with_runtime(main)
    kinds = Counter(name_of(each) for each in outcomes)
    assert kinds == {"Completed": callers * 3 // 4, "approval_denied": callers // 4}
    assert decided == callers
    assert Counter(job.call_id for job in yard.box.jobs) == Counter(
        each.call_id for each in outcomes if isinstance(each, Completed)
    ), "each once, and no other"
    assert verify(yard.path).open_intents == ()
