"""What a folder full of odd files costs: each is looked at once, and never more than there is time and room for."""

import os
import time
from pathlib import Path

import pytest

from memories import ids, put
from metier.errors import StateError
from metier.memory import database, refresh, walk
from metier.memory.index import MOST_HITS, MemoryIndex
from metier.memory.memory import Memory, read
from metier.memory.refresh import Refreshed
from metier.model.diagnostic import Diagnostic

LONG_AGO = 1_000_000_000


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths whose bytes were looked into since, in order."""
    seen: list[str] = []

    def reading(data: bytes, path: str) -> Memory | Diagnostic:
        seen.append(path)
        return read(data, path)

    monkeypatch.setattr(refresh, "read", reading)
    return seen


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that were opened since."""
    seen: list[str] = []
    real = refresh.read_small

    def opening(name: str, **more: int) -> object:
        seen.append(name)
        return real(name, **more)

    monkeypatch.setattr(refresh, "read_small", opening)
    return seen


def codes(done: Refreshed) -> dict[str, str]:
    return {each.path: each.diagnostic.code for each in done.problems}


def settle(index: MemoryIndex, monkeypatch: pytest.MonkeyPatch) -> Refreshed:
    """A refresh at a time when no file is young any more."""
    now = time.time_ns()
    with monkeypatch.context() as later:
        later.setattr(refresh.time, "time_ns", lambda: now + 10_000_000_000)
        return index.refresh()


def test_what_is_no_memory_is_read_once(
    index: MemoryIndex, folder: Path, parsed: list[str], opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "cache.json").write_text('{"vectors": [0.1, 0.2]}')
    (folder / "half.json").write_text('{"content": "half')
    (folder / "list.json").write_text('["x"]')
    (folder / "head.md").write_text("---\nprivate: true\nno end")
    (folder / "cut.json").write_text('{"content": "x", "content": "y"}')
    said = {
        "cache.json": "no_text",
        "half.json": "bad_json",
        "list.json": "not_an_object",
        "head.md": "unterminated",
        "cut.json": "bad_json",
    }
    assert codes(index.refresh()) == said
    parsed.clear()
    done = settle(index, monkeypatch)
    assert codes(done) == said, "it is said again"
    assert parsed == [], "a young file is read again, but what it holds is known"
    opened.clear()
    assert index.refresh() == done
    assert opened == [], "and afterwards not even opened"
    index.close()
    assert codes(index.refresh()) == said
    assert opened == []


def test_what_was_no_memory_and_becomes_one_is_found_and_the_other_way_round(
    index: MemoryIndex, folder: Path
) -> None:
    (folder / "new.json").write_text('{"content": ')
    assert index.refresh().added == 3
    put(folder, "new.json", "A new umbrella.")
    done = index.refresh()
    assert (done.added, done.changed, done.problems) == (1, 0, ())
    assert ids(index, "umbrella") == ["new"]
    (folder / "new.json").write_text('{"content": ')
    done = index.refresh()
    assert (done.added, done.removed, codes(done)) == (0, 1, {"new.json": "bad_json"})
    assert ids(index, "umbrella") == []
    (folder / "new.json").unlink()
    assert index.refresh() == Refreshed()


def test_a_refresh_that_has_no_more_time_keeps_what_it_took_in_and_the_next_goes_on(
    index: MemoryIndex, folder: Path
) -> None:
    for number in range(6):
        put(folder, f"n{number}.json", f"Umbrella number {number}.")
    left = iter([False] * 4)
    done = index.refresh(enough=lambda: next(left, True))
    assert (done.added, done.cut) == (4, True)
    assert 0 < len(ids(index, "umbrella")) < 6
    done = index.refresh()
    assert (done.added, done.removed, done.cut) == (5, 0, False)
    assert len(ids(index, "umbrella")) == 6


def test_nothing_that_was_not_looked_at_counts_as_gone(index: MemoryIndex, folder: Path) -> None:
    index.refresh()
    put(folder, "aaa.json", "A new umbrella.")
    assert index.refresh(enough=lambda: True) == Refreshed(cut=True)
    assert ids(index, "mountain lake")[0] == "lake"


