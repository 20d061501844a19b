"""Records in plain words: who did what, and how it went. One line each; the whole of a record is on its own page."""

from typing import Final, Literal, TypeAlias, final

from msgspec import Struct

from metier.model.approval import State
from metier.record.chain import Record

STATES: Final[dict[State, str]] = {
    "pending": "waits for a word",
    "approved": "approved, not run yet",
    "spent": "approved and run",
    "denied": "denied",
    "expired": "nobody decided in time",
    "void": "the yes was taken back",
}
"""How a request stands, as it is said to people."""
Tone: TypeAlias = Literal["good", "bad", "wait", "plain"]
_SAID: Final[dict[str, tuple[str, Tone]]] = {
    "skill_execution_started": ("began {what}", "plain"),
    "skill_executed": ("ran {what}", "good"),
    "skill_execution_error": ("ran {what}, which failed", "bad"),
    "skill_execution_blocked": ("was refused {what}", "bad"),
    "skill_approval_queued": ("asked for {what}", "wait"),
    "skill_trusted": ("trusted the skill {skill}", "plain"),
    "skill_untrusted": ("took the trust in {skill} back", "plain"),
    "skill_pinned": ("bound {skill} to its bytes at first use", "plain"),
    "skill_disabled": ("disabled {skill}", "bad"),
    "skill_enabled": ("enabled {skill} again", "plain"),
    "skill_approved": ("approved {what}", "good"),
    "skill_rejected": ("denied {what}", "bad"),
    "decision_refused": ("tried to decide about {what}, and may not", "bad"),
    "approval_expired": ("did not hear in time about {what}", "bad"),
    "grant_given": ("gave a standing grant for {what}", "plain"),
    "grant_revoked": ("took a standing grant back", "plain"),
    "principal_added": ("registered somebody", "plain"),
    "principal_revoked": ("took somebody's rights away", "plain"),
    "token_added": ("made a token", "plain"),
    "token_revoked": ("took a token back", "plain"),
    "credential_set": ("set a password or an account", "plain"),
    "credential_revoked": ("took a password or an account away", "plain"),
    "signed_in": ("signed in", "plain"),
    "trust_level_changed": ("changed the trust level", "plain"),
    "policy_changed": ("changed the rules", "plain"),
    "stopped": ("stopped everything", "bad"),
    "resumed": ("let things run again", "good"),
    "call_cancelled": ("had a call ended", "plain"),
    "outcome_given": ("asked again for {what}, and was given how it ended", "plain"),
    "message_done": ("marked a message as done", "plain"),
    "payload_erased": ("erased what was kept beside a record", "plain"),
    "head_signed": ("signed the record", "plain"),
    "key_rotated": ("changed the key that signs", "plain"),
    "state_restored": ("restored the state from a backup", "plain"),
    "host_started": ("began to be the host", "plain"),
    "host_ended": ("ended being the host", "plain"),
}


@final
class Line(Struct, frozen=True, kw_only=True):
    """One thing that happened."""

    record: Record
    who: str
    did: str
    tone: Tone


def line(record: Record, *, began: bool = False) -> Line | None:
    """The record in words; None for the beginning of a call, unless it is wanted: its end says as much."""
    if record.event == "skill_execution_started" and not began:
        return None
    said, tone = _SAID.get(record.event, (record.event.replace("_", " "), "plain"))
    did = said.format(what=record.tool or "something", skill=record.skill or "a skill")
    return Line(record=record, who=record.principal or "Metier", did=did, tone=tone)
