"""What modules keep: one file of this user's alone, in which everything is written together or not at all."""

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from metier.errors import StateError
from metier.kernel.store import FILE, Store
from metier.kernel.store_faults import is_broken


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "state"
    made.mkdir(mode=0o700)
    return made


def put(store: Store, name: str, value: str) -> None:
    with store.writing() as connection:
        connection.execute("INSERT OR REPLACE INTO cursor VALUES (?, ?)", (name, value))


def got(store: Store, name: str) -> str | None:
    with store.reading() as connection:
        row = connection.execute("SELECT value FROM cursor WHERE name = ?", (name,)).fetchone()
    return row[0] if row else None


def test_sec_08_the_file_is_this_users_alone_and_so_are_those_beside_it(home: Path) -> None:
    store = Store(str(home))
    put(store, "a", "1")
    for each in home.iterdir():
        assert stat.S_IMODE(each.stat().st_mode) == 0o600, each.name
    store.close()


def test_sec_08_a_file_that_others_can_read_is_closed_and_one_they_can_write_is_not_used(home: Path) -> None:
    Store(str(home)).close()
    (home / FILE).chmod(0o644)
    Store(str(home)).close()
    assert stat.S_IMODE((home / FILE).stat().st_mode) == 0o600
    (home / FILE).chmod(0o620)
    with pytest.raises(StateError):
        Store(str(home))


def test_a_link_in_its_place_is_not_followed(home: Path, tmp_path: Path) -> None:
    os.symlink(tmp_path / "elsewhere", home / FILE)
    with pytest.raises(StateError):
        Store(str(home))
    assert not (tmp_path / "elsewhere").exists()


def test_what_fails_in_the_middle_is_not_written_at_all(home: Path) -> None:
    store = Store(str(home))
    with pytest.raises(StateError), store.writing() as connection:
        connection.execute("INSERT INTO cursor VALUES ('a', '1')")
        connection.execute("INSERT INTO cursor VALUES ('a', '2')")
    assert got(store, "a") is None
    with pytest.raises(ZeroDivisionError), store.writing() as connection:
        connection.execute("INSERT INTO cursor VALUES ('a', '1')")
        raise ZeroDivisionError
    assert got(store, "a") is None
    put(store, "a", "3")
    assert got(store, "a") == "3"
    store.close()


def test_what_another_process_wrote_is_seen_and_noticed(home: Path) -> None:
    one, other = Store(str(home)), Store(str(home))
    before = one.changes()
    put(one, "a", "own")
    assert one.changes() == before, "what it wrote itself is no news"
    put(other, "a", "theirs")
    assert one.changes() != before
    assert got(one, "a") == "theirs"
    one.close()
    other.close()


def test_several_threads_do_not_get_into_each_others_way(home: Path) -> None:
    store = Store(str(home))
    threads = [
        threading.Thread(target=lambda n=n: [put(store, f"{n}-{i}", "x") for i in range(20)])
        for n in range(8)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    with store.reading() as connection:
        assert connection.execute("SELECT count(*) FROM cursor").fetchone() == (160,)
    store.close()


def test_a_file_of_a_newer_version_is_left_alone(home: Path) -> None:
    Store(str(home)).close()
    with sqlite3.connect(home / FILE) as connection:
        connection.execute("PRAGMA user_version = 999")
    with pytest.raises(StateError, match="newer"):
        Store(str(home))


def test_a_damaged_file_is_said_and_not_thrown_away(home: Path) -> None:
    Store(str(home)).close()
    (home / FILE).write_bytes(b"no database at all" * 100)
    with pytest.raises(StateError):
        Store(str(home))
    assert (home / FILE).read_bytes().startswith(b"no database")


_HOLDS = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_by_another(path: Path) -> Iterator[int]:
    """Another process writes, and does not come to an end. Its number."""
    holding = subprocess.Popen(
        [sys.executable, "-c", _HOLDS, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holding.stdin is not None and holding.stdout is not None
    try:
        assert holding.stdout.readline() == "held\n"
        yield holding.pid
    finally:
        holding.stdin.close()
        holding.wait(10)
        holding.stdout.close()


def test_rel_07_whoever_only_reads_waits_for_nobody_who_writes(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Store(str(home))
    put(first, "a", "1")
    first.close()
    monkeypatch.setattr("metier.kernel.store._PATIENCE", 0.05)
    with held_by_another(home / FILE):
        store = Store(str(home))
        assert got(store, "a") == "1"
        with pytest.raises(StateError):  # it is held indeed
            put(store, "a", "2")
        store.close()


def test_rel_07_who_reads_does_not_wait_for_one_of_his_own_process_who_waits_to_write(home: Path) -> None:
    store = Store(str(home))
    put(store, "a", "1")
    number = store.changes()
    private: Any = store
    with held_by_another(home / FILE):
        writing = threading.Thread(target=put, args=(store, "a", "2"))
        writing.start()
        while not private._writer.turn.locked():
            assert writing.is_alive()
        assert got(store, "a") == "1"
        assert store.changes() == number
        assert writing.is_alive(), "it still waits for the other process"
    writing.join()
    assert got(store, "a") == "2"
    store.close()


def test_who_only_reads_cannot_write_and_a_file_that_was_closed_is_not_opened_again(home: Path) -> None:
    store = Store(str(home))
    with pytest.raises(StateError), store.reading() as connection:
        connection.execute("INSERT INTO cursor VALUES ('a', '1')")
    assert got(store, "a") is None
    store.close()
    for use in (lambda: put(store, "a", "1"), lambda: got(store, "a"), store.changes):
        with pytest.raises(StateError):
            use()


def test_rel_07_one_who_writes_and_does_not_let_go_is_named_and_waiting_is_the_remedy(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metier.kernel.store._PATIENCE", 0.05)
    store = Store(str(home))
    with held_by_another(home / FILE) as number, pytest.raises(StateError) as caught:
        put(store, "a", "1")
    store.close()
    assert f"process {number} holds it" in caught.value.message
    assert caught.value.remedy.startswith("Wait a moment")
    assert "disk" not in str(caught.value)


def test_a_text_that_is_damaged_is_shown_as_such_and_the_others_are_read(home: Path) -> None:
    store = Store(str(home))
    put(store, "good", "1")
    with store.writing() as connection:
        connection.execute("INSERT INTO cursor VALUES ('bad', CAST(x'7B22ff' AS TEXT))")
    assert got(store, "good") == "1"
    shown = got(store, "bad")
    assert shown is not None
    assert is_broken(shown)
    assert not is_broken("good", "\u00e4")
    store.close()


def test_no_error_of_the_file_repeats_what_is_stored_in_it(home: Path) -> None:
    store = Store(str(home))
    with pytest.raises(StateError) as caught, store.writing() as connection:
        connection.execute("SELECT json_extract('{\"key\":\"CANARY-7\"', '$.CANARY-8')").fetchone()
    assert "CANARY" in str(caught.value.__cause__) or "malformed" in str(caught.value.__cause__)
    assert "CANARY" not in str(caught.value)
    assert "malformed" not in str(caught.value), "only SQLite's own name of the error is told"
    store.close()
