"""Where a schema of settings says that something is secret, also by way of references. Pure.

What cannot be told is secret: a reference that leads nowhere, or by a name instead of a place, or too many of them.
"""

from collections.abc import Iterator
from typing import Final, cast, final

from metier.dialects.xbot_settings import SECRET
from metier.model.digest import Json

DEFINITIONS: Final = ("$defs", "definitions")
_BY_PLACE: Final = "$ref"
_BY_NAME: Final = ("$dynamicRef", "$recursiveRef")
_MAPS: Final = frozenset({*DEFINITIONS, "properties", "patternProperties", "dependentSchemas"})
"""Keywords under which schemas stand by their names."""
_MOST_STEPS: Final = 100_000
"""Of looking where references lead, for a whole schema."""


@final
class Marks:
    """Those of one schema."""

    def __init__(self, schema: dict[str, Json]) -> None:
        self._any = says_secret(schema)
        self._plain: frozenset[Json] = frozenset(_leading_to_nothing_secret(schema) if self._any else ())

    def inside(self, node: Json) -> bool:
        """Whether anything in this piece of the schema is secret, or refers to what is."""
        return self._any and any(_marked(each) or self._refers(each) for each in _objects(node))

    def _refers(self, node: dict[str, Json]) -> bool:
        return _is_unclear(node) or (_BY_PLACE in node and node[_BY_PLACE] not in self._plain)


def says_secret(value: Json) -> bool:
    """Whether anything in a piece of schema says of itself that it is secret."""
    return any(map(_marked, _objects(value)))


def _leading_to_nothing_secret(schema: dict[str, Json]) -> set[str]:
    """The references of a schema of which is known where they lead, and that there is nothing secret."""
    all_ = {str(each[_BY_PLACE]) for each in _objects(schema) if _BY_PLACE in each and not _is_unclear(each)}
    secret: set[str] = set()
    from_: dict[str, list[str]] = {}
    left = _MOST_STEPS
    for reference in all_:
        way = _way(schema, reference)
        if way is None:
            secret.add(reference)
            continue
        for each in _objects(way):
            left -= 1
            if left < 0:
                return set()
            if _marked(each) or _is_unclear(each):
                secret.add(reference)
                break
            if _BY_PLACE in each:
                from_.setdefault(str(each[_BY_PLACE]), []).append(reference)
    waiting = [*secret]
    while waiting:
        for each in from_.pop(waiting.pop(), ()):
            if each not in secret:
                secret.add(each)
                waiting.append(each)
    return all_ - secret


def _way(schema: dict[str, Json], reference: str) -> list[Json] | None:
    """Where a reference leads, behind what must not be secret for that to be none: what surrounds it. None where nobody knows."""
    if reference == "#":
        return [schema]
    head, *parts = reference.split("/")
    if head != "#" or "%" in reference:
        return None
    node: Json = schema
    is_map = False
    way: list[Json] = []
    for part in parts:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and name in node:
            if not is_map:
                way.append({key: item for key, item in node.items() if key not in _MAPS and key != name})
            is_map = not is_map and name in _MAPS
            node = node[name]
        elif isinstance(node, list) and name.isdecimal() and name.isascii() and int(name) < len(node):
            node = node[int(name)]
        else:
            return None
    return [*way, node]


def _marked(node: dict[str, Json]) -> bool:
    return node.get(SECRET) not in (None, False)


def _is_unclear(node: dict[str, Json]) -> bool:
    """Whether it refers to something, and where to cannot be read."""
    return any(each in node for each in _BY_NAME) or not isinstance(node.get(_BY_PLACE, ""), str)


def _objects(value: Json) -> Iterator[dict[str, Json]]:
    """Every object in a piece of schema, itself too."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(cast("list[Json]", each))
