"""Other rules over the recorded past: which calls would have ended otherwise, and of which nobody can tell.

Only the rules are asked again. What the other layers said is taken from the record, which has the strictest answer of all
layers together and the reasons of those who gave it. Where a reason is not a rule's, another layer said the same, and that
part is known. Where only rules spoke, the others said something milder, and all of it is thought possible. Likewise for a
condition about what the record no longer holds. So an answer is a set of decisions: one when it is known, several when it
is not, and never a guess.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, Literal, TypeAlias, cast, final

import msgspec
from msgspec import Struct

from metier.catalog.function_names import outward, outward_of
from metier.gate.reachable import only_takes_away
from metier.gate.rules import FIELDS, Rule, Rules, matching
from metier.model.confirmation_flag import FLAG
from metier.model.digest import Json
from metier.model.settled import settled
from metier.model.skill import Tool
from metier.model.verdict import Decision
from metier.record.judgements import BEGUN, BLOCKED, QUEUED, Beside, Gone, Judgement
from metier.record.secret_text import MASK

State: TypeAlias = Literal["same", "otherwise", "undecidable"]

_CUT: Final = "… [cut, "
"""Where the record shortened something."""
_BY_A_RULE: Final = re.compile(r"rule (?:[0-9]+|'[a-z][a-z0-9_-]*'): |the operator's rules c")
"""How the reasons of the rules begin, and those of no other layer."""
_NOBODY: Final = "no layer allowed it"
_NOBODY_COULD_BE_ASKED: Final = frozenset({"approval_required", "too_many_pending", "invalid_arguments"})
"""Refusals of calls that no layer denied, that had to be asked, and could not be."""
_OTHERS_UNKNOWN: Final = (
    "only rules decided it then, and the record does not say what the other layers thought"
)
_COST_UNKNOWN: Final = "it names a cost, which is not recorded, and the tool is gone or has changed"
_TOLD_UNKNOWN: Final = (
    "it names the tool by what models are told, which is not recorded, and the tool is gone"
)
_SILENT: Final = "no rule speaks of it"
_ALL: Final = frozenset(Decision)
_KIND: Final = (
    *("event", "decision", "effect", "risk", "trust_level", "policy", "code", "reasons"),
    *("tool", "skill", "principal", "channel"),
)
"""What of a call its end depends on, as long as no condition looks at more of it."""
_kind: Final = attrgetter(*_KIND)
_KINDS: Final = 8_192
"""Of calls, that are remembered."""
_DECISIONS: Final = {"allow": Decision.ALLOW, "ask": Decision.ASK, "deny": Decision.DENY}


@final
class Known(Struct, frozen=True, kw_only=True):
    """What a tool says of itself today. The record has its effect and risk, and no more."""

    effect: str = "act"
    risk: str = "high"
    cost: str = "free"
    sanitize: bool = False
    told: str = ""
    """The name that models are told."""
    takes_away: bool = False
    """Whether calling it can only end something: then no rule counts but one that gives its name."""

    @classmethod
    def of(cls, tool: Tool) -> "Known":
        return cls(
            effect=tool.effect,
            risk=tool.risk,
            cost=tool.cost,
            sanitize=tool.sanitize,
            told=outward_of(tool),
            takes_away=only_takes_away(tool),
        )


@final
class Replayed(Struct, frozen=True, kw_only=True):
    """One call of the past under the other rules."""

    judgement: Judgement
    before: Decision | None
    """How it ended at the gate; None when the record does not say."""
    after: tuple[Decision, ...]
    """How it would have, mildest first. Several: one of these, and nobody can tell which."""
    rules: tuple[str, ...] = ()
    """What the deciding rules say."""
    unknown: tuple[str, ...] = ()
    """Why it cannot be told."""

    @property
    def state(self) -> State:
        if self.before is not None and self.before not in self.after:
            return "otherwise"
        return "same" if len(self.after) == 1 and self.before is not None else "undecidable"


@final
class Replay:
    """Rules to be tried on the past. `tools` are those of today."""

    def __init__(self, rules: Rules, tools: Mapping[str, Known]) -> None:
        self._rules = rules
        self._tools = tools
        # Calls are alike: a thousand rules are gone through once for each kind of call, not for each call.
        self._about = lru_cache(maxsize=_KINDS)(self._concerned)
        self._alike = lru_cache(maxsize=_KINDS)(self._of_kind)

    def one(self, judgement: Judgement, beside: Beside) -> Replayed | None:
        """How one call would have ended; None for a call whose end no rule decides."""
        end = self._alike(_kind(judgement))
        if end == "by itself":
            end = self._end(judgement, beside)
        if end is None:
            return None
        return Replayed(
            judgement=judgement, before=end.before, after=end.after, rules=end.rules, unknown=end.unknown
        )

    def _of_kind(self, kind: tuple[object, ...]) -> "_End | Literal['by itself'] | None":
        """How all calls of a kind would have ended, or that each has to be looked at by itself."""
        fields: dict[str, Any] = dict(zip(_KIND, kind, strict=True))
        judgement = Judgement(seq=0, at="", **fields)
        return "by itself" if self._looks(judgement) else self._end(judgement, _nothing_beside)

    def _looks(self, judgement: Judgement) -> bool:
        """Whether a condition is asked about it."""
        return any(rule.condition is not None for rule in self._about(self._facts(judgement))[0])

    def _end(self, judgement: Judgement, beside: Beside) -> "_End | None":
        if judgement.decision not in _DECISIONS:
            unsaid = "it was recorded by a Metier that did not write down how calls were judged"
            return _End(before=None, after=tuple(_DECISIONS.values()), unknown=(unsaid,))
        found = _others(judgement)
        if found is None:
            return None
        before, others = found
        if judgement.trust_level and judgement.policy == self._rules.digest and not self._rules.problem:
            return _End(before=before, after=(before,))  # the same rules
        said = self._said(judgement, beside)
        in_vain = judgement.event == BLOCKED and bool(judgement.trust_level)
        ends = {rule: {_end(max(other, rule), in_vain=in_vain) for other in others} for rule in said.possible}
        after = tuple(sorted(frozenset[Decision]().union(*ends.values())))
        unknown = said.unknown if len(after) > 1 else ()
        if len(after) > 1 and any(len(each) > 1 for each in ends.values()):
            unknown = (*unknown, _OTHERS_UNKNOWN)
        return _End(before=before, after=after, rules=said.reasons, unknown=unknown)

    def _facts(self, judgement: Judgement) -> tuple[str, ...]:
        """What rules can be about, in the order of `FIELDS`."""
        known = self._tools.get(judgement.tool)
        # The cost is not recorded, and a tool that changed since may have had another.
        same = known is not None and (known.effect, known.risk) == (judgement.effect, judgement.risk)
        return (
            *_names(judgement),
            *(judgement.effect, judgement.risk),
            known.cost if known is not None and same else "",
        )

    def _said(self, judgement: Judgement, beside: Beside) -> "_Said":
        if self._rules.problem:
            return _Said(possible=frozenset({Decision.DENY}), reasons=("the rules cannot be used",))
        if any(_CUT in each for each in _names(judgement)):
            return _Said(possible=_ALL, unknown=("a name in it was too long to be recorded whole",))
        known, facts = self._tools.get(judgement.tool), self._facts(judgement)
        certain, perhaps = self._about(facts)
        past = _Past(judgement, beside, known)
        hidden = {rule.number: why for rule in certain if (why := past.hides(rule))}
        asked = [rule for rule in certain if rule.number not in hidden]
        answers = _answers(
            asked,
            {**dict(zip(FIELDS, facts, strict=True)), "cwd": past.cwd},
            past.arguments,
            decided=known is not None and known.takes_away,
        )
        strictest = max((decision for decision, _ in answers), default=Decision.ABSTAIN)
        possible = {strictest}
        for rule in (*(each for each in certain if each.number in hidden), *(each for each, _ in perhaps)):
            # One whose condition cannot be decided is a no, and that may have been so.
            could = {Decision.ABSTAIN, rule.decision, Decision.DENY if rule.condition else rule.decision}
            possible = {max(one, other) for one in possible for other in could}
        return _Said(
            possible=frozenset(possible),
            reasons=tuple(reason for decision, reason in answers if decision is strictest) or (_SILENT,),
            unknown=(
                *(f"{rule.id}: {hidden[rule.number]}" for rule in certain if rule.number in hidden),
                *(f"{rule.id}: {why}" for rule, why in perhaps),
            ),
        )

    def _concerned(self, facts: tuple[str, ...]) -> tuple[tuple[Rule, ...], tuple[tuple[Rule, str], ...]]:
        """Rules that are about such a call, and those that may be, for all one knows of the tool's cost and its other name."""
        named: dict[str, str] = dict(zip(FIELDS, facts, strict=True))
        certain: list[Rule] = []
        perhaps: list[tuple[Rule, str]] = []
        known = self._tools.get(named["tool"])
        for rule in self._rules.rules:
            if known is not None and known.takes_away and not rule.gives_name(named["tool"], known.told):
                continue
            why = _COST_UNKNOWN if "cost" in rule.names and not named["cost"] else ""
            about = {field: names for field, names in rule.names.items() if not (why and field == "cost")}
            if "tool" in about and not about["tool"].hold(named["tool"]):
                if not any(map(rule.means, _told(named["tool"], known))):
                    continue
                del about["tool"]
                why = why if known is not None else _TOLD_UNKNOWN
            if not all(names.hold(named[field]) for field, names in about.items()):
                continue
            if why:
                perhaps.append((rule, why))
            else:
                certain.append(rule)
        return tuple(certain), tuple(perhaps)


