"""Texts as those who write them into other texts spell them, undone step by step. Pure.

Servers, libraries and people write one and the same text in many ways: percent escapes, the escapes of JSON, entities of
HTML, each of them twice, UTF-16, broken into lines, in capitals. `views` undoes that, as far as it goes, and remembers
how, so that what is found in a view can be found again in what it was made of.
"""

import re
from collections.abc import Callable, Generator, Iterable
from functools import lru_cache
from typing import Final, TypeAlias, final

from msgspec import Struct

Stretch: TypeAlias = tuple[int, int]
"""Where something begins and ends."""

_DEPTH: Final = 3
"""How often an escape may have been escaped again."""
_SIGNS: Final = (b"%", b"\\", b"&")
# Every way begins with one of the signs as it stands, so that whatever holds none of them is passed over quickly.
_ESCAPE: Final = re.compile(
    rb"%[0-9A-Fa-f]{2}|%u[0-9A-Fa-f]{4}|\\u[0-9A-Fa-f]{4}|\\u\{[0-9A-Fa-f]{1,6}\}|\\x[0-9A-Fa-f]{2}|\\[nrt]"
    rb"|&#[0-9]{1,7};?|&#[xX][0-9A-Fa-f]{1,6};?|&[A-Za-z][A-Za-z0-9]{1,31};"
)
_NUL: Final = re.compile(rb"\0+")
_DROPPED: Final = b" \t\r\n\v\f\0\\"
_DROPS: Final = re.compile(rb"[ \t\r\n\v\f\0\\]+")
_LOWER: Final = bytes(range(256)).lower()

_Replace: TypeAlias = Callable[["re.Match[bytes]"], bytes]


def folded(data: bytes) -> bytes:
    """`data` in small letters, without white space, backslashes and NUL: what two spellings are compared by."""
    return data.translate(_LOWER, _DROPPED)


@final
class View(Struct, frozen=True):
    """A text with its escapes undone some times."""

    text: bytes
    made_of: "View | None" = None
    how: "tuple[re.Pattern[bytes], _Replace] | None" = None

    def origin(self, stretches: Iterable[Stretch]) -> list[Stretch]:
        """Where stretches of `folded(text)` lie in the text that the first view was made of."""
        found = _back(_DROPS, _nothing, self.text, sorted(stretches))
        view = self
        while view.made_of is not None and view.how is not None:
            found = _back(*view.how, view.made_of.text, found)
            view = view.made_of
        return found


def views(data: bytes) -> Generator[View]:
    """`data` as it is, and then with more and more undone, until nothing is left to undo."""
    view = View(data)
    yield view
    if b"\0" in data:
        view = View(_NUL.sub(b"", data), view, (_NUL, _nothing))  # UTF-16 of what fits into ASCII
    for _ in range(_DEPTH):
        if not any(sign in view.text for sign in _SIGNS):
            return
        text = _ESCAPE.sub(_plain, view.text)
        if text == view.text:
            return
        view = View(text, view, (_ESCAPE, _plain))
        yield view


def _nothing(_found: "re.Match[bytes]") -> bytes:
    return b""


def _plain(found: "re.Match[bytes]") -> bytes:
    return _meant(found[0])


@lru_cache(maxsize=4096)
def _meant(escape: bytes) -> bytes:
    """What stands for `escape`."""
    written = escape.decode().rstrip(";")
    if written.startswith("&#"):
        number = int(written[3:], 16) if written[2] in "xX" else int(written[2:])
        return chr(number).encode(errors="surrogatepass") if number <= 0x10FFFF else escape
    if written.startswith("&"):
        from html.entities import html5  # a large table that most answers do not need

        return html5.get(f"{written[1:]};", escape.decode()).encode()
    if written[1] in "nrt":
        return b"\n"  # white space of some kind
    if written[1] == "u":
        number = int(written[2:].strip("{}"), 16)
        return chr(number).encode(errors="surrogatepass") if number <= 0x10FFFF else escape
    return bytes.fromhex(written[-2:])


def _back(pattern: "re.Pattern[bytes]", made: _Replace, data: bytes, wanted: list[Stretch]) -> list[Stretch]:
    """Where `wanted` stretches of `pattern.sub(made, data)` lie in `data`. A stretch takes an escape whole."""
    if not wanted:
        return []
    begins, ends = [begin for begin, _ in wanted], sorted(end for _, end in wanted)
    first: list[int] = []
    last: list[int] = []
    done = 0
    for start, stop, size, as_it_is in _pieces(pattern, made, data):
        while len(first) < len(begins) and begins[len(first)] < done + size:
            first.append(start + begins[len(first)] - done if as_it_is else start)
        while len(last) < len(ends) and ends[len(last)] <= done + size:
            last.append(start + ends[len(last)] - done if as_it_is else stop)
        done += size
        if len(last) == len(ends):
            break
    return list(zip(first, last, strict=True))


def _pieces(
    pattern: "re.Pattern[bytes]", made: _Replace, data: bytes
) -> Generator[tuple[int, int, int, bool]]:
    """Begin and end of each piece of `data`, how long it has become, and whether it was left as it is."""
    at = 0
    for found in pattern.finditer(data):
        if found.start() > at:
            yield at, found.start(), found.start() - at, True
        if size := len(made(found)):
            yield found.start(), found.end(), size, False
        at = found.end()
    if at < len(data):
        yield at, len(data), len(data) - at, True
