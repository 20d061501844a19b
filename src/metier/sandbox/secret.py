"""Secrets on their way out: a name until the last moment, and masked in everything that comes back.

The mask knows a secret as it stands, and as servers like to echo it: in lower case, percent-escaped, inside
JSON, in base64 at any of its three offsets, in hexadecimal. What a server makes of it beyond that cannot be known.
"""

import base64
from typing import Final, final

from msgspec import Struct

MASK: Final = "••••••••"
SHORTEST: Final = 4
"""A shorter secret could not be masked without tearing ordinary text apart."""

_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


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
        self._spellings: list[bytes] = []

    def add(self, value: str) -> None:
        """Hide `value` from now on."""
        more = _spellings(value)
        self._spellings = sorted({*self._spellings, *more}, key=len, reverse=True)

    def data(self, data: bytes, *, truncated: bool = False) -> bytes:
        """`data` without the secrets; if it was cut, also without one that the cut goes through."""
        for spelling in self._spellings:
            if spelling in data:
                data = data.replace(spelling, MASK.encode())
        if truncated:
            longest = max((self._beginning_at_end(data, each) for each in self._spellings), default=0)
            data = data[: len(data) - longest]
        return data

    def text(self, text: str) -> str:
        """`text` without the secrets."""
        return (
            self.data(text.encode(errors="surrogatepass")).decode(errors="replace")
            if self._spellings
            else text
        )

    @staticmethod
    def _beginning_at_end(data: bytes, spelling: bytes) -> int:
        return next((size for size in range(len(spelling) - 1, 0, -1) if data.endswith(spelling[:size])), 0)


def _spellings(value: str) -> set[bytes]:
    plain = value.encode()
    escaped = "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in plain)
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    made = {plain, plain.lower(), quoted.encode(), quoted.replace("/", "\\/").encode(), escaped.encode()}
    made |= {escaped.replace("%20", "+").encode(), _lower_escapes(escaped).encode()}
    made |= {plain.hex().encode(), plain.hex().upper().encode()}
    for offset in range(3):
        # Letters at both ends are shared with neighbouring bytes; those in the middle are always the same.
        packed = base64.b64encode(b"\0" * offset + plain).rstrip(b"=")
        shared = 1 if (offset + len(plain)) % 3 else 0
        sure = packed[(0, 2, 3)[offset] : len(packed) - shared]
        made |= {sure, sure.replace(b"+", b"-").replace(b"/", b"_")}
    return {each for each in made if len(each) >= SHORTEST}


def _lower_escapes(escaped: str) -> str:
    parts = escaped.split("%")
    return "%".join([parts[0], *(part[:2].lower() + part[2:] for part in parts[1:])])
