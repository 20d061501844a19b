"""What a person must be able to do whatever else is wrong: look, take away, and lift a stop.

Both sets name operations of Metier's own, one by one. No skill has such a name, and none of them is open to agents. Everything
else about such a call is judged as always: who asks needs his right.
"""

from typing import Final

from metier.model.entry import Operation
from metier.model.skill import Tool

TAKES_AWAY: Final = frozenset(
    {"runtime.stop", "skills.switch_off", "skills.untrust", "grants.revoke", "principals.revoke"}
)
"""These wait for no record, no readable rules and no budget: what they do can only end something."""
LOOKS_AT_RULES: Final = frozenset({"policy.rules", "policy.explain", "policy.replay"})
"""Rules that cannot be used do not refuse these: who has to mend them sees what is wrong with them, and tries others. They only read."""
WHILE_STOPPED: Final = (
    TAKES_AWAY
    | LOOKS_AT_RULES
    | {
        "runtime.resume",
        "runtime.status",
        "runtime.level_get",
        "skills.review",
        "grants.list",
        "principals.list",
        "audit.checkpoint",
        "audit.usage",
        "conv.undelivered",
        "schedules.declared",
        "schedules.get",
        "schedules.list",
        "schedules.missed",
        "secrets.list",
        "triggers.declared",
        "triggers.get",
        "triggers.list",
    }
)
"""A stop does not refuse these: nobody could lift it, or look for the reason. What one of them has run is stopped all the same."""


def only_takes_away(tool: Tool) -> bool:
    """Whether calling this can only end something."""
    return tool.name in TAKES_AWAY and _own(tool)


def needs_no_rules(tool: Tool) -> bool:
    """Whether this is judged without the rules where they cannot be used."""
    return tool.name in TAKES_AWAY | LOOKS_AT_RULES and _own(tool)


def while_stopped(tool: Tool) -> bool:
    """Whether a stop does not refuse this."""
    return tool.name in WHILE_STOPPED and _own(tool)


def _own(tool: Tool) -> bool:
    return tool.audience == "operator" and not tool.skill and isinstance(tool.entry, Operation)
