"""The tools of an MCP server as Metier's own: what the server listed when it was looked at, and nothing that changed since.

All of it is a stranger's text. A description is shown as text; what the server says a tool does counts only where the sandbox
makes it so. A tool that cannot be called as it stands, that looks like another one, or that changed, is left out and said.
"""

from typing import Final, Literal, TypeAlias, final

import msgspec
from msgspec import Struct

from metier.dialects.block_fields import LARGEST_SCHEMA, MOST_SCHEMA_VALUES, Fields
from metier.dialects.draft import Draft
from metier.dialects.names import code_points, tool_skeleton
from metier.dialects.risk import RISKS, Effect, Risk, acts, default_risk, raised
from metier.model import strictjson
from metier.model.digest import Json
from metier.model.entry import RemoteTool
from metier.model.mcp_listing import NAME, changes, named, pin_of
from metier.model.permission import PermissionSet
from metier.model.skill import Limits, Tool
from metier.model.text import hidden, one_line

Made: TypeAlias = tuple[RemoteTool, PermissionSet, Limits]
"""What runs the server, with what, and how much of it."""
CHANGED: Final = "tools_changed"
"""The finding that a server lists other tools than those that were looked at."""
_LOOK: Final = "look at it with `metier skills trust"


@final
class Words(Struct, frozen=True, kw_only=True):
    """What the skill's file says of one tool."""

    effect: Effect | None = None
    risk: Risk = "low"
    approval: Literal["policy", "always"] = "policy"
    offered: bool = True
    called: str = ""
    """Its name here, where it is to be another than the server's."""


def words_of(given: Fields) -> dict[str, Words]:
    """By the server's own name for each."""
    found: dict[str, Words] = {}
    for name in tuple(given.rest()):
        each = given.inner(name)
        said = "effect" in each
        effect: Effect = each.choice("effect", ("read", "act"), "act")
        found[name] = Words(
            effect=effect if said else None,
            risk=each.choice("risk", RISKS, "low"),
            approval=each.choice("approval", ("policy", "always"), "policy"),
            offered=each.flag("offered") if "offered" in each else True,
            called=each.word("as", NAME, "a name of letters, digits, - and _", ""),
        )
        each.no_more("effect, risk, approval, offered and as")
    return found


def about(listing: dict[str, Json]) -> str:
    """What the server says it is; its own words."""
    server = listing.get("server")
    name = server.get("title") or server.get("name") if isinstance(server, dict) else ""
    return f"Tools of the MCP server {one_line(name, 80)}." if isinstance(name, str) and name else ""


def tools_of(
    draft: Draft,
    skill: str,
    made: Made,
    listing: dict[str, Json],
    newer: dict[str, Json],
    words: dict[str, Words],
) -> tuple[Tool, ...]:
    """Those that can be called. Which are held back is said among the draft's words."""
    listed = named(listing)
    held = changes(listing, newer) if newer else {}
    for name, how in held.items():
        message = f"the server's tool {one_line(name, 64)} is {one_line(how, 200)}, so it is held back; {_LOOK} {one_line(skill, 80)}`"
        draft.note("tools_changed", "warning", message)
    for name in sorted(words.keys() - listed.keys()):
        draft.note("no_such_tool", "warning", f"the server has no tool {one_line(name, 64)}")
    tools: list[Tool] = []
    own = {
        name: said.called or name for name in listed if (said := words.get(name, Words())).offered
    }  # one that is hidden is taken for no other
    draft.words["held_back"] = _held_back(skill, own, held, words)
    for name, told in listed.items():
        said = words.get(name, Words())
        if name not in own or name in held:
            continue
        problem = _problem(name, own, told)
        if problem:
            draft.note("tool_left_out", "warning", f"the tool {one_line(name, 64)} is left out: {problem}")
            continue
        tools.append(_tool(f"{skill}/{own[name]}", skill, name, told, made, said))
    for problem in _left_out(listing):
        draft.note("tool_left_out", "warning", problem)
    return tuple(tools)


def _held_back(
    skill: str, own: dict[str, str], held: dict[str, str], words: dict[str, Words]
) -> dict[str, str]:
    """What nobody can call for now, by the names it would be called by; without what is hidden anyway, or has no name."""
    found: dict[str, str] = {}
    for name, how in held.items():
        said = words.get(name, Words())
        called = own.get(name) or said.called or name
        if said.offered and NAME.fullmatch(called):
            found[f"{skill}/{called}"] = how.partition(":")[0]
    return found


def _problem(name: str, own: dict[str, str], told: dict[str, Json]) -> str:
    """Why a tool cannot be called as the server lists it."""
    if not NAME.fullmatch(own[name]):
        return (
            "its name is not made of letters, digits, `_`, `-` and `.`; give it another with `as` under tools"
        )
    alike = [
        other for other in own if other != name and tool_skeleton(own[other]) == tool_skeleton(own[name])
    ]
    if alike:
        return f"it is easily taken for {one_line(alike[0], 64)}, another of this server"
    for key in ("inputSchema", "outputSchema"):
        schema = told.get(key)
        if schema is None and key == "outputSchema":
            continue
        if not isinstance(schema, dict) or schema.get("type") != "object":
            return f"its {key} is not that of an object"
        try:
            strictjson.check(schema, most=LARGEST_SCHEMA, values=MOST_SCHEMA_VALUES)
        except ValueError as error:
            return f"its {key} is no usable JSON Schema: {one_line(str(error), 200)}"
        if unseen := hidden(msgspec.json.encode(schema).decode()):
            return f"its {key} holds characters that cannot be seen ({code_points(unseen)})"
    return ""


def _tool(name: str, skill: str, own: str, told: dict[str, Json], made: Made, said: Words) -> Tool:
    entry, permissions, limits = made
    hints = told.get("annotations")
    hint = isinstance(hints, dict) and hints.get("readOnlyHint") is True
    # A server's own word that it only reads is worth as much as the walls around it make it worth.
    effect: Effect = said.effect or ("read" if hint and not acts(entry, permissions) else "act")
    description, parameters, returns = (
        told.get("description"),
        told.get("inputSchema"),
        told.get("outputSchema"),
    )
    worst = default_risk(effect=effect, entry=entry, permissions=permissions)
    return Tool(
        name=name,
        skill=skill,
        description=description if isinstance(description, str) else "",
        parameters=parameters if isinstance(parameters, dict) else {"type": "object", "properties": {}},
        returns=returns if isinstance(returns, dict) else None,
        effect=effect,
        risk=raised(said.risk, worst),
        minimum_trust="observe" if effect == "read" else "supervised_auto",
        approval=said.approval,
        permissions=permissions,
        limits=limits,
        entry=RemoteTool(server=skill, tool=own, reached=entry.reached, pin=pin_of(told)),
    )


def _left_out(listing: dict[str, Json]) -> list[str]:
    found = listing.get("left_out")
    return [one_line(each, 300) for each in found if isinstance(each, str)] if isinstance(found, list) else []
