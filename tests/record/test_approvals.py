"""A request is asked once, decided once by somebody who may, and used once by the very act it was about."""

import json
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec
import pytest

from approval_kit import (
    AGENT,
    CWD,
    OWNER,
    approve,
    approved_once,
    ask,
    ask_in,
    begin,
    changed,
    claim,
    later,
    printer,
    state,
    undecided,
    wanted,
)
from metier.errors import RecordError, StateError
from metier.model.approval import Approval
from metier.model.call import Principal
from metier.model.role import ROLES, Registered
from metier.record.approval_clock import Moment, moment
from metier.record.approval_ending import void_all
from metier.record.approvals import (
    UNKNOWN,
    approvals_in,
    claim_problem,
    find,
    keep_waiting,
    queue_problem,
    stored_call,
)
from metier.record.audit import AuditLog
from metier.record.chain import Act, append
from metier.record.database import Database
from metier.record.deciding import Decider, decide, expire_due, revoke_approval, withdraw
from metier.record.principals import add_principal, revoke_principal
from metier.record.verify import verify

APPROVER = Decider(id="human:ann", kind="human", rights=ROLES["approver"])


def events(log: AuditLog) -> list[str]:
    return [each.event for each in log.tail(1000)]


def denied(database: Database, approval: str, by: Decider = OWNER, **more: object) -> Approval:
    made = decide(database, approval, by=by, decision="deny", **more)  # type: ignore[arg-type]
    assert isinstance(made, Approval), made
    return made


# One whole life


def test_a_request_is_asked_approved_and_used_once_on_the_record(
    path: str, database: Database, log: AuditLog
) -> None:
    approval = ask(database)
    found = find(database, approval)
    assert found is not None
    assert found.shown is not None
    assert (found.state, found.principal, found.shown.arguments) == (
        "pending",
        "agent:a",
        {"id": 7, "folder": "/notes"},
    )
    assert claim(database, approval) == "nobody has decided yet"
    made = approve(database, approval)
    assert (made.state, made.decided_by, made.scope) == ("approved", "human:owner", "once")
    assert claim(database, approval) == ""
    assert state(database, approval) == "spent"
    assert events(log) == ["skill_approval_queued", "skill_approved", "skill_execution_started"]
    assert verify(path).ok


def test_what_was_asked_is_gone_when_it_is_over(database: Database, on_disk: Callable[[], bytes]) -> None:
    ends: list[Callable[[str], object]] = [
        lambda approval: (approve(database, approval), claim(database, approval, secret)),
        lambda approval: denied(database, approval),
        lambda approval: (approve(database, approval), revoke_approval(database, approval, by=OWNER)),
        lambda approval: withdraw(database, approval, principal="agent:a"),
        lambda approval: expire_due(database, later(moment(), 1000)),
    ]
    secret = wanted({"id": "the-words-nobody-else-may-know"})
    for number, end in enumerate(ends):
        approval = ask(database, secret)
        assert b"the-words-nobody" in on_disk(), "it can be shown while it is open"
        end(approval)
        with database.reading() as connection:
            key, call, shown = connection.execute(
                "SELECT key, call, shown FROM approval WHERE id = ?", (approval,)
            ).fetchone()
        assert not any(key + call + shown), number
    database.flush()
    assert b"the-words-nobody" not in on_disk()


# Who and what may claim


def test_apr_12_the_stored_call_runs_whatever_a_client_sends_back(database: Database) -> None:
    rich = Principal(id="agent:a", kind="agent", on_behalf_of="human:owner", roles=frozenset({"owner"}))
    approval = ask(database, wanted(principal=rich))
    assert stored_call(database, approval) is None, "nobody approved it yet"
    approve(database, approval)
    call = stored_call(database, approval)
    assert call is not None
    assert call.arguments == {"id": 7, "folder": "/notes"}
    assert call.approval == approval
    assert call.principal == AGENT, "rights are looked up when it runs; none are stored"
    assert "changed since" in claim(database, approval, wanted({"id": 8, "folder": "/notes"}))
    assert claim(database, approval) == ""
    assert stored_call(database, approval) is None


