"""Which skills of many fit a message: deterministic, and no skill has a say about another.

A score comes from the skill's own declared words and the message, and from nothing else: no statistics over
the catalog, no state, no model. So a skill can win a place, never change the order of the others. Each kind
of word counts up to a cap, so that a skill full of words does not win by its size.

Patterns come from skills, so they are matched by RE2, whose time is linear in the message.
"""

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, Final, Protocol, TypeAlias, final
from unicodedata import normalize

from msgspec import Struct

from metier.disclosure import may_be_shown
from metier.model.skill import Activation, Skill
from metier.model.text import one_line

MESSAGE_LIMIT: Final = 10_000
DESCRIPTION_LIMIT: Final = 1_024
PATTERN_LIMIT: Final = 500
PROGRAM_LIMIT: Final = 500
"""RE2 instructions of one pattern; together with the message's limit this bounds the time of a match."""
PHRASE_LIMIT: Final = 100
DECLARED_LIMIT: Final = 50
"""Keywords, tags and exclusions that count, each."""
PATTERNS_LIMIT: Final = 5

# Points for each hit, and the most one kind of word can bring.
_NAME: Final = (8, 24)
_KEYWORD: Final = (10, 30)
_TAG: Final = (4, 12)
_PATTERN: Final = (16, 32)
_DESCRIPTION: Final = (1, 8)

_WORD: Final = re.compile(r"[^\W_]+")
_STOP: Final = (
    "a about after all also am an and any are as at be been before but by can could did do does for from get"
    " had has have he her here him his how i if in into is it its just let like make may me more most my need"
    " no not now of on one only or other our out over please she should skill so some such than that the"
    " their them then there these they this those to too up us use used user users uses using very want was"
    " we were what when where which while who why will with would you your"
)


_Phrase: TypeAlias = tuple[str, tuple[str, ...]]
"""What a skill declares, as written and as folded words."""


@final
class Choice(Struct, frozen=True):
    """A skill that fits, how well, and because of what."""

    skill: Skill
    score: int
    because: tuple[str, ...]


class _Pattern(Protocol):
    """The one thing we need of a compiled RE2 pattern."""

    def search(self, text: str) -> object | None: ...


@final
class _Profile(Struct, frozen=True, gc=False):
    """The words of one skill, folded. Tuples, because sets of a large catalog would fill the memory."""

    name: tuple[str, ...]
    description: tuple[str, ...]
    keywords: tuple[_Phrase, ...]
    tags: tuple[_Phrase, ...]
    exclude: tuple[_Phrase, ...]


def select(skills: Sequence[Skill], message: str, *, limit: int) -> list[Choice]:
    """The skills that fit `message`, best first, equals in catalog order, at most `limit` of them."""
    text = message[:MESSAGE_LIMIT].encode("utf-8", "replace").decode()
    words = _words(text)
    choices: list[Choice] = []
    for skill in skills:
        if may_be_shown(skill):
            choice = _judge(skill, text, words)
            if choice is not None:
                choices.append(choice)
    choices.sort(key=lambda choice: -choice.score)  # stable, so equals keep their order
    return choices[: max(limit, 0)]


def pattern_problem(pattern: str) -> str | None:
    """Why a skill's pattern cannot be used, or None when it can."""
    found = _compiled(pattern)
    return found if isinstance(found, str) else None


def _judge(skill: Skill, text: str, words: dict[str, str]) -> Choice | None:
    profile = _profile(skill.name, skill.description, skill.activation)
    if any(_said(phrase, text, words) for phrase in profile.exclude):
        return None
    patterns = dict.fromkeys(skill.activation.patterns[:PATTERNS_LIMIT])
    score = 0
    because: list[str] = []
    for kind, (points, most), hits in (
        ("name", _NAME, [words[word] for word in profile.name if word in words]),
        ("keyword", _KEYWORD, [phrase[0] for phrase in profile.keywords if _said(phrase, text, words)]),
        ("tag", _TAG, [phrase[0] for phrase in profile.tags if _said(phrase, text, words)]),
        ("pattern", _PATTERN, [pattern for pattern in patterns if _hits(pattern, text)]),
        ("description", _DESCRIPTION, [words[word] for word in profile.description if word in words]),
    ):
        if hits:
            score += min(points * len(hits), most)
            because.append(f"{kind}: {', '.join(one_line(hit, 40) for hit in hits[: most // points])}")
    return Choice(skill, score, tuple(because)) if score else None


