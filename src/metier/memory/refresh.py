"""Bring the index in step with the memory folder: what is new, changed or gone since the last time.

A file that still has its signature is not read. One that was written to a moment ago is read again next time, because it may change
without showing it. What is no memory is said, and nothing of it is found; that it is none is remembered, so that it is not read
every time. What was taken in before a refresh was cut short stays.
"""

import contextlib
import hashlib
import sqlite3
import time
from collections.abc import Callable
from typing import Final, final

import msgspec
from msgspec import Struct

from metier.memory.database import WORDS, finish
from metier.memory.memory import MOST_BYTES, Memory, read
from metier.memory.passages import MOST, passages
from metier.memory.table import PIECES, table
from metier.memory.walk import Found, Passed, walk
from metier.model.diagnostic import Diagnostic
from metier.openfile import Signature, is_young, read_small, signature_of

MOST_PASSAGES: Final = 200_000
_NO_ROOM: Final = "too_many"
_AT_ONCE: Final = 500
"""Files in one transaction: others wait no longer than these take."""
_BYTES_AT_ONCE: Final = 16_777_216
"""Of files whose text is held until it is written."""


@final
class Problem(Struct, frozen=True):
    """A file, or a part of one, that cannot be found by searching."""

    path: str
    diagnostic: Diagnostic


