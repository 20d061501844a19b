"""Standing grants are shown before they are given, given on the record, counted, and taken back at once."""

import sqlite3
from collections.abc import Callable

import pytest

from approval_kit import OWNER, TOOL, approve, ask, changed, given, later, seen, undecided, wanted
from metier.errors import RecordError, StateError
from metier.model.approval import StandingGrant
from metier.model.call import Principal
from metier.record import connection as connections
from metier.record.approval_clock import moment
from metier.record.approvals import find
from metier.record.audit import AuditLog
from metier.record.chain import Act, append
from metier.record.database import Database
from metier.record.deciding import decide
from metier.record.schema import KNOWS_SETTING, MIGRATIONS
from metier.record.standing import (
    SESSION_SECONDS,
    give,
    grant_problem,
    grants_in,
    proposed_grant,
    revoke,
    revoke_all,
    take_grant,
)
from metier.record.verify import verify


def grants(database: Database) -> tuple[StandingGrant, ...]:
    with database.reading() as connection:
        return grants_in(connection)


def problem(database: Database, grant: str, seconds: float = 0.0) -> str:
    with database.reading() as connection:
        return grant_problem(connection, grant, later(moment(), seconds))


def use(database: Database, grant: str, call: str = "call_1") -> str:
    """Begin an act on a grant as the pipeline does."""
    with database.transaction() as connection:
        if said := grant_problem(connection, grant):
            return said
        act = Act(principal="agent:a", call_id=call, tool="notes/remove", evidence=grant)
        seq = append(connection, "skill_execution_started", act, at=moment().text)
        connection.execute("INSERT INTO open_intent (seq, call_id) VALUES (?, ?)", (seq, call))
        connection.execute("INSERT INTO begun VALUES (?, 1, ?)", (call, seq))
        take_grant(connection, grant)
    return ""


@pytest.mark.parametrize("scope", ["session", "always"])
def test_what_was_shown_is_what_is_given_with_the_decision(
    path: str, database: Database, log: AuditLog, scope: str
) -> None:
    approval = ask(database)
    found = find(database, approval)
    assert found is not None
    assert found.shown is not None
    grant = proposed_grant(found.shown, scope, approval=approval, by="human:owner", uses=3)  # type: ignore[arg-type]
    assert isinstance(grant, StandingGrant)
    assert grants(database) == (), "it is only proposed"
    approve(database, approval, scope=scope, grant=grant)
    assert grants(database) == (grant,)
    assert [each.event for each in log.tail(2)] == ["skill_approved", "grant_given"]
    assert verify(path).ok


def test_a_grant_is_bound_to_what_was_asked(database: Database) -> None:
    grant = given()
    assert (grant.tool, grant.principal, grant.on_behalf_of) == ("notes/remove", "agent:a", "human:owner")
    assert (grant.skill, grant.skill_digest) == ("notes", "sha256:" + "a" * 64)
    assert grant.permissions == {"reads": ["/notes"], "env": ["LANG"]}
    assert (grant.cwd, grant.risk, grant.session) == ("/work (device 1, inode 2)", "high", "")
    assert grant.arguments
    assert grant.arguments != given().arguments, "each has a key of its own"
    assert given(scope="session").session == "session-1"
    assert given(wanted(tool=changed(TOOL, risk="low"))).risk == "medium"
    assert given(any_arguments=True).key == ""


def test_a_session_grant_needs_a_session_and_ends_with_the_day(database: Database) -> None:
    nowhere = proposed_grant(seen(wanted(session=None)), "session", approval="x", by="human:owner")
    assert "belongs to no session" in str(nowhere)
    now = moment()
    for days, seconds in ((None, SESSION_SECONDS), (365, SESSION_SECONDS), (0.5, 43_200.0)):
        grant = given(scope="session", days=days, now=now)
        assert grant.expires_at == now.wall + seconds


@pytest.mark.parametrize(
    "more", [{"uses": 0}, {"uses": -1}, {"days": 0.0}, {"days": -1.0}, {"days": float("nan")}]
)
def test_a_grant_for_nothing_is_none(more: dict[str, float]) -> None:
    assert isinstance(proposed_grant(seen(wanted()), "always", approval="x", by="y", **more), str)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fields",
    [
        {"tool": "notes/other"},
        {"principal": "agent:b"},
        {"on_behalf_of": ""},
        {"skill_digest": ""},
        {"definition": ""},
        {"permissions": {"reads": ["/"]}},
        {"cwd": ""},
        {"session": "session-2"},
        {"names_tool": True},
        {"risk": "medium"},
        {"arguments": "0" * 64},
        {"key": ""},
        {"given_by": "human:ann"},
        {"approval": "apr_other"},
    ],
)
def test_a_grant_for_something_else_than_what_was_asked_is_refused(
    database: Database, fields: dict[str, object]
) -> None:
    approval = ask(database)
    grant = changed(given(), approval=approval)
    wrong = changed(grant, **fields)
    made = decide(database, approval, by=OWNER, decision="approve", scope="always", grant=wrong)
    assert undecided(made).code == "bad_grant"
    made = decide(database, approval, by=OWNER, decision="approve", scope="always")
    assert undecided(made).code == "bad_grant", "a scope without a grant"
    made = decide(database, approval, by=OWNER, decision="approve", grant=grant)
    assert undecided(made).code == "bad_grant", "a grant without a scope"
    assert grants(database) == ()
    approve(database, approval, scope="always", grant=grant)


