"""The tools one client is shown: those that models may call and that its principal has the right to."""

import logging
from collections.abc import Iterable
from typing import Final

import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from metier.disclosure.schemas import shaped
from metier.doors.mcp.peer import Peer, standing_of
from metier.model.digest import Json
from metier.model.role import Standing
from metier.model.skill import Tool
from metier.runtime import Runtime
from metier.runtime.engine import Engine

PAGE: Final = 250
_log: Final = logging.getLogger("metier.mcp")


def listed(offered: Iterable[Tool], standing: Standing) -> list[types.Tool]:
    """Those tools in the protocol's own type. What no client could read is left out: one of them would take all others with it."""
    if standing.problem:
        return []
    may = [tool for tool in offered if tool.permission in standing.rights and not tool.privileged]
    made = (_one(shown) for shown in shaped(may, "mcp"))
    return [tool for tool in made if tool is not None]


async def shown_to(engine: Engine, peer: Peer) -> list[types.Tool]:
    """Those that `peer` is shown now.

    Raises:
        MetierError: when configuration or state cannot be used.
    """
    await engine.refresh()
    standing = await standing_of(peer, engine.state.database)
    offered = Runtime(engine, peer.principal)._offered  # pyright: ignore[reportPrivateUsage]
    return listed(offered, standing)


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
    if not _is_carried(shown["inputSchema"]):
        _log.warning("the tool %r has a schema that MCP cannot carry, so it is not shown", shown["name"])
        return None
    returns = shown.get("outputSchema")
    if returns is not None and not _is_carried({"properties": {}, **_object(returns)}):
        _log.warning(
            "the tool %r says what it returns in a way that MCP cannot carry, so that is not shown",
            shown["name"],
        )
        shown = {key: value for key, value in shown.items() if key != "outputSchema"}
    try:
        return types.Tool.model_validate(shown)
    except ValidationError:
        _log.warning("the tool %r cannot be carried by MCP, so it is not shown", shown["name"])
        return None


def _is_carried(schema: Json) -> bool:
    """Whether both generations of the protocol take it for a schema of an object, and a message can hold it."""
    properties = _object(schema).get("properties")
    try:
        msgspec.json.encode(schema)
    except UnicodeEncodeError:  # half a character
        return False
    return (
        isinstance(schema, dict)
        and schema.get("type") == "object"
        and isinstance(properties, dict)
        and all(isinstance(each, dict | bool) for each in properties.values())
        and _names(schema.get("required", []))
        and isinstance(schema.get("$schema", ""), str)
    )


def _object(given: Json) -> dict[str, Json]:
    return given if isinstance(given, dict) else {}


def _names(given: Json) -> bool:
    return isinstance(given, list) and all(isinstance(each, str) for each in given)
