"""A body, taken in piece by piece within its bounds, and unpacked if it is gzip or deflate.

It never holds more than the limit and never unpacks more than that at once. gzip may come in several members, which are
joined; what follows the last one and is none is left out. Any other coding is left as it came, and so is a body that is
packed twice.
"""

import zlib
from typing import Final, Literal, TypeAlias, final

CODINGS: Final = "gzip, deflate"
ALLOWANCE: Final = 262_144
"""So much may come out whatever the ratio is: a short text of blanks is no bomb."""
MOST_MEMBERS: Final = 10_000
"""Of one gzip body: each costs something, also when nothing is in it."""

_MEMBER: Final = b"\x1f\x8b"
_WINDOWS: Final = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}

State: TypeAlias = Literal["open", "full", "unpacks_too_far", "broken"]


@final
class Body:
    """Feed it until it is no longer open; then `data` is what may be kept."""

    def __init__(self, coding: str | None, *, limit: int, ratio: int) -> None:
        """`coding` is what all Content-Encoding lines say together."""
        named = [each.strip().lower() for each in (coding or "").split(",")]
        codings = [each for each in named if each not in ("", "identity")]
        self._coding = codings[0] if len(codings) == 1 else ""
        window = _WINDOWS.get(self._coding)
        self._unpacker = None if window is None else zlib.decompressobj(window)
        self._limit = limit
        self._ratio = ratio
        self._taken = 0
        self._members = 1
        self._after = b""
        """The first bytes of what came after a whole member, as far as they begin no other."""
        self._made = bytearray()
        self.state: State = "open"

    @property
    def unpacked(self) -> bool:
        """Whether what was kept differs from what came."""
        return self._unpacker is not None

    @property
    def data(self) -> bytes:
        """What may be kept: never more than the limit."""
        return bytes(self._made[: self._limit])

    def feed(self, piece: bytes) -> State:
        """Take in `piece` and say whether more is wanted."""
        self._taken += len(piece)
        try:
            if self._unpacker is None:
                self._made += piece
            else:
                self._unpack(piece)
        except zlib.error:
            self.state = "broken"
            return self.state
        if self.unpacked and len(self._made) > ALLOWANCE + self._ratio * self._taken:
            self.state = "unpacks_too_far"
        elif len(self._made) > self._limit or self._taken > self._limit:
            self.state = "full"
        return self.state

    def end(self) -> State:
        """The sender is done. A packed body that stops in the middle is broken."""
        if self.state == "open" and self._unpacker is not None and self._taken and not self._unpacker.eof:
            self.state = "broken"
        return self.state

    def _unpack(self, piece: bytes) -> None:
        while piece and self._unpacker is not None:
            if self._unpacker.eof:
                piece = self._next_member(piece)
                continue
            # One byte beyond either bound is enough to know that it was passed.
            room = min(self._limit, ALLOWANCE + self._ratio * self._taken) - len(self._made) + 1
            if room <= 0:
                return
            self._made += self._decompress(piece, room)
            piece = self._unpacker.unused_data

    def _decompress(self, piece: bytes, room: int) -> bytes:
        assert self._unpacker is not None  # noqa: S101 - for the type checker
        first = self._taken == len(piece)
        try:
            return self._unpacker.decompress(piece, room)
        except zlib.error:
            if self._coding != "deflate" or not first:
                raise
            # Half the servers leave out the zlib wrapper that the name promises.
            self._unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
            return self._unpacker.decompress(piece, room)

    def _next_member(self, piece: bytes) -> bytes:
        """What of `piece` belongs to a further member, which is then begun; nothing when none comes."""
        found = self._after + piece
        if len(found) < len(_MEMBER) or self._coding == "deflate" or not found.startswith(_MEMBER):
            self._after = found[: len(_MEMBER)]  # what is none stays in front of all that follows
            return b""
        self._after = b""
        self._members += 1
        if self._members > MOST_MEMBERS:
            raise zlib.error("too many members")
        self._unpacker = zlib.decompressobj(_WINDOWS[self._coding])
        return found
