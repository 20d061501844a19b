"""However approvals are asked, decided, used, taken back and left to expire, and by however many at once: what happens is
what a model of four lines says. `METIER_TORTURE=1` runs a hundred thousand operations."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from approval_kit import AGENT, OWNER, ask, changed, claim, claim_again, later, state, wanted
from metier.model.approval import Approval
from metier.model.call import AuthorizedCall
from metier.record.approval_clock import Moment, moment
from metier.record.database import Database
from metier.record.deciding import decide, expire_due, revoke_approval, withdraw
from metier.record.verify import verify

TORTURE = bool(os.environ.get("METIER_TORTURE"))
OPEN = ("pending", "approved")


class Desk(RuleBasedStateMachine):
    """One desk, driven in any order, beside a dictionary that knows what should be."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = str(Path(self.folder.name) / "state" / "state.db")
        self.database = Database.open(self.path)
        self.now: Moment = moment()
        self.acts: dict[str, AuthorizedCall] = {}
        self.model: dict[str, str] = {}
        self.until: dict[str, float] = {}
        self.agains = 0

    def some(self, number: int) -> str | None:
        return list(self.model)[number % len(self.model)] if self.model else None

    @rule(seconds=st.integers(10, 900), agent=st.sampled_from(["agent:a", "agent:b"]))
    def asks(self, seconds: int, agent: str) -> None:
        act = wanted(call_id=f"call_{len(self.model)}", principal=changed(AGENT, id=agent))
        approval = ask(self.database, act, now=self.now, seconds=seconds, cap=1000)
        self.acts[approval], self.model[approval] = act, "pending"
        self.until[approval] = self.now.running + seconds

    @rule(number=st.integers(0, 50), decision=st.sampled_from(["approve", "deny"]))
    def decides(self, number: int, decision: Any) -> None:
        if (approval := self.some(number)) is None:
            return
        made = decide(self.database, approval, by=OWNER, decision=decision, now=self.now, use_within=300)
        assert isinstance(made, Approval) == (self.model[approval] == "pending")
        if isinstance(made, Approval):
            self.model[approval] = {"approve": "approved", "deny": "denied"}[decision]
            self.until[approval] = self.now.running + 300

    @rule(number=st.integers(0, 50), right=st.booleans())
    def claims(self, number: int, right: bool) -> None:
        if (approval := self.some(number)) is None:
            return
        act = self.acts[approval] if right else wanted({"id": 1}, call_id=self.acts[approval].valid.call.id)
        problem = claim(self.database, approval, act, now=self.now)
        assert (problem == "") == (self.model[approval] == "approved" and right), problem
        if not problem:
            self.model[approval] = "spent"

    @rule(number=st.integers(0, 50))
    def asks_again(self, number: int) -> None:
        """The same act under another id finds a yes of this very act that is unused, and uses it up; else there is none."""
        if (approval := self.some(number)) is None:
            return
        asked = self.acts[approval].valid.call
        act = wanted(call_id=f"again_{self.agains}", principal=asked.principal)
        self.agains += 1
        word = claim_again(self.database, act, now=self.now)
        there = [
            each
            for each, state in self.model.items()
            if state == "approved" and self.acts[each].valid.call.principal.id == asked.principal.id
        ]
        assert (word is not None) == bool(there)
        if word is not None:
            assert word in there
            self.model[word] = "spent"

    @rule(number=st.integers(0, 50))
    def revokes(self, number: int) -> None:
        if (approval := self.some(number)) is None:
            return
        # What ran out and was not swept yet may still be taken back; it runs neither way.
        before = self.model[approval]
        made = revoke_approval(self.database, approval, by=OWNER, now=self.now)
        if before == "approved":
            assert isinstance(made, Approval)
        if isinstance(made, Approval):
            assert before in ("approved", "expired")
            self.model[approval] = "void"

    @rule(number=st.integers(0, 50))
    def withdraws(self, number: int) -> None:
        if (approval := self.some(number)) is None:
            return
        before = self.model[approval]
        who = self.acts[approval].valid.call.principal.id
        assert not isinstance(withdraw(self.database, approval, principal="agent:c", now=self.now), Approval)
        made = withdraw(self.database, approval, principal=who, now=self.now)
        if before in OPEN:
            assert isinstance(made, Approval)
        if isinstance(made, Approval):
            assert before in (*OPEN, "expired")
            self.model[approval] = "void"

    @rule(seconds=st.sampled_from([1, 60, 299, 301, 899, 901]), wall=st.booleans(), running=st.booleans())
    def time_goes_on(self, seconds: int, wall: bool, running: bool) -> None:
        self.now = later(self.now, seconds, wall=wall, running=running)

    @rule()
    def sweeps(self) -> None:
        expire_due(self.database, self.now)

    @rule()
    def restarts(self) -> None:
        self.database.close()
        self.database = Database.open(self.path)

    @invariant()
    def the_desk_is_as_the_model_says(self) -> None:
        for approval, before in self.model.items():
            found = state(self.database, approval, self.now)
            if before in OPEN and found == "expired":
                self.model[approval] = "expired"  # which clock said so is for others to test
            else:
                assert found == before
            if before in OPEN and self.now.running >= self.until[approval]:
                assert found == "expired"

    def teardown(self) -> None:
        found = verify(self.path)
        self.database.close()
        self.folder.cleanup()
        assert found.ok, found.problem


