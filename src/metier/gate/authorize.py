"""ValidCall → AuthorizedCall: every layer is asked, the strictest answer wins, each gives its reason.

A layer is a small pure function. One without an opinion abstains; none lowers another; when all abstain nobody
allowed the call, so it is refused. What is always said in the same words is made once.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from metier.gate.budget import budgets
from metier.gate.floor import floor
from metier.gate.ladder import is_disclosure, is_operation, ladder
from metier.gate.principals import is_own_act
from metier.gate.reachable import while_stopped
from metier.gate.roles import roles
from metier.gate.rules import rules
from metier.gate.situation import NO_PERMISSIONS, Situation
from metier.model.call import AuthorizedCall, ValidCall
from metier.model.outcome import GATE_HOOK, GATE_HOOK_UNHEARD, REMEDIES, RULES_UNUSABLE, RefusalCode, Refused
from metier.model.text import one_line
from metier.model.verdict import Decision, Verdict, decide

Layer: TypeAlias = Callable[[ValidCall, Situation], Verdict]

_GOING_ON: Final = Verdict.abstain("nothing is stopped")
_NOT_STOPPED: Final = Verdict.abstain("a stop does not refuse this")
_ENABLED: Final = Verdict.abstain("not disabled")
_WHOLE: Final = Verdict.abstain("nothing is broken")
_NO_SKILL: Final = Verdict.abstain("concerns no skill")
_TRUSTED: Final = Verdict.abstain("its bytes are trusted")
_COMPLETE: Final = Verdict.abstain("nothing is missing")
_BY_A_HUMAN: Final = Verdict.abstain("asked by a human")
_OPEN: Final = Verdict.abstain("open to agents")
_ITS_OWN_CODE: Final = Verdict.abstain(
    "the skill's own code asks, inside of a call of it, and no model invokes it"
)
_NOTHING_YET: Final = Verdict.abstain("there is nothing yet that could have been granted anything")
_HIS_RIGHT: Final = Verdict.abstain("privileged, and asked for by a person who is bound by his rights")
_OUR_OWN: Final = Verdict.abstain("what Metier's own host does")
_COVERED: Final = Verdict.abstain("needs nothing beyond its grants")
_NO_DISCLOSURE: Final = Verdict.abstain("not a disclosure")
_NOBODY: Final = Verdict.abstain("no hook and no trigger objects")
_DISCLOSURE: Final = Verdict.allow("reading a trusted skill is disclosure, not an act")


def verdicts(valid: ValidCall, situation: Situation) -> list[tuple[str, RefusalCode, Verdict]]:
    """What every layer says, each with its name and the code of its refusal."""
    return [(layer.__name__, code, layer(valid, situation)) for code, layer in LAYERS]


def authorize(valid: ValidCall, situation: Situation) -> AuthorizedCall | Refused:
    """Ask every layer about the call."""
    answers = [layer(valid, situation) for _, layer in LAYERS]
    verdict = decide(answers)
    if verdict.decision is not Decision.DENY:
        return AuthorizedCall(
            valid=valid,
            verdict=verdict,
            bytes=situation.held.bytes if situation.held else None,
            trust_level=situation.level,
            rules=situation.rules.digest,
            deciding=_deciding(valid, verdict, situation),
        )
    code: RefusalCode = _UNDECIDED
    for (asked, _), answer in zip(reversed(LAYERS), reversed(answers), strict=True):
        code = asked if answer.decision is Decision.DENY else code
    unusable = code == "forbidden" and situation.rules.problem
    remedy = RULES_UNUSABLE if unusable else REMEDIES.get(code, "")
    if verdict is situation.heard:
        remedy = GATE_HOOK_UNHEARD if verdict.unheard else GATE_HOOK
    return Refused(call_id=valid.call.id, code=code, reasons=verdict.reasons, remedy=remedy)


def _deciding(valid: ValidCall, verdict: Verdict, situation: Situation) -> str:
    """What a decision about this call is bound to. Only what somebody is asked about needs it."""
    if verdict.decision is not Decision.ASK and valid.call.approval is None:
        return ""
    return f"{situation.level} {situation.rules.deciding_digest(valid)}"


def running(valid: ValidCall, situation: Situation) -> Verdict:
    """While everything is stopped nothing runs, whoever asks. What lifts the stop, or only looks, is not what was stopped."""
    if situation.stopped and while_stopped(valid.tool):
        return _NOT_STOPPED
    if situation.stopped:
        return Verdict.deny(f"everything is stopped: {situation.stopped}")
    return _GOING_ON


def switched_on(valid: ValidCall, situation: Situation) -> Verdict:
    """A skill that the operator disabled, or that is disabled for what it did, cannot run, by any door."""
    skill, held = valid.skill, situation.held
    if skill is not None and held is not None and held.disabled:
        return Verdict.deny(f"skill {skill.name!r} is {held.refusal}")
    if skill is None or skill.status != "disabled":
        return _ENABLED
    return Verdict.deny(f"skill {skill.name!r} is disabled: {skill.why}")


def intact(valid: ValidCall, situation: Situation) -> Verdict:
    """A skill that cannot be read has nothing that could run."""
    skill, held = valid.skill, situation.held
    if skill is not None and skill.status == "broken":
        return Verdict.deny(f"skill {skill.name!r} is broken: {skill.why}")
    if skill is not None and held is not None and held.broken:
        return Verdict.deny(f"skill {skill.name!r} is broken: {held.broken}")
    return _WHOLE


def trusted(valid: ValidCall, situation: Situation) -> Verdict:
    """Only bytes the operator trusts are used; what counts is what lies on disk now."""
    skill, held = valid.skill, situation.held
    if skill is None:
        return _NO_SKILL
    if held is None:
        return Verdict.deny(f"skill {skill.name!r}: its bytes could not be looked at")
    if held.refusal:
        # What is disabled is said in the same words as above, and so once.
        between = " is " if held.disabled else ": "
        return Verdict.deny(f"skill {skill.name!r}{between}{held.refusal}")
    return _TRUSTED


def equipped(valid: ValidCall, situation: Situation) -> Verdict:
    """A skill whose requirements are not met is not used."""
    if situation.missing:
        return Verdict.deny("; ".join(str(error) for error in situation.missing))
    return _COMPLETE


def audience(valid: ValidCall, situation: Situation) -> Verdict:
    """Operators' operations are never for agents; a skill may keep itself from being invoked by a model."""
    principal, skill = valid.call.principal, valid.skill
    if principal.kind == "human":
        return _BY_A_HUMAN
    if valid.tool.audience == "operator":
        return Verdict.deny(f"{valid.tool.name!r} is for operators only")
    if skill is not None and not skill.model_may_invoke:
        own = principal.kind == "skill" and principal.id == f"skill:{skill.name}"
        if own and valid.call.parent is not None and is_operation(valid.tool):
            return _ITS_OWN_CODE
        return Verdict.deny(f"skill {skill.name!r} says that models may not invoke it")
    return _OPEN


