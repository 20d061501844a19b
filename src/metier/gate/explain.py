"""What every layer would say about a call that is not made, and how it would end. Nothing is recorded, nothing runs."""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, final

from msgspec import Struct
from msgspec.structs import replace

from metier.gate.approve import Asked, approve
from metier.gate.around import hidden_interpreter, program_files
from metier.gate.authorize import authorize, verdicts
from metier.gate.granted import answers
from metier.gate.situation import Situation
from metier.model.call import ValidCall
from metier.model.outcome import Refused
from metier.model.verdict import Decision, Verdict, decide

Ending: TypeAlias = Literal["runs", "asks", "refused"]

NAMES: Mapping[str, str] = {
    "running": "stop button",
    "switched_on": "enabled",
    "intact": "readable",
    "trusted": "trust in its bytes",
    "audience": "audience",
    "roles": "roles",
    "equipped": "requirements",
    "ladder": "trust ladder",
    "rules": "rules",
    "permissions": "permissions",
    "budgets": "budgets",
    "floor": "deny floor",
    "disclosure": "disclosure",
    "hooks": "hooks",
}
"""The layers, as people call them."""

_HIDDEN: Final = "it is for certain arguments, and which is told only to who may approve"


@final
class Said(Struct, frozen=True, kw_only=True):
    """One layer's word."""

    layer: str
    decision: str
    reasons: tuple[str, ...]


@final
class Explained(Struct, frozen=True, kw_only=True):
    """All of it."""

    tool: str
    skill: str
    principal: str
    trust_level: str
    layers: tuple[Said, ...]
    ends: Ending
    code: str = ""
    reasons: tuple[str, ...] = ()
    remedy: str = ""
    grants: tuple[Said, ...] = ()
    """Standing grants for this tool, and whether each would answer."""


def explain(valid: ValidCall, situation: Situation, *, exactly: bool = True) -> Explained:
    """Ask every layer, and then whoever would be asked.

    Args:
        exactly: whether who reads this may know which arguments a standing grant is for. Who may not could find them out by trying.
    """
    hidden = () if exactly else tuple(grant for grant in situation.grants if grant.arguments)
    if hidden:
        situation = replace(situation, grants=tuple(each for each in situation.grants if not each.arguments))
    answered = [(name, verdict) for name, _, verdict in verdicts(valid, situation)]
    layers = tuple(_said(NAMES.get(name, name), verdict) for name, verdict in answered)
    verdict = decide(verdict for _, verdict in answered)
    ends: Ending
    authorized = authorize(valid, situation)
    code, reasons, remedy = "", verdict.reasons, ""
    grants: tuple[Said, ...] = ()
    if isinstance(authorized, Refused):
        ends, code, remedy = "refused", authorized.code, authorized.remedy
    else:
        after = approve(authorized, situation)
        match after:
            case Refused():
                ends, code, reasons, remedy = "refused", after.code, after.reasons, after.remedy
            case Asked():
                ends = "asks"
            case _:
                ends = "runs"
                if after.evidence != "policy":
                    reasons = (*reasons, f"answered by the standing grant {after.evidence}")
        if verdict.decision is Decision.ASK:
            grants = tuple(
                Said(layer=grant.id, decision="perhaps", reasons=(_HIDDEN,))
                for grant in hidden
                if grant.tool == valid.tool.name
            )
            grants += tuple(
                Said(layer=grant.id, decision="no" if why else "yes", reasons=(why or "it answers",))
                for grant in situation.grants
                if grant.tool == valid.tool.name
                for why in (
                    answers(
                        grant,
                        authorized,
                        cwd=situation.cwd,
                        now=situation.now.wall,
                        programs=program_files(valid, situation.programs, situation.ground, situation.agent),
                        interpreter=hidden_interpreter(valid, situation.programs, situation.ground),
                    ),
                )
            )
    return Explained(
        tool=valid.tool.name,
        skill=valid.skill.name if valid.skill is not None else "",
        principal=valid.call.principal.id,
        trust_level=situation.level,
        layers=layers,
        ends=ends,
        code=code,
        reasons=reasons,
        remedy=remedy,
        grants=grants,
    )


def _said(name: str, verdict: Verdict) -> Said:
    return Said(layer=name, decision=verdict.decision.name.lower(), reasons=verdict.reasons)