@pytest.mark.slow
def test_rel_18_in_any_order_of_operations_the_desk_does_what_the_model_says() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Desk,
        settings=settings(
            max_examples=400 if TORTURE else 25,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


# Several processes at once. Each tells what it did and was told, and when; then an order is looked for in which one after
# the other would have been told the same.

WORKER = """
import json, random, sys, time
from approval_kit import OWNER, claim, later, wanted
from metier.model.approval import Approval
from metier.record.approval_clock import moment
from metier.record.database import Database
from metier.record.deciding import decide, revoke_approval, withdraw
chance = random.Random(int(sys.argv[2]))

def said(made):
    return "yes" if isinstance(made, Approval) else made.state or made.code

def act(approval, call, word):
    match word:
        case "approve" | "deny":
            return said(decide(database, approval, by=OWNER, decision=word))
        case "expire":
            return said(decide(database, approval, by=OWNER, decision="approve", now=later(moment(), 2000)))
        case "revoke":
            return said(revoke_approval(database, approval, by=OWNER))
        case "withdraw":
            return said(withdraw(database, approval, principal="agent:a"))
        case "claim":
            return claim(database, approval, wanted(call_id=call))

with Database.open(sys.argv[1], patience=50.0) as database:
    print("ready", flush=True)
    for line in sys.stdin:
        block, done = json.loads(line), []
        for _ in range(8 * len(block)):
            approval, call = chance.choice(block)
            word = chance.choice(["approve", "approve", "deny", "claim", "claim", "revoke", "withdraw", "expire"])
            began = time.monotonic_ns()
            answer = act(approval, call, word)
            done.append((approval, word, answer, began, time.monotonic_ns()))
        print(json.dumps(done), flush=True)
"""


class Operation(NamedTuple):
    word: str
    answer: str
    began: int
    ended: int


OVER = {
    "denied": "it was denied",
    "expired": "it has expired",
    "spent": "it was used already",
    "void": "it was taken back",
}


def told(before: str, word: str) -> tuple[str, str]:
    """The whole model: what an operation answers in a state, and the state after it."""
    match word:
        case "claim":
            if before == "approved":
                return "", "spent"
            return OVER.get(before, "nobody has decided yet"), before
        case "expire":
            return ("expired", "expired") if before in OPEN else (before, before)
        case "withdraw":
            return ("yes", "void") if before in OPEN else (before, before)
        case "revoke":
            return ("yes", "void") if before == "approved" else (before, before)
        case _:
            after = {"approve": "approved", "deny": "denied"}[word]
            return ("yes", after) if before == "pending" else (before, before)


def one_order_explains(histories: list[list[Operation]], end: str) -> bool:
    """Whether the operations can be put into one order that keeps to time and in which every answer is right."""
    start = (tuple(0 for _ in histories), "pending")
    known, waiting = {start}, [start]
    while waiting:
        places, now = waiting.pop()
        left = [
            history[place] for history, place in zip(histories, places, strict=True) if place < len(history)
        ]
        if not left:
            if now == end:
                return True
            continue
        first_end = min(each.ended for each in left)
        for index, (history, place) in enumerate(zip(histories, places, strict=True)):
            if place == len(history) or history[place].began > first_end:
                continue
            answer, after = told(now, history[place].word)
            following = (tuple(each + (number == index) for number, each in enumerate(places)), after)
            if answer == history[place].answer and following not in known:
                known.add(following)
                waiting.append(following)
    return False


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[list["subprocess.Popen[str]"]]:
    path = str(tmp_path / "state" / "state.db")
    Database.open(path).close()
    began = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, path, str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for seed in range(4)
    ]
    yield began
    for each in began:
        each.kill()
        each.communicate()


@pytest.mark.slow
def test_rel_18_what_several_processes_did_at_once_could_have_happened_one_after_the_other(
    tmp_path: Path, workers: list["subprocess.Popen[str]"]
) -> None:
    path = str(tmp_path / "state" / "state.db")
    for each in workers:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    operations = 0
    with Database.open(path, patience=50.0) as database:
        for number in range(625 if TORTURE else 12):
            calls = [f"call_{number}_{each}" for each in range(5)]
            block = [(ask(database, wanted(call_id=call), cap=10_000), call) for call in calls]
            for each in workers:
                assert each.stdin is not None
                each.stdin.write(json.dumps(block) + "\n")
                each.stdin.flush()
            done = [json.loads(each.stdout.readline()) for each in workers if each.stdout is not None]
            for approval, _ in block:
                histories = [[Operation(*rest) for id, *rest in mine if id == approval] for mine in done]
                operations += sum(map(len, histories))
                assert one_order_explains(histories, state(database, approval)), histories
    assert operations == (100_000 if TORTURE else 1_920)
    found = verify(path)
    assert found.ok, found.problem


def test_the_search_for_an_order_finds_what_cannot_have_happened() -> None:
    """Two that both ran on one decision, and one that ran on a decision made only later."""
    yes, ran = Operation("approve", "yes", 0, 1), Operation("claim", "", 2, 3)
    assert one_order_explains([[yes, ran]], "spent")
    assert not one_order_explains([[yes, ran], [Operation("claim", "", 2, 3)]], "spent")
    assert not one_order_explains([[ran], [Operation("approve", "yes", 4, 5)]], "spent")
    assert one_order_explains([[Operation("approve", "yes", 0, 5)], [Operation("claim", "", 1, 4)]], "spent")
