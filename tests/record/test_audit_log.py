"""What is recorded, when, in which order, and that nothing acts without it."""

import hashlib
import resource
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from metier.errors import RecordError
from metier.record.audit import AuditLog, Condition, Intent, IntentDenied
from metier.record.chain import Act, keyed_digest
from metier.record.database import Database
from metier.record.events import EVENTS, Event
from metier.record.payload import PAYLOAD_BYTES, TEXT_BYTES
from metier.record.verify import verify

Start = Callable[[str], "subprocess.Popen[str]"]


def test_a_call_leaves_its_intent_and_its_outcome(log: AuditLog, act: Act) -> None:
    intent = log.intent(act, payloads={"arguments": {"name": "weather"}})
    assert isinstance(intent, Intent)
    log.outcome(intent, "skill_executed", payloads={"result": "sunny"})
    began, ended = log.tail(10)
    assert (began.event, began.level, began.category) == ("skill_execution_started", "info", "action")
    assert (ended.event, ended.level, ended.category) == ("skill_executed", "info", "action")
    assert (ended.about, ended.call_id, ended.principal, ended.skill) == (
        intent.seq,
        "call-1",
        "agent:cli",
        "weather",
    )
    assert (set(began.payloads), set(ended.payloads)) == ({"arguments"}, {"result"})


def test_what_was_kept_beside_a_record_is_shown_while_it_is_the_recorded_one(
    log: AuditLog, act: Act, intruder: sqlite3.Connection
) -> None:
    for word in ("first", "second", "third"):
        log.refused(act, code="c", reasons=("r",), payloads={"arguments": {"word": word}, "note": None})
    first, second, third = log.tail(10)
    assert [log.kept(each)["arguments"] for each in (first, second, third)] == [
        {"word": "first"},
        {"word": "second"},
        {"word": "third"},
    ]
    log.erase(first.seq, by="owner")
    intruder.execute(
        "UPDATE audit SET kept = CAST(replace(kept, 'second', 'zweite') AS BLOB) WHERE seq = ?", (second.seq,)
    )
    intruder.execute("UPDATE audit SET kept = 'text', keys = 5 WHERE seq = ?", (third.seq,))
    assert [log.kept(each) for each in (first, second, third)] == [{}, {"note": None}, {}]


def test_a_refusal_is_one_record_with_its_reasons(log: AuditLog, act: Act) -> None:
    log.refused(act, code="not_trusted", reasons=("nobody trusts it",))
    (record,) = log.tail(10)
    assert (record.event, record.code, record.reasons) == (
        "skill_execution_blocked",
        "not_trusted",
        ("nobody trusts it",),
    )


def test_every_event_has_a_fixed_level_and_category() -> None:
    assert set(get_args(Event)) == set(EVENTS)


def test_tail_gives_the_newest_last_and_can_follow_one_call(log: AuditLog) -> None:
    for number in range(6):
        log.refused(
            Act(principal="p", call_id=f"c{number % 2}"), code=str(number), reasons=('"call_id":"c1"',)
        )
    assert [record.code for record in log.tail(3)] == ["3", "4", "5"]
    assert [record.code for record in log.tail(2, call_id="c1")] == ["3", "5"]
    assert log.tail(2, call_id="c") == []
    log.refused(Act(principal="p"), code="c", reasons=("r",), payloads={"call_id": "x"})
    assert log.tail(2, call_id=log.tail(1)[0].payloads["call_id"]) == [], "a digest is not an id"
    assert log.tail(0) == log.tail(-1) == []


def test_aud_07_the_intent_is_on_disk_before_anything_happens(
    path: str, log: AuditLog, act: Act, intruder: sqlite3.Connection
) -> None:
    assert intruder.execute("SELECT count(*) FROM audit").fetchone() == (0,)
    intent = log.intent(act)
    effect_sees = intruder.execute("SELECT seq FROM audit").fetchall()
    assert isinstance(intent, Intent)
    assert effect_sees == [(intent.seq,)]


def test_aud_07_a_crash_after_the_effect_leaves_an_open_intent(
    path: str, tmp_path: Path, start: Start
) -> None:
    effect = tmp_path / "effect"
    process = start(f"""
import os, signal
from metier.record.audit import AuditLog
from metier.record.chain import Act
from metier.record.database import Database
log = AuditLog(Database.open(path))
log.outcome(log.intent(Act(principal="p", call_id="whole")), "skill_executed")
log.intent(Act(principal="p", call_id="killed"))
open({str(effect)!r}, "w").close()
os.kill(os.getpid(), signal.SIGKILL)
""")
    assert process.wait() == -signal.SIGKILL
    assert effect.exists()
    with Database.open(path) as database:
        assert [record.call_id for record in AuditLog(database).open_intents()] == ["killed"]
        found = verify(database)
        assert (found.ok, found.open_intents) == (True, (3,))


