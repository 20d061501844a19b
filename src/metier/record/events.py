"""The closed set of audit events. Level and category belong to the event; nobody who records one can choose them."""

from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

Event: TypeAlias = Literal[
    "skill_execution_started",
    "skill_executed",
    "skill_execution_error",
    "skill_execution_blocked",
    "skill_approval_queued",
    "skill_trusted",
    "skill_untrusted",
    "skill_pinned",
    "skill_disabled",
    "skill_enabled",
    "payload_erased",
]
Ending: TypeAlias = Literal["skill_executed", "skill_execution_error"]
"""The two ways an intent can end."""
Note: TypeAlias = Literal["skill_execution_blocked", "skill_approval_queued"]
"""Events of a call that never began. Trust and erasure write their own, together with what they change."""

Level: TypeAlias = Literal["info", "warning", "error"]
Category: TypeAlias = Literal["action", "decision", "security", "system"]


class Kind(NamedTuple):
    """What is fixed for every record of one event."""

    level: Level
    category: Category


EVENTS: Final = MappingProxyType[Event, Kind](
    {
        "skill_execution_started": Kind("info", "action"),  # the intent: written before anything acts
        "skill_executed": Kind("info", "action"),
        "skill_execution_error": Kind("error", "action"),  # it ran, or tried to, and did not end well
        "skill_execution_blocked": Kind("warning", "security"),  # refused: nothing ran
        "skill_approval_queued": Kind("info", "decision"),
        "skill_trusted": Kind("info", "security"),
        "skill_untrusted": Kind("info", "security"),
        "skill_pinned": Kind("info", "security"),  # bytes bound at first use
        "skill_disabled": Kind("error", "security"),  # after a violation, at once and everywhere
        "skill_enabled": Kind("info", "security"),  # a person lifted that
        "payload_erased": Kind("warning", "system"),
    }
)
