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
    "\u2800\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    "\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    # One selector styles an emoji, or a figure in its box. Behind U+FFFD stood one that was lost. Anywhere else, and in a run, they carry hidden bytes.
    f"|(?<![{_PICTURE}0-9#*\ufffd])[\ufe0e\ufe0f]|(?<=[0-9#*])[\ufe0e\ufe0f](?!\u20e3)"
)
"""Characters a reader does not see, or that reorder or overwrite what he does see."""

_EMOJI_JOINER: Final = re.compile(f"(?:(?<=[{_PICTURE}])|(?<=[{_PICTURE}]\ufe0f))\u200d(?=[{_PICTURE}])")
_SPACES: Final = re.compile(r"\s+")
_KEEP: Final = "\ue000"


def hidden(text: str) -> list[str]:
    """The characters of `text` that `visible` would spell out, each once, in order."""
    if text.isascii() and text.isprintable():
        return []
    return list(dict.fromkeys(INVISIBLE.findall(_EMOJI_JOINER.sub("", text.replace("\r\n", "\n")))))


def visible(text: str) -> str:
    """`text` with every unseen character spelled out as `\\u{…}`; tabs and line ends stay."""
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n").replace(_KEEP, "\ufffd")
    if "\u200d" in text:
        text = _EMOJI_JOINER.sub(_KEEP, text)
    return INVISIBLE.sub(_spelled, text).replace(_KEEP, "\u200d")


def _spelled(found: re.Match[str]) -> str:
    return f"\\u{{{ord(found[0]):x}}}"


def one_line(text: str, limit: int = 0) -> str:
    """`visible` on a single line, cut at `limit` characters with an ellipsis that shows the cut."""
    line = visible(text)
    if not line.isprintable() or "  " in line:  # a blank is the only white space that is printable
        line = _SPACES.sub(" ", line)
    line = line.strip()
    return line if not limit or len(line) <= limit else line[: max(limit - 1, 0)].rstrip() + "…"
