"""Who is registered: one somebody an entry, every change on the record, and an edited entry is found."""

import sqlite3
from contextlib import closing

import msgspec
import pytest

from approval_kit import approved_once, ask, given, wanted
from metier.errors import RecordError, StateError
from metier.model.role import Kind, Registered
from metier.record import connection as connections
from metier.record.approvals import find
from metier.record.audit import AuditLog
from metier.record.database import Database
from metier.record.glance import glance
from metier.record.principals import PrincipalLedger, add_principal, registered_in, revoke_principal
from metier.record.schema import KNOWS_SETTING, MIGRATIONS
from metier.record.standing import give, grants_in
from metier.record.verify import verify

OWNER = "human:uid-1000"
ADA = Registered(id="human:ada", kind="human", roles=frozenset({"operator"}))
MAIL = Registered(id="agent:mail", kind="agent", on_behalf_of="human:ada", roles=frozenset({"agent"}))


def add(database: Database, new: Registered) -> str:
    return add_principal(database, new, by=OWNER, owner=OWNER)


def revoke(database: Database, id: str) -> str:
    return revoke_principal(database, id, by=OWNER, owner=OWNER)


@pytest.mark.parametrize("behind", ["agent:a", "human:owner"])
def test_apr_21_an_id_that_is_added_again_brings_back_nothing_that_was_asked_or_granted_for_it(
    database: Database, path: str, behind: str
) -> None:
    """The request and the grant are of `agent:a`, on behalf of `human:owner`."""
    human = behind.startswith("human:")
    assert add(database, ADA) == ""
    waiting, approved = ask(database), approved_once(database, wanted(call_id="call_2"))
    give(
        database, msgspec.structs.replace(given(), given_by="human:bob")
    )  # else whoever gave it would end it
    again = msgspec.structs.replace(ADA if human else MAIL, id=behind)
    assert add(database, again) == ""
    with database.reading() as connection:
        assert grants_in(connection) == ()
    found = [find(database, each) for each in (waiting, approved)]
    assert [each.state for each in found if each is not None] == ["void", "void"]
    assert verify(path).ok


def registered(database: Database) -> dict[str, Registered]:
    with database.reading() as connection:
        return registered_in(connection)


def edited(path: str) -> str:
    """What a walk through the log says of the table."""
    ledger = PrincipalLedger()
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = bytes
        for (body,) in connection.execute("SELECT body FROM audit ORDER BY seq"):
            record = glance(body)
            assert not isinstance(record, str)
            ledger.take(record)
        return ledger.problem(connection)


def test_who_is_added_is_read_back_and_recorded(path: str, database: Database, log: AuditLog) -> None:
    assert add(database, ADA) == ""
    assert add(database, MAIL) == ""
    assert registered(database) == {"human:ada": ADA, "agent:mail": MAIL}
    first, second = log.tail(10)
    assert (first.event, first.level, first.category) == ("principal_added", "warning", "security")
    assert (first.principal, first.code) == (OWNER, "human:ada")
    assert second.reasons == ("roles: agent", "for: human:ada")
    assert edited(path) == ""


def test_cap_12_who_is_revoked_is_so_for_every_other_process_at_once(
    path: str, database: Database, log: AuditLog
) -> None:
    add(database, ADA)
    with Database.open(path) as other:
        before = other.data_version()
        assert not registered(other)["human:ada"].revoked
        assert revoke(database, "human:ada") == ""
        assert other.data_version() != before
        assert registered(other)["human:ada"].revoked
    assert (log.tail(1)[0].event, log.tail(1)[0].code) == ("principal_revoked", "human:ada")
    assert edited(path) == ""


def test_who_was_revoked_can_be_added_again_with_other_roles(path: str, database: Database) -> None:
    add(database, ADA)
    assert "registered already" in add(database, ADA)
    revoke(database, "human:ada")
    less = Registered(id="human:ada", kind="human", roles=frozenset({"viewer"}))
    assert add(database, less) == ""
    assert registered(database)["human:ada"] == less
    assert edited(path) == ""


@pytest.mark.parametrize(
    ("id", "kind"),
    [
        ("", "human"),
        ("human:", "human"),
        ("human", "human"),
        (":ada", "human"),
        ("human:*", "human"),
        ("human:a*", "human"),
        ("agent:?", "agent"),
        ("*", "human"),
        ("human:a,human:b", "human"),
        ("human:a human:b", "human"),
        ("human:Ada", "human"),
        ("human:аda", "human"),
        ("human:ada\n", "human"),
        ("human:ada\x00", "human"),
        ("human:\ud800", "human"),
        ("human:" + "a" * 65, "human"),
        ("human:.ada", "human"),
        ("group:staff", "group"),
        ("human:ada", "agent"),
        ("agent:mail", "human"),
        ("metier", "metier"),
        ("agent:human:ada", "agent"),
    ],
)
def test_cap_11_what_is_not_one_somebody_is_no_id(database: Database, id: str, kind: Kind) -> None:
    roles = frozenset({"agent" if kind == "agent" else "viewer"})
    assert "no id" in add(database, Registered(id=id, kind=kind, roles=roles))
    assert registered(database) == {}
    assert add(database, ADA) == ""


@pytest.mark.parametrize(
    ("id", "kind", "said"),
    [
        (OWNER, "human", "owns this state"),
        ("agent:cli", "agent", "Metier's own"),
        ("agent:library", "agent", "Metier's own"),
        ("skill:weather", "skill", "Metier itself speaks"),
        ("trigger:morning", "trigger", "Metier itself speaks"),
    ],
)
def test_reserved_ids_cannot_be_given_roles(database: Database, id: str, kind: Kind, said: str) -> None:
    assert said in add(database, Registered(id=id, kind=kind, roles=frozenset({"agent"})))
    assert registered(database) == {}


