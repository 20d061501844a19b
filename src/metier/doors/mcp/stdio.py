"""`metier mcp`: one client at the other end of standard input and output, for as long as that lasts."""

import os
import secrets
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

import anyio
from anyio import to_thread

from metier.config.settings import Settings
from metier.doors.http.whereabouts import decide_at
from metier.doors.mcp.lines import Raw, Sink, line_streams
from metier.doors.mcp.own_clients import tell
from metier.doors.mcp.peer import Peer
from metier.doors.mcp.server import McpServer
from metier.runtime.engine import opened

if TYPE_CHECKING:
    from metier.model.call import Principal


async def serve(settings: Callable[[], Settings], principal: "Principal", source: Raw, sink: Sink) -> None:
    """Until the input ends, or this is cancelled: what the client has under way then is ended.

    Raises:
        MetierError: when configuration or state cannot be used.
    """
    peer = Peer(principal=principal, connection=f"mcp-{secrets.token_hex(8)}")
    async with opened(settings, watch=True) as engine:
        await to_thread.run_sync(tell, engine.seen.settings)
        server = McpServer(
            engine, lambda _: peer, decide_at=lambda id: decide_at(engine.seen.settings.home, id)
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.changes.follow)
            tasks.start_soon(server.lasting.follow)
            async with line_streams(source, sink) as (incoming, outgoing):
                await server.run(incoming, outgoing, server.create_initialization_options())
            tasks.cancel_scope.cancel()


@contextmanager
def own_lines() -> "Generator[tuple[BinaryIO, BinaryIO]]":
    """Standard input and output for the protocol alone: whatever else in this process prints goes to standard error, and whoever else
    reads finds the end."""
    source = os.fdopen(os.dup(0), "rb", buffering=0)
    sink = os.fdopen(os.dup(1), "wb", buffering=0)  # nothing is left in it that an end would have to wait for
    sys.stdout.flush()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    yield source, sink