def test_a_file_that_was_written_a_moment_ago_is_read_again(
    index: MemoryIndex, folder: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    index.refresh()
    opened.clear()
    index.refresh()
    assert sorted(opened) == ["guitar.md", "lake.json", "tax.json"]
    settle(index, monkeypatch)
    opened.clear()
    index.refresh()
    assert opened == []


def test_there_are_no_more_passages_than_the_most_and_room_is_used_when_there_is_some(
    index: MemoryIndex, folder: Path, monkeypatch: pytest.MonkeyPatch, parsed: list[str]
) -> None:
    monkeypatch.setattr(refresh, "MOST_PASSAGES", 4)
    put(folder, "x1.json", "An umbrella.")
    put(folder, "x2.json", "Another umbrella.")
    done = index.refresh()
    assert (done.added, codes(done)) == (4, {"notes/guitar.md": "too_many"})
    parsed.clear()
    assert codes(index.refresh()) == {"notes/guitar.md": "too_many"}
    assert (parsed, ids(index, "guitar tuner")) == ([], [])
    (folder / "x1.json").unlink()
    assert index.refresh().removed == 1
    assert index.refresh() == Refreshed(added=1)
    assert ids(index, "guitar tuner") == ["guitar"]


def test_no_more_files_than_the_most_are_looked_at(
    index: MemoryIndex, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "MOST_FILES", 2)
    done = index.refresh()
    assert done.added == 2
    assert list(codes(done).values()) == ["too_many"]


def test_folders_are_looked_at_sixteen_deep(index: MemoryIndex, folder: Path) -> None:
    put(folder, "/".join(["d"] * 15 + ["in.json"]), "An umbrella.")
    put(folder, "/".join(["e"] * 17 + ["out.json"]), "Another umbrella.")
    done = index.refresh()
    assert ids(index, "umbrella") == ["in"]
    assert list(codes(done).values()) == ["too_deep"]


@pytest.mark.parametrize("name", [".hidden.json", ".trash/gone.json", "notes/.obsidian/page.json"])
def test_what_begins_with_a_dot_is_not_looked_at(index: MemoryIndex, folder: Path, name: str) -> None:
    put(folder, name, "An umbrella.")
    put(folder, name.replace(".", "", 1), "Another umbrella.")
    assert index.refresh().problems == ()
    assert [hit.path for hit in index.search("umbrella")] == [name.replace(".", "", 1)]


def test_a_name_that_is_not_utf8_is_said_and_left_out(index: MemoryIndex, folder: Path) -> None:
    with open(os.fsencode(folder) + b"/\xff.json", "w") as file:
        file.write('{"content": "An umbrella."}')
    assert codes(index.refresh()) == {"\\xff.json": "not_utf8"}
    assert ids(index, "umbrella") == []


def test_no_more_than_a_hundred_are_told_however_many_are_asked_for(index: MemoryIndex, folder: Path) -> None:
    for number in range(MOST_HITS + 10):
        put(folder, f"a{number}.json", f"wolpertinger {number}")
        put(folder, f"b{number}.json", "a horned hare of the Alps")
    index.refresh()
    assert len(index.search("wolpertinger hare", limit=10_000, min_similarity=0.0)) == MOST_HITS


def test_of_a_query_the_first_two_thousand_characters_count(index: MemoryIndex, folder: Path) -> None:
    put(folder, "odd.json", "ꙮꙮꙮ stands on the wall")
    index.refresh()
    assert ids(index, " " * 1_990 + "ꙮꙮꙮ") == ["odd"]
    assert ids(index, " " * 2_000 + "ꙮꙮꙮ") == []


def test_an_index_with_a_second_name_is_refused(index: MemoryIndex, state: str, tmp_path: Path) -> None:
    index.refresh()
    index.close()
    os.link(state, tmp_path / "second")
    with pytest.raises(StateError, match="name"):
        index.search("lake")


def test_the_journal_goes_with_the_index_it_belongs_to(tmp_path: Path) -> None:
    place = tmp_path / "memory.db"
    for name in ("memory.db", "memory.db-journal"):
        (tmp_path / name).write_bytes(b"x")
    database.throw_away(str(place))
    assert list(tmp_path.iterdir()) == []


def test_an_index_that_was_thrown_away_after_the_refresh_is_filled_before_it_is_asked(
    index: MemoryIndex, state: str
) -> None:
    index.refresh()
    database.throw_away(state)
    assert ids(index, "mountain lake")[0] == "lake"


def test_an_index_that_goes_away_while_it_is_opened_is_opened_again(
    index: MemoryIndex, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, left = database.require_one_name, [1, 2]

    def going(path: str) -> None:
        if left:
            left.pop()
            database.throw_away(path)
        real(path)

    monkeypatch.setattr(database, "require_one_name", going)
    assert ids(index, "mountain lake")[0] == "lake"
    assert left == []


def test_an_index_that_goes_away_in_the_middle_of_a_refresh_is_filled_all_the_same(
    index: MemoryIndex, folder: Path, state: str
) -> None:
    index.refresh()
    put(folder, "new.json", "A new umbrella.")
    left = [1]

    def going() -> bool:
        if left:
            left.pop()
            database.throw_away(state)
        return False

    index.refresh(enough=going)
    assert ids(index, "umbrella") == ["new"]
    assert ids(index, "mountain lake")[0] == "lake"
