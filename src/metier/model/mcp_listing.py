"""What an MCP server says of its tools, and how much of that is read. Pure.

Each tool has a pin: the digest of all that the server said of it, so also of what Metier does not read. A tool whose pin
changed is another one.
"""

import re
from typing import Final

from metier.model.digest import Json, digest

MOST_TOOLS: Final = 128
MOST_TOOL_BYTES: Final = 65_536
MOST_BYTES: Final = 196_608
"""Of all tools together, as they are kept."""
NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", re.ASCII)
"""What a tool may be called."""
LISTING: Final = "tools"


def pin_of(tool: dict[str, Json]) -> str:
    """The digest of everything said of a tool. Raises ValueError for what has none."""
    return digest(tool)


def named(listing: dict[str, Json]) -> dict[str, dict[str, Json]]:
    """The tools of a listing that was kept, by name."""
    tools = listing.get(LISTING)
    found: dict[str, dict[str, Json]] = {}
    for each in tools if isinstance(tools, list) else ():
        if isinstance(each, dict) and isinstance(name := each.get("name"), str):
            found.setdefault(name, each)
    return found


def changes(before: dict[str, Json], now: dict[str, Json]) -> dict[str, str]:
    """By name, what is otherwise than it was: `new`, `gone`, or the fields that changed."""
    old, new = named(before), named(now)
    found: dict[str, str] = {}
    for name in sorted(old.keys() | new.keys()):
        if name not in old:
            found[name] = "new"
        elif name not in new:
            found[name] = "gone"
        elif pin_of(old[name]) != pin_of(new[name]):
            found[name] = f"changed: {', '.join(_otherwise(old[name], new[name]))}"
    return found


def _otherwise(old: dict[str, Json], new: dict[str, Json]) -> list[str]:
    """Fields that differ, by what a pin tells apart: to Python, `true` and `1` are the same."""
    return sorted(
        key
        for key in old.keys() | new.keys()
        if (key in old) != (key in new) or digest(old.get(key)) != digest(new.get(key))
    )
