"""The record as the pipeline uses it: asynchronous, and speaking of calls. A refusal that cannot be recorded stands.

Everything goes through the writer, so calls of the same moment share a transaction. Large payloads are made in a thread.
"""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar, assert_never, final

from anyio import CancelScope, to_thread
from msgspec import Struct

from metier.errors import MetierError
from metier.model.call import ApprovedCall, AuthorizedCall, Call, ValidCall
from metier.model.confirmation_flag import FLAG
from metier.model.digest import Json
from metier.model.outcome import REMEDIES, Artifact, Completed, Failed, Outcome, Pending, Refused, Run
from metier.model.permission import PermissionSet
from metier.record.approval_word import Word
from metier.record.audit import AuditLog, Condition, Intent
from metier.record.calls import this_process
from metier.record.chain import NOT_RUN, Act, Ran
from metier.record.late import Late, give, note_end
from metier.record.refused_room import REFUSED_BYTES, RefusedRoom
from metier.record.secret_arguments import kept_arguments
from metier.record.writer import Work, Writer

if TYPE_CHECKING:
    import sqlite3

_T = TypeVar("_T")
Also = Callable[["sqlite3.Connection"], None]
"""Something to be written together with a record."""

_QUOTES_INPUT: Final = frozenset({"unknown_tool", "unknown_skill", "invalid_arguments"})
"""Refusals whose reasons repeat what the caller sent. That is a payload, which can be left out or erased; what is in
the chain cannot."""
_SMALL: Final = 16_384
"""Payloads above this many characters are made in a thread."""
_NESTED: Final = (dict, list)
_NO_PERMISSIONS: Final = PermissionSet()


@final
class Unrecorded(Struct, frozen=True):
    """An intent that nobody objected to and that could not be written."""

    refused: Refused
    """What whoever asked is told."""


