"""Who answers to which of the names that models are told.

A name is given once. Metier's own tools, the skills that ship and those that a person trusted keep theirs, also while they cannot be
used: no other skill gets to hear what was meant for them. Among all others the first that can be used has a name, and one that is
bound to its bytes comes before one that was never used. Whoever wants one that is taken, or is easily taken for it, cannot be used
until one of them is renamed, and is shown with the reason like any other.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from metier.catalog.listed import Listed
from metier.dialects.names import skeleton
from metier.model.diagnostic import Diagnostic
from metier.model.digest import digest_bytes
from metier.model.requirement import RequirementError
from metier.model.skill import Skill, Tool
from metier.model.text import one_line

BUILT_IN: Final = ("read_skill", "run_in_skill")
"""Of the tools that belong to no skill."""
TAKEN: Final = "tool_name_taken"
SHADOWS: Final = "tool_name_shadows"
"""The same of a tool of an MCP server, of which also the plain name counts."""

_OUTWARD: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_OTHER: Final = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST: Final = 64
_HASH: Final = 8


def outward(name: str) -> str:
    """The name a provider is told: `.` and `/` become `__`; what does not fit ends in a hash of the whole name."""
    plain = name.replace(".", "__").replace("/", "__")
    if _OUTWARD.fullmatch(plain):
        return plain
    hashed = digest_bytes(name.encode("utf-8", "surrogatepass")).removeprefix("sha256:")[:_HASH]
    return f"{_OTHER.sub('_', plain)[: _LONGEST - _HASH - 1]}_{hashed}"


def outward_of(tool: Tool) -> str:
    """The name that models are told of this tool."""
    return tool.outward or outward(tool.name)


def with_function_names(by_name: Mapping[str, Listed], listed: Iterable[Listed]) -> dict[str, Listed]:
    """The same skills; whoever wants a name that is not his to have is unavailable, and told so before he is trusted.

    Args:
        listed: every skill there is, also those that answer to no name.
    """
    held = _kept(listed)
    found = dict(by_name)
    for each, skill in sorted(_having_tools(by_name), key=_rank):
        problem = _problem(skill, held)
        if each.shown != "usable":
            if problem:
                message = f"it could not be used as it is: it wants the function name {problem}"
                note = Diagnostic(code=TAKEN, severity="warning", message=message)
                found[each.name] = replace(each, diagnostics=(*each.diagnostics, note))
        elif problem:
            lacks = RequirementError(type="function name", name=problem, skill=each.name)
            found[each.name] = replace(each, missing=(*each.missing, lacks))
        else:
            held.update((_alike(told), each.name) for told in _told(skill))
    return found


def functions_of(by_name: Mapping[str, Listed]) -> dict[str, str]:
    """The tool behind each name that a model may say; also of skills that cannot be used, where no other has that name."""
    functions: dict[str, str] = {}
    for _, skill in sorted(_having_tools(by_name), key=_rank):
        for tool in skill.tools:
            if tool.audience == "model":
                functions.setdefault(outward_of(tool), tool.name)
    for each in by_name.values():
        # Who was shown a tool before it was held back calls it by the name he knows, and is to be told.
        for name in each.skill.held_back if each.skill is not None else ():
            functions.setdefault(outward(name), name)
    return functions


def name_problems(each: Listed) -> list[str]:
    """What is to be said of the names that a skill wants and cannot have."""
    lacking = [str(error) for error in each.missing if error.type == "function name"]
    return lacking + [found.message for found in each.diagnostics if found.code in (TAKEN, SHADOWS)]


def _kept(listed: Iterable[Listed]) -> dict[str, str]:
    """Whose the names are that only he may have, by what they look like; empty for Metier's own."""
    kept = {_alike(name): "" for name in BUILT_IN}
    for each in sorted(listed, key=lambda each: not _ships(each)):
        if each.skill is not None and (_ships(each) or (each.bound and not each.shadowed_by)):
            for told in _told(each.skill):
                kept.setdefault(_alike(told), each.name)
    return kept


def _problem(skill: Skill, held: Mapping[str, str]) -> str:
    """Why a skill cannot have the names it wants; empty when it can. Who replaces a skill that ships has its names."""
    for told in _told(skill):
        holder = held.get(_alike(told), skill.name)
        if holder != skill.name:
            whose = f"the skill {one_line(holder, 80)}" if holder else "Metier itself"
            return f"{told}, which is taken by {whose} (or looks like one that is); rename one of them"
    return ""


def _having_tools(by_name: Mapping[str, Listed]) -> list[tuple[Listed, Skill]]:
    return [(each, each.skill) for each in by_name.values() if each.skill and each.skill.tools]


def _rank(having: tuple[Listed, Skill]) -> int:
    """Who has a name before others that want it: what ships, then what is in use, then what was only put there."""
    each, skill = having
    if _ships(each):
        return 0
    return 3 if each.shown != "usable" else 1 if skill.digest else 2


def _alike(name: str) -> str:
    """What is left of a name that nobody reads closely: `readskill` is taken for `read_skill`."""
    return skeleton(name.replace("_", "").replace("-", ""))


def _told(skill: Skill) -> list[str]:
    return [outward_of(tool) for tool in skill.tools if tool.audience == "model"]


def _ships(each: Listed) -> bool:
    return each.root.kind == "bundled"
