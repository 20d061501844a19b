"""Rules that no call can match as things are today: most often a name is misspelled."""

from collections.abc import Iterator, Mapping
from typing import Final

from metier.catalog.catalog import Catalog
from metier.catalog.function_names import outward, outward_of
from metier.disclosure.read_skill import TOOL as READ_SKILL
from metier.gate.rules import TOLD, Rule
from metier.model.text import one_line

_OWN_RUN: Final = {
    "tool": "operator.run",
    TOLD: outward("operator.run"),
    "effect": "act",
    "risk": "high",
    "cost": "free",
}
"""What `metier run` calls."""
_NONE: Final[Mapping[str, str]] = {}


def idle_rules(rules: tuple[Rule, ...], catalog: Catalog) -> Iterator[tuple[Rule, str]]:
    """Rules that no call can match as things are today, each with the reason."""
    tools = [
        {
            "tool": tool.name,
            TOLD: outward_of(tool),
            "effect": tool.effect,
            "risk": tool.risk,
            "cost": tool.cost,
        }
        for tool in (
            READ_SKILL,
            *(tool for listed in catalog.listed if listed.skill for tool in listed.skill.tools),
        )
    ]
    tools.append(_OWN_RUN)
    for rule in rules:
        named = rule.names.get("tool")
        about = {field: names for field, names in rule.names.items() if field in _OWN_RUN and field != "tool"}
        meant = [each for each in tools if not named or named.hold(each["tool"]) or rule.means(each[TOLD])]
        if named and not meant:
            whole = {each[TOLD]: each["tool"] for each in tools}
            unknown = _near(named.exact, [each["tool"] for each in tools], whole)
            yield rule, f"it matches nothing today: there is no such tool{unknown}"
        elif not any(all(names.hold(tool[field]) for field, names in about.items()) for tool in meant):
            yield rule, "it matches nothing today: no tool is of this effect, risk and cost"
        elif "skill" in rule.names and not any(map(rule.names["skill"].hold, catalog.by_name)):
            unknown = _near(rule.names["skill"].exact, list(catalog.by_name))
            yield rule, f"it matches nothing today: there is no such skill{unknown}"


def _near(names: frozenset[str], known: list[str], whole: Mapping[str, str] = _NONE) -> str:
    """What was meant, perhaps; `whole` has what is called by another name too."""
    from difflib import get_close_matches

    for name in sorted(names):
        near = [whole[name]] if name in whole else get_close_matches(name, known, n=1)
        if near:
            return f" as {one_line(name, 80)!r} (did you mean {one_line(near[0], 80)!r}?)"
    return f" as {one_line(min(names), 80)!r}" if names else ""