@final
class Recorder:
    """Writes what happens to calls. Each method returns only after the record is on the disk; being cancelled does not
    stop it."""

    def __init__(self, log: AuditLog, writer: Writer, *, tools: Callable[[str], bool]) -> None:
        """`tools` says which names exist; another name is something a caller wrote."""
        self._log = log
        self._writer = writer
        self._tools = tools
        self._process = this_process()
        self._room = RefusedRoom()

    async def refused(
        self,
        call: Call,
        outcome: Refused,
        *,
        valid: ValidCall | None = None,
        authorized: AuthorizedCall | None = None,
        also: Also | None = None,
    ) -> Refused:
        """Record that nothing ran. When even that cannot be recorded the answer is still no, and says so."""
        payloads: dict[str, Json] = {
            "arguments": _storable(kept_arguments(call.tool, call.arguments))
            if valid is None
            else _judged(valid)
        }
        known = self._tools(call.tool)
        if not known:
            payloads["tool"] = _storable(call.tool)
        reasons = outcome.reasons
        if outcome.code in _QUOTES_INPUT:
            payloads["reasons"] = _storable(list(reasons))
            reasons = (outcome.code.replace("_", " "),)
        act = _act(call, valid=valid, authorized=authorized, tool=call.tool if known else "", decision="deny")
        size = REFUSED_BYTES - max(_small(payloads, REFUSED_BYTES), 0)
        most = self._room.take(call.principal.id, size)

        def make() -> "Work[int]":
            note = self._log.noting(
                "skill_execution_blocked",
                act,
                code=outcome.code,
                reasons=reasons,
                payloads=payloads,
                most=most,
            )
            return note if also is None else _with(note, also)

        try:
            await self._write(make, payloads)
        except MetierError as error:
            return _unrecorded(call, error, *outcome.reasons)
        return outcome

    async def asked(
        self,
        authorized: AuthorizedCall,
        pending: Pending,
        *,
        grant: str,
        problem: Callable[["sqlite3.Connection"], Refused | Word | Late | None],
        queue: Callable[["sqlite3.Connection", int], None],
    ) -> Pending | Refused | Word | Late:
        """Record that somebody is asked, and put the request into the queue in the same transaction. `grant` is the
        digest of that request. Where `problem` finds that the word is there already nobody is asked, and nothing recorded; where it ran
        already, that how it ended is given."""
        valid = authorized.valid
        call = valid.call
        payloads = _about(valid)
        act = _act(call, valid=valid, authorized=authorized, tool=valid.tool.name, decision="ask")

        def make() -> "Work[Pending | Refused | Word | Late]":
            note = self._log.noting(
                "skill_approval_queued",
                act,
                reasons=pending.reasons,
                payloads=payloads,
                approval=pending.approval_id,
                grant=grant,
            )

            def work(connection: "sqlite3.Connection") -> "Pending | Refused | Word | Late":
                if (said := problem(connection)) is not None:
                    if isinstance(said, Late):
                        give(connection, said, self._given(act, said, payloads)(connection))
                    return said
                queue(connection, note(connection))
                return pending

            return work

        try:
            made = await self._write(make, payloads)
        except MetierError as error:
            return _unrecorded(call, error)
        if isinstance(made, Refused):
            return await self.refused(call, made, valid=valid, authorized=authorized)
        return made

    def _given(self, act: Act, late: Late, payloads: dict[str, Json]) -> "Work[int]":
        """That who asked is given how an act ended which ran for him elsewhere."""
        earlier = late.earlier
        return self._log.noting(
            "outcome_given",
            act,
            code=late.code,
            reasons=(f"it ran as {earlier.call_id}, approved by {earlier.approved_by}; nothing ran now",),
            payloads=payloads,
            approval=earlier.approval_id,
            grant=late.grant,
            about=late.intent,
        )

    async def intent(
        self, approved: ApprovedCall, conditions: Sequence[Condition] = ()
    ) -> Intent | Refused | Unrecorded:
        """Record what is about to run. Without it nothing may run, but for what can only end something."""
        authorized = approved.authorized
        valid = authorized.valid
        call = valid.call
        payloads = _about(valid)
        act = _act(
            call,
            valid=valid,
            authorized=authorized,
            tool=valid.tool.name,
            decision=authorized.verdict.decision.name.lower(),
            evidence=approved.evidence,
            approved_by=approved.approved_by,
        )

        try:
            made = await self._write(
                lambda: self._log.intending(
                    act,
                    reasons=authorized.verdict.reasons,
                    payloads=payloads,
                    conditions=conditions,
                    process=self._process,
                ),
                payloads,
            )
        except MetierError as error:
            return Unrecorded(_unrecorded(call, error))
        if isinstance(made, Intent):  # and nothing but an intent lets anything run
            return made
        denied = Refused(
            call_id=call.id, code=made.code, reasons=(made.reason,), remedy=REMEDIES.get(made.code, "")
        )
        return await self.refused(call, denied, valid=valid, authorized=authorized)

    async def outcome(
        self,
        intent: Intent,
        outcome: Outcome,
        *,
        began: float,
        ran: Ran = NOT_RUN,
        returned: Outcome | None = None,
    ) -> Outcome:
        """Record how it ended, and give that back. `returned` is what came back where that is not what is handed on.

        What cannot be recorded is not handed out either: it becomes a failure that says so, and the intent stays
        open for `audit verify` to report.
        """
        took = Ran(
            sandbox=ran.sandbox,
            guarantees=ran.guarantees,
            duration_ms=round((time.monotonic() - began) * 1000, 3),
        )
        match outcome:
            case Completed(value=value, run=run):
                payloads: dict[str, Json] = {"result": value, **_seen(run), **_kept(outcome.artifacts)}
                event, code = "skill_executed", ""
            case Failed(code=code, message=message, run=run):
                # What a skill may have said is a payload: it can be erased, a reason in the chain cannot.
                payloads = {"message": message, **_seen(run), **_kept(outcome.artifacts)}
                if isinstance(returned, Completed):
                    payloads["result"] = returned.value
                event = "skill_execution_error"
            case Refused() | Pending():
                raise ValueError("what was refused has no intent")
            case _:
                assert_never(outcome)
        try:
            await self._write(
                lambda: _remembered(
                    intent, self._log.ending(intent, event, code=code, payloads=payloads, ran=took)
                ),
                payloads,
            )
        except MetierError as error:
            said = f"it ran, but how it ended could not be recorded: {error}"
            return Failed(call_id=outcome.call_id, code="unrecorded", message=said)
        return outcome

    async def _write(self, make: Callable[[], Work[_T]], payloads: dict[str, Json]) -> _T:
        """Make the work, where that takes long in a thread, and have it done."""
        if _small(payloads, _SMALL) >= 0:
            return await self._writer.write(make())
        with CancelScope(shield=True):
            return await self._writer.write(await to_thread.run_sync(make))
        raise AssertionError("nobody cancels that scope")


