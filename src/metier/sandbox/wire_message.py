"""One line that came over the wire from a sandbox, read strictly. Pure.

A line is the key of the run, a blank, and one JSON-RPC object. The key is known to our own runner inside and to
nobody else there, so a line without it was written by the code that is run: it is forged (where that code may print on
the same descriptor, `wire_lines` has taken its output out before). A line with the key whose *value* is not plain
JSON is an odd value of honest code, and is told apart from that.
"""

import re
from hmac import compare_digest
from typing import Any, Final, Literal, TypeAlias, cast, final

import msgspec
from msgspec import Struct

from metier.model.digest import Json
from metier.model.job import Fault
from metier.model.ports import Answered, NotAnswered
from metier.model.strictjson import MAX_INTEGER, loads

MOST_BYTES: Final = 1_048_576
"""Of one message, in either direction."""
RUN_ID: Final = 0
"""The id of the one thing the host asks of a guest: to run."""
RAISED: Final = -32000
BAD_RESULT: Final = -32001
"""Error code with which a runner says that what the code returned is not plain JSON."""

_METHOD: Final = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*")
_LONGEST_METHOD: Final = 64
_LONGEST_NAME: Final = 100
_LONGEST_MESSAGE: Final = 8_192
_HEAD: Final = re.compile(
    rb'\{"jsonrpc": ?"2\.0", ?(?:"id": ?(0|[1-9][0-9]{0,15}), ?)?"(method|result|error)": ?'
)


@final
class Asked(Struct, frozen=True, kw_only=True):
    """The guest asks for something; without an id it wants no answer."""

    id: int | None
    method: str
    params: dict[str, Json]


@final
class Result(Struct, frozen=True, kw_only=True):
    """The run returned, or an operation of one that lives."""

    id: int = RUN_ID
    value: Json


@final
class Error(Struct, frozen=True, kw_only=True):
    """As `Result`, where it raised, or (`bad_result`) returned something that is not plain JSON."""

    id: int = RUN_ID
    fault: Fault
    bad_result: bool


@final
class Unfit(Struct, frozen=True, kw_only=True):
    """From our own runner, but with a value in it that is not plain JSON."""

    what: Literal["request", "notification", "result"]
    id: int | None
    why: str


@final
class Forged(Struct, frozen=True, kw_only=True):
    """Not from our own runner, or not anything it would send."""

    why: str


Message: TypeAlias = Asked | Result | Error | Unfit | Forged


def read_line(line: bytes, key: bytes, *, most_result: int = MOST_BYTES, lives: bool = False) -> Message:
    """What a line without its line end says. `most_result` is how large it may be when it is the result. Of what `lives` more is
    asked than to run, so it may answer to other ids; which of them are open is not known here."""
    if len(line) <= len(key) or not compare_digest(line[: len(key) + 1], key + b" "):
        return Forged(why="a line without the key of this run")
    text = line[len(key) + 1 :]
    head = _HEAD.match(text)
    is_result = head is not None and head[2] == b"result" and (not lives or head[1] == b"0")
    try:
        tree = loads(text, most=max(MOST_BYTES, most_result) if is_result else MOST_BYTES)
    except ValueError as problem:
        return _unfit(head, str(problem), lives=lives)
    if not isinstance(tree, dict) or tree.pop("jsonrpc", "2.0") != "2.0":
        return Forged(why="a line that is no JSON-RPC message")
    return _asked(tree) if "method" in tree else _answer(tree, lives=lives)


def _unfit(head: "re.Match[bytes] | None", why: str, *, lives: bool) -> Unfit | Forged:
    if head is None or (head[1] is None and head[2] != b"method"):
        return Forged(why="a line that is no JSON-RPC message")
    if head[2] != b"method":
        number = int(head[1])
        return Unfit(what="result", id=number, why=why) if lives or number == RUN_ID else _unasked()
    if head[1] is None:
        return Unfit(what="notification", id=None, why=why)
    return Unfit(what="request", id=int(head[1]), why=why) if int(head[1]) else _unasked()


def _asked(tree: dict[str, Json]) -> Asked | Forged:
    method, params = tree.pop("method"), tree.pop("params", {})
    number = tree.pop("id", None)
    if tree or not isinstance(params, dict) or not isinstance(method, str):
        return Forged(why="a request of unknown form")
    if number is not None and not _is_id(number, lowest=1):
        return Forged(why="a request whose id is not a whole number above zero")
    if len(method) > _LONGEST_METHOD or not _METHOD.fullmatch(method):
        return Forged(why="a request whose method is not a name")
    return Asked(id=cast("int | None", number), method=method, params=params)


def _answer(tree: dict[str, Json], *, lives: bool) -> Result | Error | Forged:
    found = tree.pop("id", None)
    if not _is_id(found, lowest=RUN_ID) or not (lives or found == RUN_ID):
        return _unasked()
    number = cast("int", found)
    match tree:
        case {"result": value} if len(tree) == 1:
            return Result(id=number, value=value)
        case {"error": {"code": int(code), "message": str(message), **more}} if len(tree) == 1:
            data = more.get("data")
            name = data.get("name") if isinstance(data, dict) else None
            fault = Fault(
                name=name[:_LONGEST_NAME] if isinstance(name, str) and name else "Error",
                message=message[:_LONGEST_MESSAGE],
            )
            return Error(id=number, fault=fault, bad_result=code == BAD_RESULT)
        case _:
            return Forged(why="an answer of unknown form")


def _unasked() -> Forged:
    return Forged(why="an answer to something nobody asked")


def _is_id(number: object, *, lowest: int) -> bool:
    return type(number) is int and lowest <= number <= MAX_INTEGER


def run_line(params: dict[str, Json], key: str) -> bytes:
    """The first line to a guest: what to run, and the key that its own lines must begin with."""
    return _line({"jsonrpc": "2.0", "id": RUN_ID, "method": "run", "params": params, "key": key})


def operate_line(number: int, params: dict[str, Json]) -> bytes | None:
    """One thing more that is asked of a guest that lives; None where it cannot be written down."""
    try:
        return _line({"jsonrpc": "2.0", "id": number, "method": "operate", "params": params})
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError):
        return None


def answer_line(number: int, answer: Answered | NotAnswered) -> bytes:
    """The answer to request `number`; one that cannot be written down becomes an error that says so."""
    if isinstance(answer, NotAnswered):
        return error_line(number, answer.name, answer.message)
    try:
        line = _line({"jsonrpc": "2.0", "id": number, "result": answer.value})
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError):
        return error_line(number, "BadAnswer", "The host's answer is not plain JSON")
    if len(line) > MOST_BYTES:
        return error_line(number, "TooLarge", f"The host's answer is larger than {MOST_BYTES:,} bytes")
    return line


def error_line(number: int, name: str, message: str) -> bytes:
    """The answer to a request that is not met."""
    said = message[:_LONGEST_MESSAGE].encode(errors="replace").decode()
    error = {"code": RAISED, "message": said, "data": {"name": name[:_LONGEST_NAME]}}
    return _line({"jsonrpc": "2.0", "id": number, "error": error})


def _line(tree: dict[str, Any]) -> bytes:
    return msgspec.json.encode(tree) + b"\n"
