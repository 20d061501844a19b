"""The one origin that an Egress of Metier's own may ask: a service that the operator configured, such as his gateway.

No skill is ever granted one, and none can name one. Scheme, host and port are exact. The service may lie where no skill may
go, because the operator put it there: on this machine, or over TLS in his own network. Without TLS it lies on this machine
and nowhere else, whatever a name server says. Where clouds keep their metadata nothing of anybody's lies.
"""

import ipaddress
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from metier.errors import ConfigError
from metier.sandbox.address import canonical, why_closed, why_closed_name
from metier.sandbox.url import BadUrl, Url, read_url

_Resolver: TypeAlias = Callable[[str], Awaitable[Sequence[str]]]
_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_REMEDY: Final = "Write it as http://127.0.0.1:18789 or https://gateway.example.com"
_LOOPBACK: Final = tuple(map(ipaddress.ip_network, ("127.0.0.0/8", "::1/128")))
_AT_HOME: Final = tuple(
    map(
        ipaddress.ip_network,
        ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"),
    )
)
# Inside the blocks above, and still the metadata of a cloud.
_METADATA: Final = tuple(
    map(ipaddress.ip_network, ("100.100.100.200/32", "fd00:ec2::/32", "fd20:ce::254/128"))
)
_THIS_MACHINE: Final = why_closed_name("localhost")
_LOCALHOST: Final = ("127.0.0.1", "::1")


def read_own(origin: str) -> Url:
    """The origin as the operator wrote it.

    Raises:
        ConfigError: for what is no origin, or could never be reached: see `why_not`.
    """
    url = read_url(origin)
    if isinstance(url, BadUrl):
        raise ConfigError(f"The address {origin[:200]!r} cannot be read: {url.why}", remedy=_REMEDY)
    if url.target != "/" or not set("/?#").isdisjoint(origin.partition("://")[2]):
        raise ConfigError(
            f"The address {origin[:200]!r} says more than scheme, host and port", remedy=_REMEDY
        )
    named = why_closed_name(url.host)
    why = why_not(url)(url.address) if url.address else None if named == _THIS_MACHINE else named
    if why is not None:
        raise ConfigError(f"{url.origin} is {why}; nothing is sent there", remedy=_REMEDY)
    return url


def why_not(own: Url) -> Callable[[str], str | None]:
    """Judges the addresses of the host of `own`: why nothing is sent to one, or None."""
    plain = own.scheme == "http"

    def judged(address: str) -> str | None:
        closed, spelled = why_closed(address), canonical(address)
        if spelled is None:
            return closed
        where = ipaddress.ip_address(spelled)
        if _within(where, _LOOPBACK):
            return None
        if plain:
            return closed or "another machine, and without TLS only this one is asked"
        return None if _within(where, _AT_HOME) and not _within(where, _METADATA) else closed

    return judged


def resolver_of(own: Url, resolver: _Resolver) -> _Resolver:
    """Looks up the host of `own`. That `localhost` is this machine is nobody else's to say (RFC 6761)."""

    async def here(_host: str) -> Sequence[str]:
        return _LOCALHOST

    return here if why_closed_name(own.host) == _THIS_MACHINE else resolver


def _within(where: _Address, blocks: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> bool:
    return any(where in block for block in blocks if block.version == where.version)
