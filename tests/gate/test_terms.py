"""What was looked at is asked again when a call begins, unless nothing was written since and nothing was in the way."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from metier.config.settings import BudgetSettings, Window
from metier.gate.budget import scopes
from metier.gate.situation import NO_SKILL, Facts, Situation, situation
from metier.gate.terms import Allowed, Within, terms
from metier.model.call import ApprovedCall, AuthorizedCall, Call, Principal, ValidCall
from metier.model.entry import Operation
from metier.model.outcome import RefusalCode
from metier.model.permission import PermissionSet
from metier.model.skill import Tool
from metier.model.verdict import Verdict
from metier.record.approval_clock import Moment
from metier.record.audit import IntentDenied
from metier.record.budgets import Moment as Running
from metier.record.budgets import exhausted_in, take_budget
from metier.record.database import Database
from metier.record.steering import steering_in
from metier.record.still import steered, written
from metier.record.stop import stop

TOOL = Tool(
    name="tea",
    description="",
    parameters={"type": "object"},
    entry=Operation(module="test", operation="nothing"),
)
AGENT = Principal(id="agent:cli", kind="agent", on_behalf_of="human:me")
CALL = Call(id="call-1", principal=AGENT, tool="tea", arguments={})
VALID = ValidCall(call=CALL, tool=TOOL, arguments={}, skill=None, permissions=PermissionSet())
APPROVED = ApprovedCall(
    authorized=AuthorizedCall(valid=VALID, verdict=Verdict.allow("a test")), evidence="policy"
)
NOW = Moment(wall=1_000_000.0, boot="", running=6_000.0)
BUDGETS = BudgetSettings(principal=Window(calls=1, seconds=60))


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "metier.db")


@pytest.fixture
def database(path: str) -> Iterator[Database]:
    with Database.open(path) as opened:
        yield opened


def looked(database: Database) -> Situation:
    with database.glance() as connection:
        facts = Facts(
            steering=steering_in(connection), steered=steered(connection), owner="human:me", budgets=BUDGETS
        )
        exhausted = exhausted_in(connection, scopes(VALID, BUDGETS), Running(NOW.running))
        return situation(VALID, NO_SKILL, facts, now=NOW, exhausted=exhausted, written=written(connection))


def denied(database: Database, judged: Situation) -> RefusalCode | None:
    with database.transaction() as connection:
        for term in terms(APPROVED, judged):
            found = term.problem(connection)
            if isinstance(found, IntentDenied):
                return found.code
    return None


def stopped(database: Database) -> None:
    stop(database, by="human:me")


def revoked(database: Database) -> None:
    with database.transaction() as connection:
        connection.execute(
            "INSERT INTO principal VALUES ('human:me', 'human', '', x'', '', '', '2026-01-01', 'human:me')"
        )


def used_up(database: Database) -> None:
    with database.transaction(quiet=True) as connection:
        take_budget(connection, scopes(VALID, BUDGETS), Running(NOW.running))


CHANGES = [(stopped, "stopped"), (revoked, "forbidden"), (used_up, "budget_exceeded")]


def test_nothing_is_asked_again_where_nothing_was_written(database: Database) -> None:
    judged = looked(database)
    with database.transaction() as connection:
        asked: list[str] = []
        connection.set_trace_callback(asked.append)
        assert all(term.problem(connection) is None for term in terms(APPROVED, judged))
        connection.set_trace_callback(None)
    assert judged.written is not None
    assert asked == []


@pytest.mark.parametrize(("change", "code"), CHANGES)
def test_what_changed_since_over_this_connection_counts(
    database: Database, change: Callable[[Database], None], code: str
) -> None:
    judged = looked(database)
    assert denied(database, judged) is None
    change(database)
    assert denied(database, judged) == code


@pytest.mark.parametrize(("change", "code"), CHANGES)
def test_what_another_process_changed_since_counts(
    path: str, database: Database, change: Callable[[Database], None], code: str
) -> None:
    judged = looked(database)
    with Database.open(path) as other:
        change(other)
    assert denied(database, judged) == code


@pytest.mark.parametrize(("change", "code"), [(stopped, "stopped"), (used_up, "budget_exceeded")])
def test_what_was_in_the_way_already_is_asked_again_also_where_no_layer_minded(
    database: Database, change: Callable[[Database], None], code: str
) -> None:
    change(database)
    assert denied(database, looked(database)) == code


def test_a_situation_that_says_nothing_of_it_is_asked_again(database: Database) -> None:
    with database.transaction() as connection:
        asked: list[str] = []
        connection.set_trace_callback(asked.append)
        for term in terms(APPROVED, Situation()):
            assert isinstance(term, Allowed | Within)
            term.problem(connection)
        connection.set_trace_callback(None)
    assert [line.split()[0] for line in asked].count("SELECT") >= 3


def test_a_glance_sees_what_others_wrote_since_the_last_one(path: str, database: Database) -> None:
    first = looked(database)
    with sqlite3.connect(path, isolation_level=None) as intruder:
        intruder.execute("INSERT INTO setting VALUES ('stopped', 'enough', '2026-01-01T00:00', 'human:me')")
    intruder.close()
    assert (first.stopped, bool(looked(database).stopped)) == ("", True)


def test_counts_that_were_undone_are_not_remembered(database: Database) -> None:
    with pytest.raises(KeyError), database.transaction() as connection:
        take_budget(connection, scopes(VALID, BUDGETS), Running(NOW.running))
        raise KeyError
    assert looked(database).exhausted == ()
    used_up(database)
    assert len(looked(database).exhausted) == 1
