"""Text into the numbers of word pieces, as the model behind the table of vectors was taught to split it.

Greedy: the longest piece that begins a word, then the longest that goes on from there. A word that cannot be spelled with the
vocabulary is left out. Punctuation and words that every text has say nothing about what one means, and are left out too.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import Final, final

_WORD: Final = re.compile(r"[^\W_]+")
_LONGEST: Final = 64
"""Characters of a word. Longer ones are keys and digests, and spelling them out costs the square of their length."""
_REMEMBERED: Final = 50_000
_EVERYWHERE: Final = frozenset(
    """
    a about after am an and are as at be been before but by can could did do does for from get got had has have he
    her him his how i if in into is it its me my no not of on or our out she so some than that the their them then
    there these they this to too up us very was we were what when where which while who whom whose why will with
    would you your
""".split()  # noqa: SIM905  a column of words is no easier to read
)


def plain(text: str) -> str:
    """`text` in small letters without accents."""
    text = text.lower()
    if text.isascii():
        return text
    apart = unicodedata.normalize("NFD", text)
    return "".join(each for each in apart if unicodedata.category(each) != "Mn")


def telling(text: str) -> list[str]:
    """The words of `text` that say something; all of them where none does."""
    every = _WORD.findall(plain(text))
    return [word for word in every if word not in _EVERYWHERE] or every


@final
class Speller:
    """Spells words with a vocabulary: piece → number; a piece inside a word begins with `##`."""

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self._vocabulary = vocabulary
        self._known: dict[str, tuple[int, ...]] = {}

    def pieces(self, text: str, *, most: int) -> list[int]:
        """The numbers of the first `most` pieces of the telling words of `text`."""
        found: list[int] = []
        for word in telling(text):
            spelled = self._known.get(word)
            if spelled is None:
                spelled = self._remembered(word)
            found += spelled
            if len(found) >= most:
                return found[:most]
        return found

    def _remembered(self, word: str) -> tuple[int, ...]:
        spelled = self._spelled(word) if len(word) <= _LONGEST else ()
        if len(self._known) >= _REMEMBERED:
            self._known = {}  # another thread may still look into the old one
        self._known[word] = spelled
        return spelled

    def _spelled(self, word: str) -> tuple[int, ...]:
        found: list[int] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            for end in range(len(word), start, -1):
                number = self._vocabulary.get(mark + word[start:end])
                if number is not None:
                    break
            else:
                return ()
            found.append(number)
            start = end
        return tuple(found)
