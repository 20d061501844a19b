"""One JSON-RPC message of an MCP server, read strictly, and those we send. Pure.

A server is a stranger: its message is an answer to what we asked, something it asks, something it tells, or nothing we know.
"""

from typing import Final, Literal, TypeAlias, cast, final

import msgspec
from anyio import to_thread
from msgspec import Struct

from metier.model.digest import Json
from metier.model.strictjson import loads
from metier.model.text import one_line

MOST_BYTES: Final = 4_194_304
"""Of one message in either direction: an image comes as text."""
NOT_DONE: Final = -32601
"""The code with which a server is told that it asked for what it is not given."""
LARGE: Final = 65_536
"""A message beyond this is read in a thread: everybody else's calls are on the loop."""
_MOST_VALUES: Final = 500_000
"""By a look at its bytes: many small values take far more memory than they take bytes."""
_LONGEST_ID: Final = 256
_LONGEST_METHOD: Final = 256
_LONGEST_MESSAGE: Final = 2_000


@final
class Answered(Struct, frozen=True, kw_only=True):
    """The result of what we asked under this number."""

    id: int
    result: dict[str, Json]


@final
class Erred(Struct, frozen=True, kw_only=True):
    """As `Answered`, where it says that it cannot."""

    id: int
    code: int
    message: str


@final
class Asks(Struct, frozen=True, kw_only=True):
    """It wants something of us."""

    id: int | str
    method: str


@final
class Tells(Struct, frozen=True, kw_only=True):
    """It wants no answer."""

    method: str
    params: dict[str, Json]


@final
class Unusable(Struct, frozen=True, kw_only=True):
    """An answer to what we asked under this number, of which nothing is believed, and why. Who waits for it need not wait longer."""

    id: int
    why: str


@final
class Unknown(Struct, frozen=True, kw_only=True):
    """No message, and why."""

    why: str


Message: TypeAlias = Answered | Erred | Asks | Tells | Unusable | Unknown


def read(line: bytes) -> Message:
    """What a line says. Never raises."""
    if len(line) > LARGE and sum(map(line.count, (b",", b"[", b"{"))) > _MOST_VALUES:
        return _of_no_use(line, f"more than {_MOST_VALUES:,} values", many=True)
    try:
        found = loads(line, most=MOST_BYTES)
    except ValueError as error:
        return _of_no_use(line, f"no strict JSON: {error}")
    return of(found)


class _Head(Struct):
    """All that is read of a message that holds too much: the rest is passed over and not kept."""

    id: int
    jsonrpc: Literal["2.0"]
    method: msgspec.Raw | None = None


def _of_no_use(line: bytes, why: str, *, many: bool = False) -> Message:
    """Which of our questions a line answers that is not believed. Read loosely: it decides about nothing but who need not wait."""
    import json  # not on the listing path

    why = one_line(why, 300)
    try:
        if many:
            head = msgspec.json.decode(line, type=_Head)
            return Unusable(id=head.id, why=why) if head.method is None else Unknown(why=why)
        found = cast(Json, json.loads(line.decode(errors="replace"), parse_int=_loose_int))
    except (ValueError, RecursionError):
        return Unknown(why=why)
    number = found.get("id") if isinstance(found, dict) and found.get("jsonrpc") == "2.0" else None
    if isinstance(number, bool) or not isinstance(number, int) or "method" in cast("dict[str, Json]", found):
        return Unknown(why=why)
    return Unusable(id=number, why=why)


def _loose_int(digits: str) -> int:
    return int(digits) if len(digits) < 17 else 0


async def read_aside(line: bytes) -> Message:
    """The same, without holding anybody up for long."""
    return read(line) if len(line) <= LARGE else await to_thread.run_sync(read, line)


def of(found: Json) -> Message:
    """The same for a value that was read already."""
    if not isinstance(found, dict) or found.get("jsonrpc") != "2.0":
        return Unknown(why="no JSON-RPC 2.0 object")
    method, number = found.get("method"), found.get("id")
    if method is not None:
        return _begun(method, number, found)
    if isinstance(number, bool) or not isinstance(number, int):
        return Unknown(why="an answer to nothing we asked: its id is no number of ours")
    if ("result" in found) == ("error" in found):
        return Unusable(id=number, why="it has neither a result nor an error, or both")
    if "result" in found:
        result = found["result"]
        return (
            Answered(id=number, result=result)
            if isinstance(result, dict)
            else Unusable(id=number, why="its result is no object")
        )
    error = found["error"]
    code = error.get("code") if isinstance(error, dict) else None
    said = error.get("message") if isinstance(error, dict) else None
    if isinstance(code, bool) or not isinstance(code, int) or not isinstance(said, str):
        return Unusable(id=number, why="its error has no code and no message")
    return Erred(id=number, code=code, message=said[:_LONGEST_MESSAGE])


def _begun(method: Json, number: Json, found: dict[str, Json]) -> Message:
    params = found.get("params", {})
    if not isinstance(method, str) or len(method) > _LONGEST_METHOD or not isinstance(params, dict):
        return Unknown(why="a method that is no short text, or parameters that are no object")
    if "id" not in found:
        return Tells(method=method, params=params)
    if isinstance(number, bool) or not isinstance(number, int | str) or len(str(number)) > _LONGEST_ID:
        return Unknown(why="a request whose id is no number and no short text")
    return Asks(id=number, method=method)


def request(number: int, method: str, params: dict[str, Json]) -> bytes:
    """What we ask, as one line without its end."""
    return msgspec.json.encode({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def notice(method: str, params: dict[str, Json]) -> bytes:
    """What we tell."""
    return msgspec.json.encode({"jsonrpc": "2.0", "method": method, "params": params})


def reply(asked: Asks) -> bytes:
    """What a server is told that asks something of us: that we are here, or that it is not given."""
    if asked.method == "ping":
        return msgspec.json.encode({"jsonrpc": "2.0", "id": asked.id, "result": {}})
    error = {"code": NOT_DONE, "message": "Metier does not do this for a server"}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": asked.id, "error": error})
