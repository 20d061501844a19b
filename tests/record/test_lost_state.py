"""State that goes away, is swapped or cannot be written while it is used: nothing is recorded, nothing may run."""

import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from metier.errors import RecordError, StateError
from metier.model.permission import PermissionSet
from metier.record import place as places
from metier.record.audit import AuditLog, Intent
from metier.record.backup import back_up, restore
from metier.record.chain import Act
from metier.record.database import Database
from metier.record.keys import Keys
from metier.record.signing import sign_head
from metier.record.stop import stop
from metier.record.trust import TrustStore
from metier.record.verify import verify


def remove(path: str) -> None:
    for side in ("", "-wal", "-shm"):
        os.unlink(path + side)


def move_away(path: str) -> None:
    os.rename(path, f"{path}.away")


def remove_the_folder(path: str) -> None:
    shutil.rmtree(os.path.dirname(path))


def swap_for_a_copy(path: str) -> None:
    shutil.copy(path, f"{path}.copy")
    os.replace(f"{path}.copy", path)


def swap_for_a_link_to_itself(path: str) -> None:
    os.rename(path, f"{path}.away")
    os.symlink(f"{path}.away", path)


def remove_the_write_ahead_file(path: str) -> None:
    os.unlink(f"{path}-wal")


def swap_the_index(path: str) -> None:
    os.unlink(f"{path}-shm")
    Path(f"{path}-shm").write_bytes(b"")


class Meanwhile:
    """Something happens while the intent is being written."""

    def __init__(self, happens: Callable[[object], object]) -> None:
        self._happens = happens

    def problem(self, connection: object) -> None:
        self._happens(connection)

    def take(self, connection: object, intent: int) -> None:
        """Nothing is used up."""


def folder_is_known(database: Database) -> bool:
    return database.place._searched is not None  # pyright: ignore[reportPrivateUsage]


CHANGES = [
    remove,
    move_away,
    remove_the_folder,
    swap_for_a_copy,
    swap_for_a_link_to_itself,
    remove_the_write_ahead_file,
    swap_the_index,
]


