"""What is said on the line between a process and the host: one JSON text a line, one request a connection.

The one who asks sends the line's key, then what he wants. Who closes the connection wants it no longer.
"""

from typing import Final, Literal, TypeAlias, final

import msgspec
from msgspec import Struct

from metier.kernel.events import Happened
from metier.model.call import Cause, Surroundings
from metier.model.digest import Json
from metier.model.strictjson import MAX_BYTES

MOST_BYTES: Final = MAX_BYTES + 65_536
"""Of one line. Arguments may have 1 MiB, and something stands around them."""
KEY_LINE_BYTES: Final = 256
INTERRUPTED: Final = "interrupted"
BUSY: Final = "E_HOST_BUSY"
FORBIDDEN: Final = "E_HOST_FORBIDDEN"
BAD_KEY: Final = "E_HOST_KEY"
TOO_LARGE: Final = "E_HOST_TOO_LARGE"
NOT_JSON: Final = "E_HOST_NOT_JSON"
TIMEOUT: Final = "E_HOST_TIMEOUT"
FAULT: Final = "internal"


@final
class Do(Struct, frozen=True, kw_only=True, tag="do"):
    """Do the operation of a call that this process announced on the record. Who asks, and for what, is read there."""

    call_id: str
    arguments: dict[str, Json]
    skill: str = ""
    """Whose module it was when the call was judged; empty for ours."""
    surroundings: Surroundings = Surroundings()
    depth: int = 0
    cause: Cause = Cause()


@final
class Look(Struct, frozen=True, kw_only=True, tag="status"):
    """Say what you run."""


@final
class End(Struct, frozen=True, kw_only=True, tag="end"):
    """Give the role back."""


@final
class Listen(Struct, frozen=True, kw_only=True, tag="events"):
    """Tell what happens, as it happens."""


Wanted: TypeAlias = Do | Look | End | Listen


@final
class Background(Struct, frozen=True, kw_only=True):
    """Something that the host runs all the time."""

    name: str
    state: Literal["running", "waiting", "done"]
    """`waiting`: it failed, and is begun again in a moment."""
    error: str = ""
    """How it failed last."""
    failures: int = 0


@final
class HostStatus(Struct, frozen=True, kw_only=True, tag="host"):
    """What the host says of itself."""

    pid: int
    since: float
    version: str
    background: tuple[Background, ...] = ()


@final
class Begun(Struct, frozen=True, kw_only=True, tag="begun"):
    """From now on nobody but the host can tell whether it was done."""


@final
class Done(Struct, frozen=True, kw_only=True, tag="done"):
    """It was done."""

    value: Json = None


@final
class Wrong(Struct, frozen=True, kw_only=True, tag="error"):
    """It was not done, or failed."""

    code: str
    message: str


@final
class Told(Struct, frozen=True, kw_only=True, tag="event"):
    """Something happened."""

    happened: Happened


Answer: TypeAlias = Begun | Done | Wrong | HostStatus | Told

BAD_LINE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What reading a line raises that is none of ours."""
read_wanted: Final = msgspec.json.Decoder(Wanted).decode
read_answer: Final = msgspec.json.Decoder(Answer).decode


def line_of(said: Wanted | Answer) -> bytes | None:
    """As it is sent; None for what no JSON can say (half a character, say)."""
    try:
        return msgspec.json.encode(said) + b"\n"
    except (TypeError, ValueError, RecursionError):
        return None
