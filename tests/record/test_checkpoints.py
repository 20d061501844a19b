"""A signed checkpoint holds the log to what it was: whoever lacks the key can change nothing that was signed."""

import base64
import os
import random
import shutil
import sqlite3
import stat
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from metier.errors import RecordError, StateError
from metier.record.audit import AuditLog, Intent
from metier.record.chain import GENESIS, Act, link
from metier.record.checkpoint import Checkpoint, PublicKey, read_checkpoint, read_key, read_known, unvouched
from metier.record.database import Database
from metier.record.keys import Keys
from metier.record.signing import rotate_key, sign_head, stored_checkpoint, trusted_keys
from metier.record.verify import Verification, verify


def fill(log: AuditLog, calls: int) -> None:
    for _ in range(calls):
        act = Act(principal="agent:cli", call_id=f"call-{log.head()[0]}", skill="weather", evidence="policy")
        intent = log.intent(act, payloads={"arguments": {"city": "Rome"}})
        assert isinstance(intent, Intent)
        log.outcome(intent, "skill_executed", payloads={"result": "sunny"})


def rebuild(intruder: sqlite3.Connection) -> None:
    """Make the chain hold again after an edit, as everybody can who can write to the file."""
    previous = GENESIS
    intruder.execute("BEGIN")
    for seq, body in intruder.execute("SELECT seq, body FROM audit ORDER BY seq").fetchall():
        previous = link(previous, seq, body)
        intruder.execute("UPDATE audit SET hash = ? WHERE seq = ?", (previous, seq))
    intruder.execute("COMMIT")


def rewritten(intruder: sqlite3.Connection, seq: int) -> None:
    intruder.execute(
        "UPDATE audit SET body = CAST(replace(body, 'agent:cli', 'agent:bob') AS BLOB) WHERE seq = ?", (seq,)
    )
    rebuild(intruder)


def found_against(path: str, kept: Checkpoint, keys: Keys) -> Verification:
    assert unvouched(kept, keys.known()) == ""
    return verify(path, kept=kept, trusted=trusted_keys(keys))


def test_a_log_that_only_grew_is_the_one_that_was_signed(
    path: str, database: Database, log: AuditLog, keys: Keys
) -> None:
    fill(log, 5)
    kept = sign_head(database, keys, by="human:x")
    fill(log, 5)
    found = found_against(path, kept, keys)
    assert (found.ok, found.records, found.signed, kept.size) == (True, 21, 10, 10)
    newest = log.tail(11)[0]
    assert (newest.event, newest.about, newest.principal) == ("head_signed", 10, "human:x")


def test_the_text_is_a_signed_note_that_anybody_can_check(
    database: Database, log: AuditLog, keys: Keys
) -> None:
    fill(log, 3)
    text = sign_head(database, keys, by="human:x").text()
    body, _, rest = text.partition("\n\n")
    origin, size, root, *more = body.split("\n")
    dash, name, signature = rest.rstrip("\n").split(" ")
    assert (dash, name, size) == ("—", origin, "6")
    assert more[0] == f"chain {log.tail(2)[0] and verify(database, until=6).head}"
    assert base64.b64decode(root).hex() == verify(database, until=6).root
    key = read_key(str(keys.known()[0].key))
    assert isinstance(key, PublicKey)
    raw = base64.b64decode(signature)
    assert raw[:4] == key.id
    Ed25519PublicKey.from_public_bytes(key.raw).verify(raw[4:], f"{body}\n".encode())


def test_what_is_read_is_what_would_be_written(database: Database, log: AuditLog, keys: Keys) -> None:
    fill(log, 1)
    text = sign_head(database, keys, by="human:x").text()
    read = read_checkpoint(text)
    assert isinstance(read, Checkpoint)
    assert read.text() == text
    assert read == read_checkpoint(text.replace("\n", "\r\n")), "a file that went through Windows is the same"


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "",
        lambda text: text.partition("\n\n")[0],
        lambda text: text.partition("\n\n")[0] + "\n\n",
        lambda text: text.replace("\n2\n", "\n02\n"),
        lambda text: text.replace("\n2\n", "\n-2\n"),
        lambda text: text.replace("\n2\n", "\n٢\n"),
        lambda text: text.replace("\n2\n", "\n2 \n"),
        lambda text: text.replace("metier/", "meteor/"),
        lambda text: text.replace("chain ", "chain  "),
        lambda text: text.replace("time ", "time"),
        lambda text: text.replace("— ", "- "),
        lambda text: text.replace("\n\n", "\nmore\n\n"),
        lambda text: text + "x",
        lambda text: "x" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_checkpoint_is_not_read(
    database: Database, log: AuditLog, keys: Keys, change: Callable[[str], str]
) -> None:
    fill(log, 1)
    text = sign_head(database, keys, by="human:x").text()
    assert isinstance(read_checkpoint(text), Checkpoint)
    assert isinstance(read_checkpoint(change(text)), str)


