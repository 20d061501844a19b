"""Tools that say they only read and may have a program run to which the operator gave more than that.

A dialect knows the names of programs. What one may write or reach is the operator's word (`[binaries.programs]`), and so it is
known only where the catalog of his machine is made.
"""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from metier.dialects.risk import Risk, as_act, raised
from metier.model.diagnostic import Diagnostic
from metier.model.program import OperatorProgram
from metier.model.skill import Skill, Tool
from metier.model.text import one_line

NONE: Final = frozenset[str]()


def acting(programs: Mapping[str, OperatorProgram]) -> dict[str, Risk]:
    """Those that can change something, here or elsewhere, for whoever has them run, and the least risk of that."""
    return {
        name: "high" if each.hosts else "medium"
        for name, each in programs.items()
        if each.writes or each.hosts
    }


def used_by(skill: Skill, programs: Mapping[str, Risk]) -> dict[str, Risk]:
    """Those of `programs` that a tool of the skill may have run though it says that it only reads."""
    if not skill.tools or not programs:
        return {}
    return {name: programs[name] for name in NONE.union(*(_of(tool, programs) for tool in skill.tools))}


def with_programs(skill: Skill, programs: Mapping[str, Risk]) -> Skill:
    """The skill, its tools being what these programs make of them."""
    if not programs:
        return skill
    return replace(skill, tools=tuple(_counted(tool, programs) for tool in skill.tools))


def findings(skill: Skill, programs: Mapping[str, Risk]) -> tuple[Diagnostic, ...]:
    """What is said about each such tool of `skill`, as its own file has it."""
    return tuple(
        Diagnostic(
            code="counts_as_act",
            severity="warning",
            message=f"{one_line(tool.name, 80)} says that it only reads, but it may have {', '.join(sorted(used))} run, which you "
            "let write or reach other machines, so it counts as an act",
        )
        for tool in skill.tools
        if (used := _of(tool, programs))
    )


def _of(tool: Tool, programs: Mapping[str, Risk]) -> frozenset[str]:
    return tool.permissions.binaries & programs.keys() if tool.effect == "read" else NONE


def _counted(tool: Tool, programs: Mapping[str, Risk]) -> Tool:
    used = _of(tool, programs)
    if not used:
        return tool
    risk = tool.risk
    for name in used:
        risk = raised(risk, programs[name])
    # Whatever an Amber manifest says about confirming, it says of a tool that only reads.
    asked = "" if tool.answer == "amber" else tool.confirmation
    return replace(as_act(tool), risk=risk, confirmation=asked)
