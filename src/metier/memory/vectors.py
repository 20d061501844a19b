"""The vectors of passages in memory, kept in step with the index by what was added and removed since.

One number is four bytes here and one in the file: the product with a query is the whole cost of a search, and it is
quickest this way. 100,000 passages take 100 MB; 200,000 are the most there can be.
"""

import sqlite3
from typing import TYPE_CHECKING, Final, final

from metier.memory.table import DIMENSIONS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_AT_ONCE: Final = 4_096


@final
class Vectors:
    """What a search by meaning looks at: the passages that everybody may find, or the private ones. Used by one thread at a time."""

    def __init__(self, *, private: bool) -> None:
        import numpy as np

        self._private = private
        self.ids: NDArray[np.int64] = np.zeros(0, np.int64)
        """Of the passages, rising: a number is never given twice."""
        self._matrix: NDArray[np.float32] = np.zeros((0, DIMENSIONS), np.float32)
        self._generation = -1

    def follow(self, connection: sqlite3.Connection) -> bool:
        """Take in what changed, and say whether anything did. A passage is never changed, only removed and added under another number."""
        import numpy as np

        generation: int = connection.execute("SELECT generation FROM state").fetchone()[0]
        if generation == self._generation:
            return False
        which = int(self._private)
        rows = connection.execute("SELECT id FROM passages WHERE private = ? ORDER BY id", (which,))
        now = np.array([row[0] for row in rows], np.int64)
        last = int(self.ids[-1]) if len(self.ids) else 0
        stay = np.isin(self.ids, now, assume_unique=True)
        kept = int(stay.sum())
        matrix = np.empty((len(now), DIMENSIONS), np.float32)
        matrix[:kept] = self._matrix[stay]
        rows = connection.execute(
            "SELECT vector FROM passages WHERE private = ? AND id > ? ORDER BY id", (which, last)
        )
        at = kept
        while some := rows.fetchmany(_AT_ONCE):
            block = np.frombuffer(b"".join(row[0] for row in some), np.int8).reshape(len(some), DIMENSIONS)
            part = block.astype(np.float32)
            length = np.linalg.norm(part, axis=1, keepdims=True)
            matrix[at : at + len(some)] = part / np.where(length, length, 1)
            at += len(some)
        if at != len(now):
            raise sqlite3.DatabaseError("passages out of step")
        self.ids, self._matrix, self._generation = now, matrix, generation
        return True

    def scores(self, query: "NDArray[np.float32]") -> "NDArray[np.float32]":
        """The cosine of each passage with `query`."""
        return self._matrix @ query


def best(scores: "NDArray[np.float32]", most: int) -> "NDArray[np.int64]":
    """The places of the `most` highest scores, highest first."""
    import numpy as np

    if len(scores) > most:
        top = np.argpartition(scores, len(scores) - most)[-most:]
    else:
        top = np.arange(len(scores))
    return top[np.argsort(-scores[top], kind="stable")]
