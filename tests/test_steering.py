"""People steer what runs, from any process: stop it, cancel it, disable, revoke, answer, and it counts at once.

Where something is said to be seen by another process there are two: commands of their own, or a command and a program that has a
runtime open.
"""

import asyncio
import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import structs

from machine import Machine, write_skill
from metier import Completed, Failed, Pending, Refused
from metier.blocking import SyncRuntime
from metier.catalog.here import owner
from metier.model.approval import Approval
from metier.model.call import Call, Principal, Surroundings
from metier.model.job import Job, Report
from metier.model.outcome import Outcome
from metier.model.role import ROLES, Registered
from metier.pipeline import run
from metier.record.approvals import find
from metier.record.audit import AuditLog
from metier.record.chain import Record
from metier.record.database import Database
from metier.record.deciding import Decider, Undecided, decide
from metier.record.level import set_level
from metier.record.principals import add_principal
from metier.record.verify import verify
from metier.runtime import Runtime
from yard import DECIDER, Yard

ASK = '[[rule]]\ndecision = "ask"\nbecause = "to be sure"\ntool = "read_skill"\n'
READ = '{"name": "tea"}'
SOON = 20.0


@pytest.fixture
def yard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Yard:
    return Yard(tmp_path, monkeypatch)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """With a skill that may be read, which this very program may do too."""
    made = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.delenv("METIER_HOME", raising=False)
    write_skill(made.skills / "tea", body="Boil, then pour.")
    return made


@pytest.fixture
def asking(machine: Machine) -> Machine:
    """Reading a skill has to be asked first."""
    file = machine.state / "policy.toml"
    file.write_text(ASK, encoding="utf-8")
    file.chmod(0o600)
    return machine


def start(machine: Machine, *args: str) -> "subprocess.Popen[str]":
    """A command that goes on while the test does."""
    return subprocess.Popen(
        [str(Path(sys.executable).with_name("metier")), *args],
        cwd=machine.project,
        env=machine.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def started(machine: Machine, *args: str) -> "Iterator[subprocess.Popen[str]]":
    with start(machine, *args) as process:
        try:
            yield process
        finally:
            process.kill()


def until(reached: Callable[[], Any], what: str) -> Any:
    """What it gives, as soon as it gives something."""
    give_up = time.monotonic() + SOON
    while not (found := reached()):
        assert time.monotonic() < give_up, what
        time.sleep(0.05)
    return found


def records(machine: Machine, call_id: str | None = None) -> list[Record]:
    if not (machine.state / "state.db").exists():
        return []
    with Database.open(str(machine.state / "state.db")) as database:
        assert verify(database).ok
        return AuditLog(database).tail(1000, call_id=call_id)


def events(machine: Machine, call_id: str | None = None) -> list[tuple[str, str]]:
    """What the record says about calls."""
    return [(each.event, each.code) for each in records(machine, call_id) if each.call_id]


def under_way(machine: Machine) -> list[dict[str, Any]]:
    if not (machine.state / "state.db").exists():
        return []
    said = machine.metier("calls", "list", "--json").stdout
    return [json.loads(line) for line in said.splitlines()]


def waiting(machine: Machine, *, waited_for: bool = False) -> str:
    """The id of the one request that waits, once it is there."""

    def look() -> str:
        if not (machine.state / "state.db").exists():
            return ""
        found = machine.json("approvals", "list", "--json")
        return next((each["id"] for each in found if each["waited_for"] or not waited_for), "")

    id: str = until(look, "nobody asked")
    return id


@contextmanager
def sleeping(machine: Machine) -> "Iterator[tuple[subprocess.Popen[str], str]]":
    """A call under way in a process of its own, in a real sandbox, and its id."""
    (machine.project / "sleep.py").write_text("import time\ntime.sleep(50)\n", encoding="utf-8")
    with started(machine, "run", "sleep.py", "--json") as process:
        [call] = until(lambda: under_way(machine), "it did not begin")
        assert call["process"] == process.pid
        yield process, call["call_id"]


def said_at_the_end(process: "subprocess.Popen[str]") -> Any:
    out, err = process.communicate(timeout=SOON)
    assert "Traceback" not in out + err, err
    return json.loads(out)


# --- the stop button


@pytest.mark.slow
def test_stop_ends_what_runs_elsewhere_refuses_everything_and_outlives_every_process(
    machine: Machine,
) -> None:
    with sleeping(machine) as (process, call_id):
        began = time.monotonic()
        said = machine.json("stop", "--why", "smoke in the kitchen", "--json")
        assert said == {"stopped": True, "ending": [call_id]}
        outcome = said_at_the_end(process)
        assert time.monotonic() - began < 10
    assert (outcome["outcome"], outcome["code"]) == ("failed", "interrupted")
    assert "smoke in the kitchen" in outcome["message"]
    assert events(machine, call_id)[-1] == ("skill_execution_error", "interrupted")
    assert under_way(machine) == []
    for again in range(2):
        refused = machine.metier("call", "read_skill", READ, check=3).stderr
        assert refused.startswith("Refused (stopped)"), again
    assert "smoke in the kitchen" in refused
    assert "metier resume" in refused
    assert machine.json("resume", "--json") == {"resumed": True}
    machine.metier("call", "read_skill", READ)
    assert machine.json("resume", "--json") == {"resumed": False}
    pressed = [each.event for each in records(machine) if each.event in ("stopped", "resumed")]
    assert pressed == ["stopped", "resumed"]


def hanging(yard: Yard) -> None:
    """What runs here goes on until somebody ends it."""

    async def hang(job: Job) -> Report:
        await anyio.sleep_forever()
        return Report(ending="returned")

    yard.box._report = hang


async def ended_by(yard: Yard, act: Callable[[str], object]) -> tuple[Outcome, Outcome]:
    """How a call ends that somebody else acts on while it runs, and how the next one does."""
    outcomes: list[Outcome] = []

    async with Runtime.open(project=str(yard.machine.project), watch=False) as runtime:

        async def one() -> None:
            outcomes.append(await runtime.call("pour", {"name": "tea"}))

        with anyio.fail_after(SOON):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one)
                while not yard.ran:
                    await anyio.sleep(0.01)
                await anyio.to_thread.run_sync(act, yard.box.jobs[0].call_id)
            yard.box._report = Report(ending="returned", value="done")
            return outcomes[0], await runtime.call("pour", {"name": "tea"})


