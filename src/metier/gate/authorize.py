"""ValidCall → AuthorizedCall: every layer is asked, the strictest answer wins, each gives its reason.

A layer is a small pure function. One without an opinion abstains; none lowers another; when all abstain nobody
allowed the call, so it is refused.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from metier.gate.situation import Situation
from metier.model.call import AuthorizedCall, ValidCall
from metier.model.outcome import REMEDIES, RefusalCode, Refused
from metier.model.text import one_line
from metier.model.verdict import Decision, Verdict, decide

Layer: TypeAlias = Callable[[ValidCall, Situation], Verdict]


def authorize(valid: ValidCall, situation: Situation) -> AuthorizedCall | Refused:
    """Ask every layer about the call."""
    answers: list[tuple[RefusalCode, Verdict]] = [(code, layer(valid, situation)) for code, layer in LAYERS]
    verdict = decide(answer for _, answer in answers)
    if verdict.decision is not Decision.DENY:
        return AuthorizedCall(
            valid=valid, verdict=verdict, bytes=situation.held.bytes if situation.held else None
        )
    code = _UNDECIDED
    for asked, answer in reversed(answers):
        code = asked if answer.decision is Decision.DENY else code
    return Refused(call_id=valid.call.id, code=code, reasons=verdict.reasons, remedy=REMEDIES.get(code, ""))


def switched_on(valid: ValidCall, situation: Situation) -> Verdict:
    """A skill that the operator disabled cannot run, by any door."""
    skill = valid.skill
    if skill is None or skill.status != "disabled":
        return Verdict.abstain("not disabled")
    return Verdict.deny(f"skill {skill.name!r} is disabled: {skill.why}")


def intact(valid: ValidCall, situation: Situation) -> Verdict:
    """A skill that cannot be read has nothing that could run."""
    skill, held = valid.skill, situation.held
    if skill is not None and skill.status == "broken":
        return Verdict.deny(f"skill {skill.name!r} is broken: {skill.why}")
    if skill is not None and held is not None and held.broken:
        return Verdict.deny(f"skill {skill.name!r} is broken: {held.broken}")
    return Verdict.abstain("nothing is broken")


def trusted(valid: ValidCall, situation: Situation) -> Verdict:
    """Only bytes the operator trusts are used; what counts is what lies on disk now."""
    skill, held = valid.skill, situation.held
    if skill is None:
        return Verdict.abstain("concerns no skill")
    if held is None or held.refusal:
        return Verdict.deny(
            f"skill {skill.name!r}: {held.refusal if held else 'its bytes could not be looked at'}"
        )
    return Verdict.abstain("its bytes are trusted")


def equipped(valid: ValidCall, situation: Situation) -> Verdict:
    """A skill whose requirements are not met is not used."""
    if situation.missing:
        return Verdict.deny("; ".join(str(error) for error in situation.missing))
    return Verdict.abstain("nothing is missing")


def audience(valid: ValidCall, situation: Situation) -> Verdict:
    """Operators' operations are never for agents; a skill may keep itself from being invoked by a model."""
    principal, skill = valid.call.principal, valid.skill
    if principal.kind == "human":
        return Verdict.abstain("asked by a human")
    if valid.tool.audience == "operator":
        return Verdict.deny(f"{valid.tool.name!r} is for operators only")
    if skill is not None and not skill.model_may_invoke:
        return Verdict.deny(f"skill {skill.name!r} says that models may not invoke it")
    return Verdict.abstain("open to agents")


def permissions(valid: ValidCall, situation: Situation) -> Verdict:
    """What a call needs must lie within what was granted."""
    if situation.held is not None and (situation.held.refusal or situation.held.broken):
        return Verdict.abstain("there is nothing yet that could have been granted anything")
    beyond = valid.permissions.beyond(situation.granted)
    if beyond:
        parts = (f"{name} {one_line(', '.join(names), 120)}" for name, names in beyond.plain().items())
        return Verdict.deny(f"not granted: {'; '.join(parts)}")
    return Verdict.abstain("needs nothing beyond its grants")


def disclosure(valid: ValidCall, situation: Situation) -> Verdict:
    """Reading a trusted skill shows what the operator already vouched for; it is not an act."""
    if valid.tool.effect == "read" and valid.tool.subject and valid.tool.risk == "low":
        return Verdict.allow("reading a trusted skill is disclosure, not an act")
    return Verdict.abstain("not a disclosure")


def own_hand(valid: ValidCall, situation: Situation) -> Verdict:
    """What is for operators only, the owner may do himself; he is the one who would be asked."""
    principal = valid.call.principal
    if valid.tool.audience == "operator" and principal.kind == "human" and "owner" in principal.roles:
        return Verdict.allow("the owner does it himself")
    return Verdict.abstain("not the owner's own act")


LAYERS: Final[tuple[tuple[RefusalCode, Layer], ...]] = (
    ("skill_disabled", switched_on),
    ("skill_broken", intact),
    ("not_trusted", trusted),
    ("forbidden", audience),
    ("skill_unavailable", equipped),
    ("forbidden", permissions),
    ("forbidden", disclosure),
    ("forbidden", own_hand),
)

_UNDECIDED: Final[RefusalCode] = "forbidden"
"""Nobody denied it, and nobody allowed it either."""
