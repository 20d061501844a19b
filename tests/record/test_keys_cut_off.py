"""Whoever is cut off while keys are changed, saved or brought back can go on, and nobody is accused for it."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from machine import Machine
from metier.doors.cli.audit import walked
from metier.record.audit import AuditLog
from metier.record.backup import back_up, restore
from metier.record.chain import Act
from metier.record.checkpoint import Known
from metier.record.database import Database
from metier.record.keys import Keys
from metier.record.signing import rotate_key, sign_head, trusted_keys
from metier.record.stop import stop
from metier.record.verify import verify

Start = Callable[[str], "subprocess.Popen[str]"]

CUT_OFF = """
import os, signal
from metier.record.database import Database
from metier.record.keys import Keys
from metier.record.signing import rotate_key, sign_head
replace = os.replace
def replaced(source, target):
    if target.endswith("public.keys"):
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
os.replace = replaced
with Database.open(path) as database:
    {what}(database, Keys(os.path.dirname(path)), by="human:x")
"""


def fill(log: AuditLog) -> None:
    log.refused(Act(principal="agent:cli"), code="c", reasons=("r",), payloads={"arguments": "x"})


def killed(start: Start, what: str) -> None:
    """Killed at the moment when `public.keys` is to be written."""
    process = start(CUT_OFF.format(what=what))
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    "cut", [("rotate_key", "sign_head"), ("rotate_key", "rotate_key", "sign_head"), ("rotate_key",)]
)
def test_a_rotation_and_a_signing_that_were_both_cut_off_accuse_nobody(
    path: str, database: Database, log: AuditLog, keys: Keys, start: Start, cut: tuple[str, ...]
) -> None:
    fill(log)
    sign_head(database, keys, by="human:x")
    for what in cut:
        killed(start, what)
        found = verify(path, trusted=trusted_keys(keys))
        assert found.ok, (what, found.problem)
    sign_head(database, keys, by="human:x")
    rotate_key(database, keys, by="human:x")
    sign_head(database, keys, by="human:x")
    assert verify(path, trusted=trusted_keys(keys)).ok


def test_a_first_signing_and_a_rotation_that_were_both_cut_off_accuse_nobody(
    path: str, database: Database, log: AuditLog, keys: Keys, start: Start
) -> None:
    fill(log)
    killed(start, "sign_head")
    assert verify(path).signed == 1, "it was signed, and the key is not written down"
    assert keys.known() == ()
    killed(start, "rotate_key")
    for _ in range(2):
        sign_head(database, keys, by="human:x")
        found = verify(path, trusted=trusted_keys(keys))
        assert found.ok, found.problem


def test_a_key_that_is_changed_while_somebody_verifies_accuses_nobody(
    path: str, database: Database, log: AuditLog, keys: Keys
) -> None:
    """The keys are read, then somebody puts another in place and signs with it, then the log is walked."""
    fill(log)
    sign_head(database, keys, by="human:x")
    stale = keys.known()
    read: list[tuple[Known, ...]] = []

    def known() -> tuple[Known, ...]:
        read.append(keys.known())
        if len(read) == 1:
            rotate_key(database, keys, by="human:x")
            sign_head(database, keys, by="human:x")
        return read[-1]

    assert walked(path, known).ok
    assert read[0] == stale != keys.known()
    assert "none of yours" in verify(path, trusted=stale).problem, "one look would have accused"
    found = walked(path, lambda: stale)
    assert "none of yours" in found.problem, "and who is to be accused still is"


@pytest.fixture
def saved(path: str, database: Database, log: AuditLog, keys: Keys, tmp_path: Path) -> str:
    """A signed backup with its keys."""
    copy = str(tmp_path / "copy")
    fill(log)
    sign_head(database, keys, by="human:x")
    assert back_up(path, copy, keys=keys).ok
    return copy


@pytest.mark.parametrize("there", [(), ("signing.key",), ("public.keys",)])
def test_keys_come_back_where_the_folder_is_empty_or_somebody_was_cut_off_while_he_brought_them(
    saved: str, keys: Keys, tmp_path: Path, there: tuple[str, ...]
) -> None:
    away = Keys(str(tmp_path / "away"))
    os.makedirs(away.folder, mode=0o700)
    os.chmod(os.path.dirname(away.folder), 0o700)
    for name in there:
        shutil.copy(os.path.join(keys.folder, name), away.folder)
    state = str(tmp_path / "away" / "metier.db")
    assert restore(saved, state, by="human:x", keys=away).keys
    assert away.saved() == keys.saved()
    with Database.open(state) as restored:
        sign_head(restored, away, by="human:x")
    assert verify(state, trusted=trusted_keys(away)).ok


def test_keys_of_another_log_that_were_half_written_are_not_mixed_with_those_that_were_saved(
    saved: str, tmp_path: Path
) -> None:
    away = Keys(str(tmp_path / "away"))
    os.makedirs(away.folder, mode=0o700)
    os.chmod(os.path.dirname(away.folder), 0o700)
    with away.alone():
        mine = away.signer("another log", current="").public
    state = str(tmp_path / "away" / "metier.db")
    assert not restore(saved, state, by="human:x", keys=away).keys
    assert away.signer("another log", current="").public == mine
    assert os.listdir(away.folder) == ["signing.key"]


def test_whoever_is_killed_before_the_restored_state_is_in_place_can_do_it_again(
    saved: str, keys: Keys, tmp_path: Path, start: Start
) -> None:
    state = str(tmp_path / "away" / "metier.db")
    process = start(f"""