def steered(yard: Yard, act: Callable[[str], object]) -> tuple[Failed, Outcome]:
    hanging(yard)
    yard._show_tool()
    first, then = anyio.run(ended_by, yard, act)
    assert isinstance(first, Failed)
    assert first.code == "interrupted"
    last = [(each.event, each.code) for each in yard.calls_since(0) if each.call_id == first.call_id][-1]
    assert last == ("skill_execution_error", "interrupted")
    return first, then


def test_stop_reaches_a_call_in_a_program_that_has_a_runtime_open(yard: Yard) -> None:
    said: list[str] = []
    first, then = steered(yard, lambda _: said.append(yard.machine.metier("stop", "--why", "enough").stdout))
    assert "1 running call is being ended" in said[0]
    assert "enough" in first.message
    assert isinstance(then, Refused)
    assert then.code == "stopped"


def test_cancel_ends_this_call_and_no_other(yard: Yard) -> None:
    first, then = steered(yard, lambda call_id: yard.machine.metier("calls", "cancel", call_id))
    assert owner() in first.message
    assert isinstance(then, Completed)


def test_to_disable_a_skill_ends_its_calls_and_refuses_the_next(yard: Yard) -> None:
    _, then = steered(yard, lambda _: yard.machine.metier("skills", "disable", "tea"))
    assert isinstance(then, Refused)
    assert then.code == "skill_disabled"


# --- single calls


@pytest.mark.slow
def test_a_running_call_is_listed_and_can_be_cancelled_from_elsewhere(machine: Machine) -> None:
    with sleeping(machine) as (process, call_id):
        said = machine.metier("calls", "list").stdout
        assert call_id in said
        assert f"process {process.pid}" in said
        machine.metier("calls", "cancel", call_id)
        outcome = said_at_the_end(process)
    assert (outcome["outcome"], outcome["code"]) == ("failed", "interrupted")
    assert f"{owner()} cancelled it" in outcome["message"]
    assert [event for event, _ in events(machine, call_id)] == [
        "skill_execution_started",
        "call_cancelled",
        "skill_execution_error",
    ]
    assert "Nothing is running" in machine.metier("calls", "list").stderr
    machine.metier("calls", "cancel", call_id, check=2)