def _told(tool: str, known: Known | None) -> tuple[str, ...]:
    """What models are told of a tool; of one that is gone, everything that it may have been."""
    return (known.told,) if known is not None else (outward(tool), *tool.split("/", 1))


def _names(judgement: Judgement) -> tuple[str, str, str, str]:
    return judgement.tool, judgement.skill, judgement.principal, judgement.channel


def _nothing_beside(name: str) -> Gone:
    """For a kind of call, about which no condition is asked."""
    raise AssertionError(f"nobody asks for {name}")


@final
class _End(Struct, frozen=True, kw_only=True):
    """How a call ended at the gate, and how it would have; see `Replayed`."""

    before: Decision | None
    after: tuple[Decision, ...]
    rules: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@final
class _Said(Struct, frozen=True, kw_only=True):
    """What the rules say, as far as one knows."""

    possible: frozenset[Decision]
    reasons: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@final
class _Past:
    """What the record still holds of one call beyond its names, looked up when a condition asks for it."""

    def __init__(self, judgement: Judgement, beside: Beside, known: Known | None) -> None:
        self._judgement = judgement
        self._beside = beside
        self._known = known
        self._problem: str | None = None
        self._masked: frozenset[str] = frozenset()
        self.arguments: dict[str, Json] = {}
        self.cwd = ""

    def hides(self, rule: Rule) -> str:
        """Why the condition of a rule cannot be asked; empty when it can, or when there is none."""
        if rule.condition is None:
            return ""
        read = rule.condition.read
        problem = self._cwd_problem() if "cwd" in read.variables else ""
        if problem or "args" not in read.variables:
            return problem
        if self._problem is None:
            self._problem = self._load()
        if self._problem:
            return self._problem
        looked = self.arguments.keys() if read.arguments is None else read.arguments
        masked = sorted(self._masked.intersection(looked))
        if masked:
            return f"its condition looks at {masked[0]!r}, and in the record something of that is masked"
        if self._judgement.event == BLOCKED and FLAG in self.arguments and FLAG in looked:
            return f"its condition looks at {FLAG!r}, which may have been the caller's word and no argument"
        return ""

    def _cwd_problem(self) -> str:
        if self._judgement.event == BLOCKED:
            return "the working directory of a refused call is not recorded"
        if "cwd" not in self._judgement.payloads:
            return ""
        kept = self._beside("cwd")
        if isinstance(kept, Gone):
            return kept.why
        self.cwd = str(kept)
        return "the working directory is masked in the record" if MASK in self.cwd else ""

    def _load(self) -> str:
        """Fetch the arguments as the rules saw them, or say why that cannot be done."""
        kept = self._beside("arguments")
        if isinstance(kept, Gone):
            return kept.why
        if self._judgement.event == BLOCKED:
            # These are kept as they came, and what the tool makes of them before anybody is asked is the tool's.
            if self._known is None:
                return "it is kept as it came, and there is no such tool any more to say how that is read"
            if self._known.sanitize:
                return "it is kept as it came, before its texts were cleaned"
            try:
                kept = settled(kept)
            except ValueError:
                return "it is kept as it came, and cannot be read as arguments today"
        if not isinstance(kept, dict):
            return "it has no arguments that could be asked about"
        if any(MASK in name for name in kept):
            return "the name of an argument is masked in the record"
        self.arguments = cast("dict[str, Json]", kept)
        self._masked = frozenset(name for name, value in self.arguments.items() if _hides(value))
        return ""


