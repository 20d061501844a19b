"""What is handed on says what happened in the shape others expect, and does nothing where it is opened."""

import csv
import io
import json
import tracemalloc
from typing import Any

import msgspec
import pytest

from metier.model.permission import PermissionSet
from metier.record.audit import AuditLog, Intent
from metier.record.chain import Act, Ran
from metier.record.database import Database
from metier.record.export import COLUMNS, csv_cells, exported, json_line
from metier.record.trust import TrustStore

ACT = Act(
    principal="agent:cli",
    call_id="call-1",
    on_behalf_of="human:x",
    tool="fs_write",
    skill="files",
    skill_digest="sha256:ab",
    decision="ask",
    evidence="apr_1",
    approved_by="human:x",
    trust_level="supervised_auto",
)


def lines(database: Database, **given: Any) -> list[dict[str, Any]]:
    return [json.loads(json_line(line)) for line in exported(database, **given)]


@pytest.fixture
def happened(database: Database, log: AuditLog) -> None:
    """One call that ran, one that was refused, and a skill that was trusted."""
    intent = log.intent(
        ACT, reasons=("a person said so",), payloads={"arguments": {"path": "memory/a", "content": "b"}}
    )
    assert isinstance(intent, Intent)
    ran = Ran(sandbox="bubblewrap", guarantees=("contents", "no_network"), duration_ms=45.0)
    with database.transaction() as connection:
        log.ending(intent, "skill_executed", payloads={"result": {"size": 1234}}, ran=ran)(connection)
    log.refused(
        msgspec.structs.replace(ACT, call_id="call-2"),
        code="not_allowed",
        reasons=("no",),
        payloads={"arguments": {}},
    )
    TrustStore(database).grant("tea", "d1", permissions=PermissionSet(), by="human:x", how="operator")


def test_a_call_is_one_object_in_the_shape_of_its_document(database: Database, happened: None) -> None:
    started, ended, blocked, trusted = lines(database)
    assert {name: ended[name] for name in ("level", "category", "event", "actor")} == {
        "level": "info", "category": "action", "event": "skill_executed", "actor": "agent:cli",
    }  # fmt: skip
    assert ended["details"] == {
        "skillId": "files",
        "tool": "fs_write",
        "inputs": {"path": "memory/a", "content": "b"},
        "outputs": {"size": 1234},
        "success": True,
        "durationMs": 45.0,
        "approvalRequired": True,
        "approvedBy": "human:x",
        "trustLevel": "supervised_auto",
    }
    assert ended["timestamp"].endswith("Z")
    assert (ended["sandbox"], ended["guarantees"]) == ("bubblewrap", ["contents", "no_network"])
    assert (ended["skillDigest"], ended["reasons"]) == ("sha256:ab", ["a person said so"])
    assert len(ended["inputHash"]) == len(ended["outputHash"]) == 64
    assert (ended["seq"], ended["previous"]) == (2, started["hash"])
    assert (blocked["event"], blocked["details"]["success"], blocked["code"]) == (
        "skill_execution_blocked",
        False,
        "not_allowed",
    )
    assert (trusted["event"], trusted["details"]["skillId"], trusted["details"]["success"]) == (
        "skill_trusted",
        "tea",
        None,
    )
    assert set(ended) == set(started) == set(blocked) == set(trusted)


def test_what_was_erased_is_not_handed_on(database: Database, log: AuditLog, happened: None) -> None:
    log.erase(1, by="human:x")
    ended = lines(database)[1]
    assert (ended["details"]["inputs"], ended["details"]["outputs"]) == (None, {"size": 1234})
    assert ended["inputHash"], "that something was asked stays on the record"


def test_a_part_of_the_log_by_number_and_by_time(database: Database, log: AuditLog) -> None:
    for day in (1, 2, 3):
        AuditLog(database, clock=lambda day=day: f"2026-03-0{day}T12:00:00.000000Z").refused(
            Act(principal="p"), code="c", reasons=("r",)
        )
    assert [line["seq"] for line in lines(database, since=2)] == [2, 3]
    assert [line["seq"] for line in lines(database, until=2)] == [1, 2]
    assert [line["seq"] for line in lines(database, since="2026-03-02")] == [2, 3]
    assert [line["seq"] for line in lines(database, since="2026-03-02", until="2026-03-02")] == [2]
    assert lines(database, since=2)[0]["previous"] == lines(database)[0]["hash"]


FORMULAS = [
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(1)",
    "\t=1",
    "\r=1",
    " =1",
    "＝1",
    '=HYPERLINK("http://x")',
    "%0a=1",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_inj_12_no_cell_of_an_export_is_a_formula(database: Database, log: AuditLog, text: str) -> None:
    act = Act(
        principal=text,
        call_id=text,
        on_behalf_of=text,
        tool=text,
        skill=text,
        skill_digest=text,
        approved_by=text,
    )
    log.refused(act, code=text, reasons=(text,), payloads={"arguments": text})
    [row] = [csv_cells(line) for line in exported(database)]
    told = dict(zip(COLUMNS, row, strict=True))
    for name in (
        "actor",
        "callId",
        "onBehalfOf",
        "tool",
        "skillId",
        "skillDigest",
        "code",
        "reasons",
        "approvedBy",
    ):
        assert told[name].startswith(("'", "\\u{")), name
        assert text.strip()[:4] in told[name]
    for cell in row:
        assert not cell.lstrip().startswith(("=", "+", "-", "@", "＝")), cell


def test_inj_12_without_the_mark_it_would_be_one(database: Database, log: AuditLog) -> None:
    log.refused(Act(principal="=1+1"), code="c", reasons=("r",))
    [line] = exported(database)
    assert line.actor == "=1+1"


def test_a_csv_file_has_one_row_a_record_whatever_is_in_it(database: Database, log: AuditLog) -> None:
    from metier.doors.cli.audit_find import _quoted  # pyright: ignore[reportPrivateUsage]

    for text in ('a"b', "a,b", "a\nb", "a\r\nb", "a\u2028b", "\x00", "\u202e"):
        log.refused(Act(principal=text), code="c", reasons=(text,), payloads={"arguments": [text]})
    text = "\n".join(_quoted(csv_cells(line)) for line in exported(database))
    rows = list(csv.reader(io.StringIO(text), strict=True))
    assert len(rows) == text.count("\n") + 1 == 7
    assert {len(row) for row in rows} == {len(COLUMNS)}
    assert rows[0][COLUMNS.index("actor")] == 'a"b'
    assert "\u202e" not in text


def test_a_json_line_moves_no_cursor(database: Database, log: AuditLog) -> None:
    log.refused(Act(principal="\u202e\x1b[2J"), code="c", reasons=("r",), payloads={"arguments": "\u2028"})
    [line] = [json_line(line) for line in exported(database, stored=True)]
    assert line.isascii()
    assert line.isprintable()


def test_memory_does_not_grow_with_the_export(database: Database, log: AuditLog) -> None:
    def peak(records: int) -> int:
        with database.transaction() as connection:
            for _ in range(records):
                log.noting("skill_execution_blocked", Act(principal="p"), payloads={"arguments": "x" * 100})(
                    connection
                )
        tracemalloc.start()
        try:
            assert sum(1 for _ in exported(database)) >= records
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    small = peak(200)
    assert peak(4000) < small + 100_000
