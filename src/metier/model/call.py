"""A call on its way through the gate. Each stage makes the next type, so none can be left out.

`ValidCall` is made only by validate, `AuthorizedCall` only by authorize, `ApprovedCall` only by approve; a
test looks for any other maker.
"""

from typing import Literal, final

from msgspec import Struct

from metier.model.digest import Json
from metier.model.permission import PermissionSet
from metier.model.skill import Skill, Tool
from metier.model.verdict import Verdict


@final
class Principal(Struct, frozen=True, kw_only=True):
    """Who asks. Made only by a door's authentication, never from what a client sent."""

    id: str
    """Stable, for example `agent:cli`."""
    kind: Literal["human", "agent", "skill", "trigger"]
    on_behalf_of: str | None = None
    roles: frozenset[str] = frozenset()
    capabilities: frozenset[str] = frozenset()


@final
class Surroundings(Struct, frozen=True, kw_only=True):
    """Where a call comes from, as far as its door knows."""

    call_id: str | None = None
    caller_id: str | None = None
    transcript: str | None = None
    turn: str | None = None
    channel: str | None = None
    session: str | None = None


@final
class Call(Struct, frozen=True, kw_only=True):
    """A request to run one tool once."""

    id: str
    principal: Principal
    tool: str
    arguments: Json
    """As they came. Only what validate returns may be shown, bound or run."""
    attempt: int = 1
    parent: str | None = None
    cwd: str | None = None
    surroundings: Surroundings = Surroundings()


@final
class ValidCall(Struct, frozen=True, kw_only=True):
    """The tool exists, the skill it concerns is known, the arguments fit the schema."""

    call: Call
    tool: Tool
    arguments: dict[str, Json]
    skill: Skill | None
    """The skill under whose name and permissions it runs."""
    permissions: PermissionSet
    """What this call needs."""


@final
class Bytes(Struct, frozen=True, kw_only=True):
    """Which bytes of a skill a call was judged with."""

    digest: str
    """Of the snapshot it will use."""
    signature: str = ""
    """Metadata signature of the folder they were taken from; empty when it cannot vouch for them."""
    first_use: bool = False
    """Nobody used this skill before: it is to be bound to these bytes."""


@final
class AuthorizedCall(Struct, frozen=True, kw_only=True):
    """Every layer was asked and none denied it."""

    valid: ValidCall
    verdict: Verdict
    bytes: Bytes | None = None
    """None when the call concerns no skill."""


@final
class ApprovedCall(Struct, frozen=True, kw_only=True):
    """It may run now, once."""

    authorized: AuthorizedCall
    evidence: str
    """On whose word: `policy`, or the id of a decision or grant."""