def test_apr_13_a_decision_used_once_is_refused_the_second_time(database: Database) -> None:
    approval = approved_once(database)
    assert claim(database, approval) == ""
    assert claim(database, approval) == "it was used already"


CLAIMING = """
import sys
from concurrent.futures import ThreadPoolExecutor
from approval_kit import claim
from metier.record.database import Database
with Database.open(path, patience=50.0) as database:
    print("ready", flush=True)
    approval = sys.stdin.readline().strip()
    with ThreadPoolExecutor(25) as threads:
        said = list(threads.map(lambda _: claim(database, approval), range(25)))
print(said.count(""), said.count("it was used already"), flush=True)
"""


def test_apr_14_of_a_hundred_claims_from_four_processes_exactly_one_wins(
    path: str, database: Database, start: Callable[[str], "subprocess.Popen[str]"]
) -> None:
    approval = approved_once(database)
    others = [start(CLAIMING) for _ in range(4)]
    for each in others:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in others:
        assert each.stdin is not None
        each.stdin.write(f"{approval}\n")
        each.stdin.flush()
    counts = [each.communicate(timeout=50)[0].split() for each in others]
    assert sum(int(won) for won, _ in counts) == 1
    assert sum(int(lost) for _, lost in counts) == 99
    assert verify(path).ok


def test_apr_17_an_id_that_is_none_and_one_of_somebody_else_sound_the_same(database: Database) -> None:
    approval = approved_once(database)
    other = wanted(principal=Principal(id="agent:b", kind="agent", on_behalf_of="human:owner"))
    for wrong in ("apr_" + "0" * 24, "apr_%", "", "'; DROP TABLE approval"):
        assert claim(database, wrong) == UNKNOWN
    assert claim(database, approval, other) == UNKNOWN
    assert claim(database, approval) == ""
    nobody = changed(APPROVER, rights=frozenset[str]())
    words = {
        undecided(decide(database, one, by=nobody, decision="approve")).reason
        for one in ("apr_" + "0" * 24, ask(database, wanted(call_id="call_2")))
    }
    assert len(words) == 1, "who may not decide learns nothing about which ids there are"
    withdrawn = undecided(withdraw(database, ask(database, wanted(call_id="call_3")), principal="agent:b"))
    assert withdrawn == undecided(withdraw(database, "apr_none", principal="agent:b"))


def test_apr_17_another_session_or_skill_does_not_get_in_on_a_known_id(database: Database) -> None:
    approval = approved_once(database)
    assert claim(database, approval, wanted(session="session-2"))
    assert claim(database, approval, wanted(skill=None))
    assert claim(database, approval) == ""


# Who may decide


@pytest.mark.parametrize("kind", ["agent", "skill", "trigger"])
def test_apr_18_what_is_no_human_decides_nothing(database: Database, kind: str) -> None:
    approval = ask(database)
    for id in ("agent:a", "agent:b", "human:owner"):
        by = Decider(id=id, kind=kind, rights=ROLES["owner"])  # type: ignore[arg-type]
        assert undecided(decide(database, approval, by=by, decision="approve")).code == "forbidden"
    assert state(database, approval) == "pending"
    approve(database, approval)


def test_apr_18_who_answers_over_the_requesters_connection_is_taken_for_the_requester(
    database: Database, log: AuditLog
) -> None:
    approval = ask(database, wanted(caller="socket-9"))
    for way in (
        changed(OWNER, session="session-1"),
        changed(OWNER, connection="session-1"),
        changed(OWNER, connection="socket-9"),
    ):
        assert undecided(decide(database, approval, by=way, decision="approve")).code == "own_request"
    assert events(log).count("decision_refused") == 3
    approve(database, approval, by=changed(OWNER, session="session-2", connection="socket-3"))


