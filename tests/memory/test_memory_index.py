"""The memory index over real files: in step with them, private, and never in the way."""

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from memories import LAKE, SECRET, ids, put
from metier.errors import StateError
from metier.memory import database
from metier.memory.index import MemoryIndex
from metier.memory.refresh import Refreshed


def bytes_of(state: str) -> bytes:
    return b"".join(path.read_bytes() for path in Path(state).parent.iterdir() if path.is_file())


def test_a_memory_is_found_by_its_words_and_by_other_words(index: MemoryIndex) -> None:
    assert index.refresh().added == 3
    assert ids(index, "mountain lake")[0] == "lake"
    assert ids(index, "swimming in the water")[0] == "lake"
    assert ids(index, "bookkeeping bills deadline")[0] == "tax"
    hit = index.search("lake")[0]
    assert (hit.path, hit.timestamp, hit.tags) == ("episodic/2026/lake.json", "2026-07-01", ("summer",))
    assert hit.snippet == LAKE and 0.5 <= hit.similarity <= 1 and not hit.private


def test_limit_and_least_similarity_hold(index: MemoryIndex, folder: Path) -> None:
    for number in range(15):
        put(folder, f"n{number}.json", f"Note {number} about the lake.")
    index.refresh()
    assert len(index.search("lake")) == 10
    assert len(index.search("lake", limit=3)) == 3
    assert all(hit.similarity >= 0.9 for hit in index.search("lake note", min_similarity=0.9))
    assert len(index.search("quantum", min_similarity=0.0, limit=100)) > len(
        index.search("quantum", limit=100)
    )
    assert index.search("lake", limit=0) == [] and index.search("  …") == []


@pytest.mark.parametrize(
    "query", ['"', "lake OR", "NEAR(", "a*b:c^", "lake' --", "{text}: x", "\0", "ключ", "鍵", "x" * 5000]
)
def test_no_query_is_a_command(index: MemoryIndex, query: str) -> None:
    index.refresh()
    assert isinstance(index.search(query), list)


def test_words_that_the_table_cannot_spell_are_found_as_they_are(index: MemoryIndex, folder: Path) -> None:
    put(folder, "odd.json", "ꙮꙮꙮ stands on the wall")
    index.refresh()
    assert ids(index, "ꙮꙮꙮ") == ["odd"]


def test_only_what_changed_is_taken_in(index: MemoryIndex, folder: Path) -> None:
    index.refresh()
    assert index.refresh() == Refreshed()
    put(folder, "new.json", "A new umbrella.")
    put(folder, "tax.json", "The plumber comes on Monday.")
    (folder / "notes/guitar.md").unlink()
    assert index.refresh() == Refreshed(added=1, changed=1, removed=1)
    assert ids(index, "umbrella") == ["new"] and ids(index, "plumber") == ["tax"]
    assert ids(index, "invoices of the accountant") == [] and ids(index, "guitar tuner") == []
    os.utime(folder / "new.json")
    assert index.refresh() == Refreshed()


def test_a_private_memory_is_hidden_unless_asked_for(index: MemoryIndex, folder: Path) -> None:
    put(folder, "secret.json", SECRET, private=True)
    index.refresh()
    for query in ("zebrafinch", "code of the safe", "secret.json", SECRET):
        assert "secret" not in [hit.id for hit in index.search(query, limit=100, min_similarity=0.0)]
    hits = index.search("zebrafinch", include_private=True)
    assert [hit.id for hit in hits] == ["secret"] and hits[0].private


def test_a_memory_that_became_private_is_not_shown_before_the_next_refresh_either(
    index: MemoryIndex, folder: Path
) -> None:
    put(folder, "secret.json", SECRET)
    index.refresh()
    assert ids(index, "zebrafinch") == ["secret"]
    put(folder, "secret.json", SECRET, private=True)
    assert ids(index, "zebrafinch") == []
    assert index.refresh().changed == 1
    assert ids(index, "zebrafinch") == [] and ids(index, "zebrafinch", include_private=True) == ["secret"]


