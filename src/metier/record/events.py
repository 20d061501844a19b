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
    "skill_approved",
    "skill_rejected",
    "decision_refused",
    "approval_expired",
    "grant_given",
    "grant_revoked",
    "principal_added",
    "principal_revoked",
    "token_added",
    "token_revoked",
    "credential_set",
    "credential_revoked",
    "signed_in",
    "trust_level_changed",
    "policy_changed",
    "stopped",
    "resumed",
    "call_cancelled",
    "outcome_given",
    "message_done",
    "payload_erased",
    "head_signed",
    "key_rotated",
    "state_restored",
    "host_started",
    "host_ended",
]
Ending: TypeAlias = Literal["skill_executed", "skill_execution_error"]
"""The two ways an intent can end."""
Note: TypeAlias = Literal["skill_execution_blocked", "skill_approval_queued", "outcome_given"]
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
        "skill_approved": Kind("info", "decision"),
        "skill_rejected": Kind("info", "decision"),
        "decision_refused": Kind("warning", "security"),  # who may not decide tried to, or came too late
        "approval_expired": Kind("info", "decision"),
        "grant_given": Kind(
            "warning", "security"
        ),  # a standing one: acts will run that nobody is asked about
        "grant_revoked": Kind("info", "security"),
        "principal_added": Kind("warning", "security"),
        "principal_revoked": Kind("info", "security"),
        "token_added": Kind("warning", "security"),  # a program can act as somebody
        "token_revoked": Kind("info", "security"),
        "credential_set": Kind("warning", "security"),  # a password, or the account of an identity provider
        "credential_revoked": Kind("info", "security"),
        "signed_in": Kind("info", "security"),  # a person, in a browser
        "trust_level_changed": Kind("warning", "security"),
        "policy_changed": Kind("warning", "security"),
        "stopped": Kind("warning", "security"),
        "resumed": Kind("warning", "security"),
        "call_cancelled": Kind("info", "action"),
        "outcome_given": Kind("info", "action"),  # nothing ran: who asked is given how it ended elsewhere
        "message_done": Kind("info", "action"),  # one that could not be delivered is with the operator
        "payload_erased": Kind("warning", "system"),
        "head_signed": Kind("info", "system"),
        "key_rotated": Kind("warning", "system"),
        "state_restored": Kind("warning", "system"),
        "host_started": Kind("info", "system"),  # from here on things run by themselves
        "host_ended": Kind("info", "system"),
    }
)
