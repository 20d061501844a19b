"""A call that does not go on by itself: somebody is asked for his word, the caller or an approver, or it is refused."""

import secrets
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from anyio import to_thread
from msgspec.structs import replace

from metier.gate.approve import Asked, Given
from metier.gate.around import around, hidden_interpreter, lasting, named_programs
from metier.gate.confirmation import question
from metier.gate.fingerprint import fingerprint
from metier.gate.outputs import fits
from metier.gate.replaced import replaced_line
from metier.gate.shown import shown
from metier.gate.situation import Situation
from metier.model.call import AuthorizedCall
from metier.model.outcome import REMEDIES, Completed, Failed, Outcome, Pending, Refused
from metier.model.skill import Tool
from metier.record import confirmations
from metier.record.approval_clock import moment
from metier.record.approval_word import Word, word_for
from metier.record.approvals import NewApproval, queue_problem, take_queue
from metier.record.audit import has_begun
from metier.record.late import Late, late_for
from metier.record.late_end import told
from metier.record.recorder import Recorder
from metier.record.still import steering_problem

if TYPE_CHECKING:
    import sqlite3


async def ask(
    answer: Asked | Refused, authorized: AuthorizedCall, situation: Situation, recorder: Recorder
) -> Outcome | Given:
    """Ask whoever has to be asked, on the record. Nothing waits: what was asked is taken up when it is answered. What was asked
    before and answered with a yes that nobody used is not asked again, nor is what ran since where it was approved: who asked is given how
    it ended."""
    valid = authorized.valid
    if isinstance(answer, Refused):
        asked = question(valid, authorized.bytes) if answer.code == "confirmation_required" else None
        also = None
        if asked is not None:
            conversation, act, turn = asked
            also = partial(
                confirmations.ask, conversation=conversation, act=act, turn=turn, now=situation.now.wall
            )
        return await recorder.refused(valid.call, answer, valid=valid, authorized=authorized, also=also)
    agent = situation.agent
    found = await to_thread.run_sync(
        around, valid, situation.programs, situation.environ, situation.ground, agent, abandon_on_cancel=True
    )
    if isinstance(found, str):
        return await _unaskable(found, authorized, recorder)
    seen = shown(
        authorized,
        cwd=answer.cwd,
        programs=str(found["programs"]),
        interpreter=hidden_interpreter(valid, situation.programs, situation.ground),
        stands_for=(
            *(f"{name} is {each.in_words}" for name, each in named_programs(valid, situation.ground).items()),
            *((agent.line,) if agent.line else ()),
        ),
        replaces=replaced_line(valid, found["replaces"]),
        behind=situation.standing.behind,
        four_eyes=situation.approvals.four_eyes,
        project=situation.project,
    )
    if isinstance(seen, str):
        return await _unaskable(seen, authorized, recorder)
    key = secrets.token_bytes(32)
    seconds = situation.approvals.expires_minutes * 60.0
    made = NewApproval(
        id=f"apr_{secrets.token_hex(12)}",
        call=valid.call,
        shown=seen,
        key=key,
        fingerprint=fingerprint(authorized, cwd=answer.cwd, key=key, around=found),
        now=situation.now,
        seconds=seconds,
    )
    pending = Pending(
        call_id=valid.call.id,
        approval_id=made.id,
        reasons=authorized.verdict.reasons,
        expires_at=datetime.fromtimestamp(situation.now.wall + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )

    asked = question(valid, authorized.bytes) if valid.confirmed else None
    answered = asked[:2] if asked is not None else None

    def again(key: bytes, id: str, attempt: int) -> str:
        return fingerprint(authorized, cwd=answer.cwd, key=key, around=found, asked_as=(id, attempt))

    lasts = lasting(found)

    def ran(key: bytes, id: str, attempt: int) -> str:
        return fingerprint(authorized, cwd=answer.cwd, key=key, around=lasts, asked_as=(id, attempt))

    def problem(connection: "sqlite3.Connection") -> Refused | Word | Late | None:
        if answered is not None and (used := confirmations.answer_problem(connection, *answered)) is not None:
            return Refused(call_id=valid.call.id, code=used.code, reasons=(used.reason,))
        if (word := word_for(connection, valid.call, seen, again, moment())) is not None:
            return word
        if (late := late_for(connection, authorized, seen, ran, moment())) is not None:
            return _given(connection, late, authorized, situation, answered)
        if has_begun(connection, valid.call.id, valid.call.attempt):  # nobody is asked in vain
            begun = f"attempt {valid.call.attempt} of this call has begun already"
            remedy = REMEDIES["already_begun"]
            return Refused(call_id=valid.call.id, code="already_begun", reasons=(begun,), remedy=remedy)
        why = queue_problem(connection, valid.call.principal.id, situation.approvals.pending_per_principal)
        if not why:
            return None
        remedy = "Have the waiting ones decided first: `metier approvals list`"
        return Refused(call_id=valid.call.id, code="too_many_pending", reasons=(why,), remedy=remedy)

    def queue(connection: "sqlite3.Connection", seq: int) -> None:
        take_queue(connection, made, seq)
        if answered is not None:  # the caller's word was for this one act
            confirmations.take_answer(connection, *answered)

    said = await recorder.asked(
        authorized,
        pending,
        grant=made.record_digest,
        problem=problem,
        queue=queue,
    )
    if isinstance(said, Late):
        return said.outcome or _runs(valid.call.id, said)
    return Given(word=said, around=found) if isinstance(said, Word) else said


def _given(
    connection: "sqlite3.Connection",
    late: Late,
    authorized: AuthorizedCall,
    situation: Situation,
    answered: tuple[str, str] | None,
) -> Late | Refused:
    """How it ended, for who may be told it at this moment."""
    call = authorized.valid.call
    ids = (call.principal.id, call.principal.on_behalf_of or "", *situation.standing.behind)
    denied = steering_problem(connection, situation.steering, ids, call.principal.token)
    if denied is not None:
        remedy = REMEDIES.get(denied.code, "")
        return Refused(call_id=call.id, code=denied.code, reasons=(denied.reason,), remedy=remedy)
    if late.outcome is None:
        return _runs(call.id, late)
    if answered is not None:  # the caller's word was for this one answer
        confirmations.take_answer(connection, *answered)
    return replace(late, outcome=_in_its_shape(late.outcome, late, authorized.valid.tool))


def _in_its_shape(
    outcome: Completed | Failed | Refused, late: Late, tool: Tool
) -> Completed | Failed | Refused:
    """What is kept has a mask where a secret was. Where the tool promises another shape there, who relies on that would throw it away, and
    have it done twice."""
    if isinstance(outcome, Completed) and not fits(outcome, tool):
        how = "it completed; a part of what it returned is masked in the record, so it is not given"
        return told(outcome.call_id, late.earlier, how)
    return outcome


def _runs(call_id: str, late: Late) -> Refused:
    earlier = late.earlier
    reason = f"it was approved by {earlier.approved_by} and runs since {earlier.at}, as {earlier.call_id}"
    remedy = "Call it again in a while: nothing runs twice, and you are given how it ended"
    return Refused(call_id=call_id, code="already_begun", reasons=(reason,), remedy=remedy)


async def _unaskable(why: str, authorized: AuthorizedCall, recorder: Recorder) -> Refused:
    """Nobody can say yes to what cannot be shown, or not be told from something else."""
    valid = authorized.valid
    remedy = "Call with arguments that somebody can be asked about"
    refused = Refused(call_id=valid.call.id, code="invalid_arguments", reasons=(why,), remedy=remedy)
    return await recorder.refused(valid.call, refused, valid=valid, authorized=authorized)
