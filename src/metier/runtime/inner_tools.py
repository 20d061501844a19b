"""The operations that running code may ask for. They are tools as any other, but no model is told of them and nobody calls them
from outside: what each needs is a permission of its own name, which only skills are granted."""

from collections.abc import Mapping
from typing import Final

from metier.model.digest import Json
from metier.model.entry import Operation
from metier.model.permission import PermissionSet
from metier.model.skill import Tool

MEMORY_SEARCH: Final = "memory.search"
AGENTS_RUN: Final = "agents.run"
AGENTS_STATUS: Final = "agents.status"
_BYTES: Final[Json] = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
_NAME: Final[Json] = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"}

_TOOLS: Final = (
    Tool(
        name=MEMORY_SEARCH,
        description="Find memories of the workspace by words and by meaning.",
        parameters={
            "type": "object",
            "properties": {
                "query": {"type": "string", "minLength": 1, "maxLength": 2_000},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100},
                "minSimilarity": {"type": "number", "minimum": 0, "maximum": 1},
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        effect="read",
        risk="low",
        minimum_trust="observe",
        permissions=PermissionSet(operations=frozenset({MEMORY_SEARCH})),
        entry=Operation(module="memory", operation="search"),
    ),
    Tool(
        name=AGENTS_RUN,
        description="Run an agent of the workspace (brain/agents).",
        parameters={
            "type": "object",
            "properties": {"agentName": _NAME, "digest": _BYTES, "wait": {"type": "boolean"}},
            "required": ["agentName", "digest"],
            "additionalProperties": False,
        },
        effect="act",
        risk="medium",
        checks={"agentName": "isValidAgent"},
        permissions=PermissionSet(operations=frozenset({AGENTS_RUN})),
        entry=Operation(module="agents", operation="run"),
    ),
    Tool(
        name=AGENTS_STATUS,
        description="Whether an agent of the workspace is running.",
        parameters={
            "type": "object",
            "properties": {"agentName": _NAME},
            "required": ["agentName"],
            "additionalProperties": False,
        },
        effect="read",
        risk="low",
        minimum_trust="observe",
        permissions=PermissionSet(operations=frozenset({AGENTS_STATUS})),
        entry=Operation(module="agents", operation="status"),
    ),
)
INNER_TOOLS: Final[Mapping[str, Tool]] = {each.name: each for each in _TOOLS}
