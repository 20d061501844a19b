"""What a call was given from outside: whether its caller or operator may have named an address, or a program.

A closed address that the code of a skill came up with is a violation, and disables it. One that stands in what the call was
given is not its doing: else whoever may call a skill could have it disabled. Addresses are compared, not spellings:
between the caller's words and the connection lie readers of URLs that turn `0x7f.1` into `127.0.0.1` and `LOCALHOST` into
`localhost`. So every text is searched for whatever any of them might take for a host. In doubt it was named: the address is
refused either way.
"""

import base64
import binascii
import ipaddress
import re
import unicodedata
from collections.abc import Generator, Iterable
from typing import Final, TypeAlias, final

import anyio
from anyio import to_thread

from metier.model.digest import Json
from metier.model.entry import PythonHandler, ScriptHandler
from metier.model.job import Job
from metier.sandbox.address import canonical, disguised, why_closed, why_closed_name
from metier.sandbox.spelled import views

MOST_CHARACTERS: Final = 2_000_000
"""In more than this nobody can tell what was named."""
MOST_HEARD: Final = 200_000
"""The same for what comes bit by bit, and is kept until it is read."""
_LARGE: Final = 20_000
"""More than this is read in a thread: everybody else's calls are on the loop."""

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_LINE_ENDS: Final = re.compile(r"[\t\r\n]")
# Readers of host names leave these out.
_IGNORED: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0]"
)
_DOTS: Final = str.maketrans("\u3002\uff0e\uff61\u2024", "....")
_WORD: Final = re.compile(r"[0-9a-z._-]{1,253}")
_NUMBERS: Final = re.compile(r"[0-9][0-9a-fx.]*")
_LEADING_ZEROS: Final = re.compile(r"(?<![0-9a-fx])0+(?=[0-9])")
_COLONS: Final = re.compile(r"[0-9a-f:.]{2,64}")
_NETWORK: Final = re.compile(r"([0-9a-f:.]{2,64})/([0-9]{1,3})(?![0-9])")
_PACKED: Final = re.compile(r"[A-Za-z0-9+/_-]{12,}")
_LOOPBACK: Final = (ipaddress.IPv4Address("127.0.0.1"), ipaddress.IPv6Address("::1"))


@final
class Given:
    """Read when it is first asked; most calls never ask."""

    def __init__(self, *values: Json, more: bool = False) -> None:
        """With `more`, it is given more all the time, and nobody knows what."""
        self._values = values
        self._more = more
        self._unread: list[Json] = [*values]
        self._size = 0
        self._heard = 0
        self._named = _Named(())
        self._reading = anyio.Lock()

    def hear(self, value: Json) -> None:
        """It is told this too. After `MOST_HEARD` characters nobody can tell any more what it was told, as with `more`."""
        if self._more:
            return
        self._heard += sum(map(len, _texts([value])))
        self._unread.append(value)
        if self._heard > MOST_HEARD:
            self._more = True
            self._unread.clear()

    async def named(self, host: str, address: str) -> bool:
        """Whether somebody outside may have named the closed place that is called `host` and lies at `address`."""
        async with self._reading:  # what somebody else reads just now counts too
            while self._unread and not self._more:
                count = len(self._unread)
                texts = list(_texts(self._unread))
                size = sum(map(len, texts))
                if self._size + size > MOST_CHARACTERS:
                    return True
                self._named.add(
                    await to_thread.run_sync(_Named, texts, abandon_on_cancel=True)
                    if size > _LARGE
                    else _Named(texts)
                )
                self._size += size
                del self._unread[:count]
        return self._more or self._named.holds(host, address)

    def says(self, word: str) -> bool:
        """Whether `word` stands there as a text of its own, or as a word of one."""
        return self._more or any(
            word == text or word in map(_bare, text.split()) for text in _texts(self._values)
        )


