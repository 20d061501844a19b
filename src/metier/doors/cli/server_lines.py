"""All that an MCP server says of its tools, for whoever lets them in: a model is told it, so a person is shown it, and whole."""

from collections.abc import Iterator

import msgspec

from metier.model.digest import Json
from metier.model.mcp_listing import changes, named
from metier.model.text import one_line

_SCHEMAS = ("inputSchema", "outputSchema")


def schema(field: str, given: Json) -> list[str]:
    """A line for each parameter, and for each other thing that a schema says."""
    return [f"{place}: {text}" for place, text in _said({field: given}).items()]


def more(listing: dict[str, Json]) -> Iterator[str]:
    """What a server says of its tools besides their descriptions and schemas."""
    for name, tool in named(listing).items():
        rest: dict[str, Json] = {
            key: value for key, value in tool.items() if key not in ("name", "description", *_SCHEMAS)
        }
        for place, text in _said(rest).items():
            yield f"{one_line(name, 64)} says {place}: {text}"


def changed(before: dict[str, Json], now: dict[str, Json]) -> Iterator[str]:
    """What is said otherwise than it was: both, and whole."""
    old, new = named(before), named(now)
    for name, how in changes(before, now).items():
        yield f"{one_line(name, 64)} is {one_line(how)}"
        was, is_now = _said(old.get(name, {})), _said(new.get(name, {}))
        for place in [*was, *(place for place in is_now if place not in was)] if name in old else ():
            if was.get(place) != is_now.get(place):
                yield f"  {place} was: {was.get(place, '(nothing)')}"
                yield f"  {place} is now: {is_now.get(place, '(nothing)')}"


def _said(tool: dict[str, Json]) -> dict[str, str]:
    """Everything that is said, by where; nothing is cut."""
    found: dict[str, str] = {}
    for key, value in tool.items():
        if key not in _SCHEMAS or not isinstance(value, dict):
            found[one_line(key)] = _text(value)
            continue
        for word, meant in value.items():
            if word == "properties" and isinstance(meant, dict):
                found |= {f"{key} {one_line(name)}": _text(each) for name, each in meant.items()}
            else:
                found[f"{key}, {one_line(word)}"] = _text(meant)
    return found


def _text(value: Json) -> str:
    return one_line(value if isinstance(value, str) else msgspec.json.encode(value).decode())
