"""Tools in the shapes that providers expect, under names that providers accept.

Only tools for models appear. An outward name is made from the internal one alone, so it is the same in every
process; the way back is a table and never a guess. Two tools that would share an outward name, or differ in
case only, are never shown both; the catalog says of whose skill that is a fault.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias, assert_never, final, get_args

from msgspec import Struct, to_builtins

from metier.catalog.function_names import outward_of
from metier.dialects.about import LONGEST_DESCRIPTION
from metier.model.confirmation_flag import parameters_of
from metier.model.digest import Json
from metier.model.skill import Tool
from metier.model.text import visible

Shape: TypeAlias = Literal["openai", "openai_responses", "anthropic", "mcp"]


@final
class Names(Struct, frozen=True, kw_only=True):
    """The two-way table between internal and outward names of the tools a model may see."""

    outward: dict[str, str]
    internal: dict[str, str]

    @classmethod
    def of(cls, tools: Iterable[Tool]) -> "Names":
        """The table for `tools` in their order; the first to take a name keeps it."""
        outwards: dict[str, str] = {}
        internal: dict[str, str] = {}
        folded: set[str] = set()
        for tool in tools:
            name = outward_of(tool)
            if tool.audience == "model" and name.lower() not in folded:
                folded.add(name.lower())
                outwards[tool.name] = name
                internal[name] = tool.name
        return cls(outward=outwards, internal=internal)


def shaped(tools: Iterable[Tool], shape: Shape) -> list[dict[str, Json]]:
    """The tools a model may see, as the given provider's API takes them.

    Raises:
        ValueError: when there is no such shape.
    """
    if shape not in get_args(Shape):
        raise ValueError(f"there is no tool shape {shape!r}; there are {', '.join(get_args(Shape))}")
    tools = list(tools)
    names = Names.of(tools).outward
    found: list[dict[str, Json]] = []
    for tool in tools:
        name = names.pop(tool.name, None) if tool.audience == "model" else None
        if name is not None:
            found.append(_one(tool, name, shape))
    return found


def _one(tool: Tool, name: str, shape: Shape) -> dict[str, Json]:
    about = _description(tool.description)
    schema = _schema(parameters_of(tool))
    match shape:
        case "openai":
            return {
                "type": "function",
                "function": {"name": name, "description": about, "parameters": schema},
            }
        case "openai_responses":
            # Said aloud, because this API takes silence for strict, which refuses most schemas.
            strict = False
            return {
                "type": "function",
                "name": name,
                "description": about,
                "parameters": schema,
                "strict": strict,
            }
        case "anthropic":
            return {"name": name, "description": about, "input_schema": schema}
        case "mcp":
            shown: dict[str, Json] = {"name": name, "description": about, "inputSchema": schema}
            # Clients before 2026-07-28 refuse an output schema that is not an object's.
            if tool.returns is not None and tool.returns.get("type") == "object":
                shown["outputSchema"] = told(to_builtins(tool.returns))
            shown["annotations"] = {"readOnlyHint": tool.effect == "read"}
            return shown
        case _:
            assert_never(shape)


def _description(text: str) -> str:
    text = visible(text)
    # Who writes more is told so where the skill is read.
    return text if len(text) <= LONGEST_DESCRIPTION else text[: LONGEST_DESCRIPTION - 1].rstrip() + "…"


def _schema(parameters: dict[str, Json]) -> dict[str, Json]:
    """A copy, so that whoever changes it does not change what calls are checked against."""
    return {"type": "object", "properties": {}, **told(to_builtins(parameters))}


def told(given: dict[str, Json]) -> dict[str, Json]:
    """The same with every unseen character spelled out, in whatever text it has: a model reads them all. What is checked against is
    something else, so a name or a choice with such a character is one that no model can use."""
    return {visible(name): _told(each) for name, each in given.items()}


def _told(value: Json) -> Json:
    match value:
        case str():
            return visible(value)
        case list():
            return [_told(each) for each in value]
        case dict():
            return told(value)
        case _:
            return value
