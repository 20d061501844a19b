"""One HTTP request and its response on a connection to a checked address. Knows no redirects, retries or grants.

The HTTP library underneath is given a URL in parts, so no second reader of URLs exists on the way out.
"""

import logging
import ssl
import time
from contextlib import aclosing
from typing import Final, final

import httpcore2

from metier.sandbox.egress_limits import EgressLimits
from metier.sandbox.headers import MOST_RECEIVED, first, joined, received
from metier.sandbox.hop import REDIRECTS, Hop
from metier.sandbox.pinned import Connect, PinnedBackend, Pins, Raw, tls_context
from metier.sandbox.reply import Answer, Failed, Timing
from metier.sandbox.unbroken import unbroken
from metier.sandbox.unpack import CODINGS, Body
from metier.sandbox.url import Url

MOST_CONNECTIONS: Final = 8
IDLE_SECONDS: Final = 5.0
USER_AGENT: Final = "metier"

# Its debug lines hold response headers as they came, before anything is masked.
logging.getLogger("httpcore2.http11").setLevel(logging.INFO)


@final
class Exchange:
    """The connections of one Egress."""

    def __init__(
        self, pins: Pins, limits: EgressLimits, *, extra_roots: str, connect: Connect | None
    ) -> None:
        self._limits = limits
        self._backend = PinnedBackend(pins, connect)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls_context(extra_roots),
            max_connections=MOST_CONNECTIONS,
            max_keepalive_connections=MOST_CONNECTIONS,
            keepalive_expiry=IDLE_SECONDS,
            network_backend=self._backend,
        )

    async def close(self) -> None:
        """Close every connection."""
        # The pool closes one after the other: whoever is interrupted at the first would leave the others open.
        await unbroken(self._pool.aclose)

    async def send(self, hop: Hop) -> Answer | Failed:
        """Send `hop` and take in the response within the limits."""
        host = hop.url.host
        try:
            return await self._send(hop)
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as problem:
            return _no_connection(problem, hop.url)
        except httpcore2.TimeoutException:
            message = f"{host} was silent for more than {self._limits.read_seconds:g} seconds"
            return Failed(code="timed_out", message=message)
        except httpcore2.ProtocolError as problem:
            if str(problem).startswith("Server disconnected"):
                return Failed(code="disconnected", message=f"{host} closed the connection without an answer")
            what = str(problem).partition(": ")[0][:100]  # after the colon stand bytes of the server
            return Failed(code="protocol_error", message=f"{host} does not speak HTTP properly: {what}")
        except (httpcore2.NetworkError, OSError):
            return Failed(code="disconnected", message=f"The connection to {host} broke")

    async def connect(self, url: Url) -> Raw | Failed:
        """A connection to the checked addresses of `url` and nothing more; it is not one of the pool."""
        try:
            wire = await self._backend.connect_tcp(url.host, url.port, timeout=self._limits.connect_seconds)
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as problem:
            return _no_connection(problem, url)
        except OSError:
            return Failed(code="connect_failed", message=f"No connection to {url.host} on port {url.port}")
        return Raw(wire)

    async def _send(self, hop: Hop) -> Answer | Failed:
        url = hop.url
        began = time.monotonic()
        async with self._pool.stream(
            hop.method,
            httpcore2.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target),
            headers=_lines_out(hop),
            content=hop.body or None,
            extensions={
                "timeout": {
                    "connect": self._limits.connect_seconds,
                    "read": self._limits.read_seconds,
                    "write": self._limits.read_seconds,
                    "pool": self._limits.total_seconds,
                }
            },
        ) as response:
            waited = time.monotonic() - began
            if len(response.headers) > MOST_RECEIVED:
                return Failed(
                    code="too_large", message=f"{url.host} sent more than {MOST_RECEIVED} header lines"
                )
            body = await self._take_in(response)
            if body.state in ("unpacks_too_far", "broken"):
                return _bad_body(body, hop, self._limits)
            return Answer(
                status=response.status,
                headers=received(response.headers, unpacked=body.unpacked),
                body=body.data,
                truncated=body.state == "full",
                url=str(url),
                timing=Timing(first_byte=waited),
            )

    async def _take_in(self, response: httpcore2.Response) -> Body:
        body = Body(
            joined(response.headers, b"content-encoding"),
            limit=self._limits.download_bytes,
            ratio=self._limits.unpack_ratio,
        )
        if response.status in REDIRECTS and first(response.headers, b"location") is not None:
            return body  # nobody reads what stands beside a redirect
        async with aclosing(response.aiter_stream()) as pieces:
            async for piece in pieces:
                if body.feed(piece) != "open":
                    return body
        body.end()
        return body


def _lines_out(hop: Hop) -> list[tuple[bytes, bytes]]:
    lines = [("Host", hop.url.place), ("Accept-Encoding", CODINGS)]
    if not any(name.lower() == "user-agent" for name, _ in hop.lines):
        lines.append(("User-Agent", USER_AGENT))
    if hop.body or hop.method in ("POST", "PUT", "PATCH"):
        lines.append(("Content-Length", str(len(hop.body))))
    return [(name.encode("ascii"), value.encode("ascii")) for name, value in (*lines, *hop.lines)]


def _no_connection(problem: httpcore2.ConnectError | httpcore2.ConnectTimeout, url: Url) -> Failed:
    host = url.host
    cause = problem.args[0] if problem.args else None
    if isinstance(cause, ssl.SSLCertVerificationError):
        return Failed(
            code="tls_failed", message=f"The certificate of {host} is not good: {cause.verify_message}"
        )
    if isinstance(cause, ssl.SSLError):
        return Failed(code="tls_failed", message=f"No TLS connection to {host}: {cause.reason or 'refused'}")
    late = isinstance(problem, httpcore2.ConnectTimeout)
    why = "it did not answer in time" if late else "it does not accept a connection"
    return Failed(code="connect_failed", message=f"No connection to {host} on port {url.port}: {why}")


def _bad_body(body: Body, hop: Hop, limits: EgressLimits) -> Failed:
    if body.state == "broken":
        return Failed(code="protocol_error", message=f"The packed body from {hop.url.host} is broken")
    return Failed(
        code="unpacks_too_far",
        message=f"The body from {hop.url.host} unpacks to more than {limits.unpack_ratio} times its size",
    )