def _answers(
    asked: list[Rule], facts: dict[str, str], arguments: dict[str, Json], *, decided: bool
) -> list[tuple[Decision, str]]:
    """What those of the rules say that match. `decided`: one that cannot be decided says nothing."""
    return [
        (Decision.DENY, f"{rule.id}: its condition cannot be decided: {undecided}")
        if undecided
        else (rule.decision, f"{rule.id}: {rule.because}")
        for rule, undecided in matching(asked, facts, arguments)
        if not (decided and undecided)
    ]


def _hides(value: Json) -> bool:
    return MASK in msgspec.json.encode(value).decode()


def _others(judgement: Judgement) -> tuple[Decision, frozenset[Decision]] | None:
    """How a call ended at the gate, and what the other layers can have said; None when the rules had no say in it."""
    event = judgement.event
    if event in (BEGUN, QUEUED):
        decision = _DECISIONS[judgement.decision]
        return decision, _beside_the_rules(decision, judgement.reasons)
    if not judgement.effect or (not judgement.trust_level and judgement.code == "record_unavailable"):
        return None  # refused before anybody was asked
    if not judgement.trust_level:
        return Decision.DENY, _beside_the_rules(Decision.DENY, judgement.reasons)
    if judgement.code not in _NOBODY_COULD_BE_ASKED:
        return None  # let through by all layers, and refused for something else
    below = _below(Decision.ASK)
    if not judgement.policy:
        return Decision.DENY, frozenset({Decision.ASK})
    if judgement.code == "approval_required" and all(map(_BY_A_RULE.match, judgement.reasons)):
        return Decision.DENY, below
    return Decision.DENY, below | {Decision.ASK}


def _beside_the_rules(decision: Decision, reasons: tuple[str, ...]) -> frozenset[Decision]:
    """What the strictest of the other layers can have said, given the reasons of whoever said `decision`."""
    if reasons == (_NOBODY,):
        return frozenset({Decision.ABSTAIN})
    whole = [reason for reason in reasons if not reason.startswith(_CUT)]
    if not all(map(_BY_A_RULE.match, whole)):
        return frozenset({decision})
    return _below(decision) if whole and len(whole) == len(reasons) else _below(decision) | {decision}


def _below(decision: Decision) -> frozenset[Decision]:
    return frozenset(each for each in Decision if each < decision)


def _end(strictest: Decision, *, in_vain: bool) -> Decision:
    """How a call ends: what nobody allows is denied, and so is what must be asked where asking is `in_vain`."""
    if strictest is Decision.ABSTAIN or (in_vain and strictest is Decision.ASK):
        return Decision.DENY
    return strictest