def test_apr_18_a_human_confirms_his_own_call_on_the_record_unless_four_eyes_are_asked_for(
    database: Database, log: AuditLog
) -> None:
    own = wanted(principal=Principal(id="human:owner", kind="human"))
    approval = ask(database, own)
    assert (
        undecided(decide(database, approval, by=OWNER, decision="approve", four_eyes=True)).code
        == "own_request"
    )
    approve(database, approval)
    assert log.tail(1)[0].reasons == ("human:owner confirms his own call",)
    through_an_agent = ask(database, wanted(call_id="call_2"))
    made = decide(database, through_an_agent, by=OWNER, decision="approve", four_eyes=True)
    assert undecided(made).code == "own_request", "an agent of his is no second person"
    approve(database, through_an_agent, by=APPROVER, four_eyes=True)


def test_apr_19_without_the_right_to_approve_nobody_approves(database: Database) -> None:
    approval = ask(database)
    for role, may in (("viewer", False), ("agent", False), ("approver", True)):
        by = Decider(id="human:ann", kind="human", rights=ROLES[role])  # type: ignore[index]
        made = decide(database, approval, by=by, decision="approve")
        assert isinstance(made, Approval) == may, role


def test_apr_20_nobody_grants_more_than_he_holds(database: Database) -> None:
    settings = changed(wanted().valid.tool, permission="settings:write")
    approval = ask(database, wanted(tool=settings))
    refused = undecided(decide(database, approval, by=APPROVER, decision="approve"))
    assert (refused.code, "settings:write" in refused.reason) == ("forbidden", True)
    approve(database, approval, by=OWNER)


def test_apr_20_only_who_may_trust_gives_a_grant_for_good(database: Database) -> None:
    from metier.record.standing import proposed_grant

    approval = ask(database)
    found = find(database, approval)
    assert found is not None
    assert found.shown is not None
    grant = proposed_grant(found.shown, "always", approval=approval, by=APPROVER.id)
    assert not isinstance(grant, str)
    made = decide(database, approval, by=APPROVER, decision="approve", scope="always", grant=grant)
    assert "skills:trust" in undecided(made).reason
    operator = changed(APPROVER, rights=ROLES["operator"])
    approve(database, approval, by=operator, scope="always", grant=grant)


def test_apr_21_who_was_revoked_while_it_waited_no_longer_decides(database: Database) -> None:
    ann = Registered(id="human:ann", kind="human", roles=frozenset({"approver"}))
    assert add_principal(database, ann, by="human:owner", owner="human:owner") == ""
    first, second = ask(database), ask(database, wanted(call_id="call_2"))
    approve(database, first, by=APPROVER)
    revoke_principal(database, "human:ann", by="human:owner", owner="human:owner")
    # His door looked him up before that and still says what he could do then.
    assert undecided(decide(database, second, by=APPROVER, decision="approve")).code == "forbidden"
    assert undecided(decide(database, second, by=APPROVER, decision="deny")).code == "forbidden"
    assert undecided(revoke_approval(database, first, by=APPROVER)).code == "forbidden"
    assert state(database, second) == "pending"


def test_apr_21_rights_that_were_taken_since_do_not_count(database: Database) -> None:
    ann = Registered(id="human:ann", kind="human", roles=frozenset({"viewer"}))
    assert add_principal(database, ann, by="human:owner", owner="human:owner") == ""
    approval = ask(database)
    assert undecided(decide(database, approval, by=APPROVER, decision="approve")).code == "forbidden"


# The first word counts


@pytest.mark.parametrize("first", ["approve", "deny", "expire", "withdraw", "claim"])
def test_apr_15_the_first_word_counts_and_the_second_is_recorded(
    path: str, database: Database, log: AuditLog, first: str
) -> None:
    now = moment()
    approval = ask(database, now=now)
    then = now
    if first in ("approve", "claim"):
        approve(database, approval, now=now)
    if first == "claim":
        assert claim(database, approval, now=now) == ""
    if first == "deny":
        denied(database, approval)
    if first == "withdraw":
        withdraw(database, approval, principal="agent:a")
    if first == "expire":
        then = later(now, 901)
    for decision in ("approve", "deny"):
        made = undecided(decide(database, approval, by=APPROVER, decision=decision, now=then))  # type: ignore[arg-type]
        assert made.code == ("expired" if first == "expire" else "not_open")
    ended = {
        "approve": "approved",
        "deny": "denied",
        "expire": "expired",
        "withdraw": "void",
        "claim": "spent",
    }
    assert state(database, approval, then) == ended[first]
    assert events(log).count("decision_refused") == 2
    assert [each.principal for each in log.tail(2)] == ["human:ann", "human:ann"]
    assert verify(path).ok


