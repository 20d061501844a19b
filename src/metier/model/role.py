"""Who may do what: roles are names for sets of rights. A right that no role has, nobody has."""

from typing import Final, Literal, TypeAlias, final

from msgspec import Struct

Kind: TypeAlias = Literal["human", "agent", "skill", "trigger"]
Role: TypeAlias = Literal["owner", "operator", "approver", "agent", "viewer"]

EXECUTE: Final = "skills:execute"
CREATE: Final = "skills:create"
APPROVE: Final = "skills:approve"
MARKETPLACE: Final = "skills:marketplace"
TRUST: Final = "skills:trust"
READ_AUDIT: Final = "audit:read"
KEEP_AUDIT: Final = "audit:keep"
"""Sign, export, erase."""
STEER: Final = "runtime:steer"
"""Trust level, stop, resume, cancel."""
PRINCIPALS: Final = "principals:manage"
SETTINGS: Final = "settings:write"

_VIEWER: Final = frozenset({READ_AUDIT})
_APPROVER: Final = _VIEWER | {APPROVE}
_OPERATOR: Final = _APPROVER | {EXECUTE, CREATE, MARKETPLACE, TRUST, STEER, SETTINGS}
_OWNER: Final = _OPERATOR | {KEEP_AUDIT, PRINCIPALS}

ROLES: Final[dict[Role, frozenset[str]]] = {
    "owner": _OWNER,
    "operator": _OPERATOR,
    "approver": _APPROVER,
    "agent": frozenset({EXECUTE}),
    "viewer": _VIEWER,
}


@final
class Registered(Struct, frozen=True, kw_only=True):
    """A principal as the operator registered it."""

    id: str
    kind: Kind
    on_behalf_of: str = ""
    roles: frozenset[str] = frozenset()
    revoked: bool = False


@final
class Standing(Struct, frozen=True, kw_only=True):
    """What one principal may do today. Left as it is: nothing."""

    rights: frozenset[str] = frozenset()
    problem: str = ""
    """Why it may do nothing at all; empty when it may do something."""
    withheld: frozenset[str] = frozenset()
    """Rights it has itself, and not with what it came with: the scopes of a token leave them out."""
    behind: tuple[str, ...] = ()
    """On whose behalf it acts, and on whose behalf those do, up to a human."""


def rights_of(roles: frozenset[str]) -> frozenset[str]:
    """Every right that comes with `roles`. A name that is no role gives none."""
    return frozenset[str]().union(*(rights for role, rights in ROLES.items() if role in roles))
