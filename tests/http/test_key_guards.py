"""Keys of calls, each guard by itself: what is a key, whose it is, and what is known by it."""

import sqlite3
from contextlib import closing
from typing import Any

import pytest
from starlette.requests import Request

from metier.doors.http import idempotency
from metier.doors.http.idempotency import Kept, Once, key_in
from metier.doors.http.problem import Refusal


def request(*keys: str) -> Request:
    headers = [(b"idempotency-key", each.encode()) for each in keys]
    return Request({"type": "http", "method": "POST", "path": "/", "headers": headers})


def once(**more: Any) -> Once:
    return Once(**{"principal": "agent:a", "since": "2026", "key": "k", **more})


def test_a_request_has_one_key_or_none() -> None:
    assert key_in(request()) is None
    assert key_in(request('"one"')) == key_in(request("one")) == "one"
    for keys in (('"one"', '"one"'), ("one", "two")):
        with pytest.raises(Refusal) as refused:
            key_in(request(*keys))
        assert (refused.value.problem.status, refused.value.problem.code) == (400, "bad_idempotency_key")


@pytest.mark.parametrize("key", ["", '""', '"a', 'a"', "a b", "a,b", "x" * 256, '"\\"'])
def test_what_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(Refusal):
        key_in(request(key))


@pytest.mark.parametrize(
    "other", [{"principal": "agent:b"}, {"since": "2027"}, {"since": ""}, {"key": "l"}], ids=str
)
def test_cap_12_the_same_key_of_somebody_else_stands_for_another_call(other: dict[str, str]) -> None:
    assert once().call_id == once().call_id
    assert once(**other).call_id != once().call_id
    assert once(**other).name != once().name
    assert once(**other).digest_of(b"x") != once().digest_of(b"x")


def test_the_key_itself_is_not_kept() -> None:
    assert "k" * 40 not in once(key="k" * 40).name


def test_a_secret_is_not_found_by_trying_what_it_could_be() -> None:
    quick, slow = once().digest_of(b"secret"), once().digest_of(b"secret", slowly=True)
    assert slow == once().digest_of(b"secret", slowly=True)
    assert slow != quick
    assert slow != once().digest_of(b"other", slowly=True)


def test_while_it_is_being_done_who_asks_with_the_same_key_is_told_so() -> None:
    database: Any = None
    kept = Kept(database)
    with kept.alone(once()):
        with pytest.raises(Refusal) as refused, kept.alone(once()):
            pass
        assert (refused.value.problem.status, refused.value.problem.code) == (409, "still_running")
        with kept.alone(once(key="l")):
            pass
    with kept.alone(once()):
        pass


def test_nobody_has_more_keys_than_may_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "MOST_KEYS", 2)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE answer (key TEXT)")
        database: Any = None
        kept: Any = Kept(database)
        for key in ("a", "b"):
            kept._require_room(connection, "agent:a")
            connection.execute("INSERT INTO answer VALUES (?)", (once(key=key).name,))
        with pytest.raises(Refusal) as refused:
            kept._require_room(connection, "agent:a")
        assert (refused.value.problem.status, refused.value.problem.code) == (429, "too_many_keys")
        for other in ("agent:b", "agent:", "agent:aa"):
            kept._require_room(connection, other)
