"""Tokens and the ways people sign in: every change on the record, nothing in it that lets anybody in, and an edited entry is found."""

import hmac
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from metier.errors import RecordError, StateError
from metier.model.role import ROLES, Registered
from metier.record import chain
from metier.record import connection as connections
from metier.record.audit import AuditLog
from metier.record.credentials import (
    credential_in,
    credentials_in,
    oidc_name,
    revoke_credential,
    set_credential,
)
from metier.record.database import Database
from metier.record.principals import add_principal, revoke_principal
from metier.record.redact import redact
from metier.record.schema import KNOWS_TOKEN, MIGRATIONS
from metier.record.steering import steering
from metier.record.tokens import MOST_DAYS, Made, Token, add_token, fits, revoke_token, token_id, tokens_in
from metier.record.verify import verify

OWNER = "human:uid-1000"
ADA = Registered(id="human:ada", kind="human", roles=frozenset({"operator"}))
BOT = Registered(id="agent:bot", kind="agent", on_behalf_of="human:ada", roles=frozenset({"agent"}))
EXECUTE = frozenset({"skills:execute"})
DAY = 86_400.0


@pytest.fixture
def people(database: Database) -> Database:
    for each in (ADA, BOT):
        assert add_principal(database, each, by=OWNER, owner=OWNER) == ""
    return database


def added(database: Database, principal: str = "agent:bot", **given: Any) -> Made | str:
    wanted: dict[str, Any] = {"name": "ci", "scopes": EXECUTE, "expires_at": time.time() + DAY, **given}
    return add_token(database, principal=principal, by=OWNER, owner=OWNER, **wanted)


def made(database: Database, principal: str = "agent:bot", **given: Any) -> Made:
    found = added(database, principal, **given)
    assert isinstance(found, Made), found
    return found


def usable(database: Database) -> dict[str, Token]:
    with database.reading() as connection:
        return tokens_in(connection)


def test_sec_12_nothing_that_lets_anybody_in_lies_anywhere(people: Database, path: str) -> None:
    token = made(people)
    assert set_credential(people, "password", name="human:ada", principal="human:ada", body=b"$argon2id$x", by=OWNER, owner=OWNER) == ""  # fmt: skip
    secret = token.text.rpartition("_")[2]
    assert secret not in repr(token)
    people.close()
    for file in Path(path).parent.iterdir():
        data = file.read_bytes() if file.is_file() else b""
        assert secret.encode() not in data
        assert bytes.fromhex(secret) not in data
    with Database.open(path) as again:
        found = usable(again)[token.token.id]
        assert fits(found, token.text)
        assert not fits(found, token.text[:-1] + ("0" if token.text[-1] != "0" else "1"))
        assert not fits(None, token.text)
    assert verify(path).ok


def test_sec_04_a_token_of_ours_is_masked_wherever_it_comes_back(people: Database) -> None:
    token = made(people).text
    assert token_id(token) == token.split("_")[1]
    assert token not in str(redact({"said": f"here it is: {token}", "nested": [token]}))
    for odd in (
        "",
        "metier_",
        token.upper(),
        f" {token}",
        f"{token}0",
        token[:-1],
        token.replace("metier", "Metier"),
    ):
        assert token_id(odd) == "", odd


def test_sec_10_a_token_is_compared_in_constant_time_also_where_there_is_none(
    people: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, compared = made(people), list[tuple[bytes, bytes]]()
    real = hmac.compare_digest

    def noted(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return real(one, other)

    monkeypatch.setattr(hmac, "compare_digest", noted)
    assert fits(token.token, token.text)
    assert not fits(token.token, token.text[:-1])
    assert not fits(None, token.text)
    assert len(compared) == 3
    assert {len(each) for pair in compared for each in pair} == {
        32
    }  # of what is hashed, never of the token itself


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"principal": "agent:other"}, "not registered"),
        ({"principal": "agent:host"}, "host"),
        ({"principal": "skill:calendar"}, "not registered"),
        ({"principal": "agent:*"}, "not registered"),
        ({"principal": ""}, "not registered"),
        ({"scopes": frozenset()}, "scopes"),
        ({"scopes": frozenset({"*"})}, "scopes"),
        ({"scopes": frozenset({"skills:execute", "everything"})}, "scopes"),
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "x" * 81}, "name"),
        ({"expires_at": 0.0}, "ends"),
        ({"expires_at": 1e12}, "ends"),
    ],
)
def test_cap_02_a_token_without_an_owner_a_scope_or_an_end_is_not_made(
    people: Database, given: dict[str, Any], said: str
) -> None:
    problem = added(people, **given)
    assert isinstance(problem, str)
    assert said in problem
    assert usable(people) == {}
    for principal in ("agent:bot", "human:ada", OWNER, "agent:cli"):
        assert isinstance(added(people, principal), Made)
    assert isinstance(added(people, expires_at=time.time() + MOST_DAYS * DAY - 5), Made)


def test_web_10_a_revoked_token_is_gone_at_once_and_stays_on_the_record(people: Database, path: str) -> None:
    token = made(people)
    seen = steering(people)
    assert token.token.id in seen.tokens
    assert revoke_token(people, token.token.id, by=OWNER) == ""
    assert usable(people) == {}
    assert steering(people).tokens == {}
    with people.reading() as connection:
        assert tokens_in(connection, all=True)[token.token.id].revoked
    events = [record.event for record in AuditLog(people).tail(2)]
    assert events == ["token_added", "token_revoked"]
    assert "no token" in revoke_token(people, "ffffffffffff", by=OWNER)
    assert "no token" in revoke_token(people, "\ud800", by=OWNER)
    assert verify(path).ok


