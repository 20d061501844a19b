"""What a principal may do today: read by its id from what is registered now, never from what a call carries.

| id | what it has |
|---|---|
| the owner's | the role owner |
| `agent:cli`, `agent:console`, `agent:host`, `agent:library`, `agent:mcp` | the role agent, on the owner's behalf, until revoked |
| `skill:NAME`, `trigger:NAME` | the role agent, on behalf of whoever it works for |
| `agent:brain/NAME` | an agent of the workspace: the role agent, on behalf of whoever it works for |
| `agent:trigger/NAME`, `agent:schedule/NAME` | what fires by itself: the role agent, on behalf of whoever set it up |
| any other | what it was registered with; unregistered or revoked, nothing |

Whoever acts on another's behalf has at most what that other has, so somebody who is revoked takes his agents with him.
Roles that are for people give nothing to anybody else. Who came with a token has at most its scopes, and nothing once it is over;
so have the skills that work for such a call.
"""

import time
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from metier.model.call import Principal
from metier.model.role import APPROVE, EXECUTE, Kind, Registered, Standing, rights_of
from metier.model.skill import Tool
from metier.record.principals import AGENT_ROLES, BUILT_IN_AGENTS, id_problem
from metier.record.tokens import Token, fits, token_id

BRAIN: Final = "agent:brain/"
"""How the ids of agents begin that lie in the workspace. Nobody can be registered under such an id."""
HOST: Final = "agent:host"
"""Metier's own host, where it takes in messages and sends what others asked it to send."""
TRIGGERED: Final = ("agent:trigger/", "agent:schedule/")
"""How the ids begin of what fires by itself, each for whoever set it up."""
FOR_OTHERS: Final = (BRAIN, *TRIGGERED)
_OWN_ACTS: Final = frozenset({"channels.route_inbound_message", "channels.send_message", "schedules.notify"})
_DEEPEST: Final = 8
"""How many may stand one behind the other: as deep as calls may be made inside of calls."""


def standing(principal: Principal, principals: Mapping[str, Registered], owner: str) -> Standing:
    """What `principal` may do today. Its own roles and capabilities are not looked at; what bounds it is."""
    found = _standing(principal.id, principal.kind, principal.on_behalf_of or "", principals, owner, _DEEPEST)
    if principal.scopes is None or found.problem:
        return found
    rights = found.rights & principal.scopes
    if not rights:
        return Standing(problem=f"what {principal.id!r} came with has no scope that gives it a right it has")
    return Standing(rights=rights, withheld=found.rights - rights, behind=found.behind)


def token_problem(principal: Principal, tokens: Mapping[str, Token]) -> str:
    """Why the token that `principal` came with is good for nothing now; empty when it is not so. Asked at every call: one that
    is stored may be taken up when the token is over."""
    token = tokens.get(principal.token)
    if token is None:
        return f"the token {principal.token!r} it came with was revoked"
    if token.is_over(time.time()):
        return f"the token {principal.token!r} it came with has expired"
    if principal.scopes is None or not principal.scopes <= token.scopes:
        return f"it says more than the token {principal.token!r} it came with"
    return ""


def is_own_act(id: str, tool: Tool) -> bool:
    """Whether this is the part of a door, a trigger or a schedule that Metier's own host does: to take in and to send messages,
    and to tell a schedule's webhook. Everything else that is privileged is for people, and for skills that were granted it."""
    return tool.privileged and tool.name in _OWN_ACTS and (id == HOST or id.startswith(TRIGGERED))


def by_token(
    text: str, tokens: Mapping[str, Token], principals: Mapping[str, Registered], owner: str
) -> Principal | None:
    """Who comes with this token, as he is today; None where it is none, is over, or its principal may do nothing."""
    token = tokens.get(token_id(text))
    if not fits(token, text) or token is None or token.is_over(time.time()):
        return None
    who = rebuilt(token.principal, "", principals, owner)
    if isinstance(who, str):
        return None
    bound = replace(who, scopes=token.scopes, token=token.id)
    return None if standing(bound, principals, owner).problem else bound


def useless(id: str, scopes: frozenset[str], principals: Mapping[str, Registered], owner: str) -> str:
    """Why a token of `id` with these scopes would let nobody in as things are; empty when it would."""
    who = rebuilt(id, "", principals, owner)
    if isinstance(who, str):
        return who
    rights = standing(who, principals, owner).rights
    if scopes & rights:
        return ""
    return (
        f"a token gives what its scopes name and {id} may do, and of {', '.join(sorted(scopes))} that is nothing: "
        f"{id} has {', '.join(sorted(rights))}"
    )


