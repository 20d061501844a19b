"""A call on its way through the gate. Each stage makes the next type, so none can be left out.

`ValidCall` is made only by validate, `AuthorizedCall` only by authorize, `ApprovedCall` only by approve; a
test looks for any other maker.
"""

from typing import Annotated, Literal, final

from msgspec import Meta, Struct

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
    scopes: frozenset[str] | None = None
    """The most it may do, whatever its roles give: the rights that its token was given. None where there is no such bound."""
    token: str = ""
    """Id of the API token it came with, or empty. Once that is revoked or over, it may do nothing."""


@final
class Surroundings(Struct, frozen=True, kw_only=True):
    """Where a call comes from, as far as its door knows."""

    call_id: str | None = None
    caller_id: str | None = None
    transcript: str | None = None
    turn: int | None = None
    """How many turns the caller has had in this conversation. Only the door says so."""
    channel: str | None = None
    session: str | None = None
    takes_bytes: bool = False
    """Whoever reads a file of a skill is handed its bytes by the door, so it need not be one that can be shown as text."""


@final
class Cause(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What set a call off by itself: a trigger or a schedule. Whatever it has done in turn has the same cause."""

    firings: Annotated[int, Meta(ge=0)] = 0
    """How many lie behind it, one having set off the other."""
    root: str = ""
    """Who is counted for the first of them: a chat, a skill, a caller. Empty where nothing was fired."""
    chat: str = ""
    """The chat whose message began it, as `channel/chat`."""
    by: str = ""
    """Id of the trigger that fired last. It is not set off by what it does itself, however deep inside."""


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
    depth: int = 0
    """How many running calls it was made inside of."""
    cwd: str | None = None
    surroundings: Surroundings = Surroundings()
    unattended: bool = False
    """Nobody is there to be asked: a trigger, a schedule, `--unattended`."""
    waits: bool = False
    """Who asks waits for somebody's word, if it takes one: that word is left to him."""
    fleeting: bool = False
    """It cannot be taken up later, because what it would need is gone by then; so nobody is asked."""
    approval: str | None = None
    """The decision it resumes with. Set only where a stored call is taken up again."""
    by_decider: bool = False
    """It is taken up where it was approved, and not by who asked: how it ends is kept for him. Set only there."""
    cause: Cause = Cause()
    """What set it off, where nobody asked for it at that moment."""


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
    confirmed: bool | None = None
    """Whether the caller's own word was given; None for a tool that needs none. No longer among the arguments."""


@final
class Bytes(Struct, frozen=True, kw_only=True):
    """Which bytes of a skill a call was judged with."""

    digest: str
    """Of the snapshot it will use."""
    signature: str = ""
    """Metadata signature of the folder they were taken from; empty when it cannot vouch for them."""
    first_use: bool = False
    """Nobody used this skill before: it is to be bound to these bytes."""
    file: str = ""
    """Name of the owner's own file that they are, where they are no skill's."""


@final
class AuthorizedCall(Struct, frozen=True, kw_only=True):
    """Every layer was asked and none denied it."""

    valid: ValidCall
    verdict: Verdict
    bytes: Bytes | None = None
    """None when the call concerns no skill."""
    trust_level: str = ""
    """How far agents were trusted then."""
    rules: str = ""
    """Digest of the operator's rules, all of them."""
    deciding: str = ""
    """Digest of what of the rules and the level decided this call."""


@final
class ApprovedCall(Struct, frozen=True, kw_only=True):
    """It may run now, once."""

    authorized: AuthorizedCall
    evidence: str
    """On whose word: `policy`, or the id of a decision or standing grant."""
    fingerprint: str = ""
    """Of the exact act that the decision was about; empty where the policy alone allowed it."""
    approved_by: str = ""
    """Who decided, or gave the grant."""
    asked_as: tuple[str, int] | None = None
    """Id and attempt of the call that was decided about, where this one asks the same again; None where it is that call."""
    replaces: dict[str, Json] = {}
    """By argument: size and digest of the file that may be lost, None where none may; empty where nothing of it was decided."""
    agent: str = ""
    """Digest of the agent of the workspace that it names, as it was judged; empty where it names none."""
