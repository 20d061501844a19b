"""Schemas of the drafts 4, 6 and 7, closed: they have no word for "nothing but what is mentioned anywhere".

So what is mentioned where it counts for the whole (through `allOf`, `$ref` and the like) is gathered and written at the
top, beside an `additionalProperties: false`.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

Follow: TypeAlias = Callable[[Any, str], Any]
"""Where a reference of a schema leads."""
_EACH: Final = ("allOf", "anyOf", "oneOf")
_ONE: Final = ("if", "then", "else")


def close_old(tree: dict[str, Any], follow: Follow) -> None:
    """Make `tree` refuse every argument it does not mention, unless it says itself that others are welcome."""
    if "additionalProperties" in tree and "$ref" not in tree:
        return
    parts = _for_the_whole(tree, follow)
    if "$ref" in tree:
        # In these drafts nothing beside a reference counts.
        others: Any = tree.get("allOf")
        tree["allOf"] = [
            {"$ref": tree.pop("$ref")},
            *(cast("list[Any]", others) if isinstance(others, list) else ()),
        ]
    if any(part.get("additionalProperties", False) is not False for part in parts):
        return
    for keyword in ("properties", "patternProperties"):
        own = tree.setdefault(keyword, {})
        if not isinstance(own, dict):
            continue  # it is no schema, and that is found out in a moment
        for part in parts:
            named = part.get(keyword)
            for name in cast("dict[str, Any]", named) if isinstance(named, dict) else ():
                cast("dict[str, Any]", own).setdefault(name, {})
    tree["additionalProperties"] = False


def _for_the_whole(tree: dict[str, Any], follow: Follow) -> list[dict[str, Any]]:
    """The schemas inside `tree` that judge the same value as it does."""
    found: dict[int, dict[str, Any]] = {}
    nodes: list[Any] = [tree]
    while nodes:
        node = nodes.pop()
        if not isinstance(node, dict) or id(cast("dict[str, Any]", node)) in found:
            continue
        branch = cast("dict[str, Any]", node)
        found[id(branch)] = branch
        for keyword in _EACH:
            each: Any = branch.get(keyword)
            nodes.extend(cast("list[Any]", each) if isinstance(each, list) else ())
        nodes.extend(branch.get(keyword) for keyword in _ONE)
        depends: Any = branch.get("dependencies")
        nodes.extend(cast("dict[str, Any]", depends).values() if isinstance(depends, dict) else ())
        reference: Any = branch.get("$ref")
        if isinstance(reference, str):
            nodes.append(follow(tree, reference))
    return list(found.values())
