"""A backup has what lies beside the record too: what modules keep, and the sealed secrets; and gives it back once."""

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from machine import Machine
from metier.errors import StateError
from metier.host.sealed import Sealed
from metier.kernel.store import Store
from metier.record.backup import back_up, restore
from metier.record.backup_beside import MAY_BE_SENT
from metier.record.database import Database
from metier.record.keys import Keys
from metier.record.stop import stop


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    with Database.open(str(home / "state.db")) as database:
        stop(database, by="human:x")
    return home


def backed_up(home: Path, file: Path, *, keys: bool = True) -> str:
    assert back_up(str(home / "state.db"), str(file), keys=Keys(str(home)) if keys else None).ok
    return str(file)


def restored(file: str, home: Path) -> Path:
    restore(file, str(home / "state.db"), by="human:x", keys=Keys(str(home)))
    return home


def setting(store: Store, skill: str, value: str) -> None:
    with store.writing() as connection:
        connection.execute(
            "INSERT OR REPLACE INTO settings (skill, value, changed_at, changed_by) VALUES (?, ?, 0, 'human:x')",
            (skill, value),
        )


def test_what_modules_keep_and_the_secrets_come_back_elsewhere(home: Path, tmp_path: Path) -> None:
    store = Store(str(home))
    setting(store, "tea", '{"cups": 2}')
    sealed = Sealed(str(home))
    sealed.write("TOKEN", "s3cret-canary")
    sealed.set_of_skill("tea", {"api.key": "other-canary"})
    copy = backed_up(home, tmp_path / "copy")
    store.close()
    away = restored(copy, tmp_path / "away")
    assert Sealed(str(away)).read("TOKEN") == "s3cret-canary"
    assert Sealed(str(away)).of_skill("tea") == {"api.key": "other-canary"}
    again = Store(str(away))
    with again.reading() as connection:
        assert connection.execute("SELECT value FROM settings").fetchall() == [('{"cups": 2}',)]
    again.close()


def test_sec_08_every_file_of_a_backup_and_all_that_comes_back_is_this_users_alone(
    home: Path, tmp_path: Path
) -> None:
    Store(str(home)).close()
    Sealed(str(home)).set_of_skill("tea", {"a": "b"})
    Sealed(str(home)).write("TOKEN", "x")
    old = os.umask(0)
    try:
        copy = backed_up(home, tmp_path / "copy")
        away = restored(copy, tmp_path / "away")
    finally:
        os.umask(old)
    for end in ("", ".kernel", ".secrets", ".keys"):
        assert stat.S_IMODE(os.stat(copy + end).st_mode) == 0o600, end
    for folder, _, files in os.walk(away):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700, folder
        for each in files:
            if not each.startswith("state.db"):
                assert stat.S_IMODE(os.stat(os.path.join(folder, each)).st_mode) == 0o600, each


def test_without_the_keys_a_backup_gives_no_secret_away(home: Path, tmp_path: Path) -> None:
    Store(str(home)).close()
    Sealed(str(home)).write("TOKEN", "s3cret-canary")
    copy = backed_up(home, tmp_path / "copy", keys=False)
    everything = b"".join(each.read_bytes() for each in tmp_path.glob("copy*"))
    assert b"s3cret-canary" not in everything
    assert b"AGE-SECRET-KEY" not in everything
    assert b"AGE-SECRET-KEY" in (home / "keys" / "secrets.age").read_bytes()  # as it would look
    away = restored(copy, tmp_path / "away")
    with pytest.raises(StateError, match=r"keys/secrets\.age"):
        Sealed(str(away)).read("TOKEN")


WRITER = """
import sys
from metier.kernel.store import Store
store, number = Store(sys.argv[1]), 0
while True:
    number += 1
    with store.writing() as connection:  # both or none
        connection.execute("INSERT OR REPLACE INTO cursor (name, value) VALUES ('a', ?)", (str(number),))
        connection.execute(
            "INSERT OR REPLACE INTO settings (skill, value, changed_at, changed_by) VALUES ('tea', ?, 0, ?)",
            (str(number), "x" * 20_000),
        )
    print(number, flush=True)
"""


