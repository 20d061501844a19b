"""What was announced before a newer Metier came is still known to it."""

import sqlite3
from pathlib import Path

from metier.kernel import announce_rows as rows
from metier.kernel.store import _TABLES, FILE, Store  # pyright: ignore[reportPrivateUsage]
from metier.kernel.telegram_buttons import Buttons


def test_a_file_of_the_first_version_is_taken_over_with_everything_in_it(tmp_path: Path) -> None:
    home = tmp_path / "state"
    home.mkdir(mode=0o700)
    connection = sqlite3.connect(home / FILE)
    connection.executescript(_TABLES[0])
    connection.execute("INSERT INTO announced VALUES ('apr_1', 'terminal', 'terminal', 'here', 1.0, 0, 0)")
    connection.execute("INSERT INTO telegram_button VALUES ('d', 'apr_1', 'f', '1001', 'title', '5', 9e9, 0)")
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()
    (home / FILE).chmod(0o600)
    store = Store(str(home))
    (told,) = rows.open_announcements(store, "terminal")
    assert (told.approval, told.references, told.reminded) == ("apr_1", ("here",), False)
    rows.reminded(store, "terminal", "terminal", {"apr_1": "there"})
    (told,) = rows.open_announcements(store, "terminal")
    assert (told.references, told.reminded) == (("here", "there"), True)
    assert Buttons(store).place("apr_1", "7000000001", 1001) == ("", ""), "which bot showed it is not known"
    assert Buttons(store).unfinished() == []
    store.close()
