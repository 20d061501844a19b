"""Calls made from the schemas of tools, and beside them."""

import math
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from metier.model.entry import Operation
from metier.model.permission import PermissionSet
from metier.model.skill import Tool
from naughty import ALL

SECRET = "hunter2-7f3a"
"""Stands in texts of arguments; no refusal may quote it."""
_OLD = "http://json-schema.org/draft-07/schema#"
_DO = Operation(module="m", operation="do")


def _tool(name: str, parameters: dict[str, Any], **fields: Any) -> Tool:
    return Tool(
        name=name, description="", parameters=parameters, effect="act", risk="low", entry=_DO, **fields
    )


_NOTE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": 40, "minLength": 1},
        "count": {"type": "integer", "minimum": 0, "maximum": 9},
        "share": {"type": "number"},
        "urgent": {"type": "boolean"},
        "kind": {"enum": ["tea", "coffee", None, 7]},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 5, "uniqueItems": True},
        "place": {"$ref": "#/$defs/place"},
        "either": {
            "anyOf": [{"type": "string", "pattern": "^[a-z]+$"}, {"type": "integer"}, {"type": "null"}]
        },
    },
    "required": ["title"],
    "$defs": {
        "place": {
            "type": "object",
            "properties": {"x": {"type": "number"}, "inner": {"$ref": "#/$defs/place"}},
            "additionalProperties": False,
        }
    },
}
_STOP: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "at": {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "number"}}},
    },
}
TOOLS: tuple[Tool, ...] = (
    _tool("note", _NOTE),
    _tool("trip", {"type": "object", "properties": {"start": _STOP, "stops": {"type": "array", "items": _STOP}}}),
    _tool("nothing", {"type": "object"}),
    _tool("open", {"type": "object", "additionalProperties": True}),
    _tool("typed", {"type": "object", "additionalProperties": {"type": "string", "maxLength": 3}}),
    _tool("joined", {"allOf": [{"properties": {"a": {"type": "integer"}}}, {"$ref": "#/$defs/b"}],
                     "$defs": {"b": {"properties": {"b": {"type": "string"}}, "required": ["b"]}}}),
    _tool("old", {"$schema": _OLD, "$ref": "#/definitions/b",
                  "definitions": {"b": {"properties": {"b": {"type": "string"}}}}}),
    _tool("unusable", {"properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}}}),
    _tool("message", {"properties": {"text": {"type": "string"}, "lines": {"type": "array", "items": {"type": "string"}}}},
          sanitize=True),
    _tool("send", {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}, confirmation=""),
    _tool("read", {"properties": {"path": {"type": "string"}}}, checks={"path": "isWithinAllowedDirectory"},
          permissions=PermissionSet(reads=frozenset({"{workspace}/memory"}))),
    _tool("agent", {"properties": {"agent": {"type": "string"}}}, checks={"agent": "isValidAgent"}),
)  # fmt: skip
QUOTING = frozenset({"read", "agent"})
"""Tools whose refusals may show the path or name that was asked for."""

LOOP: list[Any] = []
LOOP.append(LOOP)
DEEP: Any = 1
for _ in range(60):
    DEEP = {"d": [DEEP]}
HUGE = "y" * 1_100_000
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.0, -0.0, 0.5, 2**53, -(2**53), 2**64, 10**400, 1e308, 1e21, 5e-324, math.nan, math.inf,
    -math.inf, [], {}, [[]], [None], {"": ""}, DEEP, LOOP, HUGE, b"bytes", {1, 2}, (1, (2,)), object(), {1: 2}, {None: 1},
    Ellipsis, 1j, range(3), [1] * 2_000, {"a": {"b": {"c": "\x00"}}}, {"\ud800": 1}, [{"__proto__": {"confirmed": True}}], type,
)  # fmt: skip
KEYS = st.sampled_from(
    (
        "confirmed",
        "Confirmed",
        "confirmed ",
        "\u0441onfirmed",
        "__proto__",
        "title",
        "text",
        "path",
        "b",
        "extra",
        "name",
    )
) | st.sampled_from(ALL)
TEXTS = st.sampled_from(ALL) | st.text(max_size=12) | st.text(max_size=6).map(lambda text: SECRET + text)
ANYTHING = st.recursive(
    st.sampled_from(ODD) | TEXTS | st.integers() | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=5,
)


def fitting(schema: dict[str, Any], top: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a schema like those above lets in, or nearly."""
    if "$ref" in schema:
        target: Any = top
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target.get(part, {}) if isinstance(target, dict) else {}
        return st.deferred(lambda: fitting(target, top))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of([fitting(each, top) for each in schema["anyOf"]])
    match schema.get("type"):
        case "string":
            plain = st.text(
                "abcdefgh ", min_size=schema.get("minLength", 0), max_size=schema.get("maxLength", 30)
            )
            return (
                plain | TEXTS if "pattern" not in schema else plain.map(lambda text: text.replace(" ", "x"))
            )
        case "integer":
            return st.integers(schema.get("minimum", -50), schema.get("maximum", 50))
        case "number":
            return st.floats(-1e6, 1e6) | st.integers(-5, 5)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            return st.lists(fitting(schema.get("items", {}), top), max_size=4)
        case _:
            return _object(schema, top)


def _object(schema: dict[str, Any], top: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    named = {name: fitting(each, top) for name, each in schema.get("properties", {}).items()}
    must = {name: named.pop(name) for name in schema.get("required", ()) if name in named}
    return st.fixed_dictionaries(must, optional=named)


def _inside(value: Any) -> Iterator[dict[str, Any]]:
    """The objects inside of arguments that fit."""
    for each in value.values() if isinstance(value, dict) else value:
        if isinstance(each, dict):
            yield each
        if isinstance(each, dict | list):
            yield from _inside(each)


@st.composite
def spoiled(draw: st.DrawFn, tool: Tool) -> Any:
    """Arguments that nearly fit."""
    given = dict(draw(fitting(tool.parameters, tool.parameters)))
    inner = list(_inside(given))
    for _ in range(draw(st.integers(1, 2))):
        match draw(st.integers(0, 4)):
            case 4 if inner:
                draw(st.sampled_from(inner))[draw(KEYS)] = draw(TEXTS)
            case 0 if given:
                del given[draw(st.sampled_from(sorted(given, key=repr)))]
            case 1 if given:
                given[draw(st.sampled_from(sorted(given, key=repr)))] = draw(ANYTHING)
            case 2:
                given[draw(KEYS)] = draw(ANYTHING)
            case _:
                given[draw(KEYS)] = draw(TEXTS)
    return given


def _asked(tool: Tool) -> st.SearchStrategy[tuple[str, Any]]:
    good = fitting(tool.parameters, tool.parameters)
    word = good.map(lambda given: {**given, "confirmed": True}) if tool.confirmation is not None else good
    return st.tuples(st.just(tool.name), good | word | spoiled(tool) | spoiled(tool) | ANYTHING)


CALLS: st.SearchStrategy[tuple[str, Any]] = st.one_of(
    *(_asked(tool) for tool in TOOLS), st.tuples(TEXTS, ANYTHING)
)
"""The name of a tool and what is given to it."""
