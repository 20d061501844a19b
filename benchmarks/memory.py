"""How well and how fast memories are found.

Quality: 320 pairs of a query and the one memory that answers it (memory_pairs.json), among 5,000 unrelated memories of the same
topics. Recall is the share of queries whose memory is among the first ten: of the fusion at its default settings, of FTS5 alone,
and of the vectors alone. What was tuned was tuned on the even ones of the first 130 memories. `_held` is the recall on the odd ones, which were looked at
beside them; `_fresh` on thirty that were written when nothing was changed any more.

Speed: a whole search over 100,000 memories, beside the bare product of a matrix of that size with a vector. They take turns, so
that a busy moment hits both. `asked` is what a skill waits for: before its search the whole folder is looked through for changes.
"""

import argparse
import gc
import itertools
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from metier.memory.database import connected
from metier.memory.index import MemoryIndex
from metier.memory.ranking import likeness
from metier.memory.refresh import Refreshed
from metier.memory.table import DIMENSIONS, Table, table
from metier.memory.vectors import Vectors, best
from metier.memory.words import telling

FIRST = 10
FRESH = 130
ASKED = 8


class Pair(NamedTuple):
    """A query, and the number of the memory that answers it."""

    query: str
    number: int

    @property
    def part(self) -> str:
        if self.number >= FRESH:
            return "fresh"
        return "held" if self.number % 2 else "tuned"


class Labelled(NamedTuple):
    """What memory_pairs.json says."""

    memories: list[str]
    pairs: list[Pair]
    sentences: list[str]
    slots: dict[str, list[str]]

    def unrelated(self) -> Iterator[str]:
        """Sentences about the same topics, no two alike, the same on every machine."""
        dice = random.Random(1)  # noqa: S311
        made: set[str] = set()
        for sentence in itertools.cycle(self.sentences):
            while "{" in sentence:
                before, _, rest = sentence.partition("{")
                slot, _, after = rest.partition("}")
                sentence = before + dice.choice(self.slots[slot]) + after
            sentence = sentence[0].upper() + sentence[1:]
            if sentence not in made:
                made.add(sentence)
                yield sentence


def labelled() -> Labelled:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "memory_pairs.json")
    with open(path, encoding="utf-8") as file:
        known: dict[str, Any] = json.load(file)
    pairs = [
        Pair(each[kind], each["number"]) for each in known["memories"] for kind in ("paraphrase", "keywords")
    ]
    return Labelled([each["text"] for each in known["memories"]], pairs, known["sentences"], known["slots"])


def written(folder: str, texts: list[str]) -> None:
    """Each text as a memory of MetaHuman's kind, a thousand to a folder."""
    for number, text in enumerate(texts):
        place = os.path.join(folder, "episodic", f"{number // 1000:04}")
        if number % 1000 == 0:
            os.makedirs(place)
        about = {
            "id": f"m{number}",
            "timestamp": "2026-01-01T00:00:00Z",
            "type": "observation",
            "content": text,
        }
        with open(os.path.join(place, f"m{number}.json"), "w", encoding="utf-8") as file:
            json.dump(about, file)


def recalls(known: Labelled, database: str, index: MemoryIndex) -> dict[str, float]:
    """The three recalls, over all pairs and over those nothing was tuned on."""
    (connection, _), vectors = connected(database), Vectors(private=False)
    vectors.follow(connection)
    names = {
        row[0]: row[1]
        for row in connection.execute("SELECT p.id, name FROM passages p JOIN memories m ON m.id = memory")
    }

    def by_words(query: str) -> list[str]:
        asked = " OR ".join(f'"{word}"' for word in dict.fromkeys(telling(query)))
        rows = connection.execute(
            "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?", (asked, FIRST)
        )
        return [names[row[0]] for row in rows]

    def by_vector(query: str) -> list[str]:
        scores = vectors.scores(table().mean(table().speller.pieces(query, most=64)))
        return [names[number] for number in vectors.ids[best(scores, FIRST)].tolist()]

    def fused(query: str) -> list[str]:
        return [hit.id for hit in index.search(query)]

    ways: dict[str, Callable[[str], list[str]]] = {"fused": fused, "fts": by_words, "vectors": by_vector}
    found = {
        name: [f"m{each.number}" in way(each.query) for each in known.pairs] for name, way in ways.items()
    }
    connection.close()
    results = {f"recall_{name}": statistics.mean(hits) for name, hits in found.items()}
    for part in ("held", "fresh"):
        of = [number for number, pair in enumerate(known.pairs) if pair.part == part]
        results |= {
            f"recall_{name}_{part}": statistics.mean(hits[n] for n in of) for name, hits in found.items()
        }
    return results