def test_every_changed_character_of_a_checkpoint_costs_its_signature(
    database: Database, log: AuditLog, keys: Keys
) -> None:
    fill(log, 1)
    text = sign_head(database, keys, by="human:x").text()
    for place, character in enumerate(text):
        changed = text[:place] + ("1" if character != "1" else "2") + text[place + 1 :]
        read = read_checkpoint(changed)
        assert isinstance(read, str) or unvouched(read, keys.known()), place
    assert unvouched(stored_checkpoint(database) or _none(), keys.known()) == ""


def _none() -> Checkpoint:
    raise AssertionError("there is no checkpoint")


def test_aud_05_a_chain_that_was_rebuilt_after_an_edit_is_not_the_one_that_was_signed(
    path: str, database: Database, log: AuditLog, keys: Keys, intruder: sqlite3.Connection
) -> None:
    fill(log, 5)
    sign_head(database, keys, by="human:x")
    rewritten(intruder, 3)
    found = verify(path)
    assert (found.ok, found.first_bad) == (False, 10), "the checkpoint in the database is enough"
    assert "rewritten" in found.problem


def test_aud_05_without_a_checkpoint_nobody_would_know(
    path: str, log: AuditLog, intruder: sqlite3.Connection
) -> None:
    fill(log, 5)
    rewritten(intruder, 3)
    assert verify(path).ok


def test_aud_05_signing_the_forgery_with_another_key_does_not_help(
    path: str, database: Database, log: AuditLog, keys: Keys, intruder: sqlite3.Connection, tmp_path: Path
) -> None:
    """The whole forgery: the edit, the chain, the checkpoint and its record, all but the key."""
    fill(log, 5)
    kept = sign_head(database, keys, by="human:x")
    intruder.execute("DELETE FROM signed_head")
    intruder.execute("DELETE FROM audit WHERE seq > 10")
    rewritten(intruder, 3)
    sign_head(database, Keys(str(tmp_path / "forger")), by="human:x")
    assert verify(path).ok, "by its own word the log is fine"
    found = verify(path, trusted=trusted_keys(keys))
    assert (found.ok, found.first_bad) == (False, 11)
    assert "none of yours" in found.problem
    assert verify(path, kept=kept).first_bad == 10


@pytest.mark.parametrize("lost", [1, 2, 5, 11])
def test_aud_03_a_cut_tail_is_found_against_a_checkpoint(
    path: str, database: Database, log: AuditLog, keys: Keys, intruder: sqlite3.Connection, lost: int
) -> None:
    for _ in range(11):
        log.refused(Act(principal="agent:cli"), code="c", reasons=("r",))
    kept = sign_head(database, keys, by="human:x")
    intruder.execute("DELETE FROM signed_head")
    intruder.execute("DELETE FROM audit WHERE seq > ?", (11 - lost,))
    assert verify(path).ok, "the chain alone cannot know it"
    found = found_against(path, kept, keys)
    assert (found.ok, found.first_bad) == (False, 11 - lost + 1)


def test_aud_04_an_older_state_in_the_place_of_this_one_is_found_against_a_checkpoint(
    path: str, log: AuditLog, database: Database, keys: Keys, tmp_path: Path
) -> None:
    fill(log, 3)
    old = sqlite3.connect(tmp_path / "old.db")
    database.flush()
    with sqlite3.connect(path) as now:
        now.backup(old)
    now.close()
    old.close()
    fill(log, 3)
    kept = sign_head(database, keys, by="human:x")
    assert verify(str(tmp_path / "old.db")).ok
    found = verify(str(tmp_path / "old.db"), kept=kept)
    assert (found.ok, found.first_bad) == (False, 7)
    assert "cut off" in found.problem