def given_to(job: Job) -> Given:
    """All that a run is told from outside. What it finds in files is not known here. Code that lives is told something with every
    operation and by every answer: whoever writes to it in a chat could name an address, and have it disabled. Who sees all of
    that goes on with `told_to` and `hear`."""
    lives = isinstance(job.entry, ScriptHandler | PythonHandler) and job.entry.life
    return Given(job.arguments, job.context, *job.environment.values(), more=lives)


def told_to(job: Job) -> Given:
    """What code that lives is told to begin with."""
    return Given(job.arguments, job.context, *job.environment.values())


@final
class _Named:
    """The closed places that stand in some texts."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._names: set[str] = set()
        self._addresses: set[_Address] = set()
        self._networks: set[_Network] = set()
        for text in texts:
            for spelled in _spellings(text):
                self._read(spelled)
        if any(why_closed_name(name) == _THIS_MACHINE for name in self._names):
            self._addresses.update(_LOOPBACK)

    def add(self, other: "_Named") -> None:
        """Those of `other` too."""
        self._names |= other._names
        self._addresses |= other._addresses
        self._networks |= other._networks

    def holds(self, host: str, address: str) -> bool:
        if host.lower().rstrip(".") in self._names:
            return True
        if not address:
            return why_closed_name(host) == _THIS_MACHINE and not self._addresses.isdisjoint(_LOOPBACK)
        plain = canonical(address)
        where = _plain(plain) if plain else None
        return where is not None and (
            where in self._addresses
            or any(where in each for each in self._networks if each.version == where.version)
        )

    def _read(self, text: str) -> None:
        words = set(_WORD.findall(text))
        words.update([part for word in words for part in re.split("[-_]", word)])
        for word in words:
            bare = word.strip(".-_")
            if _NUMBERS.fullmatch(bare):
                self._add(disguised(bare))
                self._add(canonical(_LEADING_ZEROS.sub("", bare)))  # some readers know no octal numbers
            elif why_closed_name(bare):
                self._names.add(bare)
        for word in set(_COLONS.findall(text)):
            if word.count(":") > 1:
                for each in {word, word.rstrip(":."), word[1:], word[1:].rstrip(":.")}:
                    self._add(canonical(each))
        for word, size in set(_NETWORK.findall(text)):
            try:
                self._networks.add(ipaddress.ip_network(f"{word.lstrip(':')}/{size}", strict=False))
            except ValueError:
                continue

    def _add(self, address: str | None) -> None:
        if address and why_closed(address):
            self._addresses.add(_plain(address))


_THIS_MACHINE: Final = why_closed_name("localhost")


def _plain(address: str) -> _Address:
    """An address; one of IPv4 also where it is written as one of IPv6."""
    read = ipaddress.ip_address(address)
    return read.ipv4_mapped or read if isinstance(read, ipaddress.IPv6Address) else read


def _texts(values: Iterable[Json]) -> Generator[str]:
    left = list(values)
    while left:
        match left.pop():
            case str(text):
                yield text
            case bool() | None:
                pass
            case int(number) | float(number):
                yield str(number)
            case list(items):
                left += items
            case dict(items):
                left += (*items, *items.values())


def _spellings(text: str) -> Generator[str]:
    """`text` as those might read it who read hosts out of it."""
    for written in (text, *_unpacked(text)):
        for view in views(written.encode(errors="replace")):
            plain = _IGNORED.sub("", view.text.decode(errors="replace"))
            folded = unicodedata.normalize("NFKC", plain).casefold().translate(_DOTS)
            yield folded
            if _LINE_ENDS.search(folded):
                yield _LINE_ENDS.sub("", folded)


def _unpacked(text: str) -> Generator[str]:
    for found in _PACKED.findall(text):
        plain = found.replace("-", "+").replace("_", "/")
        try:
            yield base64.b64decode(plain + "=" * (-len(plain) % 4)).decode()
        except (binascii.Error, UnicodeDecodeError):
            continue


def _bare(word: str) -> str:
    return word.strip("\"'`")