def test_rel_15_a_copy_made_while_a_host_writes_is_of_one_moment(home: Path, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(home)], stdout=subprocess.PIPE, text=True
    ) as writer:
        try:
            assert writer.stdout is not None
            writer.stdout.readline()
            for number in range(5):
                seen = int(writer.stdout.readline())
                copy = backed_up(home, tmp_path / f"copy-{number}")
                with closing(sqlite3.connect(f"{copy}.kernel")) as found:
                    (cursor,) = found.execute("SELECT value FROM cursor").fetchone()
                    (settings,) = found.execute("SELECT value FROM settings").fetchone()
                    assert cursor == settings
                    assert int(cursor) >= seen, "what was told before is in it"
                assert not os.path.lexists(f"{copy}.kernel-wal")
        finally:
            writer.kill()
    restored(copy, tmp_path / "away")


def put(connection: sqlite3.Connection, table: str, **given: object) -> None:
    """A row with these values, and something of the right kind in every other column that wants one."""
    for _, name, kind, wanted, default, _ in connection.execute(f"PRAGMA table_info({table})"):
        if wanted and default is None and name != "id":
            given.setdefault(name, "" if kind == "TEXT" else 0)
    places = ", ".join("?" * len(given))
    connection.execute(f"INSERT INTO {table} ({', '.join(given)}) VALUES ({places})", tuple(given.values()))  # noqa: S608


def message(store: Store, direction: str, state: str) -> None:
    with store.writing() as connection:
        if connection.execute("SELECT 1 FROM thread").fetchone() is None:
            put(connection, "thread", id=1, channel="c", chat="1")
        put(connection, "message", thread=1, direction=direction, state=state)


def test_rel_15_what_waited_to_be_sent_is_not_sent_by_a_restored_state(home: Path, tmp_path: Path) -> None:
    store = Store(str(home))
    for direction, state in (
        ("out", "waiting"), ("out", "sending"), ("out", "sent"), ("in", "received"), ("in", "handled")
    ):  # fmt: skip
        message(store, direction, state)
    store.close()
    copy = backed_up(home, tmp_path / "copy")
    with closing(sqlite3.connect(f"{copy}.kernel")) as mere:  # in a mere copy it would be
        assert mere.execute("SELECT count(*) FROM message WHERE state = 'waiting'").fetchone() == (1,)
    done = restore(copy, str(tmp_path / "away/state.db"), by="human:x", keys=Keys(str(tmp_path / "away")))
    assert (done.kernel, done.closed) == (True, 2)
    with closing(sqlite3.connect(tmp_path / "away/kernel.db")) as found:
        rows = found.execute("SELECT state, error FROM message ORDER BY id").fetchall()
    assert [state for state, _ in rows] == ["failed", "failed", "sent", "handled", "handled"]
    assert rows[0][1] == MAY_BE_SENT


def test_what_is_there_is_not_overwritten_by_a_restore(home: Path, tmp_path: Path) -> None:
    store = Store(str(home))
    setting(store, "tea", "old")
    Sealed(str(home)).write("TOKEN", "old")
    copy = backed_up(home, tmp_path / "copy")
    setting(store, "tea", "new")
    Sealed(str(home)).write("TOKEN", "new")
    store.close()
    for name in list(os.listdir(home)):
        if name.startswith("state.db"):
            os.unlink(home / name)
    done = restore(copy, str(home / "state.db"), by="human:x", keys=Keys(str(home)))
    assert (done.kernel, done.secrets) == (False, 0)
    assert Sealed(str(home)).read("TOKEN") == "new"
    with closing(sqlite3.connect(home / "kernel.db")) as found:
        assert found.execute("SELECT value FROM settings").fetchone() == ("new",)


