"""Secrets on their way out: a name until the last moment, and masked in everything that comes back.

The mask knows a secret as it stands, in base64 at any of its three offsets and in hexadecimal, and each of these
however it is cased, escaped (percent signs, JSON, HTML, also twice), broken into lines or widened to UTF-16. What a server
makes of it beyond that cannot be known. A secret of less than eight characters is known only as servers usually write it:
looked for as widely as the others it would be found everywhere.
"""

import base64
import re
from html import escape
from typing import Final, final

from msgspec import Struct

from metier.sandbox.spelled import Stretch, folded, views

_FOR_PAGES: Final = re.compile(r"[<>&'\"+`\\]")
MASK: Final = "••••••••"
SHORTEST: Final = 4
"""A shorter secret could not be masked without tearing ordinary text apart."""
LONG: Final = 8
"""From so many characters on a secret is looked for in every spelling."""

_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_WIDEST: Final = 20
"""Characters that one character may be spelled with."""
_PART_OF_AN_ESCAPE: Final = re.compile(
    rb"(?:%[0-9A-Fa-f]?|\\(?:u[0-9A-Fa-f]{0,3}|x[0-9A-Fa-f]?)?|&#?\w{0,31})\Z"
)


@final
class SecretRef(Struct, frozen=True, kw_only=True):
    """A secret by its name. Its value is asked for only when the request is sent."""

    name: str
    before: str = ""
    """What stands before it in the header line, for example `Bearer `."""


@final
class Mask:
    """Hides every secret it was told, for as long as it lives: a server may echo one only much later."""

    def __init__(self) -> None:
        self._values: set[str] = set()
        self._spellings: list[bytes] = []
        """Of short secrets: looked for letter by letter."""
        self._needles: list[bytes] = []
        """Of all others: looked for in every view, folded as that is."""

    def __bool__(self) -> bool:
        return bool(self._values)

    def add(self, value: str) -> None:
        """Hide `value` from now on."""
        if value in self._values or len(value) < SHORTEST:
            return
        self._values.add(value)
        # One that holds what looks like an escape is shorter where the escapes around it are undone.
        if any(len(folded(view.text)) < LONG for view in views(_bytes(value))):
            self._spellings = _longest_first({*self._spellings, *_spellings(value)})
        if len(folded(_bytes(value))) >= LONG:
            self._needles = _longest_first({*self._needles, *_needles(value)})

    def data(self, data: bytes, *, truncated: bool = False) -> bytes:
        """`data` without the secrets; if it was cut, also without one that the cut goes through."""
        for spelling in self._spellings:
            if spelling in data:
                data = data.replace(spelling, MASK.encode())
        if self._needles:
            data = _hide(data, self._found(data))
        return data[: len(data) - self._beginning_at_end(data)] if truncated else data

    def text(self, text: str) -> str:
        """`text` without the secrets."""
        return self.data(text.encode(errors="surrogatepass")).decode(errors="replace") if self else text

    def _found(self, data: bytes) -> list[Stretch]:
        found: list[Stretch] = []
        for view in views(data):
            text = folded(view.text)
            hits = [
                hit.span()
                for needle in self._needles
                if needle in text
                for hit in re.finditer(re.escape(needle), text)
            ]
            if hits:
                found += view.origin(_joined(hits))
        return _joined(found)

    def _beginning_at_end(self, data: bytes) -> int:
        """How many of the last bytes may be the beginning of a secret."""
        most = max((_prefix_at_end(data, each) for each in self._spellings), default=0)
        if not self._needles:
            return most
        tail = data[-(_WIDEST * len(self._needles[0]) + 64) :]
        for view in (*views(tail), *views(_PART_OF_AN_ESCAPE.sub(b"", tail))):
            text = folded(_PART_OF_AN_ESCAPE.sub(b"", view.text))
            size = max(_prefix_at_end(text, each) for each in self._needles)
            if size:
                ((begin, _),) = view.origin([(len(text) - size, len(text))])
                most = max(most, len(tail) - begin)
        return most


def _longest_first(spellings: set[bytes]) -> list[bytes]:
    return sorted(spellings, key=len, reverse=True)


def _prefix_at_end(data: bytes, spelling: bytes) -> int:
    return next((size for size in range(len(spelling) - 1, 0, -1) if data.endswith(spelling[:size])), 0)


def _joined(stretches: list[Stretch]) -> list[Stretch]:
    """In order, and those that overlap as one."""
    joined: list[Stretch] = []
    for begin, end in sorted(stretches):
        if joined and begin < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined


def _hide(data: bytes, stretches: list[Stretch]) -> bytes:
    kept: list[bytes] = []
    at = 0
    for begin, end in stretches:
        coding = "utf-8"
        if data[begin + 1 : begin + 2] == b"\0":
            # The mask is as wide as the text around it, or all that follows could not be read any more.
            little = begin % 2 == 0
            coding = "utf-16-le" if little else "utf-16-be"
            begin, end = (begin, end + 1) if little else (max(begin - 1, at), end)
        kept += (data[at:begin], MASK.encode(coding))
        at = end
    return b"".join((*kept, data[at:]))


def _needles(value: str) -> set[bytes]:
    """A secret as it would stand in a folded view."""
    plain = _bytes(value)
    made = {plain.replace(b" ", b"+"), plain.hex().encode()} | _in_base64(plain)
    made |= _in_base64(value.encode("utf-16-le", errors="surrogatepass"))
    made |= {
        view.text for view in views(plain)
    }  # a secret may itself look escaped, and is undone with the rest
    return {each for each in map(folded, made) if len(each) >= LONG}


def _spellings(value: str) -> set[bytes]:
    """A short secret as servers like to echo it."""
    plain = _bytes(value)
    escaped = "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in plain)
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    made = {plain, plain.lower(), _bytes(quoted), _bytes(quoted.replace("/", "\\/")), escaped.encode()}
    made |= {escaped.replace("%20", "+").encode(), _lower_escapes(escaped).encode()}
    made |= {plain.hex().encode(), plain.hex().upper().encode()} | _in_base64(plain)
    for form in ("\\u{:04x}", "\\u{:04X}"):  # as JSON has it that may stand in a page
        made.add(_bytes(_FOR_PAGES.sub(lambda found, form=form: form.format(ord(found[0])), value)))
    made |= {_bytes(escape(value)), _bytes(escape(value, quote=False))}
    return {each for each in made if len(each) >= SHORTEST}


def _bytes(value: str) -> bytes:
    return value.encode(errors="surrogateescape")  # a variable may hold any bytes


def _in_base64(plain: bytes) -> set[bytes]:
    made: set[bytes] = set()
    for offset in range(3):
        # Letters at both ends are shared with neighbouring bytes; those in the middle are always the same.
        packed = base64.b64encode(b"\0" * offset + plain).rstrip(b"=")
        shared = 1 if (offset + len(plain)) % 3 else 0
        sure = packed[(0, 2, 3)[offset] : len(packed) - shared]
        made |= {sure, sure.replace(b"+", b"-").replace(b"/", b"_")}
    return made


def _lower_escapes(escaped: str) -> str:
    parts = escaped.split("%")
    return "%".join([parts[0], *(part[:2].lower() + part[2:] for part in parts[1:])])
