"""The table of word vectors that ships with Metier, and what is computed with it. See table/README.md for where it comes from.

A text is the weighted mean of the vectors of its pieces: rare ones count more. Two texts are also compared piece by piece,
which sees one matching word in a long text where the means have drifted apart.
"""

import functools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, final

from metier.errors import StateError
from metier.memory.words import Speller

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float32]
    Bytes: TypeAlias = NDArray[np.int8]
    Numbers: TypeAlias = NDArray[np.int64]

_FOLDER: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "table")
DIMENSIONS: Final = 256
PIECES: Final = 320
"""Of one passage. Later ones hardly move the mean."""
_USUAL_IN_MEAN: Final = 3e-4
_USUAL_ALONE: Final = 1e-4
"""How usual a piece is that counts half: chosen on the tuning half of benchmarks/memory_pairs.json."""


def missing() -> str:
    """What has to be installed before memories can be searched; empty when everything is there."""
    import importlib.util

    return "" if importlib.util.find_spec("numpy") else "numpy"


@final
class Table:
    """Word vectors in memory: 8 MB, loaded once a process."""

    def __init__(self) -> None:
        if missing():
            raise StateError(
                "memories cannot be searched: numpy is not installed",
                remedy="pip install 'metier[memory]'",
            )
        import numpy as np

        try:
            with open(os.path.join(_FOLDER, "vocabulary.txt"), encoding="utf-8") as file:
                vocabulary = {piece: number for number, piece in enumerate(file.read().split("\n"))}
            with np.load(os.path.join(_FOLDER, "vectors.npz"), allow_pickle=False) as kept:
                self._vectors: Bytes = kept["vectors"]
                scales, self._lengths, ranks = kept["scales"], kept["lengths"], kept["ranks"]
        except (OSError, ValueError, KeyError) as error:
            raise StateError(
                "the table of word vectors that ships with Metier cannot be read",
                remedy="Install Metier again",
            ) from error
        self.speller = Speller(vocabulary)
        usual = 1 / (
            ranks.astype(np.float32) + 2
        )  # the vocabulary is ordered by use, and use falls like this
        self._in_mean: Floats = (scales * (_USUAL_IN_MEAN / (_USUAL_IN_MEAN + usual))).astype(np.float32)
        self._alone: Floats = (_USUAL_ALONE / (_USUAL_ALONE + usual)).astype(np.float32)

    def mean(self, pieces: Sequence[int]) -> "Floats":
        """The vector of a text, of length 1; of length 0 for a text without pieces."""
        import numpy as np

        if not len(pieces):
            return np.zeros(DIMENSIONS, np.float32)
        at = np.asarray(pieces, np.int64)
        total = self._in_mean[at] @ self._vectors[at].astype(np.float32)
        length = float(np.linalg.norm(total))
        return total / length if length else total

    def rounded(self, pieces: Sequence[int]) -> bytes:
        """The same with one byte a number, as it is kept."""
        import numpy as np

        vector = self.mean(pieces)
        most = float(np.abs(vector).max())
        return np.round(vector * (127 / most if most else 0)).astype(np.int8).tobytes()

    def aligned(self, query: Sequence[int], texts: "Sequence[Numbers]") -> "Floats":
        """For each text, how well its pieces cover those of the query: each takes its nearest, rare ones count more."""
        import numpy as np

        found = np.zeros(len(texts), np.float32)
        full = [index for index, text in enumerate(texts) if len(text)]
        if not len(query) or not full:
            return found
        asked = np.asarray(query, np.int64)
        pieces, places = np.unique(np.concatenate([texts[index] for index in full]), return_inverse=True)
        starts = np.cumsum([0] + [len(texts[index]) for index in full[:-1]])
        near = self._unit(asked) @ self._unit(pieces).T
        best = np.maximum.reduceat(near[:, places], starts, axis=1)
        weights = self._alone[asked]
        found[full] = (weights @ best) / weights.sum()
        return found

    def _unit(self, at: "Numbers") -> "Floats":
        return self._vectors[at] / self._lengths[at][:, None]


@functools.cache
def table() -> Table:
    """The one table of this process.

    Raises:
        StateError: when numpy or the table is not there.
    """
    return Table()
