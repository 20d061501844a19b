"""What the operations for operators work with, and how they are offered: to people who have the right, and to nobody else."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal, TypeAlias, TypeVar, final

from anyio import to_thread
from msgspec import Struct

from metier.catalog.bundle import Snapshot
from metier.catalog.catalog import Catalog
from metier.catalog.listed import Listed
from metier.catalog.probed import Probed
from metier.config.settings import Settings
from metier.errors import RecordError
from metier.gate.explain import Explained
from metier.gate.principals import standing
from metier.kernel.operation import Asked, Does, Offered, OperationError, offered
from metier.model.digest import Json
from metier.model.outcome import Refused
from metier.model.skill import Limits, Skill
from metier.record.database import Database
from metier.record.decider import Decider
from metier.record.principals import registered_in

BAD_PARAMS: Final = "E_BAD_PARAMS"
FORBIDDEN: Final = "E_FORBIDDEN"
T = TypeVar("T")
_SLOW: Final = Limits(timeout=120.0)

Ask: TypeAlias = Callable[[Listed, str], Awaitable[Probed | str]]
"""Has an MCP server tell its tools, or says why it did not: the skill, and the digest of the bytes that are to be asked."""

Explain: TypeAlias = Callable[[str, Json, str, str | None, bool], Awaitable[Explained | Refused]]
"""What every layer would say to a call: its tool and arguments, who would ask (nobody named: an agent), as if at which level,
and whether who reads it may know which arguments a standing grant is for."""


async def _nobody(_listed: Listed, _digest: str) -> Probed | str:
    return "nothing can be run here"


async def _unexplained(
    _tool: str, _arguments: Json, _who: str, _level: str | None, _exactly: bool
) -> Explained | Refused:
    return Refused(call_id="", code="setup_unusable", reasons=("nothing can be explained here",))


async def _nothing() -> None:
    return None


@final
class Desk(Struct, frozen=True, kw_only=True):
    """What they work with."""

    database: Database
    owner: str
    settings: Callable[[], Settings]
    catalog: Callable[[], Catalog]
    refresh: Callable[[], Awaitable[None]] = _nothing
    """What was changed a moment ago counts from then on."""
    ask: Ask = _nobody
    hooks: Callable[[Skill, Snapshot], Sequence[dict[str, Json]]] = lambda _skill, _snapshot: ()
    """The hooks that these bytes bring, each with `file`, `events` and `problem`. Blocking."""
    end_all: Callable[[str], None] = lambda _why: None
    """Ends everything that runs in this process."""
    explain: Explain = _unexplained
    hosts: Callable[[], bool] = lambda: False
    """Whether this process is the host."""

    def decider(self, asked: Asked) -> Decider:
        """Who asks, with what he may do at this moment. Blocking."""
        who = asked.principal
        with self.database.reading() as connection:
            known = registered_in(connection)
        rights = standing(who, known, self.owner).rights
        return Decider(id=who.id, kind=who.kind, rights=rights, token=who.token)


def for_operators(
    name: str,
    does: Does,
    description: str,
    parameters: dict[str, Json],
    *,
    permission: str,
    effect: Literal["read", "act"] = "act",
    risk: Literal["low", "medium", "high"] = "medium",
) -> Offered:
    """The operation `name` for people who have the right `permission`."""
    return offered(
        name,
        does,
        description,
        parameters,
        privileged=True,
        audience="operator",
        permission=permission,
        effect=effect,
        risk="low" if effect == "read" else risk,
        limits=_SLOW,
    )


def taking(required: Sequence[str] = (), /, **properties: dict[str, Json]) -> dict[str, Json]:
    """The parameters of an operation: these, and no others."""
    plain: dict[str, Json] = {**properties}
    return {
        "type": "object",
        "properties": plain,
        "required": [*required],
        "additionalProperties": False,
    }


def text(asked: Asked, name: str) -> str:
    """The argument `name`; empty where it was left out."""
    value = asked.arguments.get(name, "")
    if not isinstance(value, str):
        raise OperationError(BAD_PARAMS, f"`{name}` is a text")
    return value


async def though_unrecorded(work: Callable[[], T], otherwise: T) -> tuple[T, str]:
    """Do what only takes away: it counts also where it could not be recorded. Gives what came of it, or `otherwise`, and what is
    missing from the record."""
    try:
        return await to_thread.run_sync(work), ""
    except RecordError as error:
        return otherwise, str(error)


def sayable(value: Json) -> Json:
    """`value`, its texts such that they can be sent: the name of a file need not be text."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {str(sayable(name)): sayable(each) for name, each in value.items()}
    return [sayable(each) for each in value] if isinstance(value, list) else value
