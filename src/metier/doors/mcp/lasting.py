"""Requests that take long end with the right to make them: when their principal is revoked, or the token he came with ends.

The gate asks once, before a call begins. Here is who goes on asking while it runs, in both generations and over both ways; the client
is told why by the answer to its request.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar, final

import anyio
from anyio import to_thread
from mcp.shared.exceptions import MCPError

from metier.doors.mcp.peer import Peer, problem_with
from metier.errors import MetierError
from metier.model.text import one_line
from metier.record.database import Database
from metier.record.steering import NO_STEERING, Steering, steering_in

LOOK_SECONDS: Final = 1.0
ENDED: Final = -32000
_log: Final = logging.getLogger("metier.mcp")
_T = TypeVar("_T")


@final
class Lasting:
    """Belongs to one loop."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._under_way: set[_Request] = set()
        self._steering: Steering = NO_STEERING
        self._at: int | None = None

    async def while_let_in(self, peer: Peer, work: Callable[[], Awaitable[_T]]) -> _T:
        """Do it, for as long as `peer` may do anything.

        Raises:
            MCPError: when that came to an end first.
        """
        request = _Request(peer)
        self._under_way.add(request)
        try:
            with request.scope:
                return await work()
        finally:
            self._under_way.discard(request)
        raise MCPError(ENDED, f"ended before it was done: {one_line(request.why, 300)}")

    async def follow(self) -> None:
        """Until cancelled."""
        while True:
            await anyio.sleep(LOOK_SECONDS)
            if not self._under_way:
                continue
            try:
                known = await to_thread.run_sync(self._look)
            except (
                MetierError
            ) as error:  # nothing new begins then; what is under way was let in, and is looked at again
                _log.warning("it cannot be seen who is still let in: %s", one_line(str(error), 200))
                continue
            for request in tuple(self._under_way):
                request.why = problem_with(request.peer, known)
                if request.why:
                    request.scope.cancel()

    def _look(self) -> Steering:
        """What operators decided, as of now. Blocking."""
        with self._database.glance():
            if self._database.version == self._at:
                return self._steering
        with self._database.reading() as connection:
            self._steering, self._at = steering_in(connection), self._database.version
            return self._steering


@final
class _Request:
    """One that is under way."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.scope = anyio.CancelScope()
        self.why = ""
        """For what reason it ends."""
