"""The operator's rules, compiled: which of them concern a call, and what they say together.

The strictest rule wins, so their order means nothing. A rule whose condition cannot be decided is a no. Rules that could
not be read deny everything. An `allow` lowers nothing: it speaks where nobody else does. What can only end something is held up by
a rule that names it, and by no other.
"""

import logging
from collections.abc import Iterator
from typing import Final, Protocol, final

from msgspec import Struct
from msgspec.structs import force_setattr

from metier.catalog.function_names import outward_of
from metier.gate.conditions import Condition, truths
from metier.gate.reachable import needs_no_rules, only_takes_away
from metier.model.call import ValidCall
from metier.model.digest import Json, digest
from metier.model.verdict import Decision, Verdict

FIELDS: Final = ("tool", "skill", "principal", "channel", "effect", "risk", "cost")
"""What a rule may be about."""
TOLD: Final = "told"
"""Beside them among the facts: the name that models and programs are told of the tool, which is often not its whole one."""
BOUNDARIES: Final = "/.:"
"""After these a name may end in `*`."""
_FILED_BY: Final = ("tool", "skill", "effect", "risk")
_log: Final = logging.getLogger("metier.gate")


@final
class Names(Struct, frozen=True, kw_only=True):
    """Which names a rule means: these, and whatever begins like those."""

    exact: frozenset[str] = frozenset()
    beginnings: frozenset[str] = frozenset()

    def hold(self, name: str) -> bool:
        return name in self.exact or any(name.startswith(each) for each in self.beginnings)


@final
class Rule(Struct, frozen=True, kw_only=True):
    """One rule."""

    number: int
    """Its place in the file, from 1."""
    line: int = 0
    name: str = ""
    decision: Decision
    because: str
    names: dict[str, Names] = {}
    """What it is about. A field that is not here may be anything."""
    condition: Condition | None = None

    @property
    def id(self) -> str:
        return f"rule {self.name!r}" if self.name else f"rule {self.number}"

    def concerns(self, facts: dict[str, str]) -> bool:
        """Whether it is about such a call at all, whatever its condition says."""
        for field, names in self.names.items():
            if not names.hold(facts[field]) and not (field == "tool" and self.means(facts[TOLD])):
                return False
        return True

    def means(self, told: str) -> bool:
        """Whether it names a tool by what models are told, as `metier tools` lists it. Who forbids or asks means the tool whichever of its
        names he writes. An allow has to give the whole name: the other one is the skill's own word."""
        return (
            self.decision is not Decision.ALLOW and "tool" in self.names and told in self.names["tool"].exact
        )

    def gives_name(self, *names: str) -> bool:
        """Whether it gives one of these names of a tool itself, and no more general one."""
        return "tool" in self.names and not self.names["tool"].exact.isdisjoint(names)

    def content(self) -> dict[str, Json]:
        """What it says, wherever in the file it stands."""
        about: dict[str, Json] = {
            field: [*sorted(names.exact), *sorted(f"{each}*" for each in names.beginnings)]
            for field, names in self.names.items()
        }
        return {
            "name": self.name,
            "decision": self.decision.name,
            "because": self.because,
            "about": about,
            "when": self.condition.source if self.condition else "",
        }


def _filed(rules: tuple[Rule, ...]) -> dict[tuple[str, str], tuple[Rule, ...]]:
    files: dict[tuple[str, str], list[Rule]] = {}
    for rule in rules:
        field = next((each for each in _FILED_BY if each in rule.names), None)
        if field is None:
            files.setdefault(("", ""), []).append(rule)
            continue
        for name in rule.names[field].exact | rule.names[field].beginnings:
            files.setdefault((field, name), []).append(rule)
    return {key: tuple(found) for key, found in files.items()}


