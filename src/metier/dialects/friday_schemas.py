"""The `tools` of a friday skill: how a model is told to call the action of the same name."""

from typing import Final, final

from msgspec import Struct

from metier.dialects.friday_part import Part
from metier.model.digest import Json
from metier.model.text import one_line

MOST_TOOLS: Final = 100
LONGEST_DESCRIPTION: Final = 2_000
_SCHEMA: Final = ("parameters", "inputSchema", "input_schema")
_OPEN: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {"input": {"type": "object"}},
    "additionalProperties": False,
}
"""For an action that no tool describes: one object, whatever is in it."""


@final
class Described(Struct, frozen=True, kw_only=True):
    """What a tool says about the action of its name."""

    description: str = ""
    parameters: dict[str, Json]
    returns: dict[str, Json] | None = None
    written: dict[str, Json] = {}
    """The whole entry."""
    rest: dict[str, Json] = {}
    """What of it nobody reads."""


NOT_DESCRIBED: Final = Described(parameters=_OPEN)


def described(whole: Part) -> dict[str, Described]:
    """By name: every tool the file describes."""
    found: dict[str, Described] = {}
    for at, written in enumerate(whole.maps("tools", MOST_TOOLS), 1):
        inner = written.get("function")
        # OpenAI's Chat API wraps it once more.
        fields, around = (inner, _around(written)) if isinstance(inner, dict) else (written, {})
        part = Part(whole.draft, fields, f"tool {at}", "tools")
        name = part.text("name", 200, needed=True).strip()
        if name in found:
            part.note("bad_field", "error", f"another tool is called {one_line(name, 60)!r} too; remove one")
        elif name:
            description = part.text("description", LONGEST_DESCRIPTION).strip()
            found[name] = Described(
                description=description,
                parameters=_parameters(part),
                returns=schema_in(part, "outputSchema"),
                written=written,
                rest=around
                | {f"function.{key}" if key in around else key: v for key, v in part.unread().items()},
            )
        whole.sound = whole.sound and part.sound
    return found


def _around(written: dict[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in written.items() if key != "function"}


def _parameters(part: Part) -> dict[str, Json]:
    given = [key for key in _SCHEMA if key in part.fields]
    if len(given) > 1:
        part.note("bad_field", "error", f"{' and '.join(given)} say the same thing twice; remove one")
    for key in given:
        schema = schema_in(part, key)
        if schema is None:
            continue
        if schema.setdefault("type", "object") != "object":
            message = f'`{key}` has another type than "object"; arguments have names'
            part.note("bad_field", "error", message)
        return schema
    return _OPEN


def schema_in(part: Part, key: str) -> dict[str, Json] | None:
    """A JSON Schema, as far as can be told at a glance. Whether it can be used is for the gate to say."""
    part.asked.add(key)
    value = part.fields.get(key)
    if value is None:
        return None
    if not isinstance(value, dict):
        part.note("bad_field", "error", f"`{key}` is no JSON Schema; write {{ … }}")
        return None
    if not isinstance(value.get("properties", {}), dict) or not isinstance(value.get("required", []), list):
        message = f"`{key}`: `properties` must be a map and `required` a list of names"
        part.note("bad_field", "error", message)
        return None
    return dict(value)