def test_aud_04_another_log_is_not_the_one_of_the_checkpoint(
    log: AuditLog, database: Database, keys: Keys, tmp_path: Path
) -> None:
    fill(log, 3)
    kept = sign_head(database, keys, by="human:x")
    with Database.open(str(tmp_path / "other" / "metier.db")) as other:
        fill(AuditLog(other), 10)
        found = verify(other, kept=kept)
    assert not found.ok
    assert "another log" in found.problem


CHANGES: dict[str, str] = {
    "flip": "UPDATE audit SET body = CAST(replace(body, 'agent', 'Agent') AS BLOB) WHERE seq = {a}",
    "hash": "UPDATE audit SET hash = zeroblob(32) WHERE seq = {a}",
    "delete": "DELETE FROM audit WHERE seq = {a}",
    "close the gap": "DELETE FROM audit WHERE seq = {a}; UPDATE audit SET seq = seq - 1 WHERE seq > {a}",
    "swap": "UPDATE audit SET seq = -1 WHERE seq = {a}; UPDATE audit SET seq = {a} WHERE seq = {b}; UPDATE audit SET seq = {b} WHERE seq = -1",
    "copy": "UPDATE audit SET body = (SELECT body FROM audit WHERE seq = {b}) WHERE seq = {a}",
    "cut": "DELETE FROM audit WHERE seq >= {a}",
    "cut with what lies beside": "DELETE FROM audit WHERE seq >= {a}; DELETE FROM begun WHERE seq >= {a}",
}


CASES = {
    f"{name}, {how}": (change, how == "rebuilt")
    for name, change in CHANGES.items()
    for how in ("plain", "rebuilt")
}
del CASES["hash, rebuilt"]  # which changes nothing


@pytest.mark.parametrize(("change", "mended"), CASES.values(), ids=CASES.keys())
def test_whatever_is_changed_below_a_checkpoint_is_found(
    database: Database, log: AuditLog, keys: Keys, tmp_path: Path, change: str, mended: bool
) -> None:
    """Every kind of change at many places, with the checkpoint in the database and its record gone as well."""
    fill(log, 30)
    kept = sign_head(database, keys, by="human:x")
    good = str(tmp_path / "good.db")
    copied(database.path, good)
    assert found_against(good, kept, keys).ok
    chance = random.Random(1)  # noqa: S311  not for secrets
    for place in range(1, 61, 4):
        other = chance.choice([number for number in range(1, 61) if number != place])
        bad = str(tmp_path / f"bad-{place}.db")
        shutil.copyfile(good, bad)
        with closing(sqlite3.connect(bad, isolation_level=None)) as file:
            file.executescript("DELETE FROM signed_head; DELETE FROM audit WHERE seq = 61")
            file.executescript(change.format(a=place, b=other))
            if mended:
                rebuild(file)
        found = found_against(bad, kept, keys)
        assert not found.ok, (place, other)
        os.unlink(bad)


def copied(source: str, target: str) -> None:
    """The database of this moment as one file."""
    with closing(sqlite3.connect(source)) as file, closing(sqlite3.connect(target)) as copy:
        file.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")


def test_a_log_that_does_not_verify_is_not_signed(
    database: Database, log: AuditLog, keys: Keys, intruder: sqlite3.Connection
) -> None:
    with pytest.raises(RecordError, match="nothing to sign"):
        sign_head(database, keys, by="human:x")
    fill(log, 2)
    intruder.execute("UPDATE audit SET body = CAST(replace(body, 'cli', 'bob') AS BLOB) WHERE seq = 2")
    with pytest.raises(RecordError, match="does not verify, so it is not signed"):
        sign_head(database, keys, by="human:x")
    assert os.listdir(keys.folder) == [], "and no key was made for it"


@pytest.mark.parametrize(
    "edit",
    [
        "DELETE FROM signed_head",
        "UPDATE signed_head SET size = 3",
        "UPDATE signed_head SET size = 99",
        "UPDATE signed_head SET note = 'text'",
        "UPDATE signed_head SET note = CAST(replace(note, 'time 2', 'time 1') AS BLOB)",
        "INSERT INTO signed_head SELECT 3, note FROM signed_head",
        "INSERT INTO signed_head VALUES (3, x'00')",
        "INSERT INTO signed_head VALUES (-1, x'00')",
        "INSERT INTO signed_head VALUES (0, x'00')",
    ],
)
def test_the_checkpoints_in_the_database_follow_from_the_records(
    path: str, database: Database, log: AuditLog, keys: Keys, intruder: sqlite3.Connection, edit: str
) -> None:
    fill(log, 2)
    sign_head(database, keys, by="human:x")
    assert verify(path).ok
    intruder.execute(edit)
    assert not verify(path).ok


