"""The trust ladder: what an agent, a skill or a trigger may do by itself at the level the operator chose.

| level | there is | runs by itself |
|---|---|---|
| `observe` | what asks for no more | nothing |
| `suggest` | that, and what is of low or medium risk and asks for `supervised_auto` | nothing |
| `supervised_auto` | what asks for no more | low risk |
| `bounded_auto`, `adaptive_auto` | everything | low and medium risk |

What says of itself that it always asks is asked at every level. An operation of Metier's that the code of a skill asks for is
part of the skill's call, and was judged with it. What Metier's host does for a door it does at every level; a text that a trigger
sends it sends at `supervised_auto` and above. Humans are bound by their roles instead.
"""

from functools import cache
from typing import Final

from metier.gate.principals import HOST, is_own_act
from metier.gate.situation import Situation
from metier.model.call import ValidCall
from metier.model.entry import Operation
from metier.model.skill import Tool
from metier.model.trust_level import TrustLevel, reaches
from metier.model.verdict import Verdict

_NOTHING_BY_ITSELF: Final = frozenset({"observe", "suggest"})
_HUMAN: Final = Verdict.abstain("humans are bound by their roles, not by the trust level")
_NO_ACT: Final = Verdict.abstain("reading a trusted skill is no act")
_OURS: Final = Verdict.allow("Metier's own host does it, for what was set up")
_PART: Final = Verdict.allow(
    "it is part of a call that was judged, and gives its skill no power that was not granted to it"
)


def ladder(valid: ValidCall, situation: Situation) -> Verdict:
    """Whether this call may be made at the level there is, and whether somebody has to be asked."""
    if valid.call.principal.kind == "human":
        return _HUMAN
    tool = valid.tool
    if is_disclosure(tool):
        return _NO_ACT
    if _is_part(valid):
        return _PART
    level = situation.level
    if is_own_act(valid.call.principal.id, tool) and _does_itself(valid.call.principal.id, level):
        return _OURS
    if not _offered(tool, level):
        return Verdict.deny(
            f"{tool.name!r} (risk {tool.risk}) asks for trust level {tool.minimum_trust!r}, and the level is {level!r}"
        )
    if tool.approval == "always":
        return Verdict.ask(f"{tool.name!r} asks every time")
    if level in _NOTHING_BY_ITSELF:
        return Verdict.ask(f"at trust level {level!r} everything is asked")
    if tool.risk == "low" or (tool.risk == "medium" and level != "supervised_auto"):
        return _by_itself(tool.risk, level)
    return Verdict.ask(f"{tool.risk} risk is asked at trust level {level!r}")


def _does_itself(id: str, level: TrustLevel) -> bool:
    """Whether it is done whatever the level. To deliver what others asked for is no act of its own; what a trigger or a schedule
    sends is, where nothing runs by itself."""
    return id == HOST or level not in _NOTHING_BY_ITSELF


def _is_part(valid: ValidCall) -> bool:
    """Whether the code of a skill asks, in a call that was judged, for an operation. It was granted to the skill by name, as with a
    program or a host, so who let the skill run knew of it; or it gives the skill nothing that it has not."""
    call, skill = valid.call, valid.skill
    made_inside = call.parent is not None and call.principal.kind == "skill"
    return made_inside and skill is not None and is_operation(valid.tool)


def is_operation(tool: Tool) -> bool:
    """Whether it is an operation of a module, called by its own name `module.op`."""
    entry = tool.entry
    return isinstance(entry, Operation) and tool.name == f"{entry.module}.{entry.operation}"


def is_inner(tool: Tool) -> bool:
    """Whether it is an operation that only the code of a skill can ask for."""
    return is_operation(tool) and not tool.privileged and tool.name in tool.permissions.operations


@cache
def _by_itself(risk: str, level: TrustLevel) -> Verdict:
    return Verdict.allow(f"{risk} risk runs by itself at trust level {level!r}")


def is_disclosure(tool: Tool) -> bool:
    """Whether all it does is to show what the operator already vouched for."""
    return tool.effect == "read" and bool(tool.subject) and tool.risk == "low"


def _offered(tool: Tool, level: TrustLevel) -> bool:
    if reaches(level, tool.minimum_trust):
        return True
    # To be suggested, it need not yet be allowed to run by itself.
    return level == "suggest" and tool.minimum_trust == "supervised_auto" and tool.risk in ("low", "medium")