@pytest.mark.slow
def test_apr_31_a_call_whose_process_was_killed_is_named_and_never_run_again(machine: Machine) -> None:
    with sleeping(machine) as (process, call_id):
        process.kill()
        process.wait(SOON)
    [call] = under_way(machine)
    assert (call["call_id"], call["process"]) == (call_id, None)
    assert "cut off" in machine.metier("calls", "list").stdout
    machine.metier("call", "read_skill", READ)
    found = verify(str(machine.state / "state.db"))
    assert found.ok
    [seq] = found.open_intents
    [record] = [each for each in records(machine) if each.seq == seq]
    assert record.call_id == call_id
    said = machine.metier("audit", "verify", check=None).stdout
    assert f"1 calls began and have no outcome: [{seq}]" in said
    assert [event for event, _ in events(machine, call_id)] == ["skill_execution_started"]


@pytest.mark.slow
def test_rel_10_a_call_that_is_told_to_go_ends_in_time_and_on_the_record(machine: Machine) -> None:
    with sleeping(machine) as (process, call_id):
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(SOON) == 128 + signal.SIGTERM
        assert time.monotonic() - began < 10
    assert events(machine, call_id)[-1] == ("skill_execution_error", "interrupted")
    assert verify(str(machine.state / "state.db")).open_intents == ()


# --- what operators take away while a program has a runtime open


def test_what_one_process_disables_the_next_call_of_another_sees(machine: Machine) -> None:
    with SyncRuntime.open(project=str(machine.project), watch=False) as runtime:
        assert isinstance(runtime.call("read_skill", {"name": "tea"}), Completed)
        machine.metier("skills", "disable", "tea")
        refused = runtime.call("read_skill", {"name": "tea"})
        assert isinstance(refused, Refused)
        assert refused.code == "skill_disabled"
        machine.metier("skills", "enable", "tea")
        assert isinstance(runtime.call("read_skill", {"name": "tea"}), Completed)


def test_what_one_process_stops_the_next_call_of_another_sees(machine: Machine) -> None:
    with SyncRuntime.open(project=str(machine.project), watch=False) as runtime:
        assert isinstance(runtime.call("read_skill", {"name": "tea"}), Completed)
        machine.metier("stop")
        refused = runtime.call("read_skill", {"name": "tea"})
        assert isinstance(refused, Refused)
        assert refused.code == "stopped"
        machine.metier("resume")
        assert isinstance(runtime.call("read_skill", {"name": "tea"}), Completed)


def test_cap_12_a_role_that_is_taken_away_in_mid_session_is_gone_at_the_next_call(machine: Machine) -> None:
    with SyncRuntime.open(project=str(machine.project), watch=False) as runtime:
        assert isinstance(runtime.call("read_skill", {"name": "tea"}), Completed)
        machine.metier("principals", "revoke", "agent:library")
        refused = runtime.call("read_skill", {"name": "tea"})
        assert isinstance(refused, Refused)
        assert refused.code == "forbidden"
        assert "revoked" in refused.reasons[0]


def test_cap_12_a_configuration_that_changes_in_mid_session_counts_at_the_next_call(machine: Machine) -> None:
    with SyncRuntime.open(project=str(machine.project), watch=False) as runtime:
        assert isinstance(runtime.call("read_skill", {"name": "tea"}), Completed)
        (machine.state / "metier.toml").write_text("[budgets.tool]\ncalls = 0\n", encoding="utf-8")
        refused = runtime.call("read_skill", {"name": "tea"})
        assert isinstance(refused, Refused)
        assert refused.code == "budget_exceeded"


# --- what changes while a request waits


@pytest.mark.parametrize("level", ["bounded_auto", "observe", "supervised_auto"])
def test_apr_36_the_trust_level_is_asked_again_when_an_approved_call_runs(yard: Yard, level: Any) -> None:
    with yard.opened() as database:
        set_level(database, "bounded_auto", by=owner())
    pending = yard.approved()
    with yard.opened() as database:
        set_level(database, level, by=owner())
    outcome = yard.with_runtime(lambda runtime: runtime.resume(pending.approval_id))
    if level == "bounded_auto":
        assert isinstance(outcome, Completed), "the positive control: nothing changed"
    else:
        assert isinstance(outcome, Refused)
        assert outcome.code == ("forbidden" if level == "observe" else "approval_void")
    assert yard.ran == (level == "bounded_auto")


