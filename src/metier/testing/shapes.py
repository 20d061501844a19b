"""What every provider demands of a request, and careful ways into JSON that may have any shape.

Checks are generators of problems in order of importance; a provider answers with the first.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, cast

TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def field(thing: Any, key: str) -> Any:
    """A field of an object; None when it is no object or has no such field."""
    return cast("dict[str, Any]", thing).get(key) if isinstance(thing, dict) else None


def items(thing: Any) -> list[Any]:
    """The items of an array; none when it is no array."""
    return cast("list[Any]", thing) if isinstance(thing, list) else []


def is_text(thing: Any) -> bool:
    """Whether it is a string with something in it."""
    return isinstance(thing, str) and bool(thing)


def name_problems(name: Any, place: str) -> Iterator[str]:
    """A tool's name must be one that every provider takes."""
    if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
        yield f"{place}: must match ^[a-zA-Z0-9_-]{{1,64}}$"


def schema_problems(schema: Any, place: str) -> Iterator[str]:
    """Parameters are described by a JSON Schema of an object."""
    if field(schema, "type") != "object":
        yield f"{place}: must be a JSON Schema whose type is 'object'"
    properties = field(schema, "properties")
    if not isinstance(properties, dict):
        yield f"{place}.properties: must be an object"
    for name, each in cast("dict[str, Any]", properties).items():
        if not isinstance(each, dict | bool):
            yield f"{place}.properties.{name}: must be a JSON Schema"
    required = field(schema, "required")
    if required is not None and not all(name in properties for name in items(required)):
        yield f"{place}.required: names a property that is not there"


def answer_problems(asked: Iterable[str], answered: Sequence[Any], place: str) -> Iterator[str]:
    """Every call is answered exactly once, and nothing is answered that was not asked."""
    wanted = list(asked)
    for each in wanted:
        if answered.count(each) != 1:
            yield f"{place}: call {each!r} has {answered.count(each)} results, and must have exactly one"
    for each in answered:
        if each not in wanted:
            yield f"{place}: result for {each!r} answers no call"
