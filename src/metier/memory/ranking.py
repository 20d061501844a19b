"""Several rankings into one, and a likeness on which one half means: rather yes than no.

Reciprocal rank: a passage gets a share from each ranking that has it, the larger the higher it stands there. Three rankings: by
words (FTS5), by the vector of the whole, and by likeness, which also compares piece by piece. The shares, and where one half lies,
were chosen on a part of benchmarks/memory_pairs.json; how they do on the rest is told in docs/decisions/0020-memory-search.md.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

_STEEP: Final = 10
_BY_WORDS: Final = 0.3
_BY_VECTOR: Final = 1.0
_BY_LIKENESS: Final = 2.0
_PIECES: Final = 0.6
"""How much of a likeness is that of the pieces; the rest is that of the whole."""
_HALF: Final = 0.242
"""The raw likeness that nine of ten right answers reached where it was chosen, 85 of 100 of those written afterwards, and less
than one of twenty unrelated memories."""


def likeness(cosines: "Floats", aligned: "Floats") -> "Floats":
    """Likeness from 0 to 1 by both comparisons."""
    import numpy as np

    raw = np.clip(_PIECES * aligned + (1 - _PIECES) * cosines, 0, 1)
    return np.where(raw < _HALF, 0.5 * raw / _HALF, 0.5 + 0.5 * (raw - _HALF) / (1 - _HALF)).astype(
        np.float32
    )


def fused(by_words: list[int], by_vector: list[int], alike: dict[int, float]) -> list[int]:
    """All candidates, the best first. `alike` has every one of them."""
    by_likeness = sorted(alike, key=lambda each: (-alike[each], each))
    share = dict.fromkeys(alike, 0.0)
    for weight, ranking in ((_BY_WORDS, by_words), (_BY_VECTOR, by_vector), (_BY_LIKENESS, by_likeness)):
        for rank, each in enumerate(ranking):
            share[each] += weight / (_STEEP + rank)
    return sorted(share, key=lambda each: (-share[each], each))