def test_aud_07_an_intent_has_exactly_one_outcome(log: AuditLog, act: Act) -> None:
    intent = log.intent(act)
    assert isinstance(intent, Intent)
    log.outcome(intent, "skill_execution_error", code="internal")
    for not_waiting in (intent, structs.replace(intent, seq=2), structs.replace(intent, seq=99)):
        with pytest.raises(RecordError, match="not an intent"):
            log.outcome(not_waiting, "skill_executed")
    assert len(log.tail(10)) == 2
    assert log.open_intents() == []


class Objects:
    """A condition that does not hold."""

    def problem(self, connection: sqlite3.Connection) -> IntentDenied:
        return IntentDenied("the skill was disabled a moment ago", "skill_disabled")

    def take(self, connection: sqlite3.Connection, intent: int) -> None:
        raise AssertionError("nothing may be taken")


class Spends:
    """A condition that holds, and uses something up."""

    def problem(self, connection: sqlite3.Connection) -> None:
        return None

    def take(self, connection: sqlite3.Connection, intent: int) -> None:
        connection.execute("INSERT INTO revoked VALUES ('x', ?, '')", (str(intent),))


@pytest.mark.parametrize("conditions", [(Objects(),), (Spends(), Objects()), (Objects(), Spends())])
def test_a_condition_that_objects_leaves_no_trace(
    database: Database, log: AuditLog, act: Act, conditions: tuple[Condition, ...]
) -> None:
    denied = log.intent(act, conditions=conditions)
    assert denied == IntentDenied("the skill was disabled a moment ago", "skill_disabled")
    assert log.tail(10) == []
    with database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM revoked").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM begun").fetchone() == (0,)


def test_a_condition_that_holds_is_taken_together_with_the_intent(
    database: Database, log: AuditLog, act: Act
) -> None:
    assert isinstance(log.intent(act, conditions=[Spends()]), Intent)
    with database.reading() as connection:
        assert connection.execute("SELECT revoked_at FROM revoked").fetchall() == [("1",)]


def test_a_condition_that_fails_is_not_an_agreement(log: AuditLog, act: Act) -> None:
    class Fails:
        def __init__(self, how: Callable[[sqlite3.Connection], object]) -> None:
            self.how = how

        def problem(self, connection: sqlite3.Connection) -> None:
            self.how(connection)

        def take(self, connection: sqlite3.Connection, intent: int) -> None:
            raise AssertionError("nothing may be taken")

    with pytest.raises(RecordError):
        log.intent(act, conditions=[Fails(lambda connection: connection.execute("SELECT nonsense"))])
    with pytest.raises(ZeroDivisionError):
        log.intent(act, conditions=[Fails(lambda _: 1 / 0)])
    assert log.tail(10) == []


def test_one_attempt_of_a_call_begins_once_and_another_attempt_is_another(log: AuditLog) -> None:
    first = Act(principal="p", call_id="call_1")
    assert isinstance(log.intent(first), Intent)
    assert log.intent(first) == IntentDenied("attempt 1 of this call has begun already", "already_begun")
    assert isinstance(log.intent(structs.replace(first, attempt=2)), Intent)


def test_aud_06_a_full_disk_refuses_and_leaves_a_whole_log(path: str, start: Start) -> None:
    limit = 400_000
    process = start(f"""
import resource, signal
from metier.errors import RecordError
from metier.record.audit import AuditLog
from metier.record.chain import Act
from metier.record.database import Database
log = AuditLog(Database.open(path))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {resource.RLIM_INFINITY}))
written = 0
try:
    while True:
        log.refused(Act(principal="p"), code="c", reasons=("x" * 4000,))
        written += 1
except RecordError as error:
    print(written, bool(error.remedy))
resource.setrlimit(resource.RLIMIT_FSIZE, ({resource.RLIM_INFINITY}, {resource.RLIM_INFINITY}))
print(log.refused(Act(principal="p"), code="room again", reasons=("y",)))
""")
    output, _ = process.communicate()
    (written, has_remedy), (after,) = (line.split() for line in output.splitlines())
    assert int(written) > 10
    assert has_remedy == "True"
    assert int(after) == int(written) + 1
    found = verify(path)
    assert (found.ok, found.records) == (True, int(after))


def test_aud_06_a_log_whose_tables_are_gone_refuses(
    log: AuditLog, act: Act, intruder: sqlite3.Connection
) -> None:
    intruder.execute("DROP TABLE audit")
    for write in (
        lambda: log.intent(act),
        lambda: log.outcome(Intent(seq=1, act=act), "skill_executed"),
        lambda: log.refused(act, code="c", reasons=("r",)),
        lambda: log.tail(1),
        lambda: log.open_intents(),
        lambda: log.head(),
    ):
        with pytest.raises(RecordError) as caught:
            write()
        assert caught.value.remedy


