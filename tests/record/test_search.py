"""What happened is found again by what one remembers of it."""

from typing import Any

import pytest

from metier.record.audit import AuditLog, Intent
from metier.record.chain import Act
from metier.record.database import Database
from metier.record.search import Query, of_call, record_at, search, story_of


@pytest.fixture(autouse=True)
def happened(database: Database) -> None:
    days = iter(range(1, 10))
    log = AuditLog(database, clock=lambda: f"2026-03-0{next(days)}T12:00:00.000000Z")
    log.refused(
        Act(principal="agent:cli", tool="notes/write", skill="notes"), code="no", reasons=("not trusted",)
    )
    act = Act(
        principal="agent:bob", on_behalf_of="human:ann", call_id="call-7", tool="notes/read", skill="notes"
    )
    intent = log.intent(act, payloads={"arguments": {"title": 'Zürich "quoted" Trip', "tool": "notes/write"}})
    assert isinstance(intent, Intent)
    log.outcome(intent, "skill_executed", payloads={"result": "a result in ZÜRICH"})
    log.refused(
        Act(principal="agent:cli", tool="notes/write_all", call_id="call-70"), code="no", reasons=("call-7",)
    )


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, [1, 2, 3, 4]),
        ({"tool": "notes/write"}, [1]),
        ({"skill": "notes"}, [1, 2, 3]),
        ({"principal": "agent:bob"}, [2, 3]),
        ({"principal": "human:ann"}, [2, 3]),
        ({"event": "skill_executed"}, [3]),
        ({"call_id": "call-7"}, [2, 3]),
        ({"call_id": "call"}, []),
        ({"text": "not trusted"}, [1]),
        ({"text": "NOT Trusted"}, [1]),
        ({"text": "trip"}, [2]),
        ({"text": 'Zürich "quoted"'}, [2]),
        ({"text": "a result"}, [3]),
        ({"text": "call-7"}, [2, 3, 4]),
        ({"text": "ZÜRICH"}, [3]),
        ({"text": "nowhere"}, []),
        ({"since": 3}, [3, 4]),
        ({"since": 2, "until": 3}, [2, 3]),
        ({"since": "2026-03-02"}, [2, 3, 4]),
        ({"until": "2026-03-02"}, [1, 2]),
        ({"until": "2026-03"}, [1, 2, 3, 4]),
        ({"since": "2026-03-02T12:00:01"}, [3, 4]),
        ({"skill": "notes", "since": "2026-03-03", "text": "RESULT"}, [3]),
        ({"tool": "' OR 1=1 --"}, []),
        ({"text": "%"}, []),
    ],
)
def test_what_is_found(database: Database, query: dict[str, Any], found: list[int]) -> None:
    assert [record.seq for record in search(database, Query(**query), 100)] == found


def test_the_newest_are_found_first_and_shown_last(database: Database) -> None:
    assert [record.seq for record in search(database, Query(), 2)] == [3, 4]


def test_what_was_erased_is_not_found_by_what_it_said(database: Database) -> None:
    AuditLog(database).erase(2, by="human:x")
    assert search(database, Query(text="trip"), 10) == []


def test_everything_of_one_call(database: Database) -> None:
    with database.reading() as connection:
        assert [record.event for record in of_call(connection, "call-7")] == [
            "skill_execution_started",
            "skill_executed",
        ]
        assert record_at(connection, 99) is None


def test_the_story_of_a_call_is_its_own_whatever_its_id_looks_like(database: Database) -> None:
    log, ids = AuditLog(database), ["a_%", "aX%", "A_%", "a_", "a_%!", 'a"_%']
    for id in ids:
        log.refused(Act(principal="agent:cli", call_id=id), code="no", reasons=(f"not {id}",))
        log.refused(Act(principal="agent:cli", call_id="inner", parent=id), code="no", reasons=())
    with database.reading() as connection:
        for id in ids:
            own, inside = story_of(connection, id)
            assert [each.call_id for each in own] == [id]
            assert [each.parent for each in inside] == [id]