def test_uses_are_counted_and_then_it_is_over(path: str, database: Database) -> None:
    grant = given(uses=2)
    give(database, grant)
    assert use(database, grant.id, "call_1") == ""
    assert [each.uses_left for each in grants(database)] == [1]
    assert use(database, grant.id, "call_2") == ""
    assert use(database, grant.id, "call_3") == "the standing grant is used up"
    assert verify(path).ok


def test_without_a_count_it_lasts(path: str, database: Database) -> None:
    grant = given()
    give(database, grant)
    for number in range(3):
        assert use(database, grant.id, f"call_{number}") == ""
    assert verify(path).ok


def test_rel_09_a_grant_that_ran_out_or_lies_in_the_future_is_not_used(database: Database) -> None:
    grant = given(days=1)
    give(database, grant)
    assert problem(database, grant.id, 86_000) == ""
    assert "expired" in problem(database, grant.id, 87_000)
    assert "expired" in problem(database, grant.id, -3600)


def test_a_revoked_grant_is_gone_at_once_and_its_key_with_it(
    path: str, database: Database, log: AuditLog, on_disk: Callable[[], bytes]
) -> None:
    grant = given()
    give(database, grant)
    assert grant.key.encode() in on_disk()
    with Database.open(path) as other:
        assert revoke(other, grant.id, by="human:ann")
    assert "revoked" in problem(database, grant.id)
    assert grants(database) == ()
    assert not revoke(database, grant.id, by="human:ann"), "only once"
    assert not revoke(database, "grt_none", by="human:ann")
    assert (log.tail(1)[0].event, log.tail(1)[0].principal) == ("grant_revoked", "human:ann")
    database.flush()
    assert grant.key.encode() not in on_disk()
    assert verify(path).ok


def test_revoking_never_waits_for_the_record_and_can_be_settled(
    path: str, database: Database, intruder: sqlite3.Connection
) -> None:
    grant = given()
    give(database, grant)
    [(right,)] = intruder.execute("SELECT hash FROM audit").fetchall()
    intruder.execute("UPDATE audit SET hash = 'no hash'")
    with pytest.raises(RecordError, match="is revoked, but"):
        revoke(database, grant.id, by="human:ann")
    assert grants(database) == ()
    with pytest.raises(StateError):
        give(database, given())
    assert grants(database) == (), "giving does wait"
    intruder.execute("UPDATE audit SET hash = ?", (right,))
    assert "revoke it to settle it" in verify(path).problem
    assert revoke(database, grant.id, by="human:ann")
    assert verify(path).ok


def test_rel_15_no_grant_of_an_older_state_lives_on_when_it_is_restored(
    path: str, database: Database
) -> None:
    for more in ({}, {"uses": 5}):
        give(database, given(**more))
    with database.transaction() as connection:
        assert revoke_all(connection, at=moment().text, by="human:owner") == 2
    assert grants(database) == ()
    assert verify(path).ok


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE standing SET body = CAST(replace(CAST(body AS TEXT), 'agent:a', 'agent:b') AS BLOB)",
        "UPDATE standing SET uses_left = 99",
        "UPDATE standing SET uses_left = NULL",
        "UPDATE standing SET given_by = 'human:ann'",
        "UPDATE standing SET revoked_at = 'now'",
        "UPDATE standing SET id = 'grt_other'",
        "DELETE FROM standing",
        "INSERT INTO standing SELECT 'grt_b', body, uses_left, given_at, given_by, '', '', record FROM standing",
    ],
)
def test_who_edits_the_table_behind_our_back_is_found(
    path: str, database: Database, intruder: sqlite3.Connection, edit: str
) -> None:
    grant = given(uses=5)
    give(database, grant)
    assert use(database, grant.id) == ""
    assert verify(path).ok
    intruder.execute(edit)
    assert not verify(path).ok


def test_a_revoked_grant_that_was_brought_back_is_found(
    path: str, database: Database, intruder: sqlite3.Connection
) -> None:
    grant = given(any_arguments=True)
    give(database, grant)
    assert revoke(database, grant.id, by="human:ann")
    assert verify(path).ok
    intruder.execute("UPDATE standing SET revoked_at = '', revoked_by = ''")
    assert not verify(path).ok


def test_a_grant_that_cannot_be_understood_answers_nothing(
    database: Database, intruder: sqlite3.Connection
) -> None:
    grant = given(uses=5)
    give(database, grant)
    for edit in (
        "body = x'00'",
        "body = 'text'",
        "uses_left = 'many'",
        "uses_left = NULL",
        "id = 'grt_other'",
    ):
        intruder.execute("BEGIN")
        intruder.execute(f"UPDATE standing SET {edit}")  # noqa: S608
        intruder.execute("COMMIT")
        assert grants(database) == (), edit
        intruder.execute("DELETE FROM standing")
        grant = given(uses=5)
        give(database, grant)
    assert grants(database) == (grant,)


def test_state_of_an_older_metier_has_no_grants_and_is_looked_at_as_it_lies(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from metier.record.approvals import approval_in, approvals_in

    with monkeypatch.context() as before:
        before.setattr(connections, "VERSION", KNOWS_SETTING - 1)
        before.setattr(connections, "MIGRATIONS", MIGRATIONS[: KNOWS_SETTING - 1])
        Database.open(path).close()
        with Database.look(path) as database, database.reading() as connection:
            assert grants_in(connection) == ()
            assert approvals_in(connection) == []
            assert approval_in(connection, "apr_x") is None
        assert verify(path).ok


def test_a_grant_for_a_human_names_nobody_else(database: Database) -> None:
    grant = given(wanted(principal=Principal(id="human:ann", kind="human")))
    assert (grant.principal, grant.on_behalf_of) == ("human:ann", "")
