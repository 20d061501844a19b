"""The memory index: `refresh` brings it in step with the folder, `search` asks it.

It shows a memory only as it lies on the disk now: a file that changed since it was read in is left out until the next refresh,
because it may have become private. Who may not find private memories gets an answer that they have no part in. An index that
cannot be read shows nothing; it is thrown away and made anew.
"""

import os
import sqlite3
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar, final

import msgspec
from msgspec import Struct

from metier.errors import StateError
from metier.memory.database import WORDS, connected, inode_of, is_damage, throw_away
from metier.memory.ranking import fused, likeness
from metier.memory.refresh import Refreshed, Refresher, never
from metier.memory.table import table
from metier.memory.vectors import Vectors, best
from metier.memory.words import plain, telling
from metier.openfile import signature_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LIMIT: Final = 10
MIN_SIMILARITY: Final = 0.5
MOST_HITS: Final = 100
_LONGEST_QUERY: Final = 2_000
_MOST_WORDS: Final = 32
_PIECES: Final = 64
_CANDIDATES: Final = 100
"""Of each of the two rankings over everything."""
_RANKED: Final = 5_000
"""Passages that FTS5 is to rank for one query. The rarest words are asked for, as many as keep within this: usual ones rank hardly
anything and cost most of the time, and the comparison piece by piece sees them anyway."""
_TRIES: Final = 4
"""At an index that is damaged, or that somebody else makes anew meanwhile."""
_SNIPPET: Final = 300
_BEFORE: Final = 80
_Result = TypeVar("_Result")


@final
class Hit(Struct, frozen=True, kw_only=True):
    """A memory that was found."""

    path: str
    """Relative to the memory folder."""
    id: str
    title: str
    snippet: str
    """Of the passage that fits best, from shortly before the first word of the query that stands in it."""
    similarity: float
    """From 0 to 1; most right answers are above 0.5, most unrelated memories below."""
    timestamp: str
    tags: tuple[str, ...]
    private: bool


@final
class _Candidate(Struct, frozen=True):
    memory: int
    text: str
    beside: str
    pieces: bytes


