"""The record as the pipeline uses it: asynchronous, and speaking of calls. A refusal that cannot be recorded stands."""

from typing import assert_never, final

from anyio import to_thread

from metier.errors import RecordError
from metier.model.call import ApprovedCall, Call
from metier.model.digest import Json
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.record.audit import AuditLog, IntentDenied
from metier.record.chain import Act


@final
class Recorder:
    """Writes what happens to calls. Each method returns only after the record is on the disk."""

    def __init__(self, log: AuditLog) -> None:
        self._log = log

    async def refused(self, call: Call, outcome: Refused | Pending) -> Refused | Pending:
        """Record that nothing ran. When even that cannot be recorded the answer is still no, and says so."""
        try:
            await to_thread.run_sync(self._refused, call, outcome)
        except RecordError as error:
            return _unrecorded(call, error, *outcome.reasons)
        return outcome

    async def intent(self, approved: ApprovedCall) -> int | Refused:
        """Record what is about to run, and give the number of that record. Without it nothing may run."""
        valid = approved.authorized.valid
        try:
            made = await to_thread.run_sync(self._intent, approved)
        except RecordError as error:
            return _unrecorded(valid.call, error)
        if isinstance(made, IntentDenied):
            return Refused(call_id=valid.call.id, code="forbidden", reasons=(made.reason,))
        return made

    async def outcome(self, intent: int, outcome: Outcome) -> None:
        """Record how it ended.

        Raises:
            RecordError: when it cannot be written; the intent then stays open and is reported by `audit verify`.
        """
        await to_thread.run_sync(self._outcome, intent, outcome)

    def _refused(self, call: Call, outcome: Refused | Pending) -> None:
        payloads: dict[str, Json] = {"arguments": _storable(call.arguments)}
        if isinstance(outcome, Pending):
            self._log.note("skill_approval_queued", _act(call), reasons=outcome.reasons, payloads=payloads)
        else:
            self._log.refused(_act(call), code=outcome.code, reasons=outcome.reasons, payloads=payloads)

    def _intent(self, approved: ApprovedCall) -> int | IntentDenied:
        valid = approved.authorized.valid
        found = approved.authorized.bytes
        act = _act(
            valid.call,
            skill=valid.skill.name if valid.skill else "",
            skill_digest=found.digest if found else "",
        )
        return self._log.intent(
            act, reasons=approved.authorized.verdict.reasons, payloads={"arguments": valid.arguments}
        )

    def _outcome(self, intent: int, outcome: Outcome) -> None:
        match outcome:
            case Completed(value=value):
                self._log.outcome(intent, "skill_executed", payloads={"result": value})
            case Failed(code=code, message=message):
                # What a skill may have said is a payload: it can be erased, a reason in the chain cannot.
                self._log.outcome(intent, "skill_execution_error", code=code, payloads={"message": message})
            case Refused() | Pending():
                raise ValueError("what was refused has no intent")
            case _:
                assert_never(outcome)


def _act(call: Call, *, skill: str = "", skill_digest: str = "") -> Act:
    return Act(
        principal=call.principal.id,
        call_id=call.id,
        on_behalf_of=call.principal.on_behalf_of or "",
        tool=call.tool,
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


def _unrecorded(call: Call, error: RecordError, *reasons: str) -> Refused:
    return Refused(
        call_id=call.id,
        code="record_unavailable",
        reasons=(*reasons, f"it could not be recorded: {error.message}"),
        remedy=error.remedy,
    )