@final
class Refreshed(Struct, frozen=True, kw_only=True):
    """What a refresh did."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    problems: tuple[Problem, ...] = ()
    cut: bool = False
    """Whether it ended before everything was looked at."""


@final
class _Known(Struct, frozen=True, gc=False):
    """A file as it was read last."""

    signature: str
    young: int
    digest: bytes
    problem: str
    """Why it is no memory; empty when it is one."""


@final
class _Ready(Struct, frozen=True):
    """A file that was read and is to be written down; None when it holds what it held."""

    path: str
    signature: Signature
    digest: bytes
    memory: Memory | Diagnostic | None


def never() -> bool:
    """There is always time for one more file."""
    return False


@final
class Refresher:
    """One refresh."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known = {
            row[0]: _Known(*row[1:])
            for row in connection.execute("SELECT path, signature, young, digest, problem FROM memories")
        }
        self._room = MOST_PASSAGES - connection.execute("SELECT count(*) FROM passages").fetchone()[0]
        self._problems: list[Problem] = []
        self._added = self._changed = self._removed = 0
        self._cut = False

    def run(self, folder: str, enough: Callable[[], bool] = never) -> Refreshed:
        """Walk the folder, read what changed, write it down; `enough` is asked before one is read whether to leave off."""
        seen: set[str] = set()
        waiting: list[_Ready] = []
        held = 0
        with contextlib.closing(walk(folder)) as files:
            for found in files:
                if isinstance(found, Passed):
                    self._problems.append(Problem(found.path, found.why))
                    continue
                kept = self._known.get(found.path)
                if kept is not None and kept.signature == _text(found.signature) and not kept.young:
                    self._say_again(found.path, kept)
                    seen.add(found.path)
                    continue
                if enough():
                    self._cut = True
                    break
                ready = self._read(found, kept)
                if ready is None:
                    continue
                seen.add(found.path)
                waiting.append(ready)
                held += found.signature[0]
                if len(waiting) >= _AT_ONCE or held >= _BYTES_AT_ONCE:
                    self._write(waiting, ())
                    waiting, held = [], 0
        gone = [] if self._cut else [path for path in self._known if path not in seen]
        self._write(waiting, gone)
        finish(self._connection)
        return Refreshed(
            added=self._added,
            changed=self._changed,
            removed=self._removed,
            problems=tuple(self._problems),
            cut=self._cut,
        )

    def _read(self, found: Found, kept: _Known | None) -> _Ready | None:
        taken = read_small(found.name, most=MOST_BYTES, folder=found.folder)
        if isinstance(taken, Diagnostic):
            self._problems.append(Problem(found.path, taken))
            return None
        data, status = taken
        now = hashlib.sha256(data).digest()
        signature = signature_of(status)
        if kept is not None and now == kept.digest:
            self._say_again(found.path, kept)
            return _Ready(found.path, signature, now, None)
        return _Ready(found.path, signature, now, read(data, found.path))

    def _write(self, ready: list[_Ready], gone: list[str] | tuple[str, ...]) -> None:
        if not ready and not gone:
            return
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            before = self._added + self._changed + self._removed
            for path in gone:
                self._removed += self._remove(path)
            for each in ready:
                match each.memory:
                    case None:
                        connection.execute(
                            "UPDATE memories SET signature = ?, young = ? WHERE path = ? AND digest = ?",
                            (_text(each.signature), _young(each.signature), each.path, each.digest),
                        )
                    case Memory():
                        self._put(each, each.memory)
                    case Diagnostic():
                        self._removed += self._remove(each.path)
                        self._pass_over(each, each.memory)
            if self._added + self._changed + self._removed != before:
                connection.execute("UPDATE state SET generation = generation + 1")
            if self._changed + self._removed:  # there may be room again for what had none
                connection.execute("DELETE FROM memories WHERE problem LIKE ?", (f'%"{_NO_ROOM}"%',))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _put(self, ready: _Ready, memory: Memory) -> None:
        replaced = self._remove(ready.path)
        texts = passages(memory.text)
        if len(texts) > self._room:
            self._removed += replaced
            message = f"there are more than {MOST_PASSAGES:,} passages; it is left out"
            self._pass_over(ready, Diagnostic(code=_NO_ROOM, severity="error", message=message))
            return
        if len(texts) == MOST:
            message = f"it is long; its first {MOST} passages are searched"
            long = Diagnostic(code="long", severity="warning", message=message)
            self._problems.append(Problem(ready.path, long))
        about = (memory.id, memory.title, memory.timestamp, msgspec.json.encode(memory.tags).decode())
        number = self._insert(ready, "", about)
        beside = " ".join((memory.title, *memory.tags, *memory.entities)).strip()
        for text in texts:
            self._add(number, text, beside, memory)
        self._room -= len(texts)
        self._changed += replaced
        self._added += not replaced

    def _pass_over(self, ready: _Ready, why: Diagnostic) -> None:
        self._problems.append(Problem(ready.path, why))
        self._insert(ready, msgspec.json.encode(why).decode(), ("", "", "", "[]"))

    def _insert(self, ready: _Ready, problem: str, about: tuple[str, str, str, str]) -> int:
        row = self._connection.execute(
            "INSERT INTO memories (path, signature, young, digest, problem, name, title, timestamp, tags) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (ready.path, _text(ready.signature), _young(ready.signature), ready.digest, problem, *about),
        )
        return row.lastrowid or 0

    def _add(self, number: int, text: str, beside: str, memory: Memory) -> None:
        import numpy as np

        vectors = table()
        pieces = vectors.speller.pieces(f"{beside} {text}", most=PIECES)
        row = self._connection.execute(
            "INSERT INTO passages (memory, private, text, beside, pieces, vector) VALUES (?, ?, ?, ?, ?, ?)",
            (
                number,
                int(memory.private),
                text,
                beside,
                np.array(pieces, np.uint16).tobytes(),
                vectors.rounded(pieces),
            ),
        )
        name = WORDS[memory.private]
        self._connection.execute(
            f"INSERT INTO {name} (rowid, text, beside) VALUES (?, ?, ?)",  # noqa: S608  a word of ours
            (row.lastrowid, text, beside),
        )

    def _remove(self, path: str) -> bool:
        """Whether a memory is gone by it, and not only what was known of a file that is none."""
        connection = self._connection
        row = connection.execute("SELECT id, problem FROM memories WHERE path = ?", (path,)).fetchone()
        if row is None:
            return False
        number, problem = row
        connection.execute("DELETE FROM memories WHERE id = ?", (number,))
        if problem:
            return False
        for private, name in enumerate(WORDS):
            connection.execute(
                f"INSERT INTO {name} ({name}, rowid, text, beside) "  # noqa: S608  words of ours
                "SELECT 'delete', id, text, beside FROM passages WHERE memory = ? AND private = ?",
                (number, private),
            )
        self._room += connection.execute("DELETE FROM passages WHERE memory = ?", (number,)).rowcount
        connection.execute("UPDATE state SET litter = 1")
        return True

    def _say_again(self, path: str, kept: _Known) -> None:
        if kept.problem:
            self._problems.append(Problem(path, msgspec.json.decode(kept.problem, type=Diagnostic)))


def _text(signature: Signature) -> str:
    return " ".join(map(str, signature))


def _young(signature: Signature) -> bool:
    return is_young(signature, time.time_ns())
