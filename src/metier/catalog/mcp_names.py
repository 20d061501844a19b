"""Tools of MCP servers that are called like another tool, or look like it: such a server is held back until the operator decides.

The name that a model is told begins with that of the skill, so no server takes another's. But a model chooses by the rest of it, and a
server that calls its tool like that of another gets to hear what was meant for the other. So the plain name counts too: against
Metier's own tools, those of other skills, and those of servers that were let in before.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from metier.catalog.function_names import (
    BUILT_IN,
    SHADOWS,
    name_problems,
    outward_of,
    with_function_names,
)
from metier.catalog.listed import Listed
from metier.dialects.names import tool_skeleton
from metier.model.diagnostic import Diagnostic
from metier.model.entry import RemoteTool
from metier.model.requirement import RequirementError
from metier.model.skill import Skill
from metier.model.text import one_line

_EVERYBODYS: Final = frozenset({"execute", "main", "run"})
"""What dialects call the one tool of a skill."""


def with_server_names(by_name: Mapping[str, Listed]) -> dict[str, Listed]:
    """The same skills; a server with a tool that is called like another's is unavailable, and says which and what to do."""
    found = dict(by_name)
    held = {tool_skeleton(name): "Metier itself" for name in BUILT_IN}
    servers: list[Listed] = []
    for each in by_name.values():
        if each.skill is not None and each.skill.dialect == "mcp_server":
            servers.append(each)
        elif each.skill is not None and _counts(each):
            held |= {tool_skeleton(name): f"the skill {each.name}" for name in _known_as(each.skill)}
    # Who is in use keeps his names, whatever is put beside him.
    for each in sorted(servers, key=lambda each: (each.shown != "usable", not each.entrusted, each.since)):
        skill = each.skill
        if skill is None:
            continue
        problem = _problem(skill, held)
        if not problem:
            if each.shown == "usable":
                held |= {tool_skeleton(name): f"the MCP server {each.name}" for name in _plain(skill)}
        elif each.shown == "usable":
            lacks = RequirementError(type="function name", name=problem, skill=each.name)
            found[each.name] = replace(each, missing=(*each.missing, lacks))
        else:
            note = Diagnostic(
                code=SHADOWS, severity="warning", message=f"it could not be used as it is: {problem}"
            )
            found[each.name] = replace(each, diagnostics=(*each.diagnostics, note))
    return found


def clashes(
    each: Listed, read: Skill, by_name: Mapping[str, Listed], listed: Iterable[Listed], *, since: str
) -> list[str]:
    """What will be said of the names of a server once it is let in, for who is still to say yes.

    Args:
        each: the server as the catalog has it now.
        read: with the tools that it told.
        by_name: all others; `each` among them counts as if it were let in.
        listed: those too that answer to no name.
        since: since when he lets it in; who was let in before keeps his names.
    """
    skill = replace(read, status="active", why="", digest=read.digest or "sha256:")
    let_in = replace(
        each,
        skill=skill,
        missing=(),
        diagnostics=(),
        shadowed_by="",
        probe=False,
        entrusted=True,
        since=since,
    )
    others = (one for one in listed if one.folder != each.folder)
    found = with_server_names(with_function_names({**by_name, each.name: let_in}, others))
    return name_problems(found[each.name])


def _counts(each: Listed) -> bool:
    """Whether a skill has its names: a stranger's folder that nobody let in switches nothing off."""
    return each.root.kind == "bundled" or each.entrusted or each.shown == "usable"


def _known_as(skill: Skill) -> Iterator[str]:
    """What a model knows the tools of a skill by. The one tool of a skill is known by the name of the skill."""
    for tool in skill.tools:
        if tool.audience == "model":
            plain = tool.name.rpartition("/")[2]
            yield skill.name if plain in _EVERYBODYS else plain
            yield outward_of(tool)


def _problem(skill: Skill, held: Mapping[str, str]) -> str:
    for name in _plain(skill):
        if (holder := held.get(tool_skeleton(name))) is not None:
            own = one_line(_own_name(skill, name), 64)
            return (
                f"{one_line(name, 64)}, which is taken by {one_line(holder, 100)} (or looks like one that is); in mcp_server.json "
                f'write "tools": {{"{own}": {{"as": "another_name"}}}}, or {{"offered": false}}'
            )
    return ""


def _plain(skill: Skill) -> Iterator[str]:
    for tool in skill.tools:
        if tool.audience == "model":
            yield tool.name.rpartition("/")[2]


def _own_name(skill: Skill, name: str) -> str:
    """What the server itself calls a tool."""
    for tool in skill.tools:
        if tool.name.rpartition("/")[2] == name and isinstance(tool.entry, RemoteTool):
            return tool.entry.tool
    return name