@final
class Rules(Struct, frozen=True, kw_only=True):
    """Every rule there is. None at all has no opinion."""

    rules: tuple[Rule, ...] = ()
    digest: str = ""
    """Of the file's bytes; empty when there is no file."""
    problem: str = ""
    """Why they cannot be used; then everything is denied."""
    filed: dict[tuple[str, str], tuple[Rule, ...]] = {}
    """Made here: by the first of tool, skill, effect and risk that a rule names."""

    def __post_init__(self) -> None:
        force_setattr(self, "filed", _filed(self.rules))

    def judge(self, valid: ValidCall) -> Verdict:
        """What the rules say to a call."""
        if self.problem:
            return Verdict.deny(f"the operator's rules cannot be used, so nothing is allowed: {self.problem}")
        matched = self._matched(valid)
        if not matched:
            return _NOTHING
        answers = [
            (Decision.DENY, f"{rule.id}: its condition cannot be decided: {undecided}")
            if undecided
            else (rule.decision, f"{rule.id}: {rule.because}")
            for rule, undecided in matched
        ]
        strictest = max(decision for decision, _ in answers)
        return Verdict(strictest, tuple(reason for decision, reason in answers if decision is strictest))

    def deciding(self, valid: ValidCall) -> tuple[str, ...]:
        """The rules that have something to say to a call."""
        return () if self.problem else tuple(rule.id for rule, _ in self._matched(valid))

    def deciding_digest(self, valid: ValidCall) -> str:
        """Of what those rules say, in whatever order they stand; empty when there are none.

        Another rule may change without this one: a decision is bound to what concerned it, and to nothing else.
        """
        if self.problem:
            return digest(["unusable", self.digest])
        said: list[Json] = [digest(rule.content()) for rule, _ in self._matched(valid)]
        return digest(sorted(said, key=str)) if said else ""

    def _matched(self, valid: ValidCall) -> list[tuple[Rule, str]]:
        """Rules that match, and those of which it cannot be said, each with the reason."""
        if not self.rules:
            return []
        facts = facts_of(valid)
        near = {rule.number: rule for key in _keys(facts) for rule in self.filed.get(key, ())}
        found = [near[number] for number in sorted(near) if near[number].concerns(facts)]
        if only_takes_away(valid.tool):
            return meant(found, facts, valid.arguments)
        return matching(found, facts, valid.arguments)


NO_RULES: Final = Rules()
_NOTHING: Final = Verdict.abstain("no rule of the operator speaks of it")
_NO_RULES_NEEDED: Final = Verdict.abstain(
    "the operator's rules cannot be used, and this can only end something"
)


class HasRules(Protocol):
    """The part of a situation that this layer looks at."""

    @property
    def rules(self) -> Rules: ...


def rules(valid: ValidCall, situation: HasRules) -> Verdict:
    """The operator's own rules: allow, ask or deny, the strictest wins."""
    if situation.rules.problem and needs_no_rules(valid.tool):
        return _NO_RULES_NEEDED  # a file that is broken must not keep anybody from stopping things, or from mending it
    try:
        return situation.rules.judge(valid)
    except Exception:  # noqa: BLE001  whatever breaks here, nobody knows what the rules would have said
        _log.exception("the operator's rules could not be asked about call %s", valid.call.id)
        return Verdict.deny(
            "the operator's rules could not be asked, which is a fault of Metier; its log says more"
        )


def matching(
    concerned: list[Rule], facts: dict[str, str], arguments: dict[str, Json]
) -> list[tuple[Rule, str]]:
    """Those of the rules whose condition holds, with an empty text, or is undecided, with the reason."""
    conditions = [rule.condition for rule in concerned if rule.condition is not None]
    said = iter(truths(conditions, facts, arguments) if conditions else ())
    found: list[tuple[Rule, str]] = []
    for rule in concerned:
        answer = True if rule.condition is None else next(said)
        if answer is not False:
            found.append((rule, "" if answer is True else answer))
    return found


def meant(concerned: list[Rule], facts: dict[str, str], arguments: dict[str, Json]) -> list[tuple[Rule, str]]:
    """The same for what can only end something: of the rules those that give its very name, and can be decided. One that is about calls in
    general was written for what acts, and must not keep anybody from stopping things."""
    by_name = [rule for rule in concerned if rule.gives_name(facts["tool"], facts[TOLD])]
    return [(rule, undecided) for rule, undecided in matching(by_name, facts, arguments) if not undecided]


def facts_of(valid: ValidCall) -> dict[str, str]:
    """What rules can ask about a call, but for its arguments. What is not there is an empty text."""
    call, tool = valid.call, valid.tool
    return {
        "tool": tool.name,
        TOLD: outward_of(tool),
        "skill": valid.skill.name if valid.skill is not None else "",
        "principal": call.principal.id,
        "channel": call.surroundings.channel or "",
        "effect": tool.effect,
        "risk": tool.risk,
        "cost": tool.cost,
        "cwd": call.cwd or "",
    }


def _keys(facts: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Under what the rules for a call may be filed. A name is also filed under each of its beginnings."""
    yield ("", "")
    yield ("tool", facts[TOLD])
    for field in _FILED_BY:
        name = facts[field]
        yield (field, name)
        for place, character in enumerate(name):
            if character in BOUNDARIES:
                yield (field, name[: place + 1])
