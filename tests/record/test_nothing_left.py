"""What was erased or is over cannot be guessed from anything that is left in the state folder."""

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from metier.errors import StateError
from metier.gate.confirmation import question
from metier.model.call import Call, Principal, Surroundings, ValidCall
from metier.model.digest import canonical, digest_bytes
from metier.model.entry import Operation
from metier.model.permission import PermissionSet
from metier.model.skill import Tool
from metier.record.audit import AuditLog
from metier.record.chain import Act, keyed_digest
from metier.record.confirmations import ask, asked_in, take_answer
from metier.record.database import Database
from metier.record.erasure import erase, erase_call
from metier.record.keys import Keys
from metier.record.litter import LEFT_SECONDS
from metier.record.question_key import MOST_SECONDS
from metier.record.signing import rotate_key, sign_head
from metier.record.verify import verify

TOOL = Tool(name="unlock", description="", parameters={}, entry=Operation(module="m", operation="o"))


def asked(pin: int) -> tuple[str, str]:
    """Conversation and act of a question about this PIN."""
    call = Call(
        id="call-1",
        principal=Principal(id="agent:a", kind="agent"),
        tool="unlock",
        arguments={"pin": pin},
        surroundings=Surroundings(turn=1),
    )
    valid = ValidCall(
        call=call,
        tool=TOOL,
        arguments={"pin": pin},
        skill=None,
        permissions=PermissionSet(),
        confirmed=False,
    )
    found = question(valid, None)
    assert found is not None
    return found[:2]


def put(database: Database, pin: int, now: float | None = None) -> None:
    with database.transaction() as connection:
        ask(connection, *asked(pin), 1, time.time() if now is None else now)


def guessed(connection: sqlite3.Connection, fingerprints: list[str]) -> int | None:
    """Try every PIN, with every key and with none: what somebody who has the file would do."""
    keys = [key for (key,) in connection.execute("SELECT key FROM question_key")]
    for pin in range(4000, 5000):
        act = asked(pin)[1]
        plain = digest_bytes(canonical(["unlock", {"pin": pin}]))
        if {plain, *(keyed_digest(key, act.encode()) for key in keys)} & set(fingerprints):
            return pin
    return None


def fingerprints(connection: sqlite3.Connection) -> list[str]:
    return [found for (found,) in connection.execute("SELECT fingerprint FROM confirmation")]


def test_aud_16_a_question_is_kept_under_a_key_and_not_as_a_plain_digest(
    database: Database, intruder: sqlite3.Connection
) -> None:
    put(database, 4711)
    (kept,) = fingerprints(intruder)
    assert kept != digest_bytes(canonical(["unlock", {"pin": 4711}]))
    assert guessed(intruder, [kept]) == 4711, "while the question stands, its key is there"


@pytest.mark.parametrize("how", ["erase", "erase_call", "retain with nothing old", "answered", "asked anew"])
def test_aud_16_what_was_asked_about_cannot_be_guessed_once_it_is_erased_or_over(
    database: Database, log: AuditLog, intruder: sqlite3.Connection, path: str, how: str
) -> None:
    log.refused(Act(principal="p", call_id="call-1"), code="c", reasons=(), payloads={"arguments": "x"})
    put(
        database,
        4711,
        now=time.time() - (MOST_SECONDS + 5 if how in ("retain with nothing old", "asked anew") else 0),
    )
    kept = fingerprints(intruder)
    assert guessed(intruder, kept) == 4711
    if how == "erase":
        erase(database, [1], by="human:x")
    elif how == "erase_call":
        erase_call(database, "call-1", by="human:x")
    elif how == "retain with nothing old":
        erase(database, [], by="human:x")
    elif how == "answered":
        with database.transaction() as connection:
            take_answer(connection, *asked(4711))
    else:
        put(database, 5)
    assert not set(kept) & set(fingerprints(intruder))
    assert guessed(intruder, kept) is None, "not even from a copy of the row that is left in some page"
    assert verify(path).ok


def test_a_question_that_stands_is_not_forgotten_with_old_ones(database: Database) -> None:
    put(database, 1, now=time.time() - MOST_SECONDS - 5)
    put(database, 2)
    put(database, 3)
    erase(database, [], by="human:x")
    with database.reading() as connection:
        assert [asked_in(connection, *asked(pin), time.time()) for pin in (1, 2, 3)] == [None, 1, 1]


def litter(path: str, *, old: bool) -> Path:
    """What a restore leaves that was killed: the whole state, in clear."""
    left = Path(f"{path}.0123456789abcdef.draft")
    left.write_bytes(b"canary-text")
    if old:
        os.utime(left, (time.time() - LEFT_SECONDS - 60,) * 2)
    return left


def test_erasing_reaches_what_a_killed_restore_left(
    path: str, database: Database, log: AuditLog, act: Act, on_disk: Callable[[], bytes]
) -> None:
    log.refused(act, code="c", reasons=("r",), payloads={"arguments": {"text": "canary-text"}})
    litter(path, old=False)
    own = Path(f"{path}.my-copy.draft")
    own.write_bytes(b"not ours to remove")
    log.erase(1, by="human:x")
    assert b"canary-text" not in on_disk()
    assert own.exists()


def test_what_a_killed_restore_left_goes_when_the_state_is_next_opened(path: str) -> None:
    with Database.open(path):
        pass
    young, old = litter(path, old=False), Path(f"{path}.fedcba9876543210.draft")
    os.rename(young, old)
    os.utime(old, (time.time() - LEFT_SECONDS - 60,) * 2)
    young = litter(path, old=False)
    with Database.open(path):
        pass
    assert (young.exists(), old.exists()) == (True, False)


def test_a_second_name_of_a_key_does_not_outlive_its_rotation(
    database: Database, log: AuditLog, act: Act, keys: Keys
) -> None:
    log.refused(act, code="c", reasons=("r",))
    sign_head(database, keys, by="human:x")
    old = Path(keys.folder, "signing.key")
    key = old.read_bytes()
    for name in ("signing.key.0123456789abcdef.draft", "0123456789abcdef.next.0123456789abcdef.draft"):
        os.link(old, Path(keys.folder, name))
    rotate_key(database, keys, by="human:x")
    assert sorted(os.listdir(keys.folder)) == ["public.keys", "signing.key"]
    assert old.read_bytes() != key


def test_without_a_state_no_draft_is_touched(path: str) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700)
    left = litter(path, old=False)
    with pytest.raises(StateError):
        Database.open(path, create=False)
    assert left.exists(), "a restore may be at work"