def test_secrets_that_another_key_sealed_are_refused_before_anything_is_restored(
    home: Path, tmp_path: Path
) -> None:
    Store(str(home)).close()
    Sealed(str(home)).write("TOKEN", "x")
    copy = backed_up(home, tmp_path / "copy")
    away = tmp_path / "away"
    Sealed(str(away)).write("OTHER", "y")
    shutil.rmtree(away / "secrets")
    with pytest.raises(StateError, match="sealed with another key"):
        restored(copy, away)
    assert sorted(os.listdir(away)) == ["keys"]


@pytest.mark.parametrize(
    "odd",
    [b"{", b"[]", b'{"../../evil.age": "eA=="}', b'{"/etc/x.age": "eA=="}', b'{"A.age": "no base64!"}', b'{"A.txt": ""}'],
)  # fmt: skip
def test_secrets_of_a_backup_that_metier_cannot_have_saved_are_refused(
    home: Path, tmp_path: Path, odd: bytes
) -> None:
    copy = backed_up(home, tmp_path / "copy")
    Path(f"{copy}.secrets").write_bytes(odd)
    os.chmod(f"{copy}.secrets", 0o600)
    with pytest.raises(StateError, match="Move the file away"):
        restored(copy, tmp_path / "away")
    assert not (tmp_path / "away" / "state.db").exists()
    assert not list(tmp_path.rglob("evil*"))
    os.unlink(f"{copy}.secrets")
    restored(copy, tmp_path / "away")


def test_a_damaged_copy_of_what_modules_kept_is_refused_before_anything_is_restored(
    home: Path, tmp_path: Path
) -> None:
    store = Store(str(home))
    for number in range(200):
        setting(store, f"skill-{number}", "x" * 500)
    store.close()
    copy = backed_up(home, tmp_path / "copy")
    with open(f"{copy}.kernel", "r+b") as file:
        file.seek(4096 * 3)
        file.write(os.urandom(4096 * 8))
    with pytest.raises(StateError, match="not whole"):
        restored(copy, tmp_path / "away")
    left = os.listdir(tmp_path / "away") if (tmp_path / "away").exists() else []
    assert not [name for name in left if name.endswith((".db", ".draft"))]


def test_a_name_that_is_taken_leaves_no_half_backup(home: Path, tmp_path: Path) -> None:
    Store(str(home)).close()
    for end in (".kernel", ".secrets"):
        (tmp_path / f"copy{end}").touch()
        with pytest.raises(StateError, match="something at"):
            backed_up(home, tmp_path / "copy")
        os.unlink(tmp_path / f"copy{end}")
    assert not list(tmp_path.glob("copy*"))