def test_a_file_that_cannot_be_read_is_said_stops_nobody_and_leaves_the_index(
    index: MemoryIndex, folder: Path
) -> None:
    index.refresh()
    (folder / "tax.json").write_text('{"content": "half')
    os.mkfifo(folder / "pipe.json")
    (folder / "large.md").write_bytes(b"x" * 1_100_000)
    (folder / "link.json").symlink_to(folder / "episodic/2026/lake.json")
    os.link(folder / "notes/guitar.md", folder / "twin.md")
    put(folder, "new.json", "A new umbrella.")
    done = index.refresh()
    said = {problem.path: problem.diagnostic.code for problem in done.problems}
    assert said == {
        "tax.json": "bad_json",
        "pipe.json": "not_a_file",
        "large.md": "too_large",
        "link.json": "link",
        "twin.md": "hard_link",
        "notes/guitar.md": "hard_link",
    }
    assert done.added == 1 and ids(index, "umbrella") == ["new"] and ids(index, "accountant") == []


def test_no_link_leads_out_of_the_folder(index: MemoryIndex, folder: Path, tmp_path: Path) -> None:
    put(tmp_path / "outside", "secret.json", SECRET)
    (folder / "way").symlink_to(tmp_path / "outside")
    (folder / "one.json").symlink_to(tmp_path / "outside/secret.json")
    index.refresh()
    assert ids(index, "zebrafinch", include_private=True) == []
    put(folder, "inside.json", SECRET)  # control: the same text in the folder is found
    index.refresh()
    assert ids(index, "zebrafinch") == ["inside"]


@pytest.mark.parametrize("private", [False, True])
def test_what_is_removed_leaves_no_text_behind(
    index: MemoryIndex, folder: Path, state: str, *, private: bool
) -> None:
    path = put(folder, "secret.json", SECRET, tags=["quetzalcoatl"], private=private)
    for number in range(50):
        put(folder, f"n{number}.json", f"Note {number} about something else.", private=private)
    index.refresh()
    there = bytes_of(state)
    assert b"zebrafinch" in there and b"quetzalcoatl" in there
    path.unlink()
    assert index.refresh().removed == 1
    left = bytes_of(state)
    assert b"zebrafinch" not in left and b"ebrafinch" not in left and b"uetzalcoatl" not in left


def test_what_was_overwritten_leaves_no_text_behind(index: MemoryIndex, folder: Path, state: str) -> None:
    put(folder, "secret.json", SECRET)
    index.refresh()
    put(folder, "secret.json", "Nothing here.")
    index.refresh()
    assert b"ebrafinch" not in bytes_of(state)


def test_a_removal_that_was_cut_short_is_finished_by_the_next_refresh(
    index: MemoryIndex, folder: Path, state: str
) -> None:
    path = put(folder, "secret.json", SECRET)
    index.refresh()
    path.unlink()
    connection, _ = database.connected(state)
    number = connection.execute("SELECT id FROM memories WHERE path = 'secret.json'").fetchone()
    connection.execute("BEGIN")
    connection.execute(
        "INSERT INTO words (words, rowid, text, beside) SELECT 'delete', id, text, beside FROM passages WHERE memory = ?",
        number,
    )
    connection.execute("DELETE FROM passages WHERE memory = ?", number)
    connection.execute("DELETE FROM memories WHERE id = ?", number)
    connection.execute("UPDATE state SET litter = 1, generation = generation + 1")
    connection.execute("COMMIT")
    connection.close()
    assert b"ebrafinch" in bytes_of(state)
    index.refresh()
    assert b"ebrafinch" not in bytes_of(state)


def test_the_index_is_this_users_alone(index: MemoryIndex, state: str) -> None:
    index.refresh()
    assert stat.S_IMODE(os.stat(state).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(state)).st_mode) == 0o700


def test_an_index_that_others_could_have_written_is_refused(index: MemoryIndex, state: str) -> None:
    index.refresh()
    index.close()
    os.chmod(state, 0o666)  # noqa: S103
    with pytest.raises(StateError, match="others can write"):
        index.search("lake")


