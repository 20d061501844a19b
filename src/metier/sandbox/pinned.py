"""Names are looked up once, every address is checked, and connections go to checked addresses only.

A pin lasts longer than calls do, so a name server that changes its mind during a call changes nothing: redirects, retries and
new connections use what was checked first. Only for code that lives names are looked up, and checked, again: no service keeps its
addresses for months. TLS keeps asking for the name.
"""

import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, TypeAlias, cast, final

import anyio
import httpcore2
from anyio import to_thread
from anyio.lowlevel import RunVar
from msgspec import Struct

from metier.errors import ConfigError
from metier.sandbox.address import canonical, why_closed
from metier.sandbox.reply import Failed, Violation
from metier.sandbox.url import Url

Resolver: TypeAlias = Callable[[str], Awaitable[Sequence[str]]]
"""The addresses of a name. Raises OSError when there are none."""
Connect: TypeAlias = Callable[[str, int], tuple[str, int]]
"""Where a checked address is really dialled."""

MOST_TRIED: Final = 6
"""Addresses of one name that are dialled before giving up."""
MOST_LOOKUPS: Final = 16
PIN_SECONDS: Final = 600.0
"""How long a pin lasts; a call has at most half of that."""

_lookups: Final = RunVar[anyio.CapacityLimiter]("metier_lookups")


@final
class Pinned(Struct, frozen=True):
    """The checked addresses of a host, in the order in which they are dialled."""

    addresses: tuple[str, ...]


async def system_resolver(host: str) -> Sequence[str]:
    """The addresses this machine's name service gives for `host`."""
    # A lookup that hangs keeps its thread; a limiter of their own keeps such threads from starving all others.
    limiter = _lookups.get(None)
    if limiter is None:
        limiter = anyio.CapacityLimiter(MOST_LOOKUPS)
        _lookups.set(limiter)
    # The dot keeps the name from being tried below the search domains of this machine.
    found = await to_thread.run_sync(
        lambda: socket.getaddrinfo(f"{host}.", None, type=socket.SOCK_STREAM),
        abandon_on_cancel=True,
        limiter=limiter,
    )
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


@final
class Pins:
    """What each host was found to be."""

    def __init__(
        self, resolver: Resolver, *, seconds: float, why: Callable[[str], str | None] = why_closed
    ) -> None:
        """`why` judges addresses: why nobody may connect to one, or None."""
        self._resolver = resolver
        self._seconds = seconds
        self._why = why
        self._found: dict[str, Pinned | Violation] = {}
        self._since: dict[str, float] = {}
        self._turns: dict[str, anyio.Lock] = {}

    async def pin(self, url: Url) -> Pinned | Violation | Failed:
        """The addresses for the host of `url`: looked up now, or the ones found before."""
        async with self._turns.setdefault(url.host, anyio.Lock()):
            known = self._found.get(url.host)
            if known is not None and time.monotonic() - self._since[url.host] < PIN_SECONDS:
                return known
            found = await self._look_up(url)
            if not isinstance(found, Failed):
                self._found[url.host] = found
                self._since[url.host] = time.monotonic()
            return found

    def checked(self, host: str) -> tuple[str, ...]:
        """The addresses that may be dialled for `host`; none if it was never pinned or failed its check."""
        known = self._found.get(host)
        return known.addresses if isinstance(known, Pinned) else ()

    async def _look_up(self, url: Url) -> Pinned | Violation | Failed:
        if url.address:
            return _check(url.host, [url.address], self._why)
        try:
            with anyio.fail_after(self._seconds):
                answers = await self._resolver(url.host)
        except TimeoutError:
            return Failed(code="lookup_failed", message=f"No name server answered for {url.host} in time")
        except (OSError, UnicodeError):
            answers = ()
        if not answers:
            return Failed(code="lookup_failed", message=f"The name {url.host} has no address")
        return _check(url.host, answers, self._why)


def _check(host: str, answers: Sequence[str], judge: Callable[[str], str | None]) -> Pinned | Violation:
    """One closed address among many closes the name: it is either a trap or a mistake."""
    for answer in answers:
        why = judge(answer)
        if why is not None:
            return Violation(
                host=host,
                address=answer,
                message=f"{host} leads to {answer}, which is {why}; no skill may connect to it",
                cause="lookup",
            )
    return Pinned(tuple(dict.fromkeys(canonical(answer) or "" for answer in answers)))


@final
class PinnedBackend(httpcore2.AsyncNetworkBackend):
    """Connects to what was pinned and to nothing else."""

    def __init__(self, pins: Pins, connect: Connect | None) -> None:
        self._pins = pins
        self._connect = connect
        # Declared behind a try-import there, so its type does not show.
        self._wire = cast(httpcore2.AsyncNetworkBackend, httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's signature
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Dial the checked addresses of `host` one after the other; each gets its share of the time."""
        addresses = self._pins.checked(host)[:MOST_TRIED]
        last: Exception = httpcore2.ConnectError(f"no checked address for {host}")
        share = None if timeout is None else timeout / max(len(addresses), 1)
        for address in addresses:
            place = (address, port) if self._connect is None else self._connect(address, port)
            try:
                return _Dialled(await self._wire.connect_tcp(*place, timeout=share))
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as problem:
                last = problem
        raise last


@final
class _Dialled(httpcore2.AsyncNetworkStream):
    """A connection before TLS. If TLS does not come about it is closed, whatever the reason."""

    def __init__(self, wire: httpcore2.AsyncNetworkStream) -> None:
        self._wire = wire

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        return await self._wire.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        await self._wire.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._wire.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore2.AsyncNetworkStream:
        try:
            return await self._wire.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:
            # The library closes it after an error, not after a cancellation; and its pool does not know it yet, so
            # nobody else would.
            with anyio.CancelScope(shield=True):
                await self._wire.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        return self._wire.get_extra_info(info)


@final
class Raw:
    """A plain connection to a checked address. Its ends are values: a broken one reads as ended."""

    def __init__(self, wire: httpcore2.AsyncNetworkStream) -> None:
        self._wire = wire

    async def read(self, most: int, *, seconds: float) -> bytes | None:
        """What came next; nothing when it ended or broke, None when it was silent for so long."""
        try:
            return await self._wire.read(most, timeout=seconds)
        except httpcore2.TimeoutException:
            return None
        except (httpcore2.NetworkError, OSError):
            return b""

    async def write(self, data: bytes, *, seconds: float) -> bool:
        """Whether all of it could be sent in time."""
        try:
            await self._wire.write(data, timeout=seconds)
        except (httpcore2.NetworkError, httpcore2.TimeoutException, OSError):
            return False
        return True

    async def close(self) -> None:
        """Close it, whatever state it is in."""
        with anyio.CancelScope(shield=True), suppress(httpcore2.NetworkError, OSError):
            await self._wire.aclose()


@lru_cache(maxsize=4)
def tls_context(extra_roots: str) -> ssl.SSLContext:
    """Certificates are checked, always; `extra_roots` is a PEM file with further authorities to believe."""
    context = httpcore2.default_ssl_context()
    if extra_roots:
        try:
            context.load_verify_locations(cafile=extra_roots)
        except OSError as problem:
            raise ConfigError(
                f"The certificate authorities in {extra_roots!r} cannot be read",
                remedy="Name a PEM file, or none to believe only those this system believes",
            ) from problem
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
