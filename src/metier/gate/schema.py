"""JSON Schemas that strangers wrote, made harmless: nothing is fetched, size is bounded, values are not quoted."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, cast
from urllib.parse import unquote

import jsonschema_rs
import msgspec

from metier.gate.nested import close_nested
from metier.gate.old_drafts import close_old
from metier.model.digest import Json
from metier.model.text import one_line

MAX_STEPS: Final = 2_000_000
"""Nodes of a schema times values to be checked: comparing cannot be interrupted, and nothing else goes on meanwhile."""
MAX_NODES: Final = 10_000
"""With references expanded: a ladder of `$ref` and `anyOf` doubles at every level, and validating follows it."""
MAX_BYTES: Final = 262_144
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_OLD: Final = (jsonschema_rs.Draft4Validator, jsonschema_rs.Draft6Validator, jsonschema_rs.Draft7Validator)
"""Drafts that know no `unevaluatedProperties`."""

_NESTED: Final = (dict, list)
_WORDS: Final = {
    "required": "is required",
    "additionalProperties": "is not known to this tool",
    "unevaluatedProperties": "is not known to this tool",
    "falseSchema": "is not allowed",
    "type": "has the wrong type",
    "enum": "is not one of the allowed values",
    "const": "is not the one allowed value",
    "maxLength": "is too long",
    "minLength": "is too short",
    "maximum": "is too large",
    "minimum": "is too small",
    "maxItems": "has too many items",
    "minItems": "has too few items",
    "pattern": "does not match the required pattern",
    "format": "is not in the required format",
}


def problem_with(schema: dict[str, Json], arguments: dict[str, Json]) -> str:
    """The first thing wrong with `arguments`, or nothing. Their values are never quoted: they may be secret.

    Raises:
        ValueError: when the schema itself cannot be used.
    """
    fault = _fault(*_usable(schema), arguments)
    return f"argument {fault}" if fault else ""


def returned_problem(schema: dict[str, Json], value: Json) -> str:
    """The first thing wrong with what a tool returned, or nothing; never quoted. What a schema of outputs does not
    mention is let through, as the standard has it.

    Raises:
        ValueError: when the schema itself cannot be used.
    """
    return _fault(*_usable(schema, closed=False), value)


def _fault(validator: Any, nodes: Callable[[Json], int], value: Json) -> str:
    if _values(value, MAX_STEPS // max(nodes(value), 1)) < 0:
        return "'the whole' has too many values, or too deep ones, to be checked against its schema"
    try:
        validator.validate(value)  # stops at the first: a list of all could be a million
    except jsonschema_rs.ValidationError as error:
        kind: Any = error.kind
        keyword = str(kind.name) if kind is not None else ""
        names = getattr(kind, "unexpected", None) or getattr(kind, "property", None)
        path = [str(part) for part in cast("list[object]", error.instance_path)]
        if names:
            path.append(names if isinstance(names, str) else ", ".join(cast("list[str]", names)[:20]))
        place = one_line("/".join(path), 120) or "the whole"
        return f"{place!r} {_WORDS.get(keyword, f'does not fit {keyword!r} of the schema')}"
    return ""


def schema_problem(schema: dict[str, Json]) -> str:
    """Why a schema cannot be used, or nothing."""
    try:
        _usable(schema)
    except ValueError as error:
        return str(error)
    return ""


def _values(value: Json, room: int) -> int:
    """How much of `room` is left after counting every value; below zero when they are more."""
    if not isinstance(value, _NESTED):
        return room - 1
    room -= 1 + len(value)
    for item in value.values() if isinstance(value, dict) else value:
        if room < 0:
            break
        if isinstance(item, _NESTED):
            room = _values(item, room)
    return room


def _usable(schema: dict[str, Json], *, closed: bool = True) -> tuple[Any, Callable[[Json], int]]:
    try:
        return _validator(msgspec.json.encode(schema), closed)
    except RecursionError:
        raise ValueError("the schema is nested too deeply") from None


@lru_cache(maxsize=1024)
def _validator(schema: bytes, closed: bool) -> tuple[Any, Callable[[Json], int]]:
    """What checks values, and how many nodes its schema grows to for such a value."""
    if len(schema) > MAX_BYTES:
        raise ValueError(f"the schema has {len(schema):,} bytes; at most {MAX_BYTES:,} are read")
    tree = cast("dict[str, Any]", msgspec.json.decode(schema))
    if schema.count(b'"$id"') > ("$id" in tree):
        raise ValueError("the schema holds another with an $id of its own; give only the whole an $id")
    nodes = _size(tree, tree, {}, ())
    if nodes > MAX_NODES:
        raise ValueError(f"the schema has more than {MAX_NODES:,} nodes once its references are followed")
    try:
        draft: object = jsonschema_rs.validator_cls_for(tree)
        if draft in _OLD:
            _check_old(tree)
        if closed:
            close_nested(tree, follow, old=draft in _OLD)
        if closed and draft in _OLD:
            close_old(tree, follow)
        elif closed and not {"additionalProperties", "unevaluatedProperties"} & tree.keys():
            tree["unevaluatedProperties"] = (
                False  # unlike additionalProperties it sees through allOf and $ref
            )
        # Before anything is closed: that adds no branches.
        grown = _growing(cast("dict[str, Any]", msgspec.json.decode(schema)), nodes)
        return jsonschema_rs.validator_for(tree, retriever=_refuse), grown
    except ValueError as error:
        raise ValueError(
            f"the schema cannot be used: {one_line(str(error).partition('Failed')[0], 200)}"
        ) from None


def _check_old(tree: dict[str, Any]) -> None:
    """Draft 4 writes `id`: inside another schema it would change where the references lead that were counted."""
    nodes: list[Any] = [each for name, each in tree.items() if name != "id"]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            branch = cast("dict[str, Any]", node)
            if isinstance(branch.get("id"), str):
                raise ValueError("it holds another with an id of its own; give only the whole an id")
            nodes.extend(branch.values())
        elif isinstance(node, list):
            nodes.extend(cast("list[Any]", node))


def _depth(value: Json) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0


def _growing(tree: dict[str, Any], nodes: int) -> Callable[[Json], int]:
    """A schema that refers to itself more than once doubles with every level of a value, and checking follows it."""
    references = _references(tree)
    if not references:
        return lambda _value: nodes

    @lru_cache(maxsize=64)
    def grown(depth: int) -> int:
        # Each level of the value can go once more through every reference.
        return _unrolled(tree, tree, {}, depth + len(references))

    return lambda value: grown(_depth(value))


def _references(tree: Any) -> frozenset[str]:
    found: set[str] = set()
    waiting: list[Any] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            branch = cast("dict[str, Any]", node)
            found.update(each for each in map(branch.get, _REFERENCES) if isinstance(each, str))
            waiting.extend(branch.values())
        elif isinstance(node, list):
            waiting.extend(cast("list[Any]", node))
    return frozenset(found)


def _unrolled(node: Any, top: Any, known: dict[tuple[str, int], int], left: int) -> int:
    """Nodes below `node` with references followed at most `left` times one inside the other."""
    if isinstance(node, list):
        children = cast("list[Any]", node)
    elif isinstance(node, dict):
        children = list(cast("dict[str, Any]", node).values())
    else:
        return 1
    total = 1
    for child in children:
        total += _unrolled(child, top, known, left)
    if isinstance(node, dict) and left > 0:
        for reference in filter(None, map(cast("dict[str, Any]", node).get, _REFERENCES)):
            if isinstance(reference, str):
                key = (reference, left)
                if key not in known:
                    known[key] = _unrolled(follow(top, reference), top, known, left - 1)
                total += known[key]
    return min(total, MAX_STEPS + 1)


def _refuse(uri: str) -> Any:
    raise ValueError(f"it refers to {one_line(uri, 100)}, and schemas are never fetched")


def _size(node: Any, top: Any, known: dict[str, int], path: tuple[str, ...]) -> int:
    """Nodes below `node`, counting what a local reference leads to each time it is used, cycles once."""
    if isinstance(node, list):
        return _sum(cast("list[Any]", node), top, known, path)
    if not isinstance(node, dict):
        return 1
    branch = cast("dict[str, Any]", node)
    total = _sum(list(branch.values()), top, known, path)
    for keyword in _REFERENCES:
        reference = branch.get(keyword)
        if isinstance(reference, str) and reference not in path:
            if reference not in known:
                known[reference] = _size(follow(top, reference), top, known, (*path, reference))
            total += known[reference]
    return min(total, MAX_NODES + 1)


def _sum(nodes: list[Any], top: Any, known: dict[str, int], path: tuple[str, ...]) -> int:
    total = 1
    for node in nodes:
        total += _size(node, top, known, path)
        if total > MAX_NODES:
            break
    return total


def follow(top: Any, reference: str) -> Any:
    """Where a reference leads. What is not a pointer into this schema may lead anywhere in it, so it counts as all of it."""
    node = top
    if not reference.startswith("#/"):
        return top
    for part in unquote(reference.removeprefix("#")).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict):
            node = cast("dict[str, Any]", node).get(key)
        elif isinstance(node, list) and key.isdigit() and int(key) < len(cast("list[Any]", node)):
            node = cast("list[Any]", node)[int(key)]
        else:
            return None
    return node