def test_web_10_revoking_does_not_wait_for_the_record(
    people: Database, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = made(people)
    assert set_credential(people, "password", name="human:ada", principal="human:ada", body=b"x", by=OWNER, owner=OWNER) == ""  # fmt: skip

    def full(*_: object, **__: object) -> int:
        raise StateError("the disk is full", remedy="Make room")

    with monkeypatch.context() as before:
        before.setattr(chain, "append", full)
        with pytest.raises(RecordError):
            revoke_token(people, token.token.id, by=OWNER)
        with pytest.raises(RecordError):
            revoke_credential(people, "password", name="human:ada", by=OWNER)
    assert usable(people) == {}
    with people.reading() as connection:
        assert credential_in(connection, "password", "human:ada") is None
    found = verify(path)
    assert not found.ok
    assert "not the one that was recorded" in found.problem
    assert revoke_token(people, token.token.id, by=OWNER) == ""
    assert revoke_credential(people, "password", name="human:ada", by=OWNER) == ""
    assert verify(path).ok


def test_apr_21_an_id_that_is_added_again_brings_back_no_token_and_no_password(
    people: Database, path: str
) -> None:
    """Somebody else may have the id now; and his agents are registered anew too."""
    token, his = made(people), made(people, "human:ada")
    assert set_credential(people, "password", name="human:ada", principal="human:ada", body=b"x", by=OWNER, owner=OWNER) == ""  # fmt: skip
    name = oidc_name("https://id.example.org", "42")
    assert set_credential(people, "oidc", name=name, principal="human:ada", body=b"", by=OWNER, owner=OWNER) == ""  # fmt: skip
    assert revoke_principal(people, "human:ada", by=OWNER, owner=OWNER) == ""
    assert add_principal(people, ADA, by=OWNER, owner=OWNER) == ""
    assert usable(people) == {}
    with people.reading() as connection:
        assert credentials_in(connection) == []
        every = tokens_in(connection, all=True)
    assert every[token.token.id].revoked
    assert every[his.token.id].revoked
    assert verify(path).ok


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE token SET scopes = '[\"principals:manage\"]'",
        "UPDATE token SET expires_at = expires_at + 1",
        "UPDATE token SET principal = 'human:uid-1000'",
        "UPDATE token SET hash = zeroblob(32)",
        "UPDATE token SET revoked_at = ''",
        "DELETE FROM token",
        "INSERT INTO token SELECT 'abcdefabcdef', principal, name, hash, scopes, expires_at, added_at, added_by, '', '' FROM token LIMIT 1",
        "UPDATE credential SET body = x'00'",
        "UPDATE credential SET principal = 'human:uid-1000'",
        "UPDATE credential SET revoked_at = ''",
        "DELETE FROM credential WHERE kind = 'oidc'",
        "INSERT INTO credential VALUES ('oidc', 'https://evil.example 1', 'human:uid-1000', x'', 'now', 'me', '', '')",
    ],
)
def test_an_edited_token_or_credential_is_found(people: Database, path: str, edit: str) -> None:
    made(people)
    gone = made(people, "human:ada")
    assert revoke_token(people, gone.token.id, by=OWNER) == ""
    for kind, name in (("password", "human:ada"), ("oidc", oidc_name("https://id.example.org", "42"))):
        assert set_credential(people, kind, name=name, principal="human:ada", body=b"x", by=OWNER, owner=OWNER) == ""  # type: ignore[arg-type]  # fmt: skip
    assert revoke_credential(people, "password", name="human:ada", by=OWNER) == ""
    people.close()
    assert verify(path).ok
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute(edit)
    found = verify(path)
    assert not found.ok
    assert "token" in found.problem or "credential" in found.problem


@pytest.mark.parametrize("edit", ["scopes = x'ff'", "scopes = '[]'", "hash = 'text'", "expires_at = 'never'"])
def test_a_token_that_cannot_be_understood_lets_nobody_in(people: Database, path: str, edit: str) -> None:
    token = made(people)
    people.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute(f"UPDATE token SET {edit}")  # noqa: S608
    with Database.open(path) as again:
        assert usable(again) == {}
        with again.reading() as connection:
            assert tokens_in(connection, all=True)[token.token.id].revoked


def test_an_account_elsewhere_is_one_persons_and_only_people_have_one(people: Database) -> None:
    name = oidc_name("https://id.example.org", "42")

    def bound(principal: str) -> str:
        return set_credential(people, "oidc", name=name, principal=principal, body=b"", by=OWNER, owner=OWNER)

    assert "not a person" in bound("agent:bot")
    assert "not a person" in bound("agent:cli")
    assert "not registered" in bound("human:eve")
    assert bound("human:ada") == ""
    assert "ada's already" in bound(OWNER)
    assert revoke_credential(people, "oidc", name=name, by=OWNER) == ""
    assert bound(OWNER) == ""


def test_state_from_before_there_were_tokens_is_brought_up_to_date(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setattr(connections, "MIGRATIONS", MIGRATIONS[: KNOWS_TOKEN - 1])
        before.setattr(connections, "VERSION", KNOWS_TOKEN - 1)
        with Database.open(path) as old:
            assert add_principal(old, ADA, by=OWNER, owner=OWNER) == ""
            assert usable(old) == {}
            with old.reading() as connection:
                assert credential_in(connection, "password", "human:ada") is None
        assert verify(path).ok
    with Database.open(path) as database:
        assert isinstance(added(database, "human:ada"), Made)
    assert verify(path).ok


def test_scopes_are_the_rights_that_roles_give() -> None:
    from metier.record.tokens import RIGHTS

    assert ROLES["owner"] == RIGHTS
