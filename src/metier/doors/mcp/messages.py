"""One message of a client, looked at before the SDK sees it. Pure.

The SDK takes ids of other types for notifications, lets a key be given twice, and drops what it cannot read without a word. Here
each of these is an error that its sender is told, and nothing of it goes further.
"""

import re
from contextlib import suppress
from typing import Final, TypeAlias, final

from msgspec import Struct

from metier.model import strictjson
from metier.model.digest import Json
from metier.model.text import one_line

MOST_BYTES: Final = 2_097_152
"""Of one message. The arguments of a call have a limit of their own, below this."""
MOST_VALUES: Final = strictjson.MAX_VALUES + 256
"""Of one message: as many as the arguments of a call may have, and what stands around them."""
MOST_TO_LISTEN: Final = 16_384
"""Bytes of a request to listen, which is kept for as long as somebody listens."""
MOST_TO_BEGIN: Final = 65_536
"""Bytes of the first message of a session, which is kept for as long as that lasts. A picture of the client fits in."""
LISTEN: Final = "subscriptions/listen"
BEGIN: Final = "initialize"
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
BUSY: Final = -32000
_METHOD: Final = re.compile(r"[A-Za-z0-9_$./-]{1,128}", re.ASCII)
_LONGEST_ID: Final = 128

Id: TypeAlias = str | int


@final
class Bad(Struct, frozen=True):
    """What is no message, and what its sender is told."""

    code: int
    why: str
    id: Id | None = None

    @property
    def answer(self) -> dict[str, Json]:
        """As it goes back."""
        return {"jsonrpc": "2.0", "id": self.id, "error": {"code": self.code, "message": self.why}}


def read(raw: bytes) -> dict[str, Json] | Bad:
    """The one message in `raw`: a request, a notification or a response, with everything in it that its kind needs."""
    try:
        found = strictjson.loads(raw, most=MOST_BYTES, values=MOST_VALUES)
    except ValueError as error:
        return Bad(PARSE_ERROR, f"not one strict JSON value: {one_line(str(error), 200)}")
    if isinstance(found, list):
        return Bad(INVALID_REQUEST, "several messages at once are not taken; send them one by one")
    if not isinstance(found, dict) or found.get("jsonrpc") != "2.0":
        return Bad(INVALID_REQUEST, "this is no message of JSON-RPC 2.0")
    id = found.get("id")
    if "id" in found and not is_id(id):
        return Bad(INVALID_REQUEST, "an id is a whole number, or a text of at most 128 characters")
    known = id if isinstance(id, str | int) else None
    if "method" not in found:
        whole = "id" in found and ("result" in found) != ("error" in found)
        answer = found.get("result", found.get("error"))
        return (
            found
            if whole and isinstance(answer, dict)
            else Bad(INVALID_REQUEST, "this says no method", known)
        )
    method = found["method"]
    if not isinstance(method, str) or not _METHOD.fullmatch(method):
        return Bad(INVALID_REQUEST, "the method is not the name of one", known)
    if "result" in found or "error" in found:
        return Bad(INVALID_REQUEST, "this asks and answers at once", known)
    if "params" in found and not isinstance(found["params"], dict):
        return Bad(INVALID_REQUEST, "params are an object, or are left out", known)
    if method == LISTEN and len(raw) > MOST_TO_LISTEN:
        return Bad(
            INVALID_REQUEST,
            f"a request to listen has at most {MOST_TO_LISTEN:,} bytes; listen to lists instead of single resources",
            known,
        )
    if method == BEGIN and len(raw) > MOST_TO_BEGIN:
        return Bad(
            INVALID_REQUEST,
            f"{BEGIN} has at most {MOST_TO_BEGIN:,} bytes; say less about the client and what it can do",
            known,
        )
    return found


def is_id(given: object) -> bool:
    """Whether this can be the id of a request."""
    if isinstance(given, bool):
        return False
    return isinstance(given, int) or (isinstance(given, str) and 0 < len(given) <= _LONGEST_ID)


def is_request(message: dict[str, Json]) -> bool:
    """Whether it is owed an answer."""
    return "method" in message and "id" in message


@final
class UnderWay:
    """The requests of one connection that nobody has answered yet. Belongs to one loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._ids: set[object] = set()

    def begin(self, message: dict[str, Json]) -> Bad | None:
        """Take in a request; or why it is not taken."""
        id = message["id"]
        if _key(id) in self._ids:
            # Said without the id: an error under it would be taken for the answer to the first.
            return Bad(INVALID_REQUEST, f"the id {one_line(str(id), 60)!r} is under way already")
        if len(self._ids) >= self._most:
            known = id if isinstance(id, str | int) else None
            return Bad(
                BUSY, f"{self._most} requests are under way; send this again when one is answered", known
            )
        self._ids.add(_key(id))
        return None

    def end(self, id: object) -> None:
        """It was answered, or nobody waits for it any more."""
        self._ids.discard(_key(id))

    @property
    def empty(self) -> bool:
        """Whether nothing is under way."""
        return not self._ids


def _key(id: object) -> object:
    """Ids that are one to the SDK are one to us: a number and every text that Python reads as it ("7", "007", "+7")."""
    if isinstance(id, str):
        with suppress(ValueError):
            return int(id)
    return id
