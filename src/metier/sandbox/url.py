"""The one strict reader of URLs for the way out. What it accepts, every other reader understands the same way.

It mends nothing: no white space is dropped, no backslash turned, no host decoded. Only http and https are
read. A host is a name of ASCII labels, a plain IPv4 address, or an IPv6 address in brackets. Pure.
"""

import re
from typing import Final, Literal, TypeAlias, cast, final

from msgspec import Struct

from metier.sandbox.address import canonical, disguised

Scheme: TypeAlias = Literal["http", "https"]

LONGEST_URL: Final = 8_192
LONGEST_HOST: Final = 253
DEFAULT_PORTS: Final[dict[Scheme, int]] = {"http": 80, "https": 443}

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_SHAPE: Final = re.compile(r"([^:/?#]+)://([^/?#]*)(/[^?#]*)?(\?[^#]*)?(?:#.*)?")
_UNFIT: Final = re.compile(r"[^!-~]|\\")
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")
_PLACE: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::(.*))?")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NUMERIC: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")


@final
class Url(Struct, frozen=True, kw_only=True):
    """A URL that was read, in its one spelling."""

    scheme: Scheme
    host: str
    """Lower-case ASCII without a dot at the end; an IPv6 address stands without its brackets."""
    port: int
    target: str
    """Path and query as given, beginning with `/`. A fragment is never sent."""
    address: str = ""
    """The host once more when it is an address; empty when it is a name."""

    @property
    def place(self) -> str:
        """Host and port as in a Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port: what a credential belongs to."""
        return f"{self.scheme}://{self.place}"

    def __str__(self) -> str:
        return self.origin + self.target


@final
class BadUrl(Struct, frozen=True, kw_only=True):
    """A text that is not read as a URL, and why."""

    why: str
    address: str = ""
    """The address a more lenient reader would have gone to, where that can be told."""


def read_url(text: str) -> Url | BadUrl:
    """`text` as a URL, or why it is none."""
    if len(text) > LONGEST_URL:
        return BadUrl(why=f"it is longer than {LONGEST_URL} characters")
    scheme = _SCHEME.match(text)
    if scheme is None:
        return BadUrl(why="it does not begin with https://")
    if scheme[1].lower() not in DEFAULT_PORTS:
        return BadUrl(why="only http and https are known here")
    shape = _SHAPE.fullmatch(text)
    unfit = _UNFIT.search(text)
    if unfit is not None or shape is None:
        seen = "it is not of the form https://host/path" if unfit is None else _unfit_sign(unfit[0])
        return BadUrl(why=seen, address=_lenient_address(text))
    if _BROKEN_ESCAPE.search(text):
        return BadUrl(why="it holds a percent sign that is no escape, or an escaped NUL")
    if "@" in shape[2]:
        return BadUrl(why="it names a user before the host")
    place = _read_place(shape[2])
    if isinstance(place, BadUrl):
        return place
    host, port, address = place
    known = cast(Scheme, scheme[1].lower())
    target = (shape[3] or "/") + (shape[4] or "")
    return Url(scheme=known, host=host, port=port or DEFAULT_PORTS[known], target=target, address=address)


def _unfit_sign(sign: str) -> str:
    if sign == "\\":
        return "it holds a backslash"
    if sign.isprintable() and not sign.isspace():
        return "it holds a character beyond ASCII; write hosts as xn--… and the rest with percent escapes"
    return "it holds white space or a control character"


def _lenient_address(text: str) -> str:
    """Only to judge what was tried: the host as a careless reader would take it."""
    found = re.match(r"[^:]+:[/\\]*([^/\\?#:]*)", text)
    return (disguised(found[1].strip()) or "") if found else ""


def _read_place(text: str) -> tuple[str, int, str] | BadUrl:
    found = _PLACE.fullmatch(text)
    if found is None:
        return BadUrl(why="its host and port are not of the form host:port")
    port = 0
    if found[2] is not None:
        if not _PORT.fullmatch(found[2]) or int(found[2]) > 65_535:
            return BadUrl(why="its port is not a plain number from 1 to 65535")
        port = int(found[2])
    host = _read_host(found[1])
    return host if isinstance(host, BadUrl) else (*host[:1], port, *host[1:])


def _read_host(text: str) -> tuple[str, str] | BadUrl:
    """The host, and once more as an address if it is one."""
    if text.startswith("["):
        address = canonical(text[1:-1]) if ":" in text else None
        if address is None:
            tried = canonical(text[1:-1].partition("%")[0]) or ""
            return BadUrl(
                why="its host is not a plain IPv6 address (zones are not known here)", address=tried
            )
        return address, address
    host = text.lower().removesuffix(".")
    labels = host.split(".")
    if _NUMERIC.fullmatch(labels[-1]):
        address = canonical(host)
        if address is None or text.endswith("."):
            return BadUrl(
                why="its host is a number, but no plain IPv4 address", address=disguised(host) or ""
            )
        return address, address
    if len(host) > LONGEST_HOST or not all(_LABEL.fullmatch(label) for label in labels):
        why = "its host is not a name of ASCII letters, digits and hyphens between dots"
        return BadUrl(why=why, address=disguised(host) or "")
    return host, ""