@pytest.mark.parametrize("settled", [False, True], ids=["a moment after", "long after"])
@pytest.mark.parametrize("change", CHANGES)
def test_aud_06_a_log_that_was_removed_or_swapped_while_open_refuses(
    path: str, act: Act, change: Callable[[str], None], settled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Database.open(path) as database:
        log, store = AuditLog(database), TrustStore(database)
        intent = log.intent(act)
        assert isinstance(intent, Intent)
        assert not folder_is_known(database), "what changed just now may change again unseen"
        if settled:
            monkeypatch.setattr(places, "SETTLED_NS", 50_000_000)
            time.sleep(0.06)
            log.tail(1)
            assert folder_is_known(database)
        change(path)
        for use in (
            lambda: log.intent(act),
            lambda: log.outcome(intent, "skill_executed"),
            lambda: log.refused(act, code="c", reasons=("r",)),
            lambda: log.tail(1),
            lambda: store.grant("x", "d", permissions=PermissionSet(), by="me", how="operator"),
            lambda: store.all(),
            lambda: verify(database),
        ):
            with pytest.raises((RecordError, StateError), match=r"no longer there|was replaced") as caught:
                use()
            assert caught.value.remedy


def test_aud_06_a_second_name_in_another_folder_is_noticed_within_a_second(
    path: str, act: Act, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It changes nothing in the folder of the first."""
    monkeypatch.setattr(places, "SETTLED_NS", 50_000_000)
    with Database.open(path) as database:
        log = AuditLog(database)
        time.sleep(0.06)
        log.tail(1)
        assert folder_is_known(database)
        os.link(path, tmp_path / "elsewhere")
        with pytest.raises(RecordError, match="second name"):
            for _ in range(200):
                log.refused(act, code="c", reasons=("r",))
                time.sleep(0.01)


@pytest.mark.parametrize("change", [remove, swap_for_a_copy])
def test_aud_06_the_driver_alone_would_have_written_into_the_void(
    path: str, act: Act, change: Callable[[str], None]
) -> None:
    with Database.open(path) as database:
        AuditLog(database).refused(act, code="c", reasons=("r",))
    naive = sqlite3.connect(path, isolation_level=None)
    naive.execute("SELECT 1 FROM audit").fetchone()
    change(path)
    naive.execute("INSERT INTO revoked VALUES ('lost', '', '')")
    assert naive.execute("SELECT name FROM revoked").fetchall() == [("lost",)], "it says it is there"
    if os.path.exists(path):
        other = sqlite3.connect(f"file:{path}?immutable=1", uri=True)
        assert other.execute("SELECT name FROM revoked").fetchall() == []
        other.close()
    naive.close()


def test_aud_06_a_swap_in_the_middle_of_a_transaction_is_noticed_before_it_counts(
    path: str, database: Database, log: AuditLog, act: Act
) -> None:
    with pytest.raises(RecordError, match="no longer there"):
        log.intent(act, conditions=[Meanwhile(lambda _: move_away(path))])
    os.rename(f"{path}.away", path)
    assert log.tail(10) == []
    assert isinstance(log.intent(act), Intent), "what was put back can be used again"


def test_an_emptied_database_is_not_taken_for_a_new_one(path: str) -> None:
    Database.open(path).close()
    os.truncate(path, 0)
    with pytest.raises(StateError, match="is empty") as caught:
        Database.open(path)
    assert "backup" in caught.value.remedy
    assert os.path.getsize(path) == 0


def leave(path: str, left: str) -> Path:
    """Something that only a state leaves behind."""
    if left[0] in "-.":
        place = Path(f"{path}{left}")
    else:
        place = Path(path).with_name(left) / "something"
        place.parent.mkdir(mode=0o700)
    place.write_text("x")
    return place


@pytest.mark.parametrize("left", ["keys", "bundles", "calls", "-wal", "-shm", ".made"])
def test_a_state_that_is_gone_is_not_begun_anew_where_something_tells_of_it(path: str, left: str) -> None:
    Database.open(path).close()
    os.unlink(path)
    os.unlink(f"{path}.made")
    told = leave(path, left)
    with pytest.raises(StateError, match="is gone") as caught:
        Database.open(path)
    assert "metier restore" in caught.value.remedy
    assert str(told if left[0] in "-." else told.parent) in caught.value.remedy
    assert not os.path.lexists(path)
    os.rename(told, f"{path}.evidence")
    Database.open(path).close()


def test_a_state_of_which_nothing_but_itself_was_ever_made_is_missed_too(path: str) -> None:
    with Database.open(path) as database:
        stop(database, by="human:x", why="before anything ran")
    for side in ("", "-wal", "-shm"):
        Path(path + side).unlink(missing_ok=True)
    with pytest.raises(StateError, match="is gone"):
        Database.open(path)


def test_where_nothing_tells_of_a_state_one_is_made(path: str) -> None:
    for name in ("keys", "bundles", "cache", "skills"):
        os.makedirs(Path(path).with_name(name), mode=0o700)
    os.chmod(os.path.dirname(path), 0o700)
    Path(path).with_name("policy.toml").write_text("")
    Path(path).with_name("cache").joinpath("catalog.bin").write_text("")
    Database.open(path).close()
    assert verify(path).ok


def test_a_state_is_restored_where_only_its_keys_are_left(
    path: str, act: Act, keys: Keys, tmp_path: Path
) -> None:
    with Database.open(path) as database:
        AuditLog(database).refused(act, code="c", reasons=("r",))
        sign_head(database, keys, by="human:x")
    back_up(path, str(tmp_path / "copy"))
    os.unlink(path)
    with pytest.raises(StateError, match="is gone"):
        Database.open(path)
    restore(str(tmp_path / "copy"), path, by="human:x", keys=keys)
    Database.open(path).close()


def test_a_closed_database_says_that_it_is_closed(path: str, act: Act) -> None:
    database = Database.open(path)
    database.close()
    database.close()
    for use in (
        lambda: database.data_version(),
        lambda: database.flush(),
        lambda: TrustStore(database).all(),
        lambda: AuditLog(database).intent(act),
    ):
        with pytest.raises((StateError, RecordError), match="was closed") as caught:
            use()
        assert "newer" not in caught.value.remedy
