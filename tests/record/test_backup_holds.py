"""A backup ends however busy the state is, and keys that come back with one are of use."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from metier.errors import StateError
from metier.record.audit import AuditLog
from metier.record.backup import back_up, restore
from metier.record.chain import Act
from metier.record.database import Database
from metier.record.keys import Keys
from metier.record.signing import sign_head
from metier.record.verify import verify

WRITER = """
from metier.record.audit import AuditLog
from metier.record.chain import Act
from metier.record.database import Database

with Database.open(path) as database:
    log = AuditLog(database)
    while True:
        log.refused(Act(principal="agent:other"), code="c", reasons=("r",), payloads={"arguments": "x"})
        print("written", flush=True)
"""


@pytest.fixture
def copy(tmp_path: Path) -> str:
    return str(tmp_path / "backup.db")


def fill(log: AuditLog, megabytes: int = 0) -> None:
    log.refused(Act(principal="agent:cli"), code="c", reasons=("r",), payloads={"arguments": "x"})
    for _ in range(megabytes):
        log.refused(
            Act(principal="agent:cli"), code="c", reasons=("r",), payloads={"arguments": "y" * 1_000_000}
        )


@pytest.mark.slow
def test_rel_15_a_backup_of_a_large_state_ends_while_another_process_never_stops_writing(
    path: str, log: AuditLog, copy: str, start: Callable[[str], subprocess.Popen[str]]
) -> None:
    fill(log, 40)  # more than is copied in one step
    writer = start(WRITER)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "written\n"
    drained = Thread(target=lambda: [None for _ in writer.stdout or ()], daemon=True)
    drained.start()
    made: list[bool] = []
    worker = Thread(target=lambda: made.append(back_up(path, copy).ok), daemon=True)
    worker.start()
    worker.join(20)
    ended = not worker.is_alive()
    writer.kill()
    worker.join(20)
    drained.join(20)
    assert ended, "it goes on for as long as somebody writes"
    assert made == [True]


def signed_backup(database: Database, log: AuditLog, keys: Keys, path: str, copy: str) -> dict[str, str]:
    fill(log)
    sign_head(database, keys, by="human:x")
    back_up(path, copy, keys=keys)
    return json.loads(Path(f"{copy}.keys").read_text(encoding="utf-8"))


def other_keys(tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "other"
    with Database.open(str(home / "metier.db")) as database:
        fill(AuditLog(database))
        keys = Keys(str(home))
        sign_head(database, keys, by="human:x")
        return keys.saved()


@pytest.mark.parametrize(
    "case",
    ["no text", "no keys", "no public key", "no private key", "not together", "of another log", "too deep"],
)
def test_keys_that_are_of_no_use_are_refused_before_anything_is_restored(
    path: str, database: Database, log: AuditLog, keys: Keys, copy: str, tmp_path: Path, case: str
) -> None:
    saved, other = signed_backup(database, log, keys, path, copy), other_keys(tmp_path)
    written = {
        "no text": "\udcff",
        "no keys": "{}  x",
        "no public key": json.dumps(saved | {"public.keys": "rubbish\n"}),
        "no private key": json.dumps(saved | {"signing.key": "rubbish"}),
        "not together": json.dumps(saved | {"signing.key": other["signing.key"]}),
        "of another log": json.dumps(other),
        "too deep": "[" * 200_000,
    }[case]
    Path(f"{copy}.keys").write_text(written, encoding="utf-8", errors="surrogateescape")
    away = tmp_path / "away" / "metier.db"
    with pytest.raises(StateError):
        restore(copy, str(away), by="human:x", keys=Keys(str(away.parent)))
    assert not away.parent.exists() or os.listdir(away.parent) == []
    Path(f"{copy}.keys").write_text(json.dumps(saved), encoding="utf-8")
    restore(copy, str(away), by="human:x", keys=Keys(str(away.parent)))
    with Database.open(str(away)) as restored:
        sign_head(restored, Keys(str(away.parent)), by="human:x")
    assert verify(str(away)).ok


@pytest.mark.parametrize("mode", [0o622, 0o640, 0o666])
def test_keys_that_others_could_have_read_or_changed_are_not_brought_back(
    path: str, database: Database, log: AuditLog, keys: Keys, copy: str, tmp_path: Path, mode: int
) -> None:
    signed_backup(database, log, keys, path, copy)
    os.chmod(f"{copy}.keys", mode)
    away = tmp_path / "away" / "metier.db"
    with pytest.raises(StateError, match="others can read or change"):
        restore(copy, str(away), by="human:x", keys=Keys(str(away.parent)))
    assert not away.exists()


def test_a_forged_log_is_not_restored_beside_the_keys_that_were_saved_with_the_true_one(
    path: str, database: Database, log: AuditLog, keys: Keys, copy: str, tmp_path: Path
) -> None:
    signed_backup(database, log, keys, path, copy)
    forged = tmp_path / "forged"
    with Database.open(str(forged / "metier.db")) as database:
        fill(AuditLog(database))
        sign_head(database, Keys(str(forged)), by="human:x")
        os.unlink(copy)
        back_up(str(forged / "metier.db"), copy)
    away = tmp_path / "away" / "metier.db"
    with pytest.raises(StateError, match="not whole"):
        restore(copy, str(away), by="human:x", keys=Keys(str(away.parent)))
    assert not away.exists()
    os.unlink(f"{copy}.keys")
    assert restore(copy, str(away), by="human:x", keys=Keys(str(away.parent))).records == 2, (
        "by itself it is whole"
    )
