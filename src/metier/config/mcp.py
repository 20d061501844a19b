"""`[mcp]` of metier.toml: what programs that speak MCP are to us."""

import re
from typing import Annotated, Final, final

from msgspec import Meta, Struct

from metier.errors import ConfigError

_AGENT: Final = r"agent:[A-Za-z0-9][A-Za-z0-9._-]{0,99}"


@final
class McpSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[mcp]`."""

    own_clients: frozenset[str] = frozenset()
    """Agents, each by its id, whose client is the operator himself: what he answers there is his word, as at the terminal. Empty:
    what comes over such a connection confirms, and approves nothing."""
    wait_seconds: Annotated[float, Meta(ge=0, le=600)] = 20.0
    """How long a call that somebody has to approve is held, so that a word given meanwhile counts at once."""


def checked(written: McpSettings) -> McpSettings:
    """The same.

    Raises:
        ConfigError: when it says what cannot be.
    """
    for id in sorted(written.own_clients):
        if not re.fullmatch(_AGENT, id):
            raise ConfigError(
                f"[mcp] own_clients: {id[:80]!r} is no agent",
                remedy="Write agent:NAME, one id for each client, as `metier principals list` has it: nobody else, and no *",
            )
    return written