DECIDING = """
import sys
from approval_kit import OWNER
from metier.model.approval import Approval
from metier.record.database import Database
from metier.record.deciding import decide
with Database.open(path, patience=50.0) as database:
    print("ready", flush=True)
    decision = sys.stdin.readline().strip()
    for approval in sys.stdin.readline().split():
        made = decide(database, approval, by=OWNER, decision=decision)
        print(int(isinstance(made, Approval)), end=" ", flush=True)
"""


def test_apr_15_of_a_yes_and_a_no_at_the_same_moment_one_counts(
    path: str, database: Database, log: AuditLog, start: Callable[[str], "subprocess.Popen[str]"]
) -> None:
    approvals = [ask(database, wanted(call_id=f"call_{number}")) for number in range(20)]
    others = {decision: start(DECIDING) for decision in ("approve", "deny")}
    for each in others.values():
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for decision, each in others.items():
        assert each.stdin is not None
        each.stdin.write(f"{decision}\n{' '.join(approvals)}\n")
        each.stdin.flush()
    said = {decision: each.communicate(timeout=50)[0].split() for decision, each in others.items()}
    for number, approval in enumerate(approvals):
        won = {decision for decision, answers in said.items() if answers[number] == "1"}
        assert len(won) == 1
        assert state(database, approval) == {"approve": "approved", "deny": "denied"}[won.pop()]
    assert events(log).count("decision_refused") == 20
    assert verify(path).ok


# Time


def test_apr_16_what_expired_is_neither_decided_nor_used(
    path: str, database: Database, log: AuditLog
) -> None:
    now = moment()
    asked, decided = ask(database, now=now), ask(database, wanted(call_id="call_2"), now=now)
    approve(database, decided, now=later(now, 899))
    late = later(now, 901)
    assert undecided(decide(database, asked, by=OWNER, decision="approve", now=late)).code == "expired"
    assert claim(database, decided, wanted(call_id="call_2"), now=later(now, 899 + 901)) == "it has expired"
    assert expire_due(database, late) == 0, "the decision has a time of its own"
    assert claim(database, decided, wanted(call_id="call_2"), now=late) == ""
    assert "approval_expired" in events(log)
    assert verify(path).ok


@pytest.mark.parametrize(
    ("when", "over"),
    [
        ({"seconds": 60}, False),
        ({"seconds": 901}, True),
        ({"seconds": 901, "wall": False}, True),  # the wall clock stands still, or is set back each minute
        ({"seconds": 901, "running": False}, True),
        ({"seconds": -3600, "running": False}, True),  # set back by an hour
        ({"seconds": -30, "running": False}, False),  # a correction
        ({"seconds": 365 * 86_400, "running": False}, True),
    ],
)
def test_apr_16_whichever_clock_says_over_first_is_right(
    database: Database, when: dict[str, float], over: bool
) -> None:
    now = moment()
    approval = ask(database, now=now)
    then = later(now, **when)  # type: ignore[arg-type]
    assert (state(database, approval, then) == "expired") == over
    made = decide(database, approval, by=OWNER, decision="approve", now=then)
    assert isinstance(made, Approval) != over


def test_rel_09_after_a_restart_of_the_machine_the_wall_clock_decides(database: Database) -> None:
    now = moment()
    approval = ask(database, now=now)
    restarted = Moment(wall=now.wall + 60, boot="another", running=5.0)
    assert state(database, approval, restarted) == "pending"
    assert state(database, approval, changed(restarted, wall=now.wall + 901)) == "expired"
    approve(database, approval, now=restarted)
    assert claim(database, approval, now=later(restarted, 901, wall=False)) == "it has expired"
    assert claim(database, approval, now=later(restarted, 60)) == ""