@pytest.mark.parametrize("roles", [[], ["root"], ["agent", "*"], ["Owner"], ["agent", "owner"], ["approver"]])
def test_an_agent_gets_no_role_that_is_for_people_and_nobody_gets_what_is_no_role(
    database: Database, roles: list[str]
) -> None:
    assert "roles" in add(database, Registered(id="agent:mail", kind="agent", roles=frozenset(roles)))
    assert add(database, Registered(id="agent:mail", kind="agent", roles=frozenset({"viewer"}))) == ""


def test_an_agent_acts_for_a_human_who_is_there_and_a_human_for_nobody(database: Database) -> None:
    assert "no such human" in add(database, MAIL)
    add(database, ADA)
    assert add(database, MAIL) == ""
    behind = Registered(id="agent:b", kind="agent", on_behalf_of="agent:mail", roles=frozenset({"agent"}))
    assert "no such human" in add(database, behind)
    bob = Registered(id="human:bob", kind="human", on_behalf_of="human:ada", roles=frozenset({"viewer"}))
    assert "for himself" in add(database, bob)
    revoke(database, "human:ada")
    last = Registered(id="agent:c", kind="agent", on_behalf_of="human:ada", roles=frozenset({"agent"}))
    assert "no such human" in add(database, last)


def test_a_built_in_agent_is_revoked_without_an_entry_and_let_in_again_only_as_it_was(
    path: str, database: Database
) -> None:
    assert revoke(database, "agent:cli") == ""
    assert registered(database)["agent:cli"].revoked
    more = Registered(id="agent:cli", kind="agent", on_behalf_of=OWNER, roles=frozenset({"agent", "viewer"}))
    assert "only as it was" in add(database, more)
    again = Registered(id="agent:cli", kind="agent", on_behalf_of=OWNER, roles=frozenset({"agent"}))
    assert add(database, again) == ""
    assert not registered(database)["agent:cli"].revoked
    assert edited(path) == ""


@pytest.mark.parametrize("id", ["human:nobody", "", "*", "human:\ud800", "human:a\x00"])
def test_whom_nobody_knows_cannot_be_revoked(database: Database, log: AuditLog, id: str) -> None:
    assert "not registered" in revoke(database, id)
    assert log.tail(10) == []


def test_the_owner_cannot_be_revoked(database: Database) -> None:
    assert "owns this state" in revoke(database, OWNER)


def test_revoking_does_not_wait_for_the_record_and_adding_does(
    path: str, database: Database, intruder: sqlite3.Connection
) -> None:
    add(database, ADA)
    intruder.execute("UPDATE audit SET hash = 'no hash'")
    with pytest.raises(StateError):
        add(database, MAIL)
    with pytest.raises(RecordError, match="is revoked, but"):
        revoke(database, "human:ada")
    assert set(registered(database)) == {"human:ada"}
    assert registered(database)["human:ada"].revoked
    assert "not the one that was recorded" in edited(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("DELETE FROM principal WHERE id = 'human:ada'", "the table forgot it"),
        (
            """UPDATE principal SET roles = CAST('["owner"]' AS BLOB) WHERE id = 'human:ada'""",
            "is not the one",
        ),
        ("UPDATE principal SET revoked_at = '' WHERE id = 'agent:mail'", "is not the one"),
        ("UPDATE principal SET on_behalf_of = 'human:uid-1000' WHERE id = 'agent:mail'", "is not the one"),
        ("UPDATE principal SET added_by = 7 WHERE id = 'human:ada'", "is not the one"),
        (
            "INSERT INTO principal VALUES ('human:eve', 'human', '', '[\"owner\"]', 'x', 'y', '', '')",
            "no record says so",
        ),
    ],
)
def test_who_edits_the_table_behind_our_back_is_found(
    path: str, database: Database, intruder: sqlite3.Connection, change: str, said: str
) -> None:
    add(database, ADA)
    add(database, MAIL)
    revoke(database, "agent:mail")
    assert edited(path) == ""
    assert verify(path).ok
    assert intruder.execute(change).rowcount == 1
    assert said in edited(path)
    assert said in verify(path).problem


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE principal SET roles = CAST('[\"owner\"' AS BLOB)",
        "UPDATE principal SET roles = '[\"owner\"]'",
        "UPDATE principal SET roles = CAST('{\"owner\": 1}' AS BLOB)",
        "UPDATE principal SET kind = 'agent'",
        "UPDATE principal SET id = 'human:*'",
        "UPDATE principal SET revoked_at = x'00'",
    ],
)
def test_an_entry_that_cannot_be_understood_gives_nothing_and_can_be_revoked(
    path: str, database: Database, intruder: sqlite3.Connection, change: str
) -> None:
    add(database, ADA)
    intruder.execute(change)
    (found,) = registered(database).values()
    assert found.revoked
    assert found.roles == frozenset()
    assert revoke(database, found.id) == ""
    (found,) = registered(database).values()
    assert found.revoked


def test_state_of_an_older_metier_has_nobody_registered(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        before.setattr(connections, "VERSION", KNOWS_SETTING - 1)
        before.setattr(connections, "MIGRATIONS", MIGRATIONS[: KNOWS_SETTING - 1])
        Database.open(path).close()
        with Database.look(path) as looked:
            assert registered(looked) == {}
        assert edited(path) == ""
