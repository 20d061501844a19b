"""Roles: whoever asks needs the right that the tool asks for. Nobody has a right that no role of his gives."""

from typing import Final

from metier.gate.principals import is_own_act
from metier.gate.situation import Situation
from metier.model.call import ValidCall
from metier.model.role import EXECUTE, ROLES, TRUST
from metier.model.skill import Tool
from metier.model.verdict import Verdict

OPERATORS_RIGHT: Final = TRUST
"""What an operators' tool asks for that names no right of its own: to run skills is everybody's."""
_OWNER: Final = Verdict.allow("the owner does it himself")
_ENTITLED: Final = Verdict.abstain(f"has the right {EXECUTE!r}")


def roles(valid: ValidCall, situation: Situation) -> Verdict:
    """Whether the principal has the right that this tool needs. A human who has it needs nobody else's word."""
    principal, standing, right = valid.call.principal, situation.standing, _right(valid)
    if standing.problem:
        return Verdict.deny(standing.problem)
    unscoped = principal.scopes is not None and right not in principal.scopes
    if unscoped and right in standing.rights | standing.withheld:
        return Verdict.deny(
            f"what {principal.id!r} came with lacks the scope {right!r}; `metier tokens add` makes a token that has it"
        )
    if unscoped or right not in standing.rights:
        return Verdict.deny(f"{principal.id!r} lacks the right {right!r}; {_givers(right)}")
    if principal.kind == "human" and ROLES["owner"] <= standing.rights:
        return _OWNER
    if principal.kind == "human":
        return Verdict.allow(f"a human who has the right {right!r}")
    return _ENTITLED if right == EXECUTE else Verdict.abstain(f"has the right {right!r}")


def _right(valid: ValidCall) -> str:
    """The right of an operation is asked of people. To a skill a privileged one is granted by its name, and Metier's own host does
    what is its part; the layer of permissions says whether that is so."""
    tool, principal = valid.tool, valid.call.principal
    by_name = principal.kind == "skill" or is_own_act(principal.id, tool)
    return EXECUTE if tool.privileged and tool.audience == "model" and by_name else needed(tool)


def needed(tool: Tool) -> str:
    """The right that calling `tool` takes."""
    return OPERATORS_RIGHT if tool.audience == "operator" and tool.permission == EXECUTE else tool.permission


def _givers(right: str) -> str:
    having = [role for role, rights in ROLES.items() if right in rights]
    if not having:
        return "no role gives it, so nobody has it"
    return f"it comes with the role {' or '.join(having)}, which who manages principals can give"