HOSTILE = {
    "newline": "a\n{}\r\nb",
    "nul": "a\0b",
    "lone surrogate": "a\ud800b\udc80",
    "line separators": "a\u2028b\u2029c\u0085d",
    "quotes": '","event":"skill_trusted","x":"',
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_aud_08_hostile_text_stays_one_valid_record(
    path: str, log: AuditLog, intruder: sqlite3.Connection, text: str
) -> None:
    act = Act(principal=text, call_id=text, on_behalf_of=text, tool=text, skill=text, skill_digest=text)
    intent = log.intent(act, reasons=(text,), payloads={text: {text: [text]}})
    assert isinstance(intent, Intent)
    log.outcome(intent, "skill_executed", code=text, reasons=(text,), payloads={text: text})
    assert len(log.tail(10)) == len(log.tail(10, call_id=text)) == 2
    assert log.tail(10)[0].event == "skill_execution_started"
    for (body,) in intruder.execute("SELECT body FROM audit UNION ALL SELECT kept FROM audit"):
        body.decode("utf-8")
        assert b"\n" not in body
        assert b"\0" not in body
    assert verify(path).ok


def test_aud_08_bulk_is_cut_where_one_can_see_it(log: AuditLog, intruder: sqlite3.Connection) -> None:
    bulk = "ä" * 10_000_000
    log.refused(
        Act(principal=bulk, tool=bulk),
        code=bulk,
        reasons=(bulk,) * 1000,
        payloads={"arguments": {"bulk": bulk}},
    )
    (record,) = log.tail(1)
    for text in (record.principal, record.tool, record.code, *record.reasons[:-1]):
        assert len(text.encode()) <= TEXT_BYTES
        assert text.endswith("… [cut, 20000000 bytes]")
    assert record.reasons[-1] == "… [cut, 1000 in all]"
    assert intruder.execute("SELECT kept FROM audit").fetchall() == [(None,)]
    assert intruder.execute("SELECT length(body) FROM audit").fetchone()[0] < 300_000


def test_a_payload_of_just_the_allowed_size_is_kept(path: str, log: AuditLog, act: Act) -> None:
    for size in (PAYLOAD_BYTES - 2, PAYLOAD_BYTES - 1):
        log.refused(act, code="c", reasons=("r",), payloads={"arguments": "x" * size})
    with Database.open(path) as database, database.reading() as connection:
        lengths = connection.execute("SELECT length(kept) FROM audit ORDER BY seq").fetchall()
    assert lengths == [(len('{"arguments":}') + PAYLOAD_BYTES,), (None,)]
    assert verify(path).ok


def test_a_payload_without_end_is_cut(path: str, log: AuditLog, act: Act) -> None:
    bottomless: list[Any] = []
    bottomless.append(bottomless)
    odd: Any = {1: object()}
    log.refused(act, code="c", reasons=("r",), payloads={"arguments": bottomless, "odd": odd})
    assert set(log.tail(1)[0].payloads) == {"arguments", "odd"}
    assert verify(path).ok


def test_aud_10_two_processes_write_one_chain(path: str, start: Start) -> None:
    code = """
from metier.record.audit import AuditLog
from metier.record.chain import Act
from metier.record.database import Database
input()
log = AuditLog(Database.open(path))
for number in range(250):
    log.outcome(log.intent(Act(principal=NAME, call_id=f"{NAME}{number}")), "skill_executed")
"""
    processes = [start(f"NAME = {name!r}\n{code}") for name in ("left", "right")]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.wait() for process in processes] == [0, 0]
    found = verify(path)
    assert (found.ok, found.records, found.open_intents) == (True, 1000, ())
    with Database.open(path) as database:
        records = AuditLog(database).tail(1000)
    assert {record.principal for record in records[:600]} == {"left", "right"}, (
        "they did write at the same time"
    )
    assert len({(record.call_id, record.event) for record in records}) == 1000