@lru_cache(maxsize=32_768)  # a message comes every turn, the words of a skill change with the catalog only
def _profile(name: str, description: str, activation: Activation) -> _Profile:
    return _Profile(
        tuple(word for word in _words(name[:DESCRIPTION_LIMIT]) if word not in _EMPTY),
        tuple(word for word in _words(description[:DESCRIPTION_LIMIT]) if word not in _EMPTY),
        _telling(activation.keywords),
        _telling(activation.tags),
        _phrases(activation.exclude_keywords),
    )


def _telling(declared: tuple[str, ...]) -> tuple[_Phrase, ...]:
    """The phrases that say something: `the` as a keyword would fit every message."""
    return tuple(phrase for phrase in _phrases(declared) if not phrase[1] or not _EMPTY.issuperset(phrase[1]))


def _phrases(declared: tuple[str, ...]) -> tuple[_Phrase, ...]:
    """Each phrase once, however often and in whatever form it is repeated."""
    unique: dict[tuple[str, ...], _Phrase] = {}
    for phrase in (text[:PHRASE_LIMIT].strip() for text in declared[:DECLARED_LIMIT]):
        words = tuple(_words(phrase))
        if phrase:
            unique.setdefault(words or (phrase,), (phrase, words))
    return tuple(unique.values())


def _said(phrase: _Phrase, text: str, words: dict[str, str]) -> bool:
    """Whether all words of a phrase are in the message; a sign without words must stand there itself."""
    return all(word in words for word in phrase[1]) if phrase[1] else phrase[0] in text


def _words(text: str) -> dict[str, str]:
    """The words of a text, folded, each with the form it was first met in; CJK runs as pairs of characters."""
    found: dict[str, str] = {}
    for word in _WORD.findall(normalize("NFKC", text).casefold()):
        if word.isascii():
            found.setdefault(_fold(word), word)
            continue
        for run in _cjk().split(word):
            if _cjk().fullmatch(run):
                for pair in [run[i : i + 2] for i in range(len(run) - 1)] or [run]:
                    found.setdefault(pair, pair)
            elif run:
                found.setdefault(_fold(run), run)
    return found


@cache  # takes milliseconds to build, and most messages do not need it
def _cjk() -> re.Pattern[str]:
    """A run of characters of scripts that put no spaces between words, or too few."""
    return re.compile("([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0003134f]+)")


@lru_cache(maxsize=16_384)
def _fold(word: str) -> str:
    """One form for `merge`, `merges`, `merged` and `merging`; crude, and the same on both sides."""
    if len(word) < 4 or not word.isascii():
        return word
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and not word.endswith("ss") and len(word) - len(ending) > 2:
            word = word[: -len(ending)]
            break
    if word[-1] in "eiy" and len(word) > 3:
        word = word[:-1]
    return word[:-1] if word[-1] == word[-2] and len(word) > 3 else word


_EMPTY: Final = frozenset(_fold(word) for word in _STOP.split()) | frozenset(
    "bcdefghjklmnopqrstuvwxyz0123456789"
)


def _hits(pattern: str, text: str) -> bool:
    found = _compiled(pattern)
    return not isinstance(found, str) and found.search(text) is not None


@lru_cache(maxsize=1_024)
def _compiled(pattern: str) -> _Pattern | str:
    """The pattern ready for use, or the reason why it is not."""
    if len(pattern) > PATTERN_LIMIT:
        return f"the pattern has {len(pattern)} characters, more than {PATTERN_LIMIT}; make it shorter"
    import re2  # pyright: ignore[reportMissingTypeStubs]  # only skills with patterns need it

    engine: Any = re2
    options = engine.Options()
    options.log_errors = False  # it would write to stderr by itself
    options.case_sensitive = False
    options.never_capture = True
    options.max_mem = 1 << 18
    try:
        compiled = engine.compile(pattern, options)
    except UnicodeEncodeError:
        return "the pattern holds characters that are not valid text; write it in plain UTF-8"
    except engine.error as error:
        reason = str(error.args[0], "utf-8", "replace")  # RE2 speaks in bytes
        return f"the pattern cannot be used: {one_line(reason, 200)}; write it in RE2 syntax"
    if compiled.programsize > PROGRAM_LIMIT:
        return f"the pattern is too complex ({compiled.programsize} steps, at most {PROGRAM_LIMIT}); make it simpler"
    return compiled
