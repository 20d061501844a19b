"""What of a client's configuration may be a secret: variables, headers, addresses and arguments. Pure but for a look whether a path is there.

In doubt it is one. What is written out lies open in the skill's folder and on the screen; what was no secret and is kept as one costs a
question.
"""

import os
import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote, urlsplit

from metier.dialects.written_secrets import looks_secret
from metier.record.secret_names import names_a_secret, words_of

_LAST_WORDS: Final = frozenset({"key", "pat", "sk"})
_IN_ADDRESS: Final = re.compile(r"://(?:[^/\s@]*:\S*@|[^/\s@:]{16,}@)")
"""A password before the host, also one that is not written as it should be; or a token in its place."""
_SCHEME: Final = re.compile(r"(?i)\b(?:bearer|basic|token|apikey)\s+[\w+/.=~:-]{8,}")
_ASSIGNED: Final = re.compile(r"([A-Za-z0-9_.-]{1,64})\\*[\"']?\s*[=:]\s*\\*[\"']?(?=([^\s\"',;&]+))")
_PIECE: Final = re.compile(r"[A-Za-z0-9]{16,}")
_RUN: Final = re.compile(r"[A-Za-z0-9+/]{20,}")
_UUID: Final = re.compile(r"(?i)(?<![0-9a-f])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])")
_LONGEST: Final = 4_096
"""What is longer is not searched: it counts as one."""


def may_be_secret(name: str, value: str) -> bool:
    """Whether what stands under `name`, a variable or a header, may be one."""
    return bool(value) and (_names_one(name) or text_may_be_secret(value))


def text_may_be_secret(text: str) -> bool:
    """Whether there is one anywhere in a text, by its look or by what stands before it."""
    return _says_one(text) or (not os.path.lexists(os.path.expanduser(text)) and _is_opaque(text))


def address_may_hold_secret(url: str) -> bool:
    """Whether an address carries one; a host's name is none."""
    try:
        parts = urlsplit(url)
        if "@" in parts.netloc or _IN_ADDRESS.search(url):
            return True
    except ValueError:
        return True
    rest = f"{parts.path}?{parts.query}#{parts.fragment}"
    return any(_says_one(each) or _is_opaque(each) for each in (rest, unquote(rest)))


def line_may_hold_secret(words: Sequence[str], packages: Sequence[str] = ()) -> bool:
    """Whether there is one among the words of a command line; `packages` may name a commit, which looks like one."""
    flag = ""
    for word in words:
        named = bool(flag) and _names_one(flag) and not _counts(flag, word)
        if named and not word.startswith("-") and not os.path.exists(word):
            return True
        flag = word if word.startswith("-") and "=" not in word else ""
        if word in packages:
            if _says_one(word):
                return True
        elif address_may_hold_secret(word) if "://" in word else text_may_be_secret(word):
            return True
    return False


def _says_one(text: str) -> bool:
    return (
        len(text) > _LONGEST
        or looks_secret(text)
        or _IN_ADDRESS.search(text) is not None
        or _SCHEME.search(text) is not None
        or any(_assigns_one(name, value) for name, value in _ASSIGNED.findall(text))
    )


def _assigns_one(name: str, value: str) -> bool:
    return _names_one(name) and not _counts(name, value) and not os.path.exists(value)


def _names_one(name: str) -> bool:
    return names_a_secret(name) or not _LAST_WORDS.isdisjoint(words_of(name)[-1:])


def _counts(name: str, value: str) -> bool:
    """`--max-tokens 4096` is none."""
    return value.isdigit() and words_of(name)[-1:] == ["tokens"]


def _is_opaque(text: str) -> bool:
    """Letters and digits mixed in a way that nobody would remember."""
    if len(text) > _LONGEST or _UUID.search(text):
        return True
    if any(_is_mixed(each) for each in _PIECE.findall(text)):
        return True
    runs = () if text.startswith(("/", "~", ".")) else _RUN.findall(text)
    return any(_is_mixed(each) and each.lower() != each != each.upper() for each in runs)


def _is_mixed(text: str) -> bool:
    return any(map(str.isdigit, text)) and any(map(str.isalpha, text))
