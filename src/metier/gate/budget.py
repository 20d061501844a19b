"""Budgets: how many calls may begin in a stretch of time, by one principal, of one tool, of one skill, of one cost.

Only calls that begin are counted, in the transaction that records their intent. A call that is refused costs nobody
anything of his budget: else whoever may do little could use up what a tool has for all.
"""

from typing import Final

from metier.config.settings import BudgetSettings, Window
from metier.gate.reachable import only_takes_away
from metier.gate.situation import Situation
from metier.model.call import ValidCall
from metier.model.verdict import Verdict
from metier.record.budgets import Scope

HOOK: Final = "hooks.run"
_WITHIN: Final = Verdict.abstain("within every budget")


def scopes(valid: ValidCall, settings: BudgetSettings) -> tuple[Scope, ...]:
    """Everything that this call would be counted in: four at most."""
    principal, tool = valid.call.principal.id, valid.tool
    if only_takes_away(tool):
        return ()
    fired = tool.name == HOOK and valid.call.unattended
    if fired and valid.call.parent is not None:
        return ()  # part of a call that was counted; else whoever calls tools uses up what the owner may do
    counted = [_scope("tool", tool.name, settings.tool)]
    if not fired:  # what happens is not what the owner does, under whose name hooks run
        counted.insert(0, _scope("principal", principal, settings.principal))
    if valid.skill is not None:
        counted.append(_scope("skill", valid.skill.name, settings.skill))
    if tool.cost == "cheap":
        counted.append(_scope("cheap", principal, settings.cheap))
    elif tool.cost == "expensive":
        counted.append(_scope("expensive", principal, settings.expensive))
    elif "memory.search" in tool.permissions.operations:
        # By skills, which all search for somebody: whoever that is has a window of his own.
        counted.append(_scope("memory", valid.call.principal.on_behalf_of or principal, settings.memory))
    return tuple(counted)


def budgets(valid: ValidCall, situation: Situation) -> Verdict:
    """Whether one of them is used up."""
    if not situation.exhausted:
        return _WITHIN
    verdict = Verdict.deny(situation.exhausted[0])
    for words in situation.exhausted[1:]:
        verdict |= Verdict.deny(words)
    return verdict


def _scope(key: str, name: str, window: Window) -> Scope:
    return Scope(key=key, name=name, calls=window.calls, seconds=window.seconds)