def test_the_command_says_what_it_saved_and_what_came_back(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    with Database.open(str(machine.state / "state.db")) as database:
        stop(database, by="human:x")
    store = Store(str(machine.state))
    message(store, "out", "waiting")
    store.close()
    Sealed(str(machine.state)).write("TOKEN", "x")
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    said = machine.metier("backup", first).stdout
    assert f"What modules keep is in {first}.kernel" in said
    assert f"{first}.secrets" in said
    assert "--with-keys" in said
    assert f"The keys are in {second}.keys" in machine.metier("backup", second, "--with-keys").stdout
    shutil.rmtree(machine.state)
    said = machine.metier("restore", second).stdout
    assert "What modules kept came back" in said
    assert "The sealed secrets came back" in said
    assert f"The keys in {second}.keys came back" in said
    assert "1 messages waited" in said
    assert Sealed(str(machine.state)).read("TOKEN") == "x"


LEAVES = """
import os, sys
from metier.kernel.store import Store
store = Store(sys.argv[1])
with store.writing() as connection:
    connection.execute("INSERT INTO settings VALUES ('stale', '{}', 0, 'x')")
os._exit(9)
"""


@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal"])
def test_rel_15_nothing_is_restored_beside_what_an_earlier_file_left(
    home: Path, tmp_path: Path, end: str
) -> None:
    store = Store(str(home))
    setting(store, "tea", "{}")
    store.close()
    copy = backed_up(home, tmp_path / "copy")
    away = tmp_path / "away"
    away.mkdir(mode=0o700)
    (away / f"kernel.db{end}").write_bytes(b"x")
    with pytest.raises(StateError, match=f"kernel.db{end} is left of an earlier kernel.db"):
        restored(copy, away)
    assert sorted(os.listdir(away)) == [f"kernel.db{end}"], "nothing came back"
    os.unlink(away / f"kernel.db{end}")
    restored(copy, away)


def test_rel_15_a_log_of_an_earlier_file_would_be_mixed_into_the_restored_one(
    home: Path, tmp_path: Path
) -> None:
    """What the refusal is for."""
    store = Store(str(home))
    setting(store, "tea", "{}")
    copy = backed_up(home, tmp_path / "copy")
    store.close()
    left = tmp_path / "left"
    left.mkdir(mode=0o700)
    shutil.copy(f"{copy}.kernel", left / "kernel.db")
    assert subprocess.run([sys.executable, "-c", LEAVES, str(left)], check=False).returncode == 9
    shutil.copy(f"{copy}.kernel", left / "kernel.db")
    with closing(sqlite3.connect(left / "kernel.db")) as mixed:
        assert ("stale",) in mixed.execute("SELECT skill FROM settings").fetchall()


@pytest.mark.parametrize("inside", ["", "skills"])
def test_the_draft_of_a_secret_that_was_cut_off_does_not_stop_a_restore(
    home: Path, tmp_path: Path, inside: str
) -> None:
    Sealed(str(home)).write("TOKEN", "x")
    copy = backed_up(home, tmp_path / "copy")
    away = tmp_path / "away"
    folder = away / "secrets" / inside
    folder.mkdir(mode=0o700, parents=True)
    for each in (away, away / "secrets", folder):
        each.chmod(0o700)
    (folder / f"GH.age.{'0' * 16}.draft").write_bytes(b"half")
    restored(copy, away)
    assert Sealed(str(away)).read("TOKEN") == "x"
    assert not list(away.rglob("*.draft"))


def test_what_a_person_put_among_the_secrets_stays_and_nothing_is_restored_beside_it(
    home: Path, tmp_path: Path
) -> None:
    Sealed(str(home)).write("TOKEN", "x")
    copy = backed_up(home, tmp_path / "copy")
    away = tmp_path / "away"
    (away / "secrets").mkdir(mode=0o700, parents=True)
    away.chmod(0o700)
    (away / "secrets" / "mine.txt").write_text("x", encoding="utf-8")
    with pytest.raises(StateError, match=r"mine\.txt that Metier did not put there"):
        restored(copy, away)
    assert sorted(path.name for path in away.rglob("*")) == ["mine.txt", "secrets"], "not even the keys"


def test_a_draft_of_a_secret_that_was_left_long_ago_goes_with_the_next_one(home: Path) -> None:
    sealed = Sealed(str(home))
    sealed.write("TOKEN", "x")
    left = home / "secrets" / f"TOKEN.age.{'0' * 16}.draft"
    left.write_bytes(b"half")
    os.utime(left, (1, 1))
    sealed.write("TOKEN", "y")
    assert os.listdir(home / "secrets") == ["TOKEN.age"]


def test_the_command_says_where_nothing_opens_the_secrets_that_came_back(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    with Database.open(str(machine.state / "state.db")) as database:
        stop(database, by="human:x")
    Sealed(str(machine.state)).write("TOKEN", "x")
    without, with_it, ring = (str(tmp_path / name) for name in ("without", "with", "ring"))
    machine.metier("backup", without)
    assert "not the one that opens" not in machine.metier("backup", with_it, "--with-keys").stdout
    key = machine.state / "keys" / "secrets.age"
    key.write_text("keyring://metier/secrets.age-test\n", encoding="utf-8")
    said = machine.metier("backup", ring, "--with-keys").stdout
    assert "not the one that opens the secrets: it lies in the keyring" in said
    for file, heard in ((without, "Nothing here opens them"), (ring, "in the keyring"), (with_it, "")):
        shutil.rmtree(machine.state)
        said = machine.metier("restore", file).stdout
        assert heard in said
        assert ("open them" in said or "only there they open" in said or "opens them" in said) == bool(heard)