def test_what_is_due_is_swept_once_and_recorded(path: str, database: Database, log: AuditLog) -> None:
    now = moment()
    due = [ask(database, wanted(call_id=f"call_{number}"), now=now) for number in range(3)]
    kept = ask(database, wanted(call_id="call_9"), now=now, seconds=3600)
    assert expire_due(database, later(now, 901), most=2) == 2
    assert expire_due(database, later(now, 901)) == 1
    assert expire_due(database, later(now, 901)) == 0
    assert [state(database, each) for each in due] == ["expired"] * 3
    assert state(database, kept) == "pending"
    assert events(log).count("approval_expired") == 3
    assert verify(path).ok


# What stays, and what survives


def test_apr_28_an_id_is_never_given_a_second_time(database: Database) -> None:
    approval = approved_once(database)
    claim(database, approval)
    with database.reading() as connection:
        assert [each.id for each in approvals_in(connection, over=True)] == [approval]
        assert approvals_in(connection) == []
    with pytest.raises(StateError), database.transaction() as connection:
        connection.execute(
            "INSERT INTO approval SELECT * FROM approval WHERE id = ?", (approval,)
        )  # what a second request under that id would do


def test_apr_29_who_floods_the_desk_is_stopped_and_others_are_not(database: Database) -> None:
    now = moment()
    other = wanted(principal=Principal(id="agent:b", kind="agent"))
    with database.transaction() as connection:
        for number in range(100):
            ask_in(connection, wanted(call_id=f"call_{number}"), now=now)
        assert "100 are the most" in queue_problem(connection, "agent:a", 100, now)
        with pytest.raises(AssertionError, match="requests waiting"):
            ask_in(connection, wanted(call_id="one too many"), now=now)
        ask_in(connection, other, now=now)
        assert queue_problem(connection, "agent:a", 101, now) == ""
        assert queue_problem(connection, "agent:a", 100, later(now, 901)) == "", (
            "what expired waits no longer"
        )
        assert queue_problem(connection, "agent:c", 0, now) != "", "none allowed is none"


def test_apr_30_a_decision_outlives_who_asked_and_runs_at_most_once(path: str) -> None:
    with Database.open(path) as first:
        approval = ask(first)
        keep_waiting(first, approval, moment().running + 3)
        found = find(first, approval)
        assert found is not None
        assert found.waited_for
    with Database.open(path) as second:
        found = find(second, approval, later(moment(), 4))
        assert found is not None
        assert not found.waited_for, "whoever waited is gone"
        approve(second, approval)
    with Database.open(path) as third:
        call = stored_call(third, approval)
        assert call is not None
        assert claim(third, approval) == ""
        assert claim(third, approval) != ""


