"""One connection, with clocks: uvicorn waits for ever for a head, a body or a reader, and this does not.

There is room for so many connections, and for so many of one address on which nobody was let in. When another comes, one goes of those
that wait for their client: strangers first, then whoever is idle longest. A stranger's body is waited for like that too, so half a
request keeps nobody out. Where nobody waits for his client the new one goes.
"""

from typing import TYPE_CHECKING, Any, Final, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from metier.doors.http.limits_sign_in import place
from metier.doors.http.room import let_in_as

if TYPE_CHECKING:
    # Only the loop underneath is asyncio; uvicorn hands its transports over.
    from asyncio import TimerHandle, Transport  # noqa: TID251

MOST_CONNECTIONS: Final = 512
MOST_STRANGERS: Final = 256
"""Of one address. Enough for a crowd behind a proxy that comes at once: each is a stranger for a moment."""
HEAD_SECONDS: Final = 10.0
"""From the first byte of a request to the end of its head."""
BODY_SECONDS: Final = 30.0
"""For the whole body."""
STALLED_SECONDS: Final = 20.0
"""So long somebody may read nothing of what he is sent."""
MOST_HEAD_BYTES: Final = 32_768
_BAD: Final = b'{"type":"about:blank","status":400,"title":"Bad Request","code":"bad_request","detail":"this is no HTTP request"}'


class Wire(H11Protocol):
    """uvicorn's connection, with an end to every wait for the other side."""

    _clock: "TimerHandle | None" = None
    _clock_for: object = None
    _stall: "TimerHandle | None" = None
    since: float = 0.0
    """When it last began to ask, was last answered, or came."""
    place: str = ""
    """Where it comes from."""

    def connection_made(self, transport: "Transport") -> None:
        """Let it in, if there is room or somebody goes for it."""
        super().connection_made(transport)
        self.since = self.loop.time()
        self.place = place(self.client[0] if self.client else "")
        if not self._has_room():
            transport.abort()
            return
        self._arm(h11.IDLE, HEAD_SECONDS)

    def _has_room(self) -> bool:
        there = cast("set[object]", self.connections)
        others = [each for each in there if isinstance(each, Wire) and each is not self]
        strangers = [each for each in others if each.place == self.place and not each.known]
        if len(strangers) >= MOST_STRANGERS and not self._went(strangers):
            return False
        return len(there) <= MOST_CONNECTIONS or self._went(others)

    def _went(self, others: "list[Wire]") -> bool:
        """Whether one of them could go, and did."""
        waiting = [each for each in others if each.waits]
        if not waiting:
            return False
        first = min(waiting, key=lambda each: (each.known, each.since))
        cast("set[object]", self.connections).discard(first)
        first.transport.abort()
        return True

    @property
    def known(self) -> bool:
        """Whether somebody was let in with what it asks, or asked last."""
        return let_in_as(self.scope) is not None

    @property
    def waits(self) -> bool:
        """Whether nothing is being done for it: it is idle, or nobody was let in and its body is not here yet."""
        cycle = self._current
        if cycle is None or bool(cycle.response_complete):
            return True
        return self.conn.their_state is h11.SEND_BODY and not self.known

    @property
    def _current(self) -> Any:
        return self.cycle  # None before the first request, whatever its type says

    def connection_lost(self, exc: Exception | None) -> None:
        """Every clock ends with it."""
        self._disarm()
        if self._stall is not None:
            self._stall.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take it, and see what is waited for now."""
        before = self._current
        super().data_received(data)
        if self._current is not before:
            self.since = self.loop.time()
        if not self.transport.is_closing():
            self._watch()

    def on_response_complete(self) -> None:
        """The next request has its own time."""
        self.since = self.loop.time()
        super().on_response_complete()
        if not self.transport.is_closing():
            self._watch()

    def _watch(self) -> None:
        state = self.conn.their_state
        if state is h11.SEND_BODY:
            self._arm(h11.SEND_BODY, BODY_SECONDS)
        elif state is h11.IDLE and self.conn.trailing_data[0]:
            self._arm(h11.IDLE, HEAD_SECONDS)
        else:
            self._disarm()

    def _arm(self, state: object, seconds: float) -> None:
        if self._clock_for is not state:
            self._disarm()
            self._clock_for = state
            self._clock = self.loop.call_later(seconds, self._too_late)

    def _disarm(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
        self._clock = self._clock_for = None

    def _too_late(self) -> None:
        self.transport.abort()

    def pause_writing(self) -> None:
        """He does not read: from now on there is a clock."""
        super().pause_writing()
        if self._stall is None:
            self._stall = self.loop.call_later(STALLED_SECONDS, self._too_late)

    def resume_writing(self) -> None:
        """He reads again."""
        super().resume_writing()
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def send_400_response(self, msg: str) -> None:
        """In the shape of every other problem, and without telling what the parser thought."""
        del msg
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()  # an answer is under way, and there is no second one
            return
        headers = [
            (b"content-type", b"application/problem+json"),
            (b"content-length", str(len(_BAD)).encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"connection", b"close"),
        ]
        for event in (
            h11.Response(status_code=400, headers=headers),
            h11.Data(data=_BAD),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _get_upgrade(self) -> None:
        """Nothing here is upgraded to anything."""
