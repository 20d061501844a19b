"""Text arguments cleaned as an Amber router does it: instead of being refused, some of it is taken away.

C0 characters other than tab and line ends go, and so does what lies beyond 1,000 characters, or beyond the `maxLength`
of that place in the schema where that is more. Keys, numbers and the shape of the whole stay as they are. It comes before
the schema is asked, so what the schema forbids stays forbidden.
"""

import re
from typing import Any, Final, cast

from metier.gate.schema import follow
from metier.model.digest import Json

LONGEST: Final = 1_000
"""Characters of a text for which the schema names no greater length."""
_C0: Final = re.compile("[\u0000-\u0008\u000b\u000c\u000e-\u001f]")
_SAME_PLACE: Final = ("allOf", "anyOf", "oneOf")
_SAME_PLACE_ONE: Final = ("if", "then", "else")

_Path = tuple[str | int, ...]


def sanitized(arguments: dict[str, Json], schema: dict[str, Json]) -> dict[str, Json]:
    """A copy of `arguments` with every text in it cleaned. The schema has been found usable before."""
    places = _Places(schema)
    return {name: _clean(value, places, (name,)) for name, value in arguments.items()}


def _clean(value: Json, places: "_Places", path: _Path) -> Json:
    if isinstance(value, str):
        text = _C0.sub("", value)
        return text if len(text) <= LONGEST else text[: places.longest(path)]
    if isinstance(value, list):
        return [_clean(item, places, (*path, index)) for index, item in enumerate(value)]
    if isinstance(value, dict):
        return {name: _clean(item, places, (*path, name)) for name, item in value.items()}
    return value


class _Places:
    """Which parts of a schema speak about which place in the arguments. Asked only for texts that may have to be cut."""

    def __init__(self, schema: dict[str, Json]) -> None:
        self._top = schema
        self._known: dict[_Path, list[dict[str, Any]]] = {}

    def longest(self, path: _Path) -> int:
        lengths = [part.get("maxLength") for part in self._at(path)]
        return max([LONGEST, *(length for length in lengths if type(length) is int)])

    def _at(self, path: _Path) -> list[dict[str, Any]]:
        if not path:
            return self._joined([self._top])
        # The last step is not kept: a list of many texts would be kept as often.
        above = self._known.get(path[:-1])
        if above is None:
            above = self._known[path[:-1]] = self._at(path[:-1])
        return self._joined([below for part in above for below in _step(part, path[-1])])

    def _joined(self, nodes: list[Any]) -> list[dict[str, Any]]:
        """Those parts, and what they say about the same place by way of others."""
        found: dict[int, dict[str, Any]] = {}
        while nodes:
            node = nodes.pop()
            if not isinstance(node, dict) or id(cast("dict[str, Any]", node)) in found:
                continue
            part = cast("dict[str, Any]", node)
            found[id(part)] = part
            for keyword in _SAME_PLACE:
                each = part.get(keyword)
                nodes.extend(cast("list[Any]", each) if isinstance(each, list) else ())
            nodes.extend(part.get(keyword) for keyword in _SAME_PLACE_ONE)
            reference = part.get("$ref")
            if isinstance(reference, str):
                nodes.append(follow(self._top, reference))
        return list(found.values())


def _step(part: dict[str, Any], to: str | int) -> list[Any]:
    """What a part of the schema says about the member `to` of its place."""
    if isinstance(to, str):
        named: Any = part.get("properties")
        if isinstance(named, dict) and to in named:
            return [cast("dict[str, Any]", named)[to]]
        return [part.get("additionalProperties")]
    items: Any = part.get("items")
    # Drafts before 2020-12 write the first ones as `items`, and the others as `additionalItems`.
    old = isinstance(items, list)
    first: Any = cast("list[Any]", items) if old else part.get("prefixItems")
    if isinstance(first, list) and to < len(cast("list[Any]", first)):
        return [cast("list[Any]", first)[to]]
    return [part.get("additionalItems") if old else items]