CRASHING = """
import os, sys
from approval_kit import begin, wanted
from metier.record.database import Database
database = Database.open(path)
approval, before_commit = sys.stdin.readline().split()
with database.transaction() as connection:
    begin(connection, wanted().valid.call, approval)
    if before_commit == "yes":
        os.kill(os.getpid(), 9)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("before_commit", [True, False])
def test_apr_31_a_crash_leaves_it_unused_or_begun_and_never_runs_it_again(
    path: str, database: Database, start: Callable[[str], "subprocess.Popen[str]"], before_commit: bool
) -> None:
    approval = approved_once(database)
    other = start(CRASHING)
    other.communicate(f"{approval} {'yes' if before_commit else 'no'}\n", timeout=50)
    assert other.returncode == -9
    found = verify(path)
    assert found.ok
    if before_commit:
        assert found.open_intents == ()
        assert claim(database, approval) == ""
    else:
        assert len(found.open_intents) == 1, "how it ended nobody knows, and verify says so"
        assert claim(database, approval) == "it was used already"


def fill(database: Database) -> None:
    """Let the disk be full: nothing grows any more."""
    with database.reading() as connection:
        connection.execute("PRAGMA max_page_count = 1")
    with suppress(StateError):
        while True:
            with database.transaction() as connection:
                append(connection, "resumed", Act(principal="x"), at="x")


def test_apr_32_where_nothing_can_be_stored_nothing_is_asked_approved_or_run(
    path: str, database: Database
) -> None:
    waiting, approval = ask(database, wanted(call_id="call_2")), approved_once(database)
    fill(database)
    with pytest.raises(StateError, match="no room"):
        claim(database, approval)
    with pytest.raises(StateError, match="no room"):
        ask(database, wanted(call_id="call_3"))
    with pytest.raises(StateError, match="no room"):
        approve(database, waiting)
    with Database.open(path) as again:
        assert state(again, approval) == "approved", "the failed claim used nothing up"
        assert state(again, waiting) == "pending"
        assert claim(again, approval) == ""
        assert verify(path).ok


def test_apr_33_what_cannot_be_recorded_is_not_approved(
    path: str, database: Database, intruder: sqlite3.Connection
) -> None:
    approval = ask(database)
    [(right,)] = intruder.execute("SELECT hash FROM audit").fetchall()
    intruder.execute("UPDATE audit SET hash = 'no hash'")
    with pytest.raises(StateError):
        approve(database, approval)
    assert state(database, approval) == "pending"
    intruder.execute("UPDATE audit SET hash = ?", (right,))
    approve(database, approval)
    assert verify(path).ok


def test_a_no_that_cannot_be_recorded_counts_all_the_same_and_can_be_settled(
    path: str, database: Database, intruder: sqlite3.Connection
) -> None:
    approval, revoked = ask(database), approved_once(database, wanted(call_id="call_2"))
    seq, right = intruder.execute("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1").fetchone()
    intruder.execute("UPDATE audit SET hash = 'no hash' WHERE seq = ?", (seq,))
    with pytest.raises(RecordError, match="is denied, but"):
        denied(database, approval, word="no")
    with pytest.raises(RecordError, match="is taken back, but"):
        revoke_approval(database, revoked, by=OWNER)
    assert (state(database, approval), state(database, revoked)) == ("denied", "void")
    intruder.execute("UPDATE audit SET hash = ? WHERE seq = ?", (right, seq))
    assert "settle it" in verify(path).problem
    denied(database, approval, word="no")
    assert isinstance(revoke_approval(database, revoked, by=OWNER), Approval)
    assert verify(path).ok


@pytest.mark.slow
def test_rel_11_ten_thousand_waiting_requests_are_all_there_after_a_restart_and_listed_at_once(
    path: str,
) -> None:
    def listing(database: Database) -> tuple[list[Approval], float]:
        """What is found, and the least work that took, whatever else the machine does."""
        spent: list[float] = []
        found: list[Approval] = []
        for _ in range(3):
            began = time.thread_time()
            with database.reading() as connection:
                found = list(approvals_in(connection))
            spent.append(time.thread_time() - began)
        return found, min(spent)

    def asked(numbers: range) -> None:
        with Database.open(path) as database, database.transaction() as connection:
            for number in numbers:
                asker = Principal(id=f"agent:a{number % 100}", kind="agent")
                ask_in(connection, wanted(call_id=f"call_{number}", principal=asker))

    asked(range(1_000))
    with Database.open(path) as database:
        _, few = listing(database)
    asked(range(1_000, 10_000))
    with Database.open(path) as database:
        found, many = listing(database)
    assert len({each.call_id for each in found}) == 10_000
    assert all(each.shown is not None for each in found)
    assert many < 30 * few, "ten times as many are about ten times the work, and not a hundred times"
    assert verify(path).ok


def test_rel_15_what_was_open_when_the_state_was_saved_is_void_when_it_is_restored(
    path: str, database: Database
) -> None:
    waiting, approval = ask(database, wanted(call_id="call_2")), approved_once(database)
    with database.transaction() as connection:
        assert void_all(connection, at=moment().text, by="human:owner") == 2
    assert (state(database, waiting), state(database, approval)) == ("void", "void")
    assert claim(database, approval) == "it was taken back"
    assert undecided(decide(database, waiting, by=OWNER, decision="approve")).state == "void"
    assert verify(path).ok


# Words, and what the record keeps


def test_the_word_of_a_denial_is_for_the_model_and_can_be_erased(database: Database, log: AuditLog) -> None:
    approval = ask(database)
    assert denied(database, approval, word="use the archive instead").word == "use the archive instead"
    [record] = log.tail(1)
    assert "archive" not in msgspec.json.encode(record).decode()
    assert log.kept(record) == {"word": "use the archive instead"}


def test_a_word_that_is_no_text_and_an_id_that_is_none_break_nothing(database: Database) -> None:
    approval = ask(database)
    assert undecided(decide(database, "apr_\udcff", by=OWNER, decision="approve")).code == "unknown"
    assert claim(database, "apr_\udcff") == UNKNOWN
    assert denied(database, approval, word="\udcff" + "x" * 10_000).word.startswith("\\udcff")


def test_a_secret_in_the_word_of_a_denial_is_masked_wherever_it_lies(
    database: Database, log: AuditLog, on_disk: Callable[[], bytes]
) -> None:
    made = denied(database, ask(database), word="use password=hunter2hunter2 instead, marmalade")
    assert "hunter2" not in json.dumps(log.kept(log.tail(1)[0]))
    assert "marmalade" in made.word
    assert "hunter2" not in made.word
    assert b"hunter2" not in on_disk()


def test_the_word_of_a_denial_is_reached_by_erasing_its_record(
    path: str, database: Database, log: AuditLog, on_disk: Callable[[], bytes]
) -> None:
    approval = ask(database)
    denied(database, approval, word="marmalade")
    assert (find(database, approval) or _gone()).word == "marmalade"
    assert b"marmalade" in on_disk()
    log.erase(log.head()[0], by="human:owner")
    assert (find(database, approval) or _gone()).word == ""
    assert b"marmalade" not in on_disk()
    assert verify(path).ok


def test_aud_16_where_only_digests_are_kept_the_word_of_a_denial_is_not(
    path: str, database: Database, log: AuditLog, on_disk: Callable[[], bytes]
) -> None:
    approval = ask(database)
    made = denied(database, approval, word="marmalade", payloads="hashes")
    assert (made.state, made.word) == ("denied", "")
    assert log.tail(1)[0].unkept.keys() == {"word"}
    assert b"marmalade" not in on_disk()
    assert verify(path).ok


def test_a_word_that_somebody_put_in_the_place_of_another_is_told_to_nobody(
    path: str, database: Database, intruder: sqlite3.Connection
) -> None:
    approval = ask(database)
    denied(database, approval, word="do not")
    intruder.execute(
        "UPDATE audit SET kept = CAST('{\"word\":\"go on\"}' AS BLOB) WHERE instr(kept, 'do not')"
    )
    assert (find(database, approval) or _gone()).word == ""
    assert not verify(path).ok


def test_a_no_that_cannot_be_recorded_leaves_no_word_in_the_clear(
    database: Database, on_disk: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    approval = ask(database)
    with monkeypatch.context() as patch:
        patch.setattr("metier.record.approval_ending.append", _no_record)
        with pytest.raises(RecordError, match="it is denied"):
            denied(database, approval, word="marmalade")
    assert state(database, approval) == "denied"
    assert b"marmalade" not in on_disk()


def test_who_said_no_on_the_record_is_never_told_that_he_did_not(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the commit nothing is asked of the database any more."""
    approval = ask(database)

    def unreadable(*_: object, **__: object) -> None:
        raise StateError("the disk is gone", remedy="Bring it back")

    with monkeypatch.context() as patch:
        patch.setattr(Database, "reading", unreadable)
        assert denied(database, approval, word="no").word == "no"
    assert state(database, approval) == "denied"


