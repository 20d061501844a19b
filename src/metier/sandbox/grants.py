"""Where a skill may go, by exact name. Nothing granted means nowhere; what is denied is never reached.

A grant is `host` or `host:port` for https, or the same after `http://` for plain http. There are no patterns:
a name stands for itself, not for what begins or ends like it. Pure.
"""

from collections.abc import Iterable
from typing import Final, final

from msgspec import Struct

from metier.errors import ConfigError
from metier.sandbox.address import why_closed, why_closed_name
from metier.sandbox.url import BadUrl, Url, read_url

_REMEDY: Final = "Write it as api.example.com, api.example.com:8443 or http://api.example.com"


@final
class Grants(Struct, frozen=True, kw_only=True):
    """The origins that may be reached."""

    origins: frozenset[str] = frozenset()
    denied: frozenset[str] = frozenset()
    """Names that may not be reached on any port, whatever is granted."""

    def allow(self, url: Url) -> bool:
        """Whether `url` may be asked for."""
        return url.host not in self.denied and url.origin in self.origins


def read_grants(hosts: Iterable[str], denied: Iterable[str] = ()) -> Grants:
    """The grants as they are written in a permission set. A grant that cannot be read is a ConfigError."""
    return Grants(
        origins=frozenset(_read(host).origin for host in hosts),
        denied=frozenset(_name(_read(host, to_deny=True), host) for host in denied),
    )


def _read(grant: str, *, to_deny: bool = False) -> Url:
    text = grant if "://" in grant else f"https://{grant}"
    url = read_url(text)
    if isinstance(url, BadUrl):
        raise ConfigError(f"The host grant {grant!r} cannot be read: {url.why}", remedy=_REMEDY)
    if not set("/?#").isdisjoint(text.partition("://")[2]):
        raise ConfigError(f"The host grant {grant!r} says more than a host and a port", remedy=_REMEDY)
    why = why_closed(url.address) if url.address else why_closed_name(url.host)
    if why and not to_deny:
        raise ConfigError(
            f"The host grant {grant!r} is for {why}, which no skill may reach",
            remedy="Take it out; a skill talks to this machine through operations, not through its ports",
        )
    return url


def _name(url: Url, written: str) -> str:
    if "://" in written or url.port != 443:
        raise ConfigError(
            f"The denied host {written!r} must be a host alone", remedy="Leave out scheme and port"
        )
    return url.host
