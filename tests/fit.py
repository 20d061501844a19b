"""Which arguments a tool may be given at all: a second reading of its schema, which shares nothing with the gate's.

It knows the keywords that the tools in `bad_calls.py` use and fails at any other. It is strict in one thing beyond the
standard, as Metier is: an object takes no member that its schema does not name, the whole one and those inside.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

REMARKS = frozenset({"$schema", "$defs", "definitions", "title", "description"})
KINDS: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list, tuple),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int, float),
    "number": (int, float),
    "null": (type(None),),
}


def misfit(schema: dict[str, Any], arguments: Any, *, word: str = "") -> str:
    """The first reason why `arguments` must be refused; empty when there is none.

    Args:
        word: a member that may be there beside those of the schema, true or false.
    """
    if type(arguments) is not dict:
        return "no object"
    if why := next(_beyond_json(arguments), "") or next(_leads_out(schema), ""):
        return why
    if word and word in arguments:
        if type(arguments[word]) is not bool:
            return f"{word} is no yes or no"
        arguments = {name: each for name, each in arguments.items() if name != word}
    return next(_faults(schema, arguments, schema), "") or _unknown(schema, arguments, schema, whole=True)


def _beyond_json(value: Any, levels: int = 100) -> Iterator[str]:
    """What JSON has no place for."""
    if levels == 0:
        yield "too deep"
    elif isinstance(value, dict):
        yield from (f"the name {name!r}" for name in value if type(name) is not str)
        for each in value.values():
            yield from _beyond_json(each, levels - 1)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _beyond_json(each, levels - 1)
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield "no number"
    elif value is not None and not isinstance(value, str | bool | int):
        yield f"a {type(value).__name__}"


def _leads_out(schema: Any) -> Iterator[str]:
    """Nothing is fetched, so a schema that lies partly elsewhere lets nothing in."""
    if isinstance(schema, dict):
        if not str(schema.get("$ref", "#/")).startswith("#/"):
            yield f"the schema goes on at {schema['$ref']!r}"
        schema = list(schema.values())
    if isinstance(schema, list):
        for each in schema:
            yield from _leads_out(each)


def _at(reference: str, top: Any) -> dict[str, Any]:
    """What a reference leads to."""
    for part in reference.removeprefix("#/").split("/"):
        top = top[part]
    return top


def _faults(schema: dict[str, Any], value: Any, top: dict[str, Any]) -> Iterator[str]:
    for keyword, said in schema.items():
        if keyword not in REMARKS and not _holds(keyword, said, value, schema, top):
            yield f"{keyword} of {said!r}"


def _fits(schema: dict[str, Any], value: Any, top: dict[str, Any]) -> bool:
    return not any(_faults(schema, value, top)) and not _unknown(schema, value, top)


def _holds(keyword: str, said: Any, value: Any, schema: dict[str, Any], top: dict[str, Any]) -> bool:
    match keyword:
        case "type":
            return _is(said, value)
        case "enum":
            return any(_same(each, value) for each in said)
        case "$ref":
            return _fits(_at(said, top), value, top)
        case "allOf":  # who names what is asked of all together
            return not any(fault for each in said for fault in _faults(each, value, top))
        case "anyOf":
            return any(_fits(each, value, top) for each in said)
        case "properties" | "additionalProperties" | "required":
            return not isinstance(value, dict) or _members(keyword, said, value, schema, top)
        case "items" | "maxItems" | "uniqueItems":
            return not isinstance(value, list | tuple) or _items(keyword, said, value, top)
        case "minLength":
            return not isinstance(value, str) or len(value) >= said
        case "maxLength":
            return not isinstance(value, str) or len(value) <= said
        case "pattern":
            return not isinstance(value, str) or re.search(said.replace("$", r"\Z"), value) is not None
        case "minimum":
            return not _is("number", value) or value >= said
        case "maximum":
            return not _is("number", value) or value <= said
    raise AssertionError(f"{keyword} is unknown to this reading")


def _members(
    keyword: str, said: Any, value: Mapping[str, Any], schema: dict[str, Any], top: dict[str, Any]
) -> bool:
    if keyword == "required":
        return all(name in value for name in said)
    if keyword == "properties":
        return all(_fits(each, value[name], top) for name, each in said.items() if name in value)
    others = [each for name, each in value.items() if name not in schema.get("properties", {})]
    return (
        said is True or not others or (said is not False and all(_fits(said, each, top) for each in others))
    )


def _items(keyword: str, said: Any, value: Any, top: dict[str, Any]) -> bool:
    if keyword == "items":
        return all(_fits(said, each, top) for each in value)
    if keyword == "maxItems":
        return len(value) <= said
    return not said or not any(
        _same(one, other) for place, one in enumerate(value) for other in value[:place]
    )


def _is(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, KINDS[kind])


def _same(one: Any, other: Any) -> bool:
    """As JSON has it: true is not 1."""
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _unknown(schema: dict[str, Any], value: Any, top: dict[str, Any], *, whole: bool = False) -> str:
    """A member that nothing names, where the schema names any, or describes the whole."""
    if not isinstance(value, dict):
        return ""
    named = _named(schema, top)
    if named is None or not (whole or named):
        return ""
    return next((f"{name!r} is not named" for name in value if name not in named), "")


def _named(schema: dict[str, Any], top: dict[str, Any]) -> frozenset[str] | None:
    """The members that a schema names, in all its parts; None where it speaks of all others too."""
    if "additionalProperties" in schema:
        return None  # it says itself what others may be
    named = frozenset(schema.get("properties", {}))
    parts = [*schema.get("allOf", ()), *schema.get("anyOf", ())]
    if "$ref" in schema:
        parts.append(_at(schema["$ref"], top))
    for part in parts:
        inner = _named(part, top)
        if inner is None:
            return None
        named |= inner
    return named