def test_aud_10_threads_of_one_process_write_one_chain(path: str, log: AuditLog) -> None:
    def work(name: str) -> None:
        for number in range(25):
            intent = log.intent(Act(principal=name, call_id=f"{name}.{number}"))
            assert isinstance(intent, Intent)
            log.outcome(intent, "skill_executed")

    threads = [threading.Thread(target=work, args=(str(number),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = verify(path)
    assert (found.ok, found.records, found.open_intents) == (True, 400, ())


def test_aud_11_the_number_orders_and_not_the_clock(path: str, database: Database, act: Act) -> None:
    times = iter(
        ["2026-05-01T00:00:00.000000Z", "1970-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z"] * 2
    )
    log = AuditLog(database, clock=lambda: next(times))
    for number in range(6):
        log.refused(act, code=str(number), reasons=("r",))
    records = log.tail(6)
    assert [record.code for record in records] == list("012345")
    assert [record.at for record in records] != sorted(record.at for record in records)
    assert verify(path).ok


def test_time_is_utc_with_microseconds(log: AuditLog, act: Act) -> None:
    log.refused(act, code="c", reasons=("r",))
    date, _, fraction = log.tail(1)[0].at.partition(".")
    assert len(date) == len("2026-05-01T00:00:00")
    assert len(fraction) == len("123456Z")
    assert fraction.endswith("Z")


def test_sec_05_a_short_payload_cannot_be_guessed_from_the_chain(
    database: Database, act: Act, intruder: sqlite3.Connection
) -> None:
    log = AuditLog(database, payloads="full")
    guesses = [msgspec.json.encode({"pin": f"{number:04}"}) for number in range(10_000)]
    log.refused(act, code="c", reasons=("r",), payloads={"arguments": {"pin": "4711"}})
    log.refused(act, code="c", reasons=("r",), payloads={"arguments": {"pin": "4711"}})
    first, second = (record.payloads["arguments"] for record in log.tail(2))
    assert first != second, "equal payloads do not show as equal"
    bare = hashlib.sha256(guesses[4711]).hexdigest()
    assert [guess for guess in guesses if hashlib.sha256(guess).hexdigest() == bare] == [guesses[4711]]
    assert first not in {hashlib.sha256(guess).hexdigest() for guess in guesses}
    (key,) = intruder.execute("SELECT keys FROM audit WHERE seq = 1").fetchone()
    assert keyed_digest(key, guesses[4711]) == first, "whoever has the key can prove it"


def test_aud_16_with_hashes_only_no_payload_is_on_disk(
    path: str, database: Database, act: Act, on_disk: Callable[[], bytes]
) -> None:
    AuditLog(database).refused(
        act, code="c", reasons=("r",), payloads={"arguments": {"text": "visible-text"}}
    )
    assert b"visible-text" in on_disk()
    AuditLog(database, payloads="hashes").refused(
        act, code="c", reasons=("r",), payloads={"arguments": {"text": "hidden-text"}}
    )
    assert b"hidden-text" not in on_disk()
    assert verify(path).ok


def test_secrets_are_masked_before_a_payload_is_kept_unless_told_otherwise(
    database: Database, act: Act, on_disk: Callable[[], bytes]
) -> None:
    AuditLog(database).refused(act, code="c", reasons=("r",), payloads={"arguments": {"api_key": "canary-1"}})
    assert b"canary-1" not in on_disk()
    AuditLog(database, payloads="full").refused(
        act, code="c", reasons=("r",), payloads={"arguments": {"api_key": "canary-2"}}
    )
    assert b"canary-2" in on_disk()


texts = st.text(st.characters(exclude_categories=()), max_size=60)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(principal=texts, tool=texts, code=texts, reasons=st.lists(texts, max_size=4).map(tuple))
def test_what_was_written_is_what_is_read(
    log: AuditLog, principal: str, tool: str, code: str, reasons: tuple[str, ...]
) -> None:
    log.refused(Act(principal=principal, tool=tool), code=code, reasons=reasons)
    (record,) = log.tail(1)

    def spelled(text: str) -> str:
        return text.encode("utf-8", "backslashreplace").decode()

    assert (record.principal, record.tool, record.code) == (spelled(principal), spelled(tool), spelled(code))
    assert record.reasons == tuple(spelled(reason) for reason in reasons)


def test_a_newer_metiers_event_can_still_be_shown(path: str, log: AuditLog, act: Act) -> None:
    from metier.record.chain import head, link

    log.refused(act, code="c", reasons=("r",))
    with Database.open(path) as database, database.transaction() as connection:
        body = b'{"seq":2,"at":"t","event":"moon_landed","level":"loud","category":"space","crew":3}'
        connection.execute(
            "INSERT INTO audit VALUES (2, ?, ?, NULL, NULL)", (body, link(head(connection)[1], 2, body))
        )
    assert log.tail(1)[0].event == "moon_landed"
    assert verify(path).ok


def test_a_record_nobody_can_read_is_reported_and_not_skipped(
    log: AuditLog, act: Act, intruder: sqlite3.Connection
) -> None:
    log.refused(act, code="c", reasons=("r",))
    intruder.execute("UPDATE audit SET body = x'ff00'")
    with pytest.raises(RecordError, match="cannot be read"):
        log.tail(1)
