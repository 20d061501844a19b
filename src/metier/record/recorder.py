"""The record as the pipeline uses it: asynchronous, and speaking of calls. A refusal that cannot be recorded stands."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Final, assert_never, final

from anyio import to_thread

from metier.errors import MetierError
from metier.model.call import ApprovedCall, Bytes, Call
from metier.model.digest import Json
from metier.model.outcome import REMEDIES, Completed, Failed, Outcome, Pending, Refused, Run
from metier.model.skill import Skill
from metier.record.audit import AuditLog, Check, IntentDenied
from metier.record.chain import Act

if TYPE_CHECKING:
    import sqlite3


_QUOTES_INPUT: Final = frozenset({"unknown_tool", "unknown_skill", "invalid_arguments"})
"""Refusals whose reasons repeat what the caller sent. That is a payload, which can be left out or erased; what is in
the chain cannot."""


@final
class Recorder:
    """Writes what happens to calls. Each method returns only after the record is on the disk."""

    def __init__(self, log: AuditLog, *, tools: Collection[str]) -> None:
        """`tools` are the names that exist; another name is something a caller wrote."""
        self._log = log
        self._tools = tools

    async def refused(self, call: Call, outcome: Refused | Pending) -> Refused | Pending:
        """Record that nothing ran. When even that cannot be recorded the answer is still no, and says so."""
        try:
            await to_thread.run_sync(self._refused, call, outcome)
        except MetierError as error:
            return _unrecorded(call, error, *outcome.reasons)
        return outcome

    async def intent(self, approved: ApprovedCall) -> int | Refused:
        """Record what is about to run, and give the number of that record. Without it nothing may run."""
        call = approved.authorized.valid.call
        try:
            made = await to_thread.run_sync(self._intent, approved)
        except MetierError as error:
            return _unrecorded(call, error)
        if isinstance(made, IntentDenied):
            denied = Refused(
                call_id=call.id, code=made.code, reasons=(made.reason,), remedy=REMEDIES[made.code]
            )
            await self.refused(call, denied)
            return denied
        return made

    async def outcome(self, intent: int, outcome: Outcome) -> Outcome:
        """Record how it ended, and give that back.

        What cannot be recorded is not handed out either: it becomes a failure that says so, and the intent stays
        open for `audit verify` to report.
        """
        try:
            await to_thread.run_sync(self._outcome, intent, outcome)
        except MetierError as error:
            message = f"it ran, but how it ended could not be recorded: {error}"
            return Failed(call_id=outcome.call_id, code="unrecorded", message=message)
        return outcome

    def _refused(self, call: Call, outcome: Refused | Pending) -> None:
        payloads: dict[str, Json] = {"arguments": _storable(call.arguments)}
        known = call.tool in self._tools
        if not known:
            payloads["tool"] = _storable(call.tool)
        act = _act(call, tool=call.tool if known else "")
        if isinstance(outcome, Pending):
            self._log.note("skill_approval_queued", act, reasons=outcome.reasons, payloads=payloads)
            return
        reasons = outcome.reasons
        if outcome.code in _QUOTES_INPUT:
            payloads["reasons"] = _storable(list(reasons))
            reasons = (outcome.code.replace("_", " "),)
        self._log.refused(act, code=outcome.code, reasons=reasons, payloads=payloads)

    def _intent(self, approved: ApprovedCall) -> int | IntentDenied:
        valid, found = approved.authorized.valid, approved.authorized.bytes
        skill = valid.skill
        act = _act(
            valid.call,
            tool=valid.tool.name,
            skill=skill.name if skill else "",
            skill_digest=found.digest if found else "",
        )
        payloads: dict[str, Json] = {"arguments": valid.arguments}
        if valid.permissions:
            payloads["permissions"] = _plain(valid.permissions.plain())
        return self._log.intent(
            act,
            reasons=approved.authorized.verdict.reasons,
            payloads=payloads,
            check=_still_usable(skill, found) if skill and found else None,
        )

    def _outcome(self, intent: int, outcome: Outcome) -> None:
        match outcome:
            case Completed(value=value, run=run):
                self._log.outcome(intent, "skill_executed", payloads={"result": value, **_seen(run)})
            case Failed(code=code, message=message, run=run):
                # What a skill may have said is a payload: it can be erased, a reason in the chain cannot.
                payloads: dict[str, Json] = {"message": message, **_seen(run)}
                self._log.outcome(intent, "skill_execution_error", code=code, payloads=payloads)
            case Refused() | Pending():
                raise ValueError("what was refused has no intent")
            case _:
                assert_never(outcome)


def _still_usable(skill: Skill, found: Bytes) -> "Check":
    """Asked inside the intent's own transaction: what was disabled or taken back a moment ago counts."""

    def check(connection: "sqlite3.Connection") -> IntentDenied | None:
        if connection.execute("SELECT 1 FROM disabled WHERE name = ?", (skill.name,)).fetchone():
            return IntentDenied(f"skill {skill.name!r}: it was disabled just now", "skill_disabled")
        if skill.source == "bundled":
            return None
        if connection.execute("SELECT 1 FROM revoked WHERE name = ?", (skill.name,)).fetchone():
            return IntentDenied(f"skill {skill.name!r}: its trust was taken back just now")
        held = connection.execute(
            "SELECT 1 FROM trust WHERE name = ? AND digest = ?", (skill.name, found.digest)
        ).fetchone()
        if held is None and not found.first_use:
            return IntentDenied(f"skill {skill.name!r}: these bytes are no longer trusted")
        return None

    return check


def _seen(run: Run | None) -> dict[str, Json]:
    """What the sandbox saw, without what the run printed: that is not ours to keep unasked."""
    if run is None:
        return {}
    kept = _plain(run)
    if isinstance(kept, dict):
        kept.pop("stdout", None)
        kept.pop("stderr", None)
    return {"run": kept}


def _plain(value: object) -> Json:
    from msgspec import to_builtins

    return to_builtins(value)


def _act(call: Call, *, tool: str, skill: str = "", skill_digest: str = "") -> Act:
    return Act(
        principal=call.principal.id,
        call_id=call.id,
        on_behalf_of=call.principal.on_behalf_of or "",
        tool=tool,
        skill=skill,
        skill_digest=skill_digest,
    )


def _storable(arguments: Json) -> Json:
    """Arguments that were refused may be anything; what JSON cannot hold is kept as its description."""
    from metier.model import strictjson

    try:
        strictjson.check(arguments)
    except ValueError as error:
        return {"unreadable": str(error)}
    return arguments


def _unrecorded(call: Call, error: MetierError, *reasons: str) -> Refused:
    return Refused(
        call_id=call.id,
        code="record_unavailable",
        reasons=(*reasons, f"it could not be recorded: {error.message}"),
        remedy=error.remedy,
    )