def test_apr_36_a_level_lowered_while_nobody_has_decided_counts_too(yard: Yard) -> None:
    with yard.opened() as database:
        set_level(database, "bounded_auto", by=owner())
    pending = yard.queued()
    yard.machine.metier("trust", "set", "observe")
    assert yard.command("approvals", "approve", pending.approval_id).code == "forbidden"
    assert yard.ran == 0


@pytest.mark.parametrize("restarted", [False, True])
def test_apr_30_a_decision_counts_once_whoever_went_away_meanwhile(yard: Yard, restarted: bool) -> None:
    pending = yard.approved()  # by a runtime that is closed
    if restarted:
        yard.machine.metier("approvals", "list")  # a process of its own sees it as well
    first = yard.with_runtime(lambda runtime: runtime.resume(pending.approval_id))
    assert isinstance(first, Completed)
    assert first.call_id == pending.call_id
    assert yard.ran == 1


def test_apr_13_the_second_resolution_runs_nothing(yard: Yard) -> None:
    pending = yard.approved()
    outcomes = [yard.with_runtime(lambda runtime: runtime.resume(pending.approval_id)) for _ in range(3)]
    assert [type(each) for each in outcomes] == [Completed, Refused, Refused]
    assert outcomes[1].code == "approval_void"
    assert yard.ran == 1
    with yard.opened() as database:
        again = decide(database, pending.approval_id, by=DECIDER, decision="approve")
    assert isinstance(again, Undecided)
    assert yard.ran == 1


def test_apr_13_of_many_who_take_up_one_decision_at_once_one_runs_it(yard: Yard) -> None:
    pending = yard.approved()

    async def rush(runtime: Runtime) -> list[Outcome]:
        outcomes: list[Outcome] = []

        async def one() -> None:
            outcomes.append(await runtime.resume(pending.approval_id))

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(one)
        return outcomes

    outcomes = yard.with_runtime(rush)
    assert sum(isinstance(each, Completed) for each in outcomes) == 1
    assert {each.code for each in outcomes if isinstance(each, Refused)} <= {"approval_void", "already_begun"}
    assert yard.ran == 1


@pytest.mark.parametrize("then", ["ask", "deny"])
def test_rules_that_change_while_the_owner_is_asked_count(yard: Yard, then: str) -> None:
    yard.ruled("ask")
    yard.while_asked = lambda: yard.ruled(then)
    how = yard.run_and_answer()
    assert (how.how, how.code) == (("ran", "") if then == "ask" else ("refused", "forbidden"))
    assert yard.ran == (then == "ask")


# --- waiting


def test_who_waits_runs_it_himself_once_it_is_approved_elsewhere(asking: Machine) -> None:
    with started(asking, "call", "read_skill", READ, "--json", "--wait", "50") as process:
        approval = waiting(asking, waited_for=True)
        said = asking.metier("approvals", "approve", approval)
        assert "runs it himself" in said.stderr
        outcome = said_at_the_end(process)
    assert outcome["outcome"] == "completed"
    assert "Boil" in outcome["value"]
    assert [event for event, _ in events(asking, outcome["call_id"])] == [
        "skill_approval_queued",
        "skill_approved",
        "skill_execution_started",
        "skill_executed",
    ]


def test_where_nobody_waits_the_approver_runs_it(asking: Machine) -> None:
    asked = json.loads(asking.metier("call", "read_skill", READ, "--json", check=4).stdout)
    outcome = asking.json("approvals", "approve", asked["approval_id"], "--json")
    assert (outcome["outcome"], outcome["call_id"]) == ("completed", asked["call_id"])
    kinds = [event for event, _ in events(asking, asked["call_id"])]
    assert kinds.count("skill_executed") == 1
    started_by = [each.principal for each in records(asking, asked["call_id"])][-1]
    assert started_by == "agent:cli", "it is still the agent's call, not the approver's"


@pytest.mark.slow
def test_who_waited_and_went_away_leaves_it_to_the_approver(asking: Machine) -> None:
    with started(asking, "call", "read_skill", READ, "--json", "--wait", "50") as process:
        approval = waiting(asking, waited_for=True)
        process.kill()
        process.wait(SOON)
    outcome = asking.json("approvals", "approve", approval, "--json")
    assert outcome["outcome"] == "completed"
    assert [event for event, _ in events(asking)].count("skill_execution_started") == 1


