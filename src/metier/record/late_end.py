"""What the record says of a run that somebody had asked for, to who asks the same again: that it was his, and how it ended."""

from typing import TYPE_CHECKING, Final, NamedTuple, cast

import msgspec

from metier.model.call import AuthorizedCall
from metier.model.digest import Json
from metier.model.outcome import Artifact, Completed, Earlier, Failed, FailureCode, Refused
from metier.record.approval_row import Row
from metier.record.beside import key_of, recorded
from metier.record.calls import alive
from metier.record.chain import Record, keyed_digest
from metier.record.glance import UNDECODABLE
from metier.record.payload import Payloads, bounded_text, payload_bytes
from metier.record.secret_arguments import kept_arguments

if TYPE_CHECKING:
    import sqlite3

_POLICIES: Final[tuple[Payloads, ...]] = ("redacted", "full")
_ENDINGS: Final = ("skill_executed", "skill_execution_error")
_CHECK: Final = "Look it up before you call it again: `metier audit show {}`. Called again it is a new act, and is asked anew"


class Found(NamedTuple):
    """A record, and what lies beside it."""

    record: Record
    keys: object
    kept: object


def record_at(connection: "sqlite3.Connection", seq: int) -> Found | None:
    """The record of this number; None when there is none that can be read."""
    row = connection.execute("SELECT body, keys, kept FROM audit WHERE seq = ?", (seq,)).fetchone()
    if row is None:
        return None
    try:
        found = Found(msgspec.json.decode(row[0], type=Record), row[1], row[2])
    except UNDECODABLE:
        return None
    return found if found.record.seq == seq else None


def began_by(authorized: AuthorizedCall, found: Found, row: Row) -> bool:
    """Whether the record of a beginning says that it is of this request, and of who asks now, with these arguments."""
    began, keys = found.record, found.keys
    valid = authorized.valid
    call, who, around = valid.call, valid.call.principal, valid.call.surroundings
    skill, held = valid.skill, authorized.bytes
    said = (
        *(began.principal, began.on_behalf_of, began.token, began.tool, began.skill, began.skill_digest),
        *(began.parent, began.session, began.channel),
    )
    asked = (
        *(who.id, who.on_behalf_of or "", who.token, valid.tool.name),
        *(skill.name if skill is not None else "", held.digest if held is not None else ""),
        *(call.parent or "", around.session or "", around.channel or ""),
    )
    if (began.event, began.evidence, began.call_id) != (
        "skill_execution_started",
        row.id,
        bounded_text(row.call_id),
    ) or said != tuple(map(bounded_text, asked)):
        return False
    key = key_of("arguments", began.payloads, keys)
    if not any(key):  # erased, and nothing is left to compare with
        return True
    given = kept_arguments(valid.tool.name, cast("Json", valid.arguments))
    digest = began.payloads["arguments"]
    return any(keyed_digest(key, payload_bytes(given, policy)) == digest for policy in _POLICIES)


def ended_as(
    connection: "sqlite3.Connection", began: Record, ended: int, earlier: Earlier, call_id: str
) -> Completed | Failed | Refused | None:
    """How the run that began so ended, as an answer to the call `call_id`; None while it runs. `ended` is the number of the record that says
    it, or 0."""
    found = record_at(connection, ended) if ended else None
    if found is None:
        row = connection.execute("SELECT process FROM open_intent WHERE seq = ?", (began.seq,)).fetchone()
        if row is not None and isinstance(row[0], str) and alive(row[0]) is not None:
            return None
        return told(call_id, earlier, "its process ended first, so nobody knows how it ended")
    record = found.record
    if record.event not in _ENDINGS or record.about != began.seq or record.call_id != began.call_id:
        return told(call_id, earlier, "how it ended is not as it was recorded (`metier audit verify`)")
    payloads = {
        name: msgspec.json.decode(body)
        for name, body in recorded(record.payloads, found.keys, found.kept).items()
    }
    artifacts = _artifacts(payloads.get("artifacts"))
    if record.event == "skill_execution_error":
        message = payloads.get("message")
        return Failed(
            call_id=call_id,
            code=cast("FailureCode", record.code),
            message=message if isinstance(message, str) else "it failed, and what it said is not kept",
            artifacts=artifacts,
            earlier=earlier,
        )
    if "result" not in payloads:
        return told(call_id, earlier, "it completed, and what it returned is not kept")
    return Completed(call_id=call_id, value=payloads["result"], artifacts=artifacts, earlier=earlier)


def told(call_id: str, earlier: Earlier, how: str) -> Refused:
    """What is told of a run of which there is nothing to be given."""
    reason = f"it ran already, at {earlier.at} as {earlier.call_id}, approved by {earlier.approved_by}: {how}"
    remedy = _CHECK.format(earlier.call_id)
    return Refused(call_id=call_id, code="already_begun", reasons=(reason,), remedy=remedy)


def _artifacts(kept: Json) -> tuple[Artifact, ...]:
    try:
        return msgspec.convert(kept or (), tuple[Artifact, ...])
    except msgspec.ValidationError:
        return ()
