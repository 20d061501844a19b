"""Who may not find private memories gets an answer that they have no part in."""

import sqlite3
import time
from pathlib import Path

import pytest

from memories import ids, put
from metier.memory.index import Hit, MemoryIndex

ODD = "ꙮꙮꙮ"
"""A word that the table of vectors cannot spell: it is found by the words alone."""


def answers(folder: Path, queries: list[str]) -> list[list[Hit]]:
    index = MemoryIndex(str(folder), str(folder.parent / f"{time.monotonic_ns()}" / "memory.db"))
    index.refresh()
    found = [index.search(query, limit=100, min_similarity=0.0) for query in queries]
    index.close()
    return found


def test_no_answer_depends_on_what_stands_in_private_memories(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    for number in range(101):
        put(folder, f"x{number:03}.json", "hunter2 note")
        put(folder, f"y{number:03}.json", "hunter7 note")
    queries = ["hunter2 hunter7", "hunter7 hunter2 note", "hunter2", "the doctor's note", ODD]
    without = answers(folder, queries)
    for number, text in enumerate(["The doctor said hunter2 today.", "hunter7 note", f"{ODD} note", "note"]):
        put(folder, f"a{number}.json", text, private=True)
    assert answers(folder, queries) == without
    put(folder, "a0.json", "The doctor said hunter2 today.")  # control: what is not private has its part
    assert answers(folder, queries) != without


def test_private_memories_take_no_place_from_others_among_the_words(index: MemoryIndex, folder: Path) -> None:
    for number in range(130):
        put(folder, f"p{number}.json", f"{ODD} {ODD} {number}", private=True)
    put(folder, "open.json", f"Somewhere there was {ODD} too, among many other things that I forgot.")
    index.refresh()
    assert ids(index, ODD) == ["open"]


def test_private_memories_take_no_place_from_others_among_the_meanings(
    index: MemoryIndex, folder: Path
) -> None:
    for number in range(130):
        put(folder, f"p{number}.json", f"Swimming in the sea, swimming in the ocean {number}", private=True)
    index.refresh()
    assert "lake" in ids(index, "bathing in water")


@pytest.mark.parametrize("query", [ODD, "umbrella", "rain cover"])
def test_who_may_find_private_memories_finds_both_kinds(index: MemoryIndex, folder: Path, query: str) -> None:
    put(folder, "open.json", f"{ODD} An umbrella against the rain.")
    put(folder, "secret.json", f"{ODD} Another umbrella against the rain.", private=True)
    index.refresh()
    assert sorted(ids(index, query, include_private=True)) == ["open", "secret"]
    assert ids(index, query) == ["open"]


def test_what_a_ranking_hands_over_by_mistake_is_left_out(
    index: MemoryIndex, folder: Path, state: str
) -> None:
    put(folder, "odd.json", f"{ODD} stands on the wall")
    index.refresh()
    assert ids(index, ODD) == ["odd"]
    with sqlite3.connect(state) as connection:
        connection.execute("UPDATE passages SET private = 1 WHERE text LIKE '%wall%'")
    connection.close()
    assert ids(index, ODD) == []


def test_a_memory_that_changes_sides_is_found_on_the_other_one(index: MemoryIndex, folder: Path) -> None:
    for private in (False, True, False):
        put(folder, "odd.json", f"{ODD} stands on the wall", private=private)
        index.refresh()
        assert ids(index, ODD, include_private=True) == ["odd"]
        assert ids(index, ODD) == ([] if private else ["odd"])