def is_own(id: str, human: str, principals: Mapping[str, Registered], owner: str) -> bool:
    """Whether `id` is this human, or somebody who acts on his behalf."""
    who = rebuilt(id, "", principals, owner)
    return id == human or (not isinstance(who, str) and human in standing(who, principals, owner).behind)


def approver_problem(kind: Kind, decider: Standing, right: str) -> str:
    """Why somebody may not decide about a call that needs `right`; empty when he may.

    To let an agent do what agents do, the right to approve is enough. What takes a right beyond that, only somebody
    who has it himself can approve.
    """
    if kind != "human":
        return f"only a human approves, and this is a principal of the kind {kind}"
    if decider.problem:
        return decider.problem
    if APPROVE not in decider.rights:
        return (
            f"approving takes the right {APPROVE!r}, which comes with the roles owner, operator and approver"
        )
    if right != EXECUTE and right not in decider.rights:
        return f"it takes the right {right!r}, and nobody approves what he may not do himself"
    return ""


def rebuilt(id: str, on_behalf_of: str, principals: Mapping[str, Registered], owner: str) -> Principal | str:
    """The principal of this id as it is today, for a call that was stored; or why there is none."""
    known = _known(id, on_behalf_of, principals, owner)
    if isinstance(known, str):
        return known
    problem = standing(
        Principal(id=id, kind=known.kind, on_behalf_of=on_behalf_of or None), principals, owner
    ).problem
    return problem or Principal(
        id=id, kind=known.kind, on_behalf_of=known.on_behalf_of or None, roles=known.roles
    )


def _standing(
    id: str, kind: str, behalf: str, principals: Mapping[str, Registered], owner: str, depth: int
) -> Standing:
    known = _known(id, behalf, principals, owner)
    if isinstance(known, str):
        return Standing(problem=known)
    if kind != known.kind:
        return Standing(problem=f"{id!r} is of the kind {known.kind}, and came as a {kind}")
    if behalf and behalf != known.on_behalf_of:
        return Standing(problem=f"{id!r} does not act on behalf of {behalf[:80]!r}")
    rights = rights_of(known.roles if known.kind == "human" else known.roles & AGENT_ROLES)
    behind: tuple[str, ...] = ()
    if known.on_behalf_of:
        other = _behind(known, principals, owner, depth)
        if other.problem:
            return Standing(problem=f"{id!r} acts on behalf of another: {other.problem}")
        rights &= other.rights
        behind = (known.on_behalf_of, *other.behind)
    return (
        Standing(rights=rights, behind=behind)
        if rights
        else Standing(problem=f"{id!r} has no role that gives a right")
    )


def _behind(known: Registered, principals: Mapping[str, Registered], owner: str, depth: int) -> Standing:
    """Of the one it acts for, whom nobody's word but the table's describes."""
    if not depth:
        return Standing(problem="too many act on each other's behalf")
    id = known.on_behalf_of
    kind = id.partition(":")[0]
    return _standing(id, kind, "", principals, owner, depth - 1)


def _known(id: str, behalf: str, principals: Mapping[str, Registered], owner: str) -> Registered | str:
    """The one of this id, or why there is nobody."""
    found = principals.get(id)
    if found is not None and found.revoked:
        return f"{id!r} was revoked; whoever manages principals can add it again"
    if id == owner:
        return Registered(id=id, kind="human", roles=frozenset({"owner"}))
    kind, _, name = id.partition(":")
    if kind == "skill" or kind == "trigger" or id.startswith(FOR_OTHERS):
        if not name or not name.isprintable() or set(name) & set("*? ") or not behalf or id in FOR_OTHERS:
            return f"{id[:80]!r} is no {kind}, or works for nobody"
        own: Kind = "agent" if id.startswith(FOR_OTHERS) else "skill" if kind == "skill" else "trigger"
        return Registered(id=id, kind=own, on_behalf_of=behalf, roles=frozenset({"agent"}))
    if found is not None:
        return found
    if id in BUILT_IN_AGENTS:
        return Registered(id=id, kind="agent", on_behalf_of=owner, roles=frozenset({"agent"}))
    problem = id_problem(id, kind)
    return f"{id[:80]!r} is not registered" + (
        f" and never could be: {problem}" if problem else "; `metier principals add` registers it"
    )
