"""A checkpoint: what the log was at one size, signed. Text in the form of a C2SP checkpoint, so other tools read it too.

    metier/<the log>
    <how many records>
    <root of the tree over them, base64>
    chain <hash of the last of them, hex>
    time <UTC>

    — metier/<the log> <key id and Ed25519 signature, base64>

Reading and checking one needs nothing but the text and a public key. `cryptography` is imported only for that.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Collection
from typing import Final, final

import msgspec

ORIGIN: Final = re.compile(r"metier/[0-9a-f]{32}")
MOST_BYTES: Final = 4096
_ED25519: Final = b"\x01"
_SIZE: Final = re.compile(r"[1-9][0-9]{0,17}")
_TIME: Final = re.compile(r"time (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)")
_CHAIN: Final = re.compile(r"chain ([0-9a-f]{64})")
_LINES: Final = 5


@final
class PublicKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key that checkpoints can be checked with. `str` gives the one line in which it is kept and handed on."""

    name: str
    raw: bytes

    @property
    def id(self) -> bytes:
        """Four bytes that tell keys apart. They are no proof of anything."""
        return hashlib.sha256(self.name.encode() + b"\n" + _ED25519 + self.raw).digest()[:4]

    def __str__(self) -> str:
        return f"{self.name}+{self.id.hex()}+{_text(_ED25519 + self.raw)}"

    def signed(self, message: bytes, signature: bytes) -> bool:
        """Whether `signature` is this key's over `message`."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True


@final
class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """What a checkpoint says. Whether it is true is for its signature, and for the log, to show."""

    origin: str
    size: int
    root: bytes
    head: bytes
    """Hash of the last record in the chain."""
    at: str
    signatures: tuple[tuple[bytes, bytes], ...] = ()
    """Key id and signature."""

    def signed_by(self, key: PublicKey, sign: Callable[[bytes], bytes]) -> "Checkpoint":
        """The same with the signature that `sign` gives it, which is `key`'s."""
        return msgspec.structs.replace(self, signatures=(*self.signatures, (key.id, sign(self.body()))))

    def body(self) -> bytes:
        """The bytes that are signed."""
        lines = (self.origin, self.size, _text(self.root), f"chain {self.head.hex()}", f"time {self.at}")
        return "".join(f"{line}\n" for line in lines).encode()

    def text(self) -> str:
        """All of it, as it is kept."""
        signed = "".join(f"— {self.origin} {_text(key + each)}\n" for key, each in self.signatures)
        return f"{self.body().decode()}\n{signed}"

    def problem(self, key: PublicKey) -> str:
        """Why `key` does not vouch for this; empty when it does."""
        if key.name != self.origin:
            return f"the checkpoint is of {self.origin}, and the key is for {key.name}"
        body = self.body()
        for identifier, signature in self.signatures:
            if identifier == key.id and key.signed(body, signature):
                return ""
        known = any(identifier == key.id for identifier, _ in self.signatures)
        return "its signature is false" if known else f"it is not signed with key {key.id.hex()}"


@final
class Known(msgspec.Struct, frozen=True, kw_only=True):
    """A public key that somebody vouches for, and the sizes it may sign for. `str` gives the line in which both are kept."""

    key: PublicKey
    since: int = 1
    until: int | None = None
    """The record that put another key in its place."""

    def __str__(self) -> str:
        return f"{self.key} {self.since} {self.until or '-'}"

    def problem(self, checkpoint: Checkpoint) -> str:
        """Why this does not vouch for `checkpoint`; empty when it does."""
        if problem := checkpoint.problem(self.key):
            return problem
        if self.until is not None and checkpoint.size >= self.until:
            return f"it is signed with key {self.key.id.hex()}, which another replaced at record {self.until}"
        return "" if checkpoint.size >= self.since else f"key {self.key.id.hex()} is younger than that"


def read_known(line: str) -> Known | str:
    """The key in one line, with its range if there is one; or why there is none."""
    text, *span = line.split()
    key = read_key(text)
    if isinstance(key, str):
        return key
    if not span:
        return Known(key=key)
    if len(span) != 2 or not _SIZE.fullmatch(span[0]) or not (span[1] == "-" or _SIZE.fullmatch(span[1])):
        return "what stands behind the key is no range of records"
    return Known(key=key, since=int(span[0]), until=None if span[1] == "-" else int(span[1]))


def unvouched(checkpoint: Checkpoint, known: Collection[Known]) -> str:
    """Why nobody of `known` vouches for `checkpoint`; empty when one does."""
    if not known:
        return "there is no public key to check its signature with"
    problems = [each.problem(checkpoint) for each in known]
    # Of many keys most simply did not sign it; what another one says is worth more.
    return (
        ""
        if "" in problems
        else next((each for each in problems if "not signed with" not in each), problems[-1])
    )


def read_checkpoint(text: str) -> Checkpoint | str:
    """The checkpoint in `text`, or why there is none. Only what would be written the same way again is taken."""
    if len(text) > MOST_BYTES:
        return "it is too long for a checkpoint"
    body, _, signatures = text.replace("\r\n", "\n").partition("\n\n")
    lines = body.split("\n")
    if len(lines) != _LINES:
        return "a checkpoint has five lines, an empty one, and a signature"
    origin, size, root, chain, time = lines
    head, at = _CHAIN.fullmatch(chain), _TIME.fullmatch(time)
    raw = _bytes(root)
    if not (ORIGIN.fullmatch(origin) and _SIZE.fullmatch(size) and head and at and raw and len(raw) == 32):
        return "it is not written as a checkpoint of Metier is"
    found: list[tuple[bytes, bytes]] = []
    for line in signatures.splitlines():
        dash, _, rest = line.partition(" ")
        name, _, value = rest.partition(" ")
        data = _bytes(value)
        if dash != "—" or not name or data is None or len(data) < 5:
            return "its signature cannot be read"
        if name == origin and len(data) == 68:  # others may have signed it too
            found.append((data[:4], data[4:]))
    if not found:
        return "it is not signed"
    return Checkpoint(
        origin=origin,
        size=int(size),
        root=raw,
        head=bytes.fromhex(head[1]),
        at=at[1],
        signatures=tuple(found),
    )


def read_key(line: str) -> PublicKey | str:
    """The public key in one line, or why there is none."""
    name, _, rest = line.strip().partition("+")
    identifier, _, value = rest.partition("+")
    data = _bytes(value)
    if not ORIGIN.fullmatch(name) or data is None or len(data) != 33 or data[:1] != _ED25519:
        return "it is not written as a public key of Metier is"
    key = PublicKey(name=name, raw=data[1:])
    return key if identifier == key.id.hex() else "the key and its id do not belong together"


def origin_of(first: bytes) -> str:
    """The name of the log whose first record has the hash `first`."""
    return f"metier/{first.hex()[:32]}"


def rotation(old: PublicKey, new: PublicKey) -> bytes:
    """What the old key signs when a new one takes its place."""
    return f"metier key rotation 1\n{old}\n{new}\n".encode()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes | None:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if _text(data) == text else None