@pytest.mark.parametrize(
    "damage", ["garbage", "truncated", "format", "table", "middle", "vector", "pieces", "tags"]
)
def test_a_damaged_or_foreign_index_is_made_anew(
    index: MemoryIndex, folder: Path, state: str, damage: str
) -> None:
    put(folder, "secret.json", SECRET, private=True)
    index.refresh()
    index.close()
    match damage:
        case "garbage":
            Path(state).write_bytes(b"\x00garbage" * 4000)
        case "truncated":
            os.truncate(state, os.path.getsize(state) // 3)
        case "middle":
            data = bytearray(Path(state).read_bytes())
            data[4096:] = os.urandom(len(data) - 4096)
            Path(state).write_bytes(data)
        case "format":
            with sqlite3.connect(state) as connection:
                connection.execute("PRAGMA user_version = 99")
            connection.close()
        case "vector" | "pieces" | "tags":
            value = "'{'" if damage == "tags" else "x'FFFFFF'"
            with sqlite3.connect(state) as connection:
                table = "memories" if damage == "tags" else "passages"
                connection.execute(f"UPDATE {table} SET {damage} = {value}")  # noqa: S608
            connection.close()
        case _:
            with sqlite3.connect(state) as connection:
                connection.execute("DROP TABLE words")
            connection.close()
    assert "secret" not in ids(index, "zebrafinch code of the safe")
    index.refresh()
    assert ids(index, "mountain lake")[0] == "lake" and ids(index, "zebrafinch") == []
    assert ids(index, "zebrafinch", include_private=True) == ["secret"]


def test_the_index_can_be_thrown_away_while_it_is_in_use(index: MemoryIndex, state: str) -> None:
    index.refresh()
    database.throw_away(state)
    assert index.refresh().added == 3
    assert ids(index, "mountain lake")[0] == "lake"


def test_a_second_reader_sees_what_the_first_took_in(index: MemoryIndex, folder: Path, state: str) -> None:
    index.refresh()
    other = MemoryIndex(str(folder), state)
    assert ids(other, "mountain lake")[0] == "lake"
    put(folder, "new.json", "A new umbrella.")
    (folder / "tax.json").unlink()
    index.refresh()
    assert ids(other, "umbrella") == ["new"] and ids(other, "accountant") == []
    other.close()


def test_threads_may_share_an_index(index: MemoryIndex) -> None:
    index.refresh()
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(ids(index, "mountain lake")[0])) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["lake"] * 8


ONE_OF_SEVERAL = """
import sys
from metier.memory.index import MemoryIndex
index = MemoryIndex(sys.argv[1], sys.argv[2])
for _ in range(5):
    index.refresh()
    assert index.search("umbrella")[0].id.startswith("n")
print("done")
"""


def test_several_processes_may_refresh_and_search_at_once(
    index: MemoryIndex, folder: Path, state: str
) -> None:
    for number in range(60):
        put(folder, f"n{number}.json", f"Umbrella number {number}.")
    line = [sys.executable, "-c", ONE_OF_SEVERAL, str(folder), state]
    running = [subprocess.Popen(line, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[0] for process in running] == ["done\n"] * 3
    index.refresh()
    assert len(index.search("umbrella", limit=100)) == 60
    with sqlite3.connect(state) as connection:
        assert connection.execute("SELECT count(*) FROM memories").fetchone() == (63,)
    connection.close()


def test_a_long_memory_is_found_by_what_stands_in_its_middle(index: MemoryIndex, folder: Path) -> None:
    filler = "\n\n".join(
        f"Paragraph {n} about budgets, meetings and the weather in general. " * 6 for n in range(30)
    )
    (folder / "long.md").write_text(f"# Year\n\n{filler}\n\nThe heron took three goldfish.\n\n{filler}")
    index.refresh()
    hits = index.search("heron goldfish")
    assert [hit.id for hit in hits].count("long") == 1 and hits[0].id == "long"
    assert "The heron took three goldfish." in hits[0].snippet and len(hits[0].snippet) <= 300


def test_a_folder_that_is_a_link_has_no_memories_and_says_so(
    folder: Path, tmp_path: Path, state: str
) -> None:
    (tmp_path / "way").symlink_to(folder)
    index = MemoryIndex(str(tmp_path / "way"), state)
    done = index.refresh()
    assert done.added == 0 and [problem.diagnostic.code for problem in done.problems] == ["not_a_folder"]
    index.close()


def test_no_folder_means_no_memories(tmp_path: Path, state: str) -> None:
    index = MemoryIndex(str(tmp_path / "none"), state)
    assert index.refresh() == Refreshed() and index.search("anything") == []
    index.close()


def test_importing_metier_does_not_import_numpy() -> None:
    code = "import sys, metier, metier.memory.index; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_numpy_it_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "import importlib.util as u; real = u.find_spec; u.find_spec = lambda n: None if n == 'numpy' else real(n)\n"
        "from metier.memory.index import MemoryIndex\n"
        "try: MemoryIndex(sys.argv[1], sys.argv[2]).search('x')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    line = [sys.executable, "-c", code, str(tmp_path), str(tmp_path / "s/m.db")]
    said = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    assert said.startswith("StateError") and "metier[memory]" in said
