"""Budgets: so many calls in a stretch of time, counted once for all processes, whatever the clock on the wall says."""

import sqlite3
import time

import pytest

from metier.record import connection as connections
from metier.record.budgets import (
    KEEP_SECONDS,
    SWEEP_EVERY,
    Moment,
    Scope,
    budget_problem,
    exhausted_in,
    moment,
    take_budget,
)
from metier.record.database import Database
from metier.record.schema import KNOWS_SETTING, MIGRATIONS

AGENT = Scope(key="principal", name="agent:cli", calls=3, seconds=60)
TOOL = Scope(key="tool", name="tea", calls=5, seconds=60)
NOW = Moment(6_007.5)
"""Seven and a half seconds into a minute."""


def begin(database: Database, *scopes: Scope, now: float = NOW) -> str:
    """One call that wants to begin, as its intent would have it."""
    with database.transaction() as connection:
        problem = budget_problem(connection, scopes, Moment(now))
        if not problem:
            take_budget(connection, scopes, Moment(now))
    return problem


def exhausted(database: Database, *scopes: Scope, now: float = NOW) -> tuple[str, ...]:
    with database.reading() as connection:
        return exhausted_in(connection, scopes, Moment(now))


def rows(database: Database) -> dict[str, tuple[int, int]]:
    with database.reading() as connection:
        found = connection.execute("SELECT scope, began, count FROM budget").fetchall()
    return {scope: (began, count) for scope, began, count in found}


def test_as_many_begin_as_the_budget_has_and_then_none_until_the_next_stretch(database: Database) -> None:
    assert [begin(database, AGENT) for _ in range(3)] == ["", "", ""]
    assert exhausted(database, AGENT) == (begin(database, AGENT),)
    assert begin(database, AGENT, now=6_059.9) != ""
    assert begin(database, AGENT, now=6_060.0) == ""
    assert rows(database) == {"principal:agent:cli": (6_060, 1)}


def test_a_problem_says_whose_budget_how_long_and_where_it_is_set(database: Database) -> None:
    for _ in range(3):
        begin(database, AGENT)
    said = begin(database, AGENT)
    assert said == (
        "the budget of principal 'agent:cli' is used up: 3 calls in 60 seconds; the next may begin in 53 seconds, "
        "and [budgets.principal] in metier.toml changes it"
    )


def test_one_budget_that_is_used_up_is_enough_and_all_of_them_are_named(database: Database) -> None:
    for _ in range(3):
        assert begin(database, AGENT, TOOL) == ""
    assert "agent:cli" in begin(database, AGENT, TOOL)
    other = Scope(key="principal", name="agent:other", calls=3, seconds=60)
    assert begin(database, other, TOOL) == ""
    assert begin(database, other, TOOL) == ""
    assert "tool 'tea'" in begin(database, other, TOOL)
    assert len(exhausted(database, AGENT, TOOL)) == 2
    assert exhausted(database, other) == ()


def test_a_call_that_may_not_begin_is_not_counted(database: Database) -> None:
    for _ in range(10):
        begin(database, AGENT, TOOL)
    assert rows(database) == {"principal:agent:cli": (6_000, 3), "tool:tea": (6_000, 3)}


def test_zero_means_none_and_not_as_many_as_one_likes(database: Database) -> None:
    none = Scope(key="expensive", name="agent:cli", calls=0, seconds=3_600)
    assert "no calls at all" in begin(database, none)
    assert len(exhausted(database, none)) == 1
    assert rows(database) == {}


def test_every_process_counts_in_the_same_budget(path: str, database: Database) -> None:
    with Database.open(path) as other:
        assert [begin(database, AGENT), begin(other, AGENT), begin(database, AGENT)] == ["", "", ""]
        assert begin(other, AGENT) != ""


def test_rel_09_the_clock_on_the_wall_opens_no_budget_and_closes_none(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    day, real = 86_400, time.time()
    began = moment()
    for wall in (real, real - 3_600, real + 365 * day, real - 50 * 365 * day, real):
        monkeypatch.setattr(time, "time", lambda wall=wall: wall)
        assert 0 <= moment() - began < 30
    long = Scope(key="principal", name="agent:cli", calls=3, seconds=day)
    for wall in (real, real - 3_600, real + 365 * day):
        monkeypatch.setattr(time, "time", lambda wall=wall: wall)
        assert begin(database, long, now=moment()) == ""
    assert "used up" in begin(database, long, now=moment())


def test_rel_09_a_stretch_that_seems_to_begin_later_than_now_locks_nobody_out(database: Database) -> None:
    """So it looks when the machine was started anew: its clock begins again at nothing."""
    for _ in range(3):
        begin(database, AGENT, now=5_000_000.0)
    assert begin(database, AGENT, now=5_000_000.0) != ""
    assert [begin(database, AGENT, now=12.0) for _ in range(3)] == ["", "", ""]
    assert begin(database, AGENT, now=12.0) != ""


def test_a_call_that_was_judged_a_while_ago_does_not_bring_an_earlier_stretch_back(
    database: Database,
) -> None:
    for _ in range(3):
        assert begin(database, AGENT, now=6_061.0) == ""
    assert begin(database, AGENT, now=6_059.0) != ""
    assert begin(database, AGENT, now=5_900.0) != ""
    assert rows(database) == {"principal:agent:cli": (6_060, 3)}
    assert begin(database, AGENT, now=6_120.0) == ""
    assert begin(database, AGENT, now=6_119.0) == ""
    assert rows(database) == {"principal:agent:cli": (6_120, 2)}


def test_a_stretch_that_was_made_longer_or_shorter_goes_on_with_its_count(database: Database) -> None:
    for _ in range(3):
        begin(database, AGENT)
    longer = Scope(key="principal", name="agent:cli", calls=3, seconds=3_600)
    assert begin(database, longer) != ""
    assert begin(database, AGENT, now=6_059.0) != ""
    assert begin(database, AGENT, now=6_061.0) == ""


def test_what_is_long_over_is_swept_away(database: Database) -> None:
    begin(database, AGENT, now=1_000.0)
    begin(database, TOOL, now=9_000_000.0)
    late = 1_000 + KEEP_SECONDS + 120
    late += SWEEP_EVERY - late % SWEEP_EVERY
    other = Scope(key="skill", name="weather", calls=3, seconds=60)
    begin(database, other, now=late - 1.0)
    assert len(rows(database)) == 3
    begin(database, other, now=float(late))
    assert set(rows(database)) == {"skill:weather"}


@pytest.mark.parametrize("change", ["count = 'many'", "began = 'once'", "count = x'00'", "began = 1.5"])
def test_a_row_that_cannot_be_understood_breaks_nothing(
    database: Database, intruder: sqlite3.Connection, change: str
) -> None:
    begin(database, AGENT)
    intruder.execute(f"UPDATE budget SET {change}")  # noqa: S608  from the list above
    assert begin(database, AGENT) == ""
    assert exhausted(database, AGENT) == ()


def test_state_of_an_older_metier_has_counted_nothing(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        before.setattr(connections, "VERSION", KNOWS_SETTING - 1)
        before.setattr(connections, "MIGRATIONS", MIGRATIONS[: KNOWS_SETTING - 1])
        Database.open(path).close()
        with Database.look(path) as looked:
            assert exhausted(looked, AGENT) == ()
            assert len(exhausted(looked, Scope(key="tool", name="tea", calls=0, seconds=60))) == 1
