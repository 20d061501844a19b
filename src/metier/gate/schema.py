"""JSON Schemas that strangers wrote, made harmless: nothing is fetched, size is bounded, values are not quoted."""

from functools import lru_cache
from typing import Any, Final, cast
from urllib.parse import unquote

import jsonschema_rs
import msgspec

from metier.model.digest import Json
from metier.model.text import one_line

MAX_NODES: Final = 10_000
"""With references expanded: a ladder of `$ref` and `anyOf` doubles at every level, and validating follows it."""
MAX_BYTES: Final = 262_144
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")

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
    for error in _usable(schema).iter_errors(arguments):
        kind: Any = error.kind
        keyword = str(kind.name) if kind is not None else ""
        names = getattr(kind, "unexpected", None) or getattr(kind, "property", None)
        path = [str(part) for part in cast("list[object]", error.instance_path)]
        if names:
            path.append(names if isinstance(names, str) else ", ".join(cast("list[str]", names)))
        place = one_line("/".join(path), 120) or "the whole"
        return f"argument {place!r} {_WORDS.get(keyword, f'does not fit {keyword!r} of the schema')}"
    return ""


def schema_problem(schema: dict[str, Json]) -> str:
    """Why a schema cannot be used, or nothing."""
    try:
        _usable(schema)
    except ValueError as error:
        return str(error)
    return ""


def _usable(schema: dict[str, Json]) -> Any:
    try:
        return _validator(msgspec.json.encode(schema))
    except RecursionError:
        raise ValueError("the schema is nested too deeply") from None


@lru_cache(maxsize=1024)
def _validator(schema: bytes) -> Any:
    if len(schema) > MAX_BYTES:
        raise ValueError(f"the schema has {len(schema):,} bytes; at most {MAX_BYTES:,} are read")
    tree = cast("dict[str, Any]", msgspec.json.decode(schema))
    if schema.count(b'"$id"') > ("$id" in tree):
        raise ValueError("the schema holds another with an $id of its own; give only the whole an $id")
    if _size(tree, tree, {}, ()) > MAX_NODES:
        raise ValueError(f"the schema has more than {MAX_NODES:,} nodes once its references are followed")
    if not {"additionalProperties", "unevaluatedProperties"} & tree.keys():
        tree["unevaluatedProperties"] = False  # unlike additionalProperties it sees through allOf and $ref
    try:
        return jsonschema_rs.validator_for(tree, retriever=_refuse)
    except ValueError as error:
        raise ValueError(
            f"the schema cannot be used: {one_line(str(error).partition('Failed')[0], 200)}"
        ) from None


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
                known[reference] = _size(_follow(top, reference), top, known, (*path, reference))
            total += known[reference]
    return min(total, MAX_NODES + 1)


def _sum(nodes: list[Any], top: Any, known: dict[str, int], path: tuple[str, ...]) -> int:
    total = 1
    for node in nodes:
        total += _size(node, top, known, path)
        if total > MAX_NODES:
            break
    return total


def _follow(top: Any, reference: str) -> Any:
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
