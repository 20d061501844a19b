"""The tools one client is shown: those that models may call and that its principal has the right to."""

import logging
from collections.abc import Iterable
from typing import Final

import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from metier.disclosure.schemas import shaped
from metier.model.digest import Json
from metier.model.role import Standing
from metier.model.skill import Tool

PAGE: Final = 250
_log: Final = logging.getLogger("metier.mcp")


def listed(offered: Iterable[Tool], standing: Standing) -> list[types.Tool]:
    """Those tools in the protocol's own type. What no client could read is left out: one of them would take all others with it."""
    if standing.problem:
        return []
    may = [tool for tool in offered if tool.permission in standing.rights and not tool.privileged]
    made = (_one(shown) for shown in shaped(may, "mcp"))
    return [tool for tool in made if tool is not None]


def page(params: types.PaginatedRequestParams | None, many: int) -> tuple[int, int, str | None]:
    """From where to where the next page goes, and how the one after it is asked for.

    Raises:
        MCPError: when the cursor is none of ours.
    """
    cursor = params.cursor if params is not None and params.cursor is not None else "0"
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 8):
        raise MCPError(types.INVALID_PARAMS, "the cursor is none that was given out here")
    begin = int(cursor)
    end = begin + PAGE
    return begin, end, str(end) if end < many else None


def _one(shown: dict[str, Json]) -> types.Tool | None:
    schema = shown["inputSchema"]
    properties = schema.get("properties") if isinstance(schema, dict) else None
    sound = (
        isinstance(schema, dict)
        and schema.get("type") == "object"
        and isinstance(properties, dict)
        and all(isinstance(each, dict | bool) for each in properties.values())
        and _names(schema.get("required", []))
        and isinstance(schema.get("$schema", ""), str)
    )
    try:
        if sound:
            return types.Tool.model_validate(shown)
    except ValidationError:
        pass
    _log.warning("the tool %r has a schema that MCP cannot carry, so it is not shown", shown["name"])
    return None


def _names(given: Json) -> bool:
    return isinstance(given, list) and all(isinstance(each, str) for each in given)
