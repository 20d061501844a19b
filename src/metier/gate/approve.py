"""AuthorizedCall → ApprovedCall: an ALLOW goes on; an ASK needs somebody's word, given in advance or for this very act.

Pure. Whether a word still holds is asked once more when the act begins, in the transaction that uses it up.
"""

from typing import final

from msgspec import Struct

from metier.gate.around import hidden_interpreter, program_files
from metier.gate.confirmation import unconfirmed
from metier.gate.granted import answers
from metier.gate.replaced import agreed_to
from metier.gate.situation import Situation
from metier.model.call import ApprovedCall, AuthorizedCall
from metier.model.digest import Json
from metier.model.outcome import Refused
from metier.model.verdict import Decision
from metier.record.approval_word import Word
from metier.record.secret_arguments import holds_secrets


@final
class Asked(Struct, frozen=True, kw_only=True):
    """A call that waits for somebody's word."""

    authorized: AuthorizedCall
    cwd: str = ""
    """What the working directory is, as in the situation it was judged in."""


@final
class Given(Struct, frozen=True, kw_only=True):
    """Somebody's yes to exactly this act, given when it was asked before."""

    word: Word
    around: dict[str, Json]
    """What the act depends on outside of itself, as it was found when it was asked again."""


def taken_up(authorized: AuthorizedCall, given: Given, situation: Situation) -> ApprovedCall:
    """Let a call go on that must be asked, on the yes that is there for it. It is used up when the call begins."""
    return ApprovedCall(
        authorized=authorized,
        evidence=given.word.approval,
        approved_by=given.word.by,
        asked_as=(given.word.call_id, given.word.attempt),
        replaces=agreed_to(given.around),
        agent=situation.agent.digest,
    )


def approve(authorized: AuthorizedCall, situation: Situation) -> ApprovedCall | Asked | Refused:
    """Let an allowed call through, find the word for one that must be asked, or have it asked."""
    valid = authorized.valid
    call = valid.call
    if (refused := unconfirmed(valid, situation)) is not None:
        return refused
    if authorized.verdict.decision not in (Decision.ALLOW, Decision.ASK):
        return Refused(call_id=call.id, code="forbidden", reasons=authorized.verdict.reasons)
    if authorized.verdict.decision is Decision.ALLOW and call.approval is None:
        return ApprovedCall(authorized=authorized, evidence="policy", agent=situation.agent.digest)
    if situation.cwd_problem:
        return Refused(call_id=call.id, code="not_runnable", reasons=(situation.cwd_problem,))
    if call.approval is not None:
        return ApprovedCall(
            authorized=authorized,
            evidence=call.approval,
            approved_by=situation.decided_by,
            replaces=agreed_to(situation.around),
            agent=situation.agent.digest,
        )
    for grant in situation.grants:
        if grant.tool != valid.tool.name:
            continue
        files = program_files(valid, situation.programs, situation.ground, situation.agent)
        runs = hidden_interpreter(valid, situation.programs, situation.ground)
        now = situation.now.wall
        if not answers(grant, authorized, cwd=situation.cwd, now=now, programs=files, interpreter=runs):
            return ApprovedCall(
                authorized=authorized,
                evidence=grant.id,
                approved_by=grant.given_by,
                agent=situation.agent.digest,
            )
    if call.fleeting or holds_secrets(valid.tool.name):  # a secret is not written down to wait
        return Refused(
            call_id=call.id,
            code="approval_required",
            reasons=authorized.verdict.reasons,
            remedy="It cannot wait for somebody's word. Run it at a terminal, where you can be asked, or give a standing grant",
        )
    if call.unattended and situation.approvals.unattended == "deny":
        return Refused(
            call_id=call.id,
            code="approval_required",
            reasons=authorized.verdict.reasons,
            remedy="Nobody is there to be asked. Give a standing grant for it, or let such calls wait "
            '(`[approvals] unattended = "wait"`)',
        )
    return Asked(authorized=authorized, cwd=situation.cwd)