def _no_record(*_: object, **__: object) -> int:
    raise StateError("the disk is full", remedy="Free space")


def _gone() -> Approval:
    raise AssertionError("there is no such request")


def test_no_record_holds_what_arguments_could_be_guessed_from(
    database: Database, intruder: sqlite3.Connection
) -> None:
    """Two requests for the same act leave nothing equal behind but names."""
    for _ in range(2):
        approval = approved_once(database)
        revoke_approval(database, approval, by=OWNER)
    bodies = [json.loads(body) for (body,) in intruder.execute("SELECT body FROM audit ORDER BY seq")]
    assert len(bodies) == 6
    assert all(
        first["grant"] != second["grant"] for first, second in zip(bodies[:3], bodies[3:], strict=True)
    )
    prints = [each for (each,) in intruder.execute("SELECT fingerprint FROM approval")]
    assert len(set(prints)) == 2


# Somebody who edits the file


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE approval SET state = 'approved'",
        "UPDATE approval SET state = 'spent'",
        "UPDATE approval SET expires_at = expires_at + 1e6",
        "UPDATE approval SET deadline = deadline + 1e6",
        "UPDATE approval SET decided_by = 'human:ann'",
        "UPDATE approval SET principal = 'agent:b'",
        "UPDATE approval SET fingerprint = hex(randomblob(32))",
        "UPDATE approval SET shown = CAST(replace(CAST(shown AS TEXT), '7', '8') AS BLOB)",
        "UPDATE approval SET call = CAST(replace(CAST(call AS TEXT), '7', '8') AS BLOB)",
        "UPDATE approval SET key = randomblob(32)",
        "UPDATE approval SET record = 1",
        "UPDATE approval SET id = 'apr_other'",
        "DELETE FROM approval",
    ],
)
@pytest.mark.parametrize("before", ["pending", "approved", "spent", "denied"])
def test_who_edits_the_table_behind_our_back_is_found(
    path: str, database: Database, intruder: sqlite3.Connection, edit: str, before: str
) -> None:
    ask(database, wanted(call_id="first"))
    intruder.execute("UPDATE approval SET waiting_until = 5.0")
    approval = ask(database)
    if before in ("approved", "spent"):
        approve(database, approval)
    if before == "spent":
        assert claim(database, approval) == ""
    if before == "denied":
        denied(database, approval)
    assert verify(path).ok
    row = intruder.execute("SELECT * FROM approval WHERE id = ?", (approval,)).fetchone()
    intruder.execute(f"{edit} WHERE id = ?", (approval,))
    same = intruder.execute("SELECT * FROM approval WHERE id = ?", (approval,)).fetchone() == row
    blanked = before in ("spent", "denied") and any(
        name in edit for name in ("SET shown", "SET call", "SET key")
    )
    assert verify(path).ok == (same or blanked)


