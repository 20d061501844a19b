"""The HTTP door, opened over an engine: everything it keeps and everything it shows, at one address."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import lru_cache
from typing import Final, final

import anyio
from anyio import to_thread
from starlette.types import ASGIApp

from metier.config.serve import ADDRESS
from metier.doors.http.app import application
from metier.doors.http.guard import Ours
from metier.doors.http.hearing import hear
from metier.doors.http.idempotency import Kept
from metier.doors.http.identity import Gatekeeper
from metier.doors.http.live import Live
from metier.doors.http.server import served
from metier.doors.http.serving import Serving
from metier.doors.http.sign_in_routes import sign_in_routes
from metier.doors.http.whereabouts import Whereabouts, page_of
from metier.errors import ConfigError
from metier.model.text import one_line
from metier.record.doors_db import DoorsDb
from metier.runtime.as_raised import the_one
from metier.runtime.engine import Engine, sweep
from metier.sandbox.beat import on_beat

_LOOK_SECONDS: Final = 2.0
_SWEEP_SECONDS: Final = 5.0
_NOBODY: Final = Ours(hosts=frozenset(), origins=frozenset())


@final
class Opened:
    """A door that is open."""

    def __init__(self, serving: Serving, doors: DoorsDb, address: str, port: int, url: str) -> None:
        self.serving = serving
        self.doors = doors
        self.address = address
        self.port = port
        self.url = url
        """Where people reach it, without a slash at its end."""


@asynccontextmanager
async def open_door(
    engine: Engine, *, address: str | None = None, port: int | None = None, mcp: bool = True
) -> AsyncGenerator[Opened]:
    """Serve for as long as this is entered, at what the operator's file says or at what is given instead.

    Raises:
        ConfigError: when it would listen to others without a name of its own.
        StateError: when the address or the state cannot be used.
    """
    wanted = engine.seen.settings.serve
    address = wanted.address if address is None else address
    port = wanted.port if port is None else port
    require_a_name(address, wanted.origins)
    places: list[tuple[str, int]] = []

    def ours() -> Ours:
        """Known once it listens; read anew, because the operator may change his names."""
        return _ours(*places[0], engine.seen.settings.serve.origins) if places else _NOBODY

    def url() -> str:
        return next(iter(engine.seen.settings.serve.origins), None) or _written(*places[0])

    doors = await to_thread.run_sync(DoorsDb, engine.seen.settings.home)
    try:
        gatekeeper = Gatekeeper(
            database=engine.state.database,
            doors=doors,
            settings=lambda: engine.seen.settings,
            origins=lambda: ours().origins,
        )
        serving = Serving(engine, gatekeeper, Kept(doors), Live(engine))
        async with AsyncExitStack() as stack:
            tasks = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(tasks.cancel_scope.cancel)
            tasks.start_soon(serving.live.run)
            tasks.start_soon(hear, engine, serving.live)
            tasks.start_soon(_clear_up, engine)
            mounted: dict[str, ASGIApp] = {}
            if mcp:
                from metier.doors.mcp.http import mcp_app

                mounted["/mcp"] = await stack.enter_async_context(
                    mcp_app(
                        engine,
                        gatekeeper,
                        ending=serving.ending,
                        decide_at=lambda id: page_of(url(), id),
                    )
                )
            app = application(
                serving,
                ours,
                more=sign_in_routes(engine, gatekeeper, lambda: ours().origins),
                mounted=mounted,
            )
            place = await stack.enter_async_context(
                served(app, address, port, bound=places.append, ending=serving.end)
            )
            said = await to_thread.run_sync(Whereabouts, engine.seen.settings.home, url())
            stack.callback(said.take_back)
            tasks.start_soon(_say_where, said)
            yield Opened(serving, doors, *place, url())
    except BaseExceptionGroup as group:
        raise the_one(group) from None
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(doors.close)


async def _clear_up(engine: Engine) -> None:
    """What nobody decided in time is written down while there is somebody to see it, and not only when the next one looks."""
    while True:
        await anyio.sleep(on_beat(_SWEEP_SECONDS))
        await to_thread.run_sync(sweep, engine.state)


async def _say_where(said: Whereabouts) -> None:
    """Another server of this state may be the one that is found: once it has ended, it is this one."""
    while not said.said:
        await anyio.sleep(on_beat(_LOOK_SECONDS))
        await to_thread.run_sync(said.say)


@lru_cache(maxsize=4)
def _ours(address: str, port: int, origins: tuple[str, ...]) -> Ours:
    return Ours.at(address, port, origins)


def require_a_name(address: str, origins: tuple[str, ...]) -> None:
    """Others are let in only where the operator said under which name they come: without one every name would do, or none.

    Raises:
        ConfigError: when he did not, or that is no address.
    """
    from ipaddress import ip_address

    try:
        here = ip_address(address).is_loopback
    except ValueError:
        raise ConfigError(
            f"{one_line(address, 80)!r} is no address to listen at",
            remedy=f"Write a number such as {ADDRESS}",
        ) from None
    if not here and not origins:
        raise ConfigError(
            f"[serve] would listen at {one_line(address, 80)}, which others can reach, and has no origins",
            remedy=f'Write origins = ["https://your.name"] under [serve], with a proxy that does TLS before it; or listen at {ADDRESS}',
        )


def _written(address: str, port: int) -> str:
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"
