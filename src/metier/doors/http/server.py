"""The listening server: uvicorn with our own connection, our own sockets and our own signals.

Whoever serves gets the address once it can be reached, and ends it by leaving: streams are told first, requests have a grace to
finish, and what still runs then is cancelled, which its record says.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final, final

import anyio
import uvicorn
from anyio.abc import SocketAttribute

from metier.doors.http.wire import MOST_HEAD_BYTES, Wire
from metier.errors import StateError
from metier.model.text import one_line

if TYPE_CHECKING:
    from starlette.types import ASGIApp

GRACE_SECONDS: Final = 8
"""So long requests under way may take to finish once the server ends; then they are cut off, and told so."""
_LAST_SECONDS: Final = 4
"""What was cut off has so long to say so and to be recorded, before uvicorn ends it without a word."""
_KEEP_ALIVE: Final = 30
_TCP: Final = 6
_NODELAY: Final = 1


@final
class _Server(uvicorn.Server):
    """Says when it listens, and leaves signals to who runs it."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = anyio.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets=sockets)
        self.ready.set()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@asynccontextmanager
async def served(
    app: "ASGIApp",
    address: str,
    port: int,
    *,
    bound: Callable[[tuple[str, int]], object] = lambda place: None,
    ending: Callable[[float], object] = lambda seconds: None,
) -> AsyncGenerator[tuple[str, int]]:
    """Serve `app` for as long as this is entered; gives the address and port it is reached at. Port 0 takes a free one.

    Args:
        bound: told the address before the first request can come.
        ending: told first when it ends, so that streams and waits end by themselves, and the rest within so many seconds.

    Raises:
        StateError: when that address cannot be listened at.
    """
    async with listening(address, port) as (socket, place), anyio.create_task_group() as tasks:
        server = _Server(
            uvicorn.Config(
                app,
                http=Wire,
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                proxy_headers=False,  # whoever sits on this machine could say who he is
                server_header=False,
                date_header=True,
                h11_max_incomplete_event_size=MOST_HEAD_BYTES,
                timeout_keep_alive=_KEEP_ALIVE,
                timeout_graceful_shutdown=GRACE_SECONDS + _LAST_SECONDS,
                backlog=1024,
            )
        )
        _quiet()
        bound(place)
        tasks.start_soon(_until_it_ended, server, socket)
        await server.ready.wait()
        try:
            yield place
        finally:
            ending(GRACE_SECONDS)
            server.should_exit = True  # the task group waits for it


async def _until_it_ended(server: _Server, socket: Any) -> None:
    """Shielded: it ends by being told to, within its grace, also where everything around it is cancelled."""
    with anyio.CancelScope(shield=True):
        await server.serve([socket])


@asynccontextmanager
async def listening(address: str, port: int) -> AsyncGenerator[tuple[Any, tuple[str, int]]]:
    """The socket at this address, and where it is."""
    try:
        listener = await anyio.create_tcp_listener(local_host=address, local_port=port, backlog=1024)
    except OSError as error:
        raise StateError(
            f"{one_line(address, 80)}:{port} cannot be listened at: {error.strerror or error}",
            remedy="Another `metier serve` may run there; `metier serve --port 0` takes a free port",
        ) from error
    async with listener:
        one = listener.listeners[0]
        host, taken = one.extra(SocketAttribute.local_address)[:2]  # noqa: S610  no database
        raw = one.extra(SocketAttribute.raw_socket)  # noqa: S610
        raw.setsockopt(
            _TCP, _NODELAY, 1
        )  # else the second half of an answer waits 40 ms for the first one's receipt
        yield raw, (str(host), int(taken))


def _quiet() -> None:
    """uvicorn's own words are for its developers; ours are said by the guard."""
    for name in ("uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
