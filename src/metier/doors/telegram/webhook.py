"""The webhook: Telegram brings what happened, to an address of yours. Whoever does not show the secret is answered before a byte of what
he brought is read. A proxy with TLS stands before this listener.

There is room for so many at once. Whoever has been silent longest goes when another comes, those first who never showed the secret: else
a few who say nothing would keep Telegram out.
"""

import hmac
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, final

import anyio
import h11
from anyio.abc import SocketStream
from anyio.streams.stapled import MultiListener

from metier.doors.telegram.inbound import Later

HEADER: Final = b"x-telegram-bot-api-secret-token"
MOST_BYTES: Final = 1_048_576
MOST_AT_ONCE: Final = 32
HEAD_SECONDS: Final = 10.0
BODY_SECONDS: Final = 20.0
IDLE_SECONDS: Final = 60.0
_CHUNK: Final = 65_536
_WORDS: Final = {
    200: b"OK",
    400: b"Bad Request",
    401: b"Unauthorized",
    404: b"Not Found",
    405: b"Method Not Allowed",
    413: b"Content Too Large",
    503: b"Service Unavailable",
}
_log: Final = logging.getLogger("metier.telegram")


@final
class _Guest:
    """One connection."""

    def __init__(self) -> None:
        self.scope = anyio.CancelScope()
        self.since = time.monotonic()
        """When it was last answered, or came."""
        self.known = False
        """It has shown the secret."""
        self.served = False
        """What it asks is being done."""


@final
class Webhook:
    """Listens, and hands on what Telegram brings."""

    def __init__(self, secret: str, path: str, take: Callable[[bytes], Awaitable[None]]) -> None:
        """`take` raises Later where Telegram is to bring it again. `secret` is not empty."""
        if not secret:
            raise ValueError("a webhook without a secret is open to everybody")
        self._secret = secret.encode()
        self._path = path.encode()
        self._take = take
        self._guests: set[_Guest] = set()

    async def listener(self, host: str, port: int) -> MultiListener[SocketStream]:
        """Take the address.

        Raises:
            OSError: when that cannot be listened at.
        """
        return await anyio.create_tcp_listener(local_host=host, local_port=port)

    async def serve(self, listener: MultiListener[SocketStream]) -> None:
        """Answer whoever comes, until cancelled."""
        await listener.serve(self._served)

    async def _served(self, stream: SocketStream) -> None:
        async with stream:
            guest = _Guest()
            if not self._let_in(guest):
                return  # whoever is kept out tries again
            try:
                with guest.scope:
                    await self._spoken(stream, guest)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError):
                pass  # who asked went away
            except h11.ProtocolError:
                _log.info("what came to the webhook is no HTTP")
            finally:
                self._guests.discard(guest)

    def _let_in(self, guest: _Guest) -> bool:
        """Whether there is room, or somebody goes for him."""
        if len(self._guests) >= MOST_AT_ONCE:
            silent = [each for each in self._guests if not each.served]
            if not silent:
                return False
            first = min(silent, key=lambda each: (each.known, each.since))
            self._guests.discard(first)
            first.scope.cancel()
        self._guests.add(guest)
        return True

    async def _spoken(self, stream: SocketStream, guest: _Guest) -> None:
        connection = h11.Connection(h11.SERVER)
        while True:
            asked: object = None
            with anyio.move_on_after(IDLE_SECONDS if guest.known else HEAD_SECONDS):
                asked = await _event(connection, stream)
            if not isinstance(asked, h11.Request):
                return
            await _answer(connection, stream, await self._answered(asked, connection, stream, guest))
            if not (connection.our_state is h11.DONE and connection.their_state is h11.DONE):
                return
            connection.start_next_cycle()
            guest.served, guest.since = False, time.monotonic()

    async def _answered(
        self, asked: h11.Request, connection: h11.Connection, stream: SocketStream, guest: _Guest
    ) -> int:
        """What Telegram, or somebody else, is answered. Nothing of the body is read for who does not know the secret."""
        shown = [value for name, value in asked.headers if name == HEADER]
        if len(shown) != 1 or not hmac.compare_digest(shown[0], self._secret):
            return 401
        guest.known = guest.served = True
        if asked.method != b"POST":
            return 405
        if asked.target != self._path:
            return 404
        length = next((value for name, value in asked.headers if name == b"content-length"), b"0")
        if int(length) > MOST_BYTES:
            return 413
        body = bytearray()
        event: object = None
        with anyio.move_on_after(BODY_SECONDS):
            while isinstance(event := await _event(connection, stream), h11.Data):
                body += event.data
                if len(body) > MOST_BYTES:
                    return 413
        return await self._taken(bytes(body)) if isinstance(event, h11.EndOfMessage) else 400

    async def _taken(self, body: bytes) -> int:
        try:
            await self._take(body)
        except Later:
            return 503
        except Exception:  # noqa: BLE001  whatever it is, it is not the end of the others
            _log.exception("what came to the webhook could not be taken in")
            return 503
        return 200


async def _event(connection: h11.Connection, stream: SocketStream) -> object:
    while (event := connection.next_event()) is h11.NEED_DATA:
        try:
            connection.receive_data(await stream.receive(_CHUNK))
        except anyio.EndOfStream:
            connection.receive_data(b"")
    return event


async def _answer(connection: h11.Connection, stream: SocketStream, status: int) -> None:
    whole = connection.their_state is h11.DONE
    headers = [(b"content-length", b"0")] + ([] if whole else [(b"connection", b"close")])
    head = connection.send(h11.Response(status_code=status, headers=headers, reason=_WORDS[status]))
    tail = connection.send(h11.EndOfMessage())
    await stream.send((head or b"") + (tail or b""))