@final
class MemoryIndex:
    """Memories below `folder`, indexed in the file `database`. Any thread may use it, one at a time; so may other processes.

    Raises:
        StateError: from `refresh` and `search`, when numpy is missing or the state folder cannot be used.
    """

    def __init__(self, folder: str, database: str) -> None:
        self._folder = os.path.abspath(folder)
        self._path = os.path.abspath(database)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self._vectors: dict[bool, Vectors] = {}
        """By whether they are private."""
        self._counts: dict[tuple[str, str], int] = {}

    def close(self) -> None:
        """Let go of the file. The next use opens it again."""
        with self._lock:
            self._let_go()

    def refresh(self, *, enough: Callable[[], bool] = never) -> Refreshed:
        """Take in what is new, changed or gone. Where `enough` says so the rest is left for the next time."""
        with self._lock:
            return self._sound(lambda connection: Refresher(connection).run(self._folder, enough))

    def search(
        self,
        query: str,
        *,
        limit: int = LIMIT,
        min_similarity: float = MIN_SIMILARITY,
        include_private: bool = False,
        enough: Callable[[], bool] = never,
    ) -> list[Hit]:
        """The memories that fit `query`, the best first.

        Args:
            limit: at most so many, and never more than 100.
            min_similarity: how alike they have to be, from 0 to 1.
            include_private: whether memories that call themselves private are shown too.
            enough: as for `refresh`, which comes first where the index was never filled.
        """
        query = query[:_LONGEST_QUERY]
        if limit < 1 or not telling(query):
            return []

        def asked(connection: sqlite3.Connection) -> list[Hit]:
            if not connection.execute("SELECT filled FROM state").fetchone()[0]:
                Refresher(connection).run(self._folder, enough)
            connection.execute("BEGIN")
            try:
                ranked = self._ranked(connection, query, include_private=include_private)
                wanted = [each for each in ranked if each[2] >= min_similarity]
                most = min(limit, MOST_HITS)
                return self._hits(connection, wanted, telling(query), most)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

        with self._lock:
            return self._sound(asked)

    def _sound(self, action: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """What `action` makes of the index. A damaged one is made anew, and one that was made anew is opened again."""
        for _ in range(_TRIES):
            try:
                return action(self._open())
            except sqlite3.DatabaseError as error:
                ours = self._lies_there()
                if ours and not is_damage(error):
                    raise _busy(str(error)) from error
            except (ValueError, IndexError, msgspec.DecodeError):
                ours = self._lies_there()  # SQLite could read it, but it is not what was written
            self._let_go()
            if ours:
                throw_away(self._path)
        raise _busy("it is damaged again and again")

    def _open(self) -> sqlite3.Connection:
        """The connection, to the file that lies there now: another process may have made it anew."""
        table()
        if self._connection is not None:
            if self._lies_there():
                return self._connection
            self._let_go()
        self._connection, self._inode = connected(self._path)
        return self._connection

    def _lies_there(self) -> bool:
        """Whether the file that is open, or was to be, is the one that lies there."""
        return inode_of(self._path) == self._inode

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection, self._vectors = None, {}

    def _ranked(
        self, connection: sqlite3.Connection, query: str, *, include_private: bool
    ) -> list[tuple[int, _Candidate, float]]:
        """Passages with their likeness, the best first."""
        import numpy as np

        pieces = table().speller.pieces(query, most=_PIECES)
        ids, scores = self._scored(connection, table().mean(pieces), include_private=include_private)
        by_vector: list[int] = ids[best(scores, _CANDIDATES)].tolist() if pieces else []
        words = list(dict.fromkeys(telling(query)))[:_MOST_WORDS]
        by_words = self._by_words(connection, words, ranked=bool(pieces), include_private=include_private)
        found = _candidates(
            connection, [*dict.fromkeys([*by_words, *by_vector])], include_private=include_private
        )
        numbers = [*found]
        if not numbers:
            return []
        if pieces:
            texts = [np.frombuffer(each.pieces, np.uint16).astype(np.int64) for each in found.values()]
            cosines = scores[np.searchsorted(ids, np.array(numbers, np.int64))]
            alike = likeness(cosines, table().aligned(pieces, texts)).tolist()
        else:  # nothing that the table can spell: what counts is whether the words themselves are there
            alike = [_share(words, each) for each in found.values()]
        likes = dict(zip(numbers, alike, strict=True))
        order = fused([n for n in by_words if n in found], [n for n in by_vector if n in found], likes)
        return [(number, found[number], likes[number]) for number in order]

    def _scored(
        self, connection: sqlite3.Connection, query: "NDArray[np.float32]", *, include_private: bool
    ) -> "tuple[NDArray[np.int64], NDArray[np.float32]]":
        """The numbers of all passages that may be shown, rising, and the cosine of each with `query`."""
        import numpy as np

        ids, scores = self._followed(connection, private=False, query=query)
        if not include_private:
            return ids, scores
        more, others = self._followed(connection, private=True, query=query)
        ids, scores = np.concatenate([ids, more]), np.concatenate([scores, others])
        order = np.argsort(ids, kind="stable")
        return ids[order], scores[order]

    def _followed(
        self, connection: sqlite3.Connection, *, private: bool, query: "NDArray[np.float32]"
    ) -> "tuple[NDArray[np.int64], NDArray[np.float32]]":
        vectors = self._vectors.get(private) or Vectors(private=private)
        if vectors.follow(connection):
            self._counts = {}
        self._vectors[private] = vectors
        return vectors.ids, vectors.scores(query)

    def _by_words(
        self, connection: sqlite3.Connection, words: list[str], *, ranked: bool, include_private: bool
    ) -> list[int]:
        """The passages that have these words, the best first. Words that are everywhere rank nothing; `ranked` False takes them too."""
        tables = WORDS if include_private else WORDS[:1]
        asked: list[str] = []
        room = _RANKED
        for count, word in sorted(
            (sum(self._count(connection, each, word) for each in tables), word) for word in words
        ):
            room -= count
            if room < 0:
                break
            asked.append(word)
        if ranked and not asked:
            return []
        match = " OR ".join(f'"{word}"' for word in asked or words)
        rank, order = ("rank", "ORDER BY rank") if asked else ("0", "")
        found: list[tuple[float, int]] = []
        for each in tables:
            line = f"SELECT {rank}, rowid FROM {each} WHERE {each} MATCH ? {order} LIMIT ?"  # noqa: S608  words of ours
            found += connection.execute(line, (match, _CANDIDATES))
        return [number for _, number in sorted(found)[:_CANDIDATES]]

    def _count(self, connection: sqlite3.Connection, name: str, word: str) -> int:
        """How many passages of one table have the word, counted no further than it matters."""
        known = self._counts.get((name, word))
        if known is None:
            known = connection.execute(
                f"SELECT count(*) FROM (SELECT 1 FROM {name} WHERE {name} MATCH ? LIMIT ?)",  # noqa: S608  a word of ours
                (f'"{word}"', _RANKED + 1),
            ).fetchone()[0]
            if len(self._counts) > 10_000:
                self._counts = {}
            self._counts[name, word] = known
        return known

    def _hits(
        self,
        connection: sqlite3.Connection,
        ranked: list[tuple[int, _Candidate, float]],
        words: list[str],
        limit: int,
    ) -> list[Hit]:
        hits: list[Hit] = []
        seen: set[int] = set()
        for number, candidate, alike in ranked:
            if candidate.memory in seen:
                continue
            seen.add(candidate.memory)
            row = connection.execute(
                "SELECT m.path, m.signature, m.name, m.title, m.timestamp, m.tags, p.private FROM passages AS p "
                "JOIN memories AS m ON m.id = p.memory WHERE p.id = ?",
                (number,),
            ).fetchone()
            if row is None or not self._is_there(row[0], row[1]):
                continue
            path, _, name, title, timestamp, tags, private = row
            hits.append(
                Hit(
                    path=path,
                    id=name,
                    title=title,
                    snippet=_snippet(candidate.text, words),
                    similarity=round(float(alike), 4),
                    timestamp=timestamp,
                    tags=msgspec.json.decode(tags, type=tuple[str, ...]),
                    private=private != 0,
                )
            )
            if len(hits) == limit:
                break
        return hits

    def _is_there(self, path: str, signature: str) -> bool:
        try:
            status = os.lstat(os.path.join(self._folder, path))
        except OSError:
            return False
        return " ".join(map(str, signature_of(status))) == signature


def _candidates(
    connection: sqlite3.Connection, numbers: list[int], *, include_private: bool
) -> dict[int, _Candidate]:
    """The passages with these numbers, in the order given. Whatever a ranking says: here a private one is left out."""
    marks = ",".join("?" * len(numbers))
    rows = connection.execute(
        f"SELECT id, memory, text, beside, pieces FROM passages WHERE private <= ? AND id IN ({marks})",  # noqa: S608  marks only
        (int(include_private), *numbers),
    )
    found = {row[0]: _Candidate(*row[1:]) for row in rows}
    return {number: found[number] for number in numbers if number in found}


def _share(words: list[str], candidate: _Candidate) -> float:
    there = set(telling(f"{candidate.beside} {candidate.text}"))
    return sum(plain(word) in there for word in words) / len(words)


def _snippet(text: str, words: list[str]) -> str:
    line = " ".join(text.split())
    if len(line) <= _SNIPPET:
        return line
    lower = line.lower()
    first = min((place for word in words if (place := lower.find(word)) >= 0), default=0)
    start = max(0, min(first - _BEFORE, len(line) - _SNIPPET + 2))
    part = line[start : start + _SNIPPET - 2]
    return f"{'…' if start else ''}{part}{'…' if start + len(part) < len(line) else ''}"


def _busy(why: str) -> StateError:
    return StateError(
        f"the memory index cannot be used now: {why}",
        remedy="Try again; or remove it, it is made anew from the memories",
    )
