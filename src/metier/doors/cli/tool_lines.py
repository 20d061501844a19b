"""The tools a skill brings, in plain words: what the operator looks at before he trusts it."""

from metier.doors.cli import server_lines, words
from metier.model.entry import RemoteTool
from metier.model.entry_words import runs
from metier.model.skill import Skill, Tool
from metier.model.text import one_line


def lines(skill: Skill) -> list[str]:
    """A line for every tool of the skill, and below it, indented, what it may touch and what it takes to call it."""
    return [line for tool in skill.tools for line in (_first(tool), *(f"  {each}" for each in _below(tool)))]


def shown(skill: Skill) -> list[str]:
    """The same, where nothing else says that they are tools."""
    return [line if line.startswith(" ") else f"tool: {line}" for line in lines(skill)]


def _first(tool: Tool) -> str:
    kind = "reads" if tool.effect == "read" else "acts"
    whole = isinstance(tool.entry, RemoteTool)  # a stranger's text, all of which a model is told
    return f"{one_line(tool.name, 140)} ({kind}, {tool.risk} risk): {one_line(tool.description, 0 if whole else 200)}"


def _below(tool: Tool) -> list[str]:
    limits = tool.limits
    bounds = f"{limits.timeout:g} s, {limits.memory_mb} MB, {limits.processes} processes"
    asks = [f"from trust level {tool.minimum_trust}"]
    if tool.approval == "always":
        asks.append("somebody has to approve every call")
    if tool.confirmation is not None:
        asks.append(f"the caller is asked first: {one_line(tool.confirmation, 200) or 'in our own words'}")
    if tool.checks:
        asks.append(one_line("; ".join(f"{name} must pass {check}" for name, check in tool.checks.items())))
    if tool.validator is not None:
        asks.append("code of the skill looks at the arguments first, without permissions")
    return [
        f"runs: {runs(tool.entry)}",
        f"may: {words.permissions(tool.permissions)}",
        f"at most: {bounds}; it is {tool.cost}",
        f"called: {'; '.join(asks)}",
        *(_schemas(tool) if isinstance(tool.entry, RemoteTool) else ()),
    ]


def _schemas(tool: Tool) -> list[str]:
    told = server_lines.schema("inputSchema", tool.parameters)
    return [*told, *(server_lines.schema("outputSchema", tool.returns) if tool.returns else ())]