def _with(note: Work[int], also: Also) -> Work[int]:
    def work(connection: "sqlite3.Connection") -> int:
        also(connection)
        return note(connection)

    return work


def _remembered(intent: Intent, ending: Work[int]) -> Work[int]:
    """An act that ran on somebody's word may have been taken up for another, who is told how it ended when he asks again."""
    approval = intent.act.evidence
    if not approval.startswith("apr_"):
        return ending

    def work(connection: "sqlite3.Connection") -> int:
        seq = ending(connection)
        note_end(connection, approval, intent.seq, seq)
        return seq

    return work


def _small(value: Json, room: int) -> int:
    """How much of `room` is left after `value`, roughly; below zero means it does not fit."""
    if isinstance(value, dict):
        room -= sum(map(len, value))
        inside = value.values()
    elif isinstance(value, list):
        inside = value
    else:
        return room - (len(value) if isinstance(value, str) else 8)
    for item in inside:
        if room < 0:
            break
        if isinstance(item, str):
            room -= len(item)
        elif isinstance(item, _NESTED):
            room = _small(item, room - 8)
        else:
            room -= 16
    return room


def _about(valid: ValidCall) -> dict[str, Json]:
    payloads: dict[str, Json] = {"arguments": kept_arguments(valid.tool.name, valid.arguments)}
    if valid.permissions != _NO_PERMISSIONS:
        payloads["permissions"] = _plain(valid.permissions.plain())
    if valid.call.cwd is not None:
        payloads["cwd"] = valid.call.cwd
    return payloads


def _seen(run: Run | None) -> dict[str, Json]:
    """What the sandbox saw, without what the run printed: that is not ours to keep unasked."""
    if run is None:
        return {}
    kept = _plain(run)
    if isinstance(kept, dict):
        kept.pop("stdout", None)
        kept.pop("stderr", None)
    return {"run": kept}


def _kept(artifacts: tuple[Artifact, ...]) -> dict[str, Json]:
    """Names and digests of the files it left; what stands in them is kept in the workspace only."""
    return {"artifacts": _plain(artifacts)} if artifacts else {}


def _plain(value: object) -> Json:
    from msgspec import to_builtins

    return to_builtins(value)


def _act(
    call: Call,
    *,
    valid: ValidCall | None,
    authorized: AuthorizedCall | None,
    tool: str,
    decision: str,
    evidence: str = "",
    approved_by: str = "",
) -> Act:
    skill = valid.skill if valid is not None else None
    found = authorized.bytes if authorized is not None else None
    return Act(
        principal=call.principal.id,
        call_id=call.id,
        on_behalf_of=call.principal.on_behalf_of or "",
        token=call.principal.token,
        tool=tool,
        skill=skill.name if skill is not None else "",
        skill_digest=found.digest if found is not None else "",
        attempt=call.attempt,
        parent=call.parent or "",
        session=call.surroundings.session or "",
        channel=call.surroundings.channel or "",
        effect=valid.tool.effect if valid is not None else "",
        risk=valid.tool.risk if valid is not None else "",
        decision=decision,
        evidence=evidence,
        approved_by=approved_by,
        trust_level=authorized.trust_level if authorized is not None else "",
        policy=authorized.rules if authorized is not None else "",
    )


def _judged(valid: ValidCall) -> Json:
    """What the layers were asked about, and the caller's word where he gave it."""
    kept = kept_arguments(valid.tool.name, valid.arguments)
    return {**kept, FLAG: True} if valid.confirmed and isinstance(kept, dict) else kept


def _storable(arguments: Json) -> Json:
    """Arguments that were refused may be anything; what JSON cannot hold is kept as its description."""
    from metier.model import strictjson

    try:
        strictjson.check(arguments, values=strictjson.MAX_VALUES)
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