import os, signal
from metier.record import backup
from metier.record.keys import Keys
backup.settle = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
backup.restore({saved!r}, {state!r}, by="human:x", keys=Keys({os.path.dirname(state)!r}))
""")
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGKILL
    away = Keys(os.path.dirname(state))
    assert away.saved() == keys.saved()
    restore(saved, state, by="human:x", keys=away)
    with Database.open(state) as restored:
        sign_head(restored, away, by="human:x")


def test_a_restored_state_is_missed_when_it_is_gone(saved: str, tmp_path: Path) -> None:
    state = tmp_path / "away" / "metier.db"
    restore(saved, str(state), by="human:x", keys=Keys(str(state.parent)))
    assert (state.parent / "metier.db.made").exists()
    assert not [name for name in os.listdir(state.parent) if ".draft" in name]


def test_a_backup_with_keys_from_the_first_day_on_waits_for_no_key(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    path = str(machine.state / "state.db")
    with Database.open(path) as database:
        stop(database, by="human:x")
    first, second, third = (str(tmp_path / f"backup-{number}.db") for number in (1, 2, 3))
    assert "no key yet, so none was saved" in machine.metier("backup", first, "--with-keys").stdout
    assert not os.path.lexists(f"{first}.keys")
    assert not os.path.lexists(machine.state / "keys"), "nor is a place for one made"
    machine.metier("audit", "checkpoint")
    assert f"The keys are in {second}.keys" in machine.metier("backup", second, "--with-keys").stdout
    os.unlink(machine.state / "keys" / "public.keys")
    machine.metier("backup", third, "--with-keys", check=5)
    assert not os.path.lexists(third), "keys that cannot be read leave no half backup behind"


def test_it_is_said_whether_the_keys_came_back(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    path = machine.state / "state.db"
    with Database.open(str(path)) as database:
        stop(database, by="human:x")
    copy = str(tmp_path / "copy")
    machine.metier("audit", "checkpoint")
    machine.metier("backup", copy, "--with-keys")
    path.unlink()
    assert "were not used: there are keys in" in machine.metier("restore", copy).stdout
    path.unlink()
    shutil.rmtree(machine.state / "keys")
    assert f"The keys in {copy}.keys came back" in machine.metier("restore", copy).stdout


def test_drafts_of_backups_with_other_names_are_swept_and_files_of_others_are_not(
    path: str, log: AuditLog, tmp_path: Path, start: Start
) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    fill(log)
    process = start(f"""
import os, signal
from metier.record import backup
backup.settle = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
backup.back_up(path, {str(folder / "monday.db")!r})
""")
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGKILL
    [draft] = os.listdir(folder)
    others = [f"novel.{'0a' * 8}.draft", "novel.draft", "notes.metier-2.draft"]
    for name in others:
        (folder / name).write_text("somebody else's")
    for name in (draft, *others):
        os.utime(folder / name, (1, 1))
    fresh = f"now.db.metier-{'0b' * 8}.draft"
    (folder / fresh).write_text("being made")
    assert back_up(path, str(folder / "tuesday.db")).ok
    assert sorted(os.listdir(folder)) == sorted([*others, fresh, "tuesday.db"])