def test_keys_are_made_once_and_for_one_user_alone(database: Database, log: AuditLog, keys: Keys) -> None:
    fill(log, 1)
    sign_head(database, keys, by="human:x")
    sign_head(database, keys, by="human:x")
    assert stat.S_IMODE(os.stat(keys.folder).st_mode) == 0o700
    files = {
        name: stat.S_IMODE(os.stat(os.path.join(keys.folder, name)).st_mode)
        for name in os.listdir(keys.folder)
    }
    assert files == {"signing.key": 0o600, "public.keys": 0o600}
    assert len(keys.known()) == 1


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda key: os.chmod(key, 0o644), "others can read or change"),
        (lambda key: os.chmod(key, 0o620), "others can read or change"),
        (lambda key: (os.rename(key, key + ".x"), os.symlink(key + ".x", key)), "a symbolic link"),
        (lambda key: os.link(key, Path(key).parents[2] / "elsewhere.txt"), "second name"),
        (lambda key: Path(key).write_text("nothing of the kind"), "not a signing key"),
        (lambda key: os.unlink(key), "is not there"),
        (lambda key: os.chmod(os.path.dirname(key), 0o722), "others can write"),  # noqa: S103
    ],
)
def test_a_key_that_others_may_know_is_not_used(
    database: Database, log: AuditLog, keys: Keys, spoil: Callable[[str], object], said: str
) -> None:
    fill(log, 1)
    sign_head(database, keys, by="human:x")
    spoil(os.path.join(keys.folder, "signing.key"))
    before = log.head()
    with pytest.raises(StateError, match=said) as caught:
        sign_head(database, keys, by="human:x")
    assert caught.value.remedy
    assert log.head() == before
    os.chmod(keys.folder, 0o700)


def test_a_new_key_takes_over_on_the_word_of_the_old_one(
    path: str, database: Database, log: AuditLog, keys: Keys
) -> None:
    fill(log, 2)
    first = sign_head(database, keys, by="human:x")
    before = Path(keys.folder, "signing.key").read_bytes()
    new = rotate_key(database, keys, by="human:x")
    second = sign_head(database, keys, by="human:x")
    assert before not in b"".join(each.read_bytes() for each in Path(keys.folder).iterdir())
    old, latest = keys.known()
    assert (old.since, old.until, latest.since, latest.until) == (1, 6, 6, None)
    assert latest.key == new != old.key
    assert unvouched(first, [old]) == "" == unvouched(second, [latest])
    assert unvouched(second, [old])
    assert found_against(path, first, keys).ok
    assert found_against(path, second, keys).ok
    assert verify(path).notes == ()


def test_an_old_key_signs_for_nothing_that_came_after_it(
    database: Database, log: AuditLog, keys: Keys
) -> None:
    fill(log, 2)
    sign_head(database, keys, by="human:x")
    stolen = keys.signer(verify(database).origin, current=verify(database).key)
    rotate_key(database, keys, by="human:x")
    fill(log, 5)
    found = verify(database)
    forged = Checkpoint(
        origin=found.origin, size=found.records, root=bytes.fromhex(found.root), head=bytes.fromhex(found.head), at="2026-01-01T00:00:00.000000Z"
    ).signed_by(stolen.public, stolen.sign)  # fmt: skip
    assert forged.problem(stolen.public) == "", "the signature itself is good"
    assert "replaced at record 6" in unvouched(forged, keys.known())


def test_aud_04_a_copy_of_an_old_key_vouches_for_no_other_history(
    path: str, database: Database, log: AuditLog, keys: Keys, intruder: sqlite3.Connection, tmp_path: Path
) -> None:
    """The log is cut before the new key took over, goes on otherwise, and is signed with the old one."""
    fill(log, 2)
    sign_head(database, keys, by="human:x")
    stolen = Keys(str(tmp_path / "thief"))
    shutil.copytree(keys.folder, stolen.folder)
    os.chmod(stolen.folder, 0o700)
    rotate_key(database, keys, by="human:x")
    fill(log, 2)
    sign_head(database, keys, by="human:x")
    assert verify(path, trusted=trusted_keys(keys)).ok
    intruder.execute("PRAGMA foreign_keys=OFF")
    intruder.execute("DELETE FROM signed_head WHERE size > 4")
    for table in ("audit", "begun"):
        intruder.execute(f"DELETE FROM {table} WHERE seq > 5")  # noqa: S608
    fill(log, 1)
    cut = verify(path, trusted=trusted_keys(keys))
    assert (cut.ok, cut.first_bad) == (False, None)
    assert "this log does not say so" in cut.problem
    fill(log, 5)
    sign_head(database, stolen, by="human:x")
    assert verify(path, trusted=trusted_keys(stolen)).ok, "by the keys of that day nothing is wrong"
    found = verify(path, trusted=trusted_keys(keys))
    assert (found.ok, found.first_bad) == (False, log.head()[0])
    assert "replaced at record 6" in found.problem
    with pytest.raises(RecordError, match="does not verify"):
        sign_head(database, keys, by="human:x")