def test_a_decision_written_past_us_lets_nothing_run(
    database: Database, intruder: sqlite3.Connection
) -> None:
    approval = ask(database)
    for _ in range(2):
        intruder.execute(
            "UPDATE approval SET state = 'approved', decided_by = 'human:owner', decided_at = asked_at"
        )
        assert "not as it was recorded" in claim(database, approval)
        assert stored_call(database, approval) is None
        intruder.execute("UPDATE approval SET state = 'pending', decided_by = '', decided_at = ''")
    approve(database, approval)
    intruder.execute("UPDATE approval SET expires_at = expires_at + 5")
    assert "not as it was recorded" in claim(database, approval)
    intruder.execute("UPDATE approval SET expires_at = expires_at - 5")
    assert claim(database, approval) == ""
    intruder.execute("UPDATE approval SET state = 'approved'")
    assert claim(database, approval) != "", "what ran does not run again"


def test_what_an_approver_would_be_lied_to_about_cannot_be_approved(
    database: Database, intruder: sqlite3.Connection
) -> None:
    approval = ask(database)
    intruder.execute("UPDATE approval SET shown = CAST(replace(CAST(shown AS TEXT), '7', '1') AS BLOB)")
    assert undecided(decide(database, approval, by=OWNER, decision="approve")).code == "not_as_recorded"
    denied(database, approval)


def test_a_claim_looks_before_it_takes_and_looking_writes_nothing(database: Database) -> None:
    approval = approved_once(database)
    authorized = wanted()
    with database.reading() as connection:
        for _ in range(2):
            assert claim_problem(connection, approval, "agent:a", printer(authorized, CWD)) == ""
    with database.transaction() as connection:
        begin(connection, authorized.valid.call, approval)
        assert (
            claim_problem(connection, approval, "agent:a", printer(authorized, CWD)) == "it was used already"
        )
