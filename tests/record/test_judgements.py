"""The judgements of the past: the same ones from whichever end they are read, and no more of them than were asked for."""

from itertools import count, takewhile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.record.audit import AuditLog, Intent
from metier.record.beside import recorded, recorded_one
from metier.record.chain import Act
from metier.record.database import Database
from metier.record.judgements import Judgement, judgements, newest_once, oldest_once

REQUESTS = st.sampled_from(["apr_1", "apr_2"])
EVENTS = st.one_of(
    st.tuples(st.just("skill_approval_queued"), REQUESTS, st.just("")),
    st.tuples(
        st.sampled_from(["skill_rejected", "approval_expired", "call_cancelled"]), REQUESTS, st.just("")
    ),
    st.tuples(
        st.just("skill_execution_started"),
        st.just(""),
        st.sampled_from(["policy", "grt_1", "apr_1", "apr_2"]),
    ),
    st.tuples(st.sampled_from(["skill_execution_blocked", "skill_approved"]), st.just(""), st.just("")),
)


@given(st.lists(EVENTS, max_size=12))
def test_a_call_that_waited_is_given_once_from_whichever_end_one_reads(
    happened: list[tuple[str, str, str]],
) -> None:
    records = [
        Judgement(seq=seq, at="", event=event, approval=approval, evidence=evidence)
        for seq, (event, approval, evidence) in enumerate(happened)
    ]
    forward, back = oldest_once(records), newest_once(reversed(records))
    assert [each.seq for each in forward] == sorted(each.seq for each in back)


@pytest.fixture
def month(database: Database) -> Database:
    """Ten calls on ten days; the clock was put back once."""
    days = count(1)
    log = AuditLog(database, clock=lambda: f"2026-03-{(next(days) - 1) // 2 % 9 + 1:02}T12:00:00.000000Z")
    for number in range(10):
        act = Act(principal="agent:a", call_id=f"call_{number}", tool="t", effect="act", decision="allow")
        intent = log.intent(act, payloads={"arguments": {"n": number}, "cwd": "/srv"})
        assert isinstance(intent, Intent)
        log.outcome(intent, "skill_executed", payloads={"result": '"event":"skill_execution_started"'})
    return database


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, [1, 3, 5, 7, 9, 11, 13, 15, 17, 19]),
        ({"since": 6}, [7, 9, 11, 13, 15, 17, 19]),
        ({"since": "2026-03-08"}, [15, 17]),
        ({"since": "2026-03-08T12:00:00.000000Z"}, [15, 17]),
        ({"since": "2026-03-08T12:00:00.000000Z9"}, [17]),
        ({"until": "2026-03-02"}, [1, 3, 19]),
        ({"until": "2026-03-02T11"}, [1, 19]),
        ({"since": "2026-03-02", "until": "2026-03-03"}, [3, 5]),
        ({"before": 7}, [1, 3, 5]),
        ({"before": 8, "since": "2026-03-03"}, [5, 7]),
        ({"since": "\ud800"}, []),
    ],
)
def test_only_what_was_asked_for_is_given(month: Database, wanted: dict[str, Any], found: list[int]) -> None:
    assert [each.seq for each, _ in judgements(month, **wanted)] == found
    assert [each.seq for each, _ in judgements(month, newest_first=True, **wanted)] == found[::-1]


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_walk_that_has_enough_ends_wherever_it_is(month: Database, newest_first: bool) -> None:
    looked: list[int] = []

    def enough(seq: int) -> bool:
        looked.append(seq)
        return len(looked) > 5

    found = [each.seq for each, _ in judgements(month, newest_first=newest_first, enough=enough)]
    assert looked == ([19, 17, 15, 13, 11, 9] if newest_first else [1, 3, 5, 7, 9, 11])
    assert found == looked[:5]


def test_what_was_taken_up_is_given_where_the_walk_ends_before_its_request(database: Database) -> None:
    log = AuditLog(database)
    act = Act(principal="agent:a", tool="t", effect="act", decision="ask")
    with database.transaction() as connection:
        log.noting("skill_approval_queued", act, approval="apr_1")(connection)
        log.noting("skill_approved", act, approval="apr_1")(connection)
    taken_up = Act(principal="agent:a", tool="t", effect="act", decision="ask", evidence="apr_1")
    assert isinstance(log.intent(taken_up), Intent)
    looked = count(1)
    early = judgements(database, newest_first=True, enough=lambda _: next(looked) > 2)  # before the request
    assert [each.seq for each, _ in early] == [3]
    assert [each.seq for each, _ in judgements(database, newest_first=True)] == [1]


def test_what_was_kept_of_a_call_is_only_what_was_recorded(month: Database) -> None:
    payloads = [
        beside("arguments") for _, beside in takewhile(lambda each: each[0].seq < 6, judgements(month))
    ]
    assert payloads == [{"n": 0}, {"n": 1}, {"n": 2}]


@pytest.mark.parametrize(
    "change", ["", "keys = NULL", "keys = zeroblob(64)", "kept = NULL", "kept = x'7b7d'", "kept = 5"]
)
def test_one_payload_alone_is_the_same_as_among_all(month: Database, change: str) -> None:
    if change:
        with month.transaction() as connection:
            connection.execute(f"UPDATE audit SET {change} WHERE seq = 1")  # noqa: S608
    (first, _), *_ = judgements(month, before=2)
    with month.reading() as connection:
        row = connection.execute("SELECT keys, kept FROM audit WHERE seq = 1").fetchone()
    for name in ("arguments", "cwd", "result"):
        assert recorded_one(name, first.payloads, *row) == recorded(first.payloads, *row).get(name), name


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_walk_through_what_does_not_fit_can_be_ended(
    month: Database, monkeypatch: pytest.MonkeyPatch, newest_first: bool
) -> None:
    monkeypatch.setattr("metier.record.judgements._NOW_AND_THEN", 4)
    looked: list[int] = []

    def enough(seq: int) -> bool:
        looked.append(seq)
        return len(looked) > 3

    assert list(judgements(month, since="2030", newest_first=newest_first, enough=enough)) == []
    assert looked == ([20, 16, 12, 8] if newest_first else [4, 8, 12, 16])
    assert [each.seq for each, _ in judgements(month, since="2026-03-04", until="2026-03-05")] == [7, 9]
