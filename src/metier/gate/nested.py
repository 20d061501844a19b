"""Objects inside the arguments, closed like the whole: a member that their schema does not mention is refused.

Only where that is sound. An object is closed when its schema names members and says nothing about others. What any part of
it mentions stays allowed, also by way of `allOf`, `anyOf`, `if`, `$ref` and `required`. These stay open, as the standard has it:

- an object that two parts of a schema describe (`allOf` with `properties` for the same member in both): each knows only half;
- whatever lies below `oneOf`, `if`, `not` or `contains`: where a part becomes stricter there, the whole becomes milder;
- an object with `propertyNames`, `enum` or `const`;
- every object in a schema that refers to something by another name than its place (`$anchor`, `$dynamicRef`): what is used
  where cannot be told beforehand.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, cast

from metier.gate.old_drafts import Follow

_Schema = dict[str, Any]

_STEADY: Final = ("allOf", "anyOf", "then", "else")
"""In place, and stricter where a part is."""
_STEADY_BY_NAME: Final = ("dependentSchemas", "dependencies")
_UNSTEADY: Final = ("oneOf", "if")
_MEMBERS: Final = ("properties", "patternProperties", "additionalProperties", "unevaluatedProperties")
_ITEMS: Final = ("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains")
_OPEN: Final = ("unevaluatedProperties", "propertyNames", "enum", "const")
_NAMING: Final = ("properties", "dependentRequired", "dependentSchemas", "dependencies")
_REMARKS: Final = frozenset({"$ref", "$comment", "title", "description", "default", "examples"})


class _Part(NamedTuple):
    """A schema that judges the same value as another."""

    schema: _Schema
    steady: bool
    """Whether the whole gets stricter when this does."""


def close_nested(tree: _Schema, follow: Follow, *, old: bool) -> None:
    """Close every object inside `tree` that can be closed; `tree` itself is left to others.

    Args:
        old: of a draft in which nothing beside a reference counts.
    """
    if not _refers_to_places(tree):
        return
    walk = _Walk(tree, follow)
    walk.visit(tree, sure=True)
    for root in walk.closable():
        _close(root, [part.schema for part in walk.parts(root)], old=old)


def _refers_to_places(tree: _Schema) -> bool:
    """Whether every reference in it is a pointer to a place in it."""
    waiting: list[Any] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            schema = cast("_Schema", node)
            reference = schema.get("$ref", "#")
            if "$dynamicRef" in schema or "$recursiveRef" in schema or not isinstance(reference, str):
                return False
            if reference != "#" and not reference.startswith("#/"):
                return False
            waiting.extend(schema.values())
        elif isinstance(node, list):
            waiting.extend(cast("list[Any]", node))
    return True


class _Walk:
    """Goes through every place of a value that a schema speaks of. Nothing is changed meanwhile."""

    def __init__(self, top: _Schema, follow: Follow) -> None:
        self._top = top
        self._follow = follow
        self._roots: dict[int, _Schema] = {}
        self._open: set[int] = {id(top)}
        self._done: set[tuple[int, bool]] = set()

    def closable(self) -> list[_Schema]:
        return [root for key, root in self._roots.items() if key not in self._open]

    def visit(self, root: Any, *, sure: bool) -> None:
        """Look at what `root` says about the places inside of its own."""
        waiting: list[tuple[Any, bool]] = [(root, sure)]
        while waiting:
            node, certain = waiting.pop()
            if not isinstance(node, dict):
                continue
            schema = cast("_Schema", node)
            key = id(schema)
            if (key, certain) in self._done:
                continue
            self._done.add((key, certain))
            self._roots[key] = schema
            if not certain:
                self._open.add(key)
            parts = self.parts(schema)
            for part in parts:
                others = [each.schema for each in parts if each.schema is not part.schema]
                steady = certain and part.steady
                waiting += [(child, steady and alone) for child, alone in _children(part.schema, others)]
                waiting += [(part.schema.get(keyword), False) for keyword in ("not", "contains")]

    def parts(self, root: _Schema) -> list[_Part]:
        """The schemas that judge the same value as `root`, itself among them."""
        found: dict[int, _Part] = {}
        waiting: list[tuple[Any, bool]] = [(root, True)]
        while waiting:
            node, steady = waiting.pop()
            known = found.get(id(node))
            if not isinstance(node, dict) or (known is not None and (steady or not known.steady)):
                continue
            part = cast("_Schema", node)
            found[id(part)] = _Part(part, steady)
            waiting += [(each, steady) for keyword in _STEADY for each in _schemas(part.get(keyword))]
            waiting += [(each, steady) for name in _STEADY_BY_NAME for each in _table(part, name).values()]
            waiting += [(each, False) for keyword in _UNSTEADY for each in _schemas(part.get(keyword))]
            reference: Any = part.get("$ref")
            if isinstance(reference, str):
                target = self._follow(self._top, reference)
                self._open.add(id(target))  # whoever refers to it may add to what it mentions
                waiting.append((target, steady))
        return list(found.values())


def _schemas(value: Any) -> list[Any]:
    """The schemas under a keyword that holds one or a list of them."""
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _children(part: _Schema, others: list[_Schema]) -> Iterator[tuple[Any, bool]]:
    """What `part` says about the members and items of its value, and whether nobody else says anything about the same."""
    named, patterns = _table(part, "properties"), _table(part, "patternProperties")
    holds = any(_table(each, keyword) for each in others for keyword in _MEMBERS)
    for name, child in named.items():
        yield child, not patterns and not any(_touches(each, name) for each in others)
    for child in patterns.values():
        yield child, len(patterns) == 1 and not named and not holds
    for keyword in ("additionalProperties", "unevaluatedProperties"):
        yield part.get(keyword), not holds
    alone = "contains" not in part and not any(keyword in each for each in others for keyword in _ITEMS)
    for keyword in ("items", "prefixItems", "additionalItems", "unevaluatedItems"):
        for child in _schemas(part.get(keyword)):
            yield child, alone


def _touches(part: _Schema, name: str) -> bool:
    """Whether it says something about the member `name`."""
    named = _table(part, "properties")
    if name in named or _table(part, "patternProperties") or _table(part, "unevaluatedProperties"):
        return True
    return bool(_table(part, "additionalProperties"))


def _table(part: _Schema, keyword: str) -> _Schema:
    held: Any = part.get(keyword)
    return cast("_Schema", held) if isinstance(held, dict) else {}


def _close(root: _Schema, parts: list[_Schema], *, old: bool) -> None:
    if "additionalProperties" in root or any(map(_is_open, parts)):
        return
    if not any(_table(part, "properties") for part in parts):
        return
    if "$ref" in root and old:
        if root.keys() - _REMARKS:
            return  # what stands beside a reference would begin to count
        root["allOf"] = [{"$ref": root.pop("$ref")}]
    for keyword, names in (("properties", _names(parts)), ("patternProperties", _patterns(parts))):
        own = root.setdefault(keyword, {})
        for name in names if isinstance(own, dict) else ():  # what is no schema is found out in a moment
            cast("_Schema", own).setdefault(name, {})
    root["additionalProperties"] = False


def _is_open(part: _Schema) -> bool:
    """Whether it says something about the members that it does not name."""
    return part.get("additionalProperties", False) is not False or any(keyword in part for keyword in _OPEN)


def _names(parts: list[_Schema]) -> Iterator[str]:
    """Every member that is mentioned."""
    for part in parts:
        for keyword in _NAMING:
            for name, needs in _table(part, keyword).items():
                yield name
                yield from _texts(needs)
        yield from _texts(part.get("required"))


def _texts(value: Any) -> list[str]:
    given = cast("list[Any]", value) if isinstance(value, list) else []
    return [each for each in given if isinstance(each, str)]


def _patterns(parts: list[_Schema]) -> Iterator[str]:
    for part in parts:
        yield from _table(part, "patternProperties")
