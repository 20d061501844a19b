"""Text from a skill, made safe to show: what a reader cannot see is spelled out, and nothing can move a cursor.

`visible` is for several lines, `one_line` for a cell of a table or a heading. Both are for people and
models alike; bytes that are bound, stored or run never go through here.
"""

import re
from typing import Final

_PICTURE: Final = "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u27ff\u2900-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
"""What an emoji begins with."""
INVISIBLE: Final = re.compile(
    "[\u0000-\u0008\u000b-\u001f\u007f-\u009f"  # C0 but tab and line feed, DEL, C1
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffc\ud800-\udfff"
    "\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    # One selector styles an emoji, or a figure in its box. Behind U+FFFD stood one that was lost. Anywhere else, and in a run, they carry hidden bytes.
    f"|(?<![{_PICTURE}0-9#*\ufffd])[\ufe0e\ufe0f]|(?<=[0-9#*])[\ufe0e\ufe0f](?!\u20e3)"
)
"""Characters a reader does not see, or that reorder or overwrite what he does see."""

_EMOJI_JOINER: Final = re.compile(f"(?:(?<=[{_PICTURE}])|(?<=[{_PICTURE}]\ufe0f))\u200d(?=[{_PICTURE}])")
_SPACES: Final = re.compile(r"\s+")
_KEEP: Final = "\ue000"
_FAR: Final = re.compile("[^\u0000-\u02ff]{5}")
"""No mark stands before U+0300, so most texts have no five of them in a row, and nobody has to look them up."""
_PILE: Final = re.compile("(?<=mmmm)m+")
"""In a text of kinds: the fifth mark in a row, and all behind it. No living script needs more than four."""
_REMEMBERED: Final = 20_000


def hidden(text: str) -> list[str]:
    """The characters of `text` that `visible` would spell out, each once: what is never seen, then marks that are piled up."""
    if text.isascii() and text.isprintable():
        return []
    text = _EMOJI_JOINER.sub("", text.replace("\r\n", "\n"))
    return list(dict.fromkeys([*INVISIBLE.findall(text), *piled(INVISIBLE.sub(".", text))]))


def visible(text: str) -> str:
    """`text` with every unseen character, and every mark too many, spelled out as `\\u{…}`; tabs and line ends stay."""
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n").replace(_KEEP, "\ufffd")
    if "\u200d" in text:
        text = _EMOJI_JOINER.sub(_KEEP, text)
    return unpiled(INVISIBLE.sub(_spelled, text)).replace(_KEEP, "\u200d")


def piled(text: str) -> list[str]:
    """The marks of `text` that stand fifth or further in a row, each once: so many on one letter paint over the lines around it."""
    return list(dict.fromkeys(mark for start, end in _piles(text) for mark in text[start:end]))


def unpiled(text: str) -> str:
    """`text` with those marks spelled out as `\\u{…}`; the four before them stay on their letter."""
    made: list[str] = []
    done = 0
    for start, end in _piles(text):
        made.append(text[done:start])
        made += map(_code, text[start:end])
        done = end
    return "".join([*made, text[done:]]) if made else text


class _Kinds(dict[int, str]):
    """By code point, `m` for a mark and `.` for all else; each is thought about once."""

    def __missing__(self, code: int) -> str:
        if len(self) >= _REMEMBERED:
            self.clear()
        made = self[code] = "m" if _is_mark(chr(code)) else "."
        return made


_kinds: Final = _Kinds()


def _is_mark(character: str) -> bool:
    """Whether it is set on what stands before it, and takes no room of its own."""
    if character.isascii() or character.isalnum():
        return False
    import unicodedata  # this file is read on every start, and letters do without it

    return unicodedata.category(character) in ("Mn", "Me")


def _piles(text: str) -> list[tuple[int, int]]:
    """Where marks too many begin and end."""
    if text.isascii() or not _FAR.search(text):
        return []
    return [found.span() for found in _PILE.finditer(text.translate(_kinds))]


def _spelled(found: re.Match[str]) -> str:
    return _code(found[0])


def _code(character: str) -> str:
    return f"\\u{{{ord(character):x}}}"


def one_line(text: str, limit: int = 0) -> str:
    """`visible` on a single line, cut at `limit` characters with an ellipsis that shows the cut."""
    line = visible(text)
    if not line.isprintable() or "  " in line:  # a blank is the only white space that is printable
        line = _SPACES.sub(" ", line)
    line = line.strip()
    return line if not limit or len(line) <= limit else line[: max(limit - 1, 0)].rstrip() + "…"