def test_a_key_that_nobody_handed_over_to_is_found(
    path: str, database: Database, log: AuditLog, keys: Keys, intruder: sqlite3.Connection
) -> None:
    fill(log, 2)
    sign_head(database, keys, by="human:x")
    rotate_key(database, keys, by="human:x")
    (body,) = intruder.execute("SELECT body FROM audit WHERE seq = 6").fetchone()
    record = msgspec.json.decode(body)
    other = PublicKey(
        name=read_known(record["code"]).key.name,
        raw=Ed25519PrivateKey.generate().public_key().public_bytes_raw(),
    )
    for change in (
        {"code": str(other)},
        {"evidence": base64.b64encode(bytes(64)).decode()},
        {"evidence": "?"},
    ):
        intruder.execute("UPDATE audit SET body = ? WHERE seq = 6", (msgspec.json.encode(record | change),))
        rebuild(intruder)
        found = verify(path)
        assert (found.ok, found.first_bad) == (False, 6), change
        assert "did not sign it" in found.problem
    intruder.execute("UPDATE audit SET body = ? WHERE seq = 6", (body,))
    rebuild(intruder)
    assert verify(path).ok


def test_a_lost_key_is_replaced_without_its_word_and_that_is_said(
    path: str, database: Database, log: AuditLog, keys: Keys
) -> None:
    fill(log, 2)
    sign_head(database, keys, by="human:x")
    os.unlink(os.path.join(keys.folder, "signing.key"))
    with pytest.raises(StateError, match="is not there") as caught:
        rotate_key(database, keys, by="human:x")
    assert "--lost" in (caught.value.remedy or "")
    rotate_key(database, keys, by="human:x", lost=True)
    kept = sign_head(database, keys, by="human:x")
    found = found_against(path, kept, keys)
    assert found.ok
    assert any("without its word" in note for note in found.notes)


def test_there_is_nothing_to_rotate_before_anything_was_signed(
    database: Database, log: AuditLog, keys: Keys
) -> None:
    fill(log, 1)
    with pytest.raises(RecordError, match="no key has signed"):
        rotate_key(database, keys, by="human:x")


def test_a_crash_between_the_record_of_a_rotation_and_its_file_is_made_good(
    path: str, database: Database, log: AuditLog, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, 2)
    sign_head(database, keys, by="human:x")
    with monkeypatch.context() as patch:
        patch.setattr(Keys, "use_next", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            rotate_key(database, keys, by="human:x")
    assert log.tail(1)[0].event == "key_rotated"
    kept = sign_head(database, keys, by="human:x")
    assert found_against(path, kept, keys).ok
    assert sorted(os.listdir(keys.folder)) == ["public.keys", "signing.key"]


def test_two_who_sign_at_once_do_not_get_in_each_others_way(
    path: str, database: Database, log: AuditLog, keys: Keys, start: Callable[[str], subprocess.Popen[str]]
) -> None:
    fill(log, 3)
    code = (
        "import os\nfrom metier.record.database import Database\nfrom metier.record.keys import Keys\n"
        "from metier.record.signing import sign_head, rotate_key\n"
        "home = os.path.dirname(path)\n"
        "with Database.open(path, patience=30) as database:\n"
        "    for number in range(6):\n"
        "        (rotate_key if number % 3 == 2 else sign_head)(database, Keys(home), by='human:x')\n"
    )
    workers = [start(code) for _ in range(3)]
    said = [worker.communicate(timeout=50)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0, 0], said
    found = verify(path, trusted=trusted_keys(keys))
    assert (found.ok, len(keys.known())) == (True, 7), found.problem
    assert [record.event for record in log.tail(18)].count("head_signed") == 12