def permissions(valid: ValidCall, situation: Situation) -> Verdict:
    """What a call needs must lie within what was granted."""
    if situation.held is not None and (situation.held.refusal or situation.held.broken):
        return _NOTHING_YET
    if valid.permissions == NO_PERMISSIONS:
        return _COVERED
    if valid.tool.privileged and valid.skill is None:
        principal = valid.call.principal
        if principal.kind == "human":
            return _HIS_RIGHT
        if is_own_act(principal.id, valid.tool):
            return _OUR_OWN
        return Verdict.deny(
            f"{valid.tool.name!r} is privileged: it is for people, and for skills that were granted it"
        )
    if beyond := valid.permissions.beyond(situation.granted):
        parts = (f"{name} {one_line(', '.join(names), 120)}" for name, names in beyond.plain().items())
        # A first use grants little, so this is what somebody meets who has done nothing wrong. What is not declared no trust grants.
        asks = valid.skill is not None and valid.skill.permissions.covers(beyond)
        name = one_line(valid.skill.name, 80) if valid.skill is not None else ""
        by = (
            f"; who runs `metier skills trust {name}` is shown what it asks for, and grants it"
            if asks
            else ""
        )
        return Verdict.deny(f"not granted: {'; '.join(parts)}{by}")
    return _COVERED


def disclosure(valid: ValidCall, situation: Situation) -> Verdict:
    """Reading a trusted skill shows what the operator already vouched for; it is not an act."""
    if is_disclosure(valid.tool):
        return _DISCLOSURE
    return _NO_DISCLOSURE


def hooks(valid: ValidCall, situation: Situation) -> Verdict:
    """Gate hooks and triggers can have a call asked or refused. Their word for it counts for nothing."""
    heard = situation.heard
    return heard if heard is not None and heard.decision is not Decision.ALLOW else _NOBODY


LAYERS: Final[tuple[tuple[RefusalCode, Layer], ...]] = (
    ("stopped", running),
    ("skill_disabled", switched_on),
    ("skill_broken", intact),
    ("not_trusted", trusted),
    ("forbidden", audience),
    ("forbidden", roles),
    ("skill_unavailable", equipped),
    ("forbidden", ladder),
    ("forbidden", rules),
    ("forbidden", permissions),
    ("budget_exceeded", budgets),
    ("forbidden", floor),
    ("forbidden", disclosure),
    ("forbidden", hooks),
)

_UNDECIDED: Final[RefusalCode] = "forbidden"
"""Nobody denied it, and nobody allowed it either."""