def apart(known: Labelled, unrelated: list[str]) -> dict[str, float]:
    """Which share of the right pairs, and of random ones, reaches a likeness of one half."""
    words = table()
    pieces = [words.speller.pieces(text, most=320) for text in [*known.memories, *unrelated]]
    numbers = [np.array(each, np.int64) for each in pieces]
    means = np.stack([words.mean(each) for each in pieces])
    right: list[bool] = []
    others: list[bool] = []
    for pair in known.pairs:
        chosen = [pair.number, *range(len(known.memories), len(numbers), 10)]
        asked = words.speller.pieces(pair.query, most=64)
        alike = likeness(
            means[chosen] @ words.mean(asked), words.aligned(asked, [numbers[n] for n in chosen])
        )
        right.append(bool(alike[0] >= 0.5))
        others += (alike[1:] >= 0.5).tolist()
    results = {"right_above_half": statistics.mean(right), "random_above_half": statistics.mean(others)}
    for part in ("held", "fresh"):
        of = [hit for hit, pair in zip(right, known.pairs, strict=True) if pair.part == part]
        results[f"right_above_half_{part}"] = statistics.mean(of)
    return results


def quality(folder: str, count: int) -> dict[str, float]:
    known = labelled()
    unrelated = list(itertools.islice(known.unrelated(), count))
    memories, database = os.path.join(folder, "memory"), os.path.join(folder, "state", "memory.db")
    written(memories, [*known.memories, *unrelated])
    index = MemoryIndex(memories, database)
    assert index.refresh().added == len(known.memories) + count
    found = recalls(known, database, index) | apart(known, unrelated)
    index.close()
    return {name: round(value, 3) for name, value in found.items()}


def speed(folder: str, count: int, rounds: int) -> dict[str, float]:
    known = labelled()
    two = zip(known.unrelated(), itertools.islice(known.unrelated(), 37, None), strict=False)
    memories, database = os.path.join(folder, "memory"), os.path.join(folder, "state", "memory.db")
    texts = [f"{a} {b}" for a, b in itertools.islice(two, count)]
    written(memories, texts)
    # Every other query is made of words that are there: finding none in the index is quick.
    dice = random.Random(3)  # noqa: S311
    there = [" ".join(dice.sample(telling(text), 5)) for text in dice.sample(texts, len(known.pairs))]
    queries = [query for pair, words in zip(known.pairs, there, strict=True) for query in (pair.query, words)]
    index = MemoryIndex(memories, database)
    start = time.perf_counter()
    done = index.refresh()
    indexing = time.perf_counter() - start
    assert done.added == count, done
    start = time.perf_counter()
    index.refresh()
    again = time.perf_counter() - start
    start = time.perf_counter()
    index.search("anything")
    first = time.perf_counter() - start
    matrix = np.random.default_rng(1).standard_normal((count, DIMENSIONS), np.float32)
    vector = matrix[0].copy()
    searches: list[float] = []
    products: list[float] = []
    gc.collect()
    for query in itertools.islice(itertools.cycle(queries), rounds):
        start = time.perf_counter()
        _ = matrix @ vector
        middle = time.perf_counter()
        index.search(query)
        searches.append(time.perf_counter() - middle)
        products.append(middle - start)
    asked: list[float] = []
    for query in queries[:ASKED]:
        start = time.perf_counter()
        assert index.refresh() == Refreshed()
        index.search(query)
        asked.append(time.perf_counter() - start)
    index.close()
    size = os.path.getsize(database)
    return {
        "memories": count,
        "search_over_matmul": round(statistics.median(searches) / statistics.median(products), 2),
        "asked_over_matmul": round(statistics.median(asked) / statistics.median(products), 1),
        "asked_ms": round(1000 * statistics.median(asked), 1),
        "search_ms": round(1000 * statistics.median(searches), 2),
        "search_ms_95": round(1000 * statistics.quantiles(searches, n=20)[-1], 2),
        "matmul_ms": round(1000 * statistics.median(products), 2),
        "first_search_ms": round(1000 * first, 1),
        "indexed_per_second": round(count / indexing),
        "refresh_unchanged_ms": round(1000 * again, 1),
        "index_mb": round(size / 1e6, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--unrelated", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=640)
    parser.add_argument("--folder", help="where the memories are made; a temporary folder otherwise")
    parser.add_argument("--json", action="store_true", help="print one flat object, name to number")
    given = parser.parse_args()
    start = time.perf_counter()
    Table()
    results: dict[str, float] = {"table_load_ms": round(1000 * (time.perf_counter() - start), 1)}
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        results |= quality(folder, given.unrelated)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        results |= speed(folder, given.memories, given.rounds)
    if given.json:
        print(json.dumps(results))
        return
    for name, value in results.items():
        print(f"{name:>24} {value:,}")


if __name__ == "__main__":
    main()
