"""MCP over two files, one message a line: what comes in is bounded and looked at, what goes out is whole lines.

The SDK's own reader has no limit on a line and is silent about what it cannot read.
"""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final, Protocol, TypeAlias

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import JSONRPCError, JSONRPCResponse, jsonrpc_message_adapter
from pydantic import ValidationError

from metier.doors.mcp.aside import Reader, aside
from metier.doors.mcp.messages import INVALID_REQUEST, MOST_BYTES, Bad, UnderWay, is_request
from metier.model.digest import Json

MOST_AT_ONCE: Final = 64
"""Requests under way over one connection."""
_MOST_BAD: Final = 100
"""Bad lines in a row. Whoever sends more of them speaks something else."""
_PIECE: Final = 65_536
_log: Final = logging.getLogger("metier.mcp")

In: TypeAlias = SessionMessage | Exception


class Raw(Protocol):
    """A file of bytes that gives what there is, and waits only where there is nothing."""

    def read(self, size: int, /) -> bytes | None: ...


class Sink(Protocol):
    """A file of bytes that says how much it took."""

    def write(self, data: memoryview, /) -> int: ...
    def flush(self) -> None: ...


@asynccontextmanager
async def line_streams(
    source: Raw, sink: Sink
) -> AsyncGenerator[tuple[MemoryObjectReceiveStream[In], MemoryObjectSendStream[SessionMessage]]]:
    """The two ends that the SDK's server works with. They end with the input."""
    to_server, taken = anyio.create_memory_object_stream[In](0)
    answers, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    writing = anyio.Lock()
    under_way = UnderWay(MOST_AT_ONCE)
    reader = Reader()

    async def write(line: bytes) -> None:
        async with writing:
            await aside(_write, sink, line)

    async def take_in() -> None:
        bad = 0
        async with to_server:
            async for line in _lines(source):
                found = _checked(line if line is _TOO_LONG else await reader(line), under_way)
                if not isinstance(found, Bad):
                    bad = 0
                    await to_server.send(found)
                    continue
                bad += 1
                await write(msgspec.json.encode(found.answer) + b"\n")
                if bad >= _MOST_BAD:
                    _log.warning("%d lines in a row were no messages; the connection is ended", bad)
                    return

    async def give_out() -> None:
        async with from_server:
            async for message in from_server:
                said = message.message
                if isinstance(said, JSONRPCResponse | JSONRPCError):
                    under_way.end(said.id)
                text = said.model_dump_json(by_alias=True, exclude_unset=True)
                await write(text.encode("utf-8", "backslashreplace") + b"\n")

    async def in_and_over() -> None:
        try:
            await take_in()
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError) as error:
            _log.info("the input ended: %s", type(error).__name__)

    async def out_and_over(scope: anyio.CancelScope) -> None:
        try:
            await give_out()
        except OSError:  # nobody reads any more: whatever runs for him is ended
            scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(in_and_over)
        tasks.start_soon(out_and_over, tasks.cancel_scope)
        yield taken, answers
        tasks.cancel_scope.cancel()


async def _lines(source: Raw) -> AsyncGenerator[bytes]:
    """Each line without its end. One that is too long is passed over, and comes as what cannot be read."""
    kept, lost = bytearray(), False
    while piece := await aside(source.read, _PIECE):
        *whole, rest = piece.split(b"\n")
        for part in whole:
            line = b"" if lost else bytes(kept + part)
            kept.clear()
            if lost or len(line) > MOST_BYTES:
                lost = False
                yield _TOO_LONG
            elif line.strip():
                yield line
        kept += rest
        if len(kept) > MOST_BYTES:
            kept.clear()
            lost = True


_TOO_LONG: Final = b"\x00"


def _checked(found: bytes | dict[str, Json] | Bad, under_way: UnderWay) -> SessionMessage | Bad:
    if isinstance(found, bytes):
        return Bad(INVALID_REQUEST, f"a message has at most {MOST_BYTES:,} bytes")
    if isinstance(found, Bad):
        return found
    try:
        message = jsonrpc_message_adapter.validate_python(found, by_name=False)
    except ValidationError:
        return Bad(INVALID_REQUEST, "this is no message of JSON-RPC 2.0")
    if not is_request(found):
        return SessionMessage(message)
    if (busy := under_way.begin(found)) is not None:
        return busy

    async def settled() -> None:
        under_way.end(found["id"])

    # One that its client cancelled is never answered, and over all the same.
    return SessionMessage(message, ServerMessageMetadata(on_request_unanswered=settled))


def _write(sink: Sink, line: bytes) -> None:
    left = memoryview(line)
    while left:
        left = left[sink.write(left) :]
    sink.flush()
