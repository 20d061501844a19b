"""One `[[rule]]` as it is written → a `Rule`, or what is wrong with it. Its examples are tried here."""

import re
from typing import Annotated, Any, Final, Literal, TypeAlias, cast, final

import msgspec
from msgspec import Meta, Struct, ValidationError, convert

from metier.gate.conditions import Condition, condition
from metier.gate.rules import BOUNDARIES, FIELDS, TOLD, Names, Rule, matching
from metier.model import strictjson
from metier.model.digest import Json, canonical
from metier.model.skill_path import path_of
from metier.model.text import one_line
from metier.model.verdict import Decision

REMEDY: Final = "See docs/policy.md for every key"
_READS_FILES: Final = "read_skill"
_WITH_STAR: Final = ("tool", "skill", "principal")

_Effect: TypeAlias = Literal["read", "act"]
_Risk: TypeAlias = Literal["low", "medium", "high"]
_Cost: TypeAlias = Literal["free", "cheap", "expensive"]


@final
class _Example(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tool: str | None = None
    skill: str | None = None
    principal: str | None = None
    channel: str | None = None
    effect: _Effect | None = None
    risk: _Risk | None = None
    cost: _Cost | None = None
    cwd: str | None = None
    args: dict[str, Any] = {}


@final
class _Written(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule as it is written."""

    decision: Literal["allow", "ask", "deny"]
    because: Annotated[str, Meta(max_length=500)]
    name: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_-]{0,63}\Z")] | None = None
    tool: str | tuple[str, ...] | None = None
    skill: str | tuple[str, ...] | None = None
    principal: str | tuple[str, ...] | None = None
    channel: str | tuple[str, ...] | None = None
    effect: _Effect | tuple[_Effect, ...] | None = None
    risk: _Risk | tuple[_Risk, ...] | None = None
    cost: _Cost | tuple[_Cost, ...] | None = None
    when: str | None = None
    match: tuple[_Example, ...] = ()
    not_match: tuple[_Example, ...] = ()


_DECISIONS: Final = {"allow": Decision.ALLOW, "ask": Decision.ASK, "deny": Decision.DENY}


@final
class WrongRuleError(Exception):
    """What is wrong with one rule, and at which of its keys."""

    def __init__(self, message: str, *, key: str = "", remedy: str = REMEDY) -> None:
        super().__init__(message)
        self.key = key
        self.remedy = remedy


def written_rule(each: Any, number: int, line: int) -> tuple[Rule, int]:
    """One rule, and how many examples it was tried with.

    Raises:
        WrongRuleError: when something is wrong with it.
    """
    try:
        written = convert(each, _Written)
    except ValidationError as error:
        raise _explained(str(error)) from None
    because = one_line(written.because)
    if not because:
        raise WrongRuleError(
            "'because' is empty", key="because", remedy="Say why the rule is there; it is shown"
        )
    names = {field: found for field in FIELDS if (found := _names(field, getattr(written, field)))}
    if written.decision == "allow" and not names.keys() & {"tool", "skill", "principal"}:
        raise WrongRuleError(
            "an allow must say for which tool, skill or principal; effect, risk and cost are what a tool says of itself",
            key="decision",
            remedy="Name the tools, or leave the rule out",
        )
    rule = Rule(
        number=number,
        line=line,
        name=written.name or "",
        decision=_DECISIONS[written.decision],
        because=because,
        names=names,
        condition=_condition(written.when),
    )
    if rule.condition is not None and not written.match:
        raise WrongRuleError(
            "a rule with `when` needs at least one example in `match`",
            key="when",
            remedy="Write a call that it must match: match = [{ tool = …, args = { … } }]",
        )
    for key, expected, examples in (("match", True, written.match), ("not_match", False, written.not_match)):
        for place, example in enumerate(examples, 1):
            problem = _tried(rule, example, expected=expected)
            if problem:
                raise WrongRuleError(
                    f"example {place} of `{key}`: {problem}",
                    key=key,
                    remedy="Correct the rule, or the example if that is what is wrong",
                )
    return rule, len(written.match) + len(written.not_match)


def _names(field: str, given: str | tuple[str, ...] | None) -> Names | None:
    if given is None:
        return None
    listed = (given,) if isinstance(given, str) else given
    if not listed:
        raise WrongRuleError(
            f"'{field}' is an empty list, which nothing matches", key=field, remedy="Name something"
        )
    exact: set[str] = set()
    beginnings: set[str] = set()
    for name in listed:
        stem = name.removesuffix("*")
        shown = one_line(name, 80)
        if not name or name != name.strip():
            raise WrongRuleError(f"'{field}' has the name {shown!r}, which nothing is called", key=field)
        if "*" in stem or (stem != name and field not in _WITH_STAR):
            raise WrongRuleError(f"'{field}' has the name {shown!r}: a * is not taken there", key=field)
        if stem != name and stem[-1:] not in tuple(BOUNDARIES):
            raise WrongRuleError(
                f"'{field}' has the name {shown!r}: a * stands only at the end, after /, . or :",
                key=field,
                remedy="Write the whole name, or leave the key out to mean all",
            )
        (beginnings if stem != name else exact).add(stem)
    return Names(exact=frozenset(exact), beginnings=frozenset(beginnings))


def _condition(source: str | None) -> Condition | None:
    if source is None:
        return None
    try:
        return condition(source)
    except ValueError as error:
        raise WrongRuleError(
            f"`when`, {error}", key="when", remedy="See docs/policy.md for what it may say"
        ) from None


def _tried(rule: Rule, example: _Example, *, expected: bool) -> str:
    """What is wrong with an example, or with the rule it shows to be wrong; empty when it holds."""
    looked = set(rule.names) | (
        set(rule.condition.read.variables) - {"args"} if rule.condition else set[str]()
    )
    unsaid = sorted(field for field in looked if getattr(example, field) is None)
    if unsaid:
        return f"it does not say {unsaid[0]!r}, which the rule looks at"
    if example.tool in (None, _READS_FILES) and (wrong := _misspelled(example.args)):
        return wrong
    facts = {field: getattr(example, field) or "" for field in (*FIELDS, "cwd")}
    facts[TOLD] = ""  # an example names its tool as the rule does
    try:
        strictjson.check(cast(Json, example.args))
        arguments = cast("dict[str, Json]", msgspec.json.decode(canonical(cast(Json, example.args))))
    except ValueError as error:
        return f"'args' are no arguments: {one_line(str(error), 120)}"
    found = matching([rule], facts, arguments) if rule.concerns(facts) else []
    if found and found[0][1]:
        return f"the condition cannot be decided: {found[0][1]}"
    if bool(found) is expected:
        return ""
    return "the rule does not match it" if expected else "the rule matches it"


def _misspelled(args: dict[str, Any]) -> str:
    """Why no call ever has these arguments: a file of a skill has one name by the time rules are asked."""
    name, path = args.get("name"), args.get("path")
    if not isinstance(path, str) or not isinstance(name, str):
        return ""
    settled = path_of(name, "SKILL.md", path)
    if settled == path:
        return ""
    return (
        f"'path' is {one_line(path, 120)!r}, but rules are asked about {one_line(settled, 120)!r}, however a caller spells it; "
        "write it so, in the rule too"
    )


def _explained(problem: str) -> WrongRuleError:
    """msgspec's message in our words, with the nearest known key where one was misspelled."""
    named = problem.split("`")[1] if "`" in problem else ""
    if "missing required field" in problem:
        return WrongRuleError(f"it has no '{named}'", remedy="Every rule needs `decision` and `because`")
    where = re.search(r"`\$\.([a-z_]+)", problem)
    key = where[1] if where else ""
    if "unknown field" in problem:
        import difflib

        kind = _Example if key else _Written
        near = difflib.get_close_matches(named, sorted(kind.__struct_encode_fields__), n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        inside = f" in an example of `{key}`" if key else ""
        return WrongRuleError(f"unknown key {one_line(named, 60)!r}{inside}{hint}", key=key or named)
    said = problem.replace("`$.", "`").replace(" - at ", " at ")
    return WrongRuleError(one_line(said, 200), key=key)