def test_a_no_reaches_who_waits_with_its_word(asking: Machine) -> None:
    with started(asking, "call", "read_skill", READ, "--json", "--wait", "50") as process:
        approval = waiting(asking)
        asking.metier("approvals", "deny", approval, "--word", "not before noon")
        outcome = said_at_the_end(process)
        assert process.returncode == 3
    assert (outcome["outcome"], outcome["code"]) == ("refused", "approval_denied")
    assert outcome["reasons"] == ["it was denied: not before noon"]


def test_who_waited_long_enough_leaves_it_pending(asking: Machine) -> None:
    outcome = json.loads(asking.metier("call", "read_skill", READ, "--json", "--wait", "0.3", check=4).stdout)
    assert outcome["outcome"] == "pending"
    assert waiting(asking) == outcome["approval_id"]


def test_what_nobody_decided_in_time_is_a_no_for_who_waits_and_for_who_comes_late(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = yard.queued(), yard.approved()
    real = time.time
    with monkeypatch.context() as later:
        later.setattr(time, "time", lambda: real() + 16 * 60)
        waited = yard.with_runtime(lambda runtime: runtime.wait_for(first, 1.0))
        late = yard.with_runtime(lambda runtime: runtime.resume(second.approval_id))
        with yard.opened() as database:
            undecided = decide(database, first.approval_id, by=DECIDER, decision="approve")
    assert isinstance(waited, Refused)
    assert waited.code == "approval_expired"
    assert isinstance(late, Refused)
    assert (late.code, late.reasons) == ("approval_expired", ("it was approved, and not used in time",))
    assert isinstance(undecided, Undecided)
    assert undecided.code == "expired"
    assert yard.ran == 0


def test_where_nobody_is_there_an_ask_is_a_no_at_once(asking: Machine) -> None:
    began = time.monotonic()
    said = asking.metier("call", "read_skill", READ, "--unattended", "--wait", "50", check=3).stderr
    assert said.startswith("Refused (approval_required)")
    assert "standing grant" in said
    assert time.monotonic() - began < 20
    assert asking.json("approvals", "list", "--json") == []
    assert events(asking) == [("skill_execution_blocked", "approval_required")]


def test_where_nobody_is_there_an_ask_may_wait_if_so_configured(asking: Machine) -> None:
    (asking.state / "metier.toml").write_text('[approvals]\nunattended = "wait"\n', encoding="utf-8")
    outcome = json.loads(asking.metier("call", "read_skill", READ, "--unattended", "--json", check=4).stdout)
    assert outcome["outcome"] == "pending"
    assert asking.json("approvals", "approve", outcome["approval_id"], "--json")["outcome"] == "completed"


@pytest.mark.slow
def test_a_thousand_pending_calls_hold_no_task_no_thread_and_no_descriptor(yard: Yard) -> None:
    yard.configured(
        "[approvals]\npending_per_principal = 2000\n[budgets.principal]\ncalls = 100000\n"
        "[budgets.tool]\ncalls = 100000\n[budgets.skill]\ncalls = 100000\n"
    )
    yard.always_asked()

    def held() -> tuple[int, int, int]:
        return len(asyncio.all_tasks()), threading.active_count(), len(os.listdir("/proc/self/fd"))

    async def main(runtime: Runtime) -> tuple[Any, Any, list[Outcome]]:
        for number in range(10):  # what is made once is there then
            await runtime.call("pour", {"name": "tea", "note": f"warm {number}"})
        before = held()
        outcomes = [
            await runtime.call("pour", {"name": "tea", "note": str(number)}) for number in range(1000)
        ]
        return before, held(), outcomes

    before, after, outcomes = yard.with_runtime(main)
    assert after == before
    assert all(isinstance(each, Pending) for each in outcomes)
    assert len({each.approval_id for each in outcomes}) == 1000
    listed = json.loads(yard.machine.metier("approvals", "list", "--json").stdout)
    assert len(listed) == 1010
    assert yard.ran == 0


# --- the approver at the terminal


def at_a_terminal(machine: Machine, answers: list[tuple[str, str]], *args: str) -> tuple[int, str]:
    """Run a command at a terminal, answer what it asks, and give its status and everything it said."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("metier")), *args],
        cwd=machine.project,
        env={**machine.environ, "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    said, left, give_up, seen = "", list(answers), time.monotonic() + 30, 0
    try:
        while time.monotonic() < give_up:
            ready, _, _ = select.select([ours], [], [], 0.1)
            if ready:
                try:
                    data = os.read(ours, 65_536)
                except OSError:  # the other side is closed
                    break
                if not data:
                    break
                said += data.decode("utf-8", "replace")
            if left and left[0][0] in said[seen:]:
                seen = len(said)
                os.write(ours, left.pop(0)[1].encode())
        status = process.wait(max(0.1, give_up - time.monotonic()))
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert left == [], (said, left)
    assert "Traceback" not in said, said
    return status, said


def test_whoever_sits_at_the_terminal_is_shown_everything_and_says_once(asking: Machine) -> None:
    status, said = at_a_terminal(asking, [("[o]nce", "o\n")], "call", "read_skill", READ)
    assert status == 0
    for part in ("read_skill", "agent:cli", '"name": "tea"', "to be sure", "Boil, then pour."):
        assert part in said, part
    assert [event for event, _ in events(asking)] == [
        "skill_approval_queued",
        "skill_approved",
        "skill_execution_started",
        "skill_executed",
    ]
    status, said = at_a_terminal(asking, [("[o]nce", "l\n")], "call", "read_skill", READ)
    assert status == 4, "once was once"


def test_a_no_at_the_terminal_takes_a_word_along(asking: Machine) -> None:
    status, said = at_a_terminal(
        asking, [("[d]eny", "d\n"), ("A word for whoever asked", "not today\n")], "call", "read_skill", READ
    )
    assert status == 3
    assert "it was denied: not today" in said
    assert [event for event, _ in events(asking)] == ["skill_approval_queued", "skill_rejected"]


@pytest.mark.parametrize("typed", ["l\n", "\n", "\x04"], ids=["later", "nothing", "end of input"])
def test_later_leaves_it_waiting_for_somebody_elsewhere(asking: Machine, typed: str) -> None:
    status, _ = at_a_terminal(asking, [("[l]ater", typed)], "call", "read_skill", READ)
    assert status == 4
    outcome = asking.json("approvals", "approve", waiting(asking), "--json")
    assert outcome["outcome"] == "completed"


def test_always_at_the_terminal_shows_the_grant_first_and_the_next_call_is_not_asked(asking: Machine) -> None:
    status, said = at_a_terminal(
        asking, [("[a]lways", "a\n"), ("Give it?", "y\n")], "call", "read_skill", READ
    )
    assert status == 0
    assert "This standing grant will be given" in said
    asking.metier("call", "read_skill", READ)
    [grant] = asking.json("grants", "list", "--json")
    asking.metier("grants", "revoke", grant["id"])
    asking.metier("call", "read_skill", READ, check=4)


def test_where_the_input_is_no_terminal_nobody_is_asked_there(asking: Machine) -> None:
    done = asking.metier("call", "read_skill", READ, stdin="o\no\n", check=4)
    assert "[o]nce" not in done.stdout + done.stderr
    assert [event for event, _ in events(asking)] == ["skill_approval_queued"]


# --- four eyes


def test_four_eyes_a_second_person_decides_and_then_it_runs(yard: Yard) -> None:
    yard.configured("[approvals]\nfour_eyes = true\n")
    pending = yard.queued()
    assert "second person" in yard.machine.metier("approvals", "approve", pending.approval_id, check=1).stderr
    other = Registered(id="human:second", kind="human", roles=frozenset({"approver"}))
    with yard.opened() as database:
        assert add_principal(database, other, by=owner(), owner=owner()) == ""
        second = Decider(id="human:second", kind="human", rights=ROLES["approver"])
        made = decide(database, pending.approval_id, by=second, decision="approve", four_eyes=True)
    assert isinstance(made, Approval)
    assert isinstance(yard.with_runtime(lambda runtime: runtime.resume(pending.approval_id)), Completed)
    assert yard.ran == 1


# --- the caller's own word


def spoken(
    yard: Yard, *words: tuple[int | None, Any], session: str = "s-1", note: str = "one"
) -> list[Outcome]:
    """What becomes of calls of one act, each in its turn and with the caller's word as given."""

    async def main(runtime: Runtime) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for turn, confirmed in words:
            flag = {} if confirmed is None else {"confirmed": confirmed}
            call = Call(
                id=f"call_{os.urandom(6).hex()}",
                principal=runtime._principal,
                tool="pour",
                arguments={"name": "tea", "note": note, **flag},
                surroundings=Surroundings(session=session, turn=turn),
            )
            outcomes.append(await run(call, runtime._engine.house()))
        return outcomes

    made: list[Outcome] = yard.with_runtime(main)
    return made


def codes(outcomes: list[Outcome]) -> list[str]:
    return [each.code if isinstance(each, Refused) else type(each).__name__.lower() for each in outcomes]


@pytest.fixture
def confirming(yard: Yard) -> Yard:
    yard.tool = structs.replace(yard.tool, confirmation="Pour the tea?")
    return yard


NO = "confirmation_required"


def test_a_bound_word_counts_after_the_question_and_the_callers_turn_and_once(confirming: Yard) -> None:
    outcomes = spoken(confirming, (1, None), (1, True), (2, True), (2, True), (3, True))
    assert codes(outcomes) == [NO, NO, "completed", NO, "completed"]
    first = outcomes[0]
    assert isinstance(first, Refused)
    assert first.prompt == "Pour the tea?"
    assert "not had his turn" in outcomes[1].reasons[0]  # type: ignore[union-attr]
    assert confirming.ran == 2


def test_a_bound_word_nobody_asked_for_counts_for_nothing(confirming: Yard) -> None:
    assert codes(spoken(confirming, (1, True))) == [NO]
    assert confirming.ran == 0


def test_a_bound_word_is_for_this_act_and_this_conversation(confirming: Yard) -> None:
    spoken(confirming, (1, None), note="one")
    assert codes(spoken(confirming, (2, True), note="two")) == [NO]
    assert codes(spoken(confirming, (2, True), note="one", session="s-2")) == [NO]
    assert confirming.ran == 0
    assert codes(spoken(confirming, (2, True), note="one")) == ["completed"]


def test_where_the_door_knows_no_turns_the_word_is_taken_as_asserted(confirming: Yard) -> None:
    assert codes(spoken(confirming, (None, None), (None, False), (None, True))) == [NO, NO, "completed"]


def test_apr_04_the_callers_word_never_stands_in_for_an_approval(confirming: Yard) -> None:
    confirming.tool = structs.replace(confirming.tool, risk="high")
    outcomes = spoken(confirming, (None, True), (1, None), (2, True))
    assert codes(outcomes) == ["pending", NO, "pending"]
    assert confirming.ran == 0
    last = outcomes[-1]
    assert isinstance(last, Pending)
    confirming.approve(last.approval_id)
    done = confirming.with_runtime(lambda runtime: runtime.resume(last.approval_id))
    assert isinstance(done, Completed), "both words were given"
    assert confirming.ran == 1
    assert "confirmed" not in confirming.box.jobs[0].arguments


def test_apr_26_a_prompt_that_lies_is_shown_as_the_skills_own_words_after_what_it_does(yard: Yard) -> None:
    yard.tool = structs.replace(yard.tool, risk="high", confirmation="Just looking, shall I?")
    [pending] = spoken(yard, (None, True))
    assert isinstance(pending, Pending)
    said = yard.machine.metier("approvals", "show", pending.approval_id).stdout
    assert '"Just looking, shall I?" (its own words)' in said
    assert said.index("act, high risk") < said.index('"note": "one"') < said.index("Just looking")
    with yard.opened() as database:
        found = find(database, pending.approval_id)
    assert found is not None
    assert found.shown is not None
    assert (found.shown.effect, found.shown.risk) == ("act", "high")


def test_nobody_but_the_asker_himself_confirms(confirming: Yard) -> None:
    """A word given in one agent's conversation is no word in another agent's, whatever they call it."""
    spoken(confirming, (1, None))
    with confirming.opened() as database:
        other = Registered(id="agent:other", kind="agent", on_behalf_of=owner(), roles=frozenset({"agent"}))
        assert add_principal(database, other, by=owner(), owner=owner()) == ""

    async def main(runtime: Runtime) -> Outcome:
        call = Call(
            id="call_other",
            principal=Principal(id="agent:other", kind="agent", on_behalf_of=owner()),
            tool="pour",
            arguments={"name": "tea", "note": "one", "confirmed": True},
            surroundings=Surroundings(session="s-1", turn=2),
        )
        return await run(call, runtime._engine.house())

    assert codes([confirming.with_runtime(main)]) == [NO]
    assert confirming.ran == 0
