"""The caller's own word before an act (Amber). It never stands in for an approval.

Where the door knows turns, `confirmed: true` counts only after Metier itself asked this caller in this conversation for this
very act (the tool as it is defined, the skill's bytes, the arguments), and his turn came since. Where it does not, the word
is taken as asserted.
"""

from metier.gate.fingerprint import definition_digest
from metier.gate.situation import Situation
from metier.model.call import Bytes, Surroundings, ValidCall
from metier.model.digest import canonical, digest_bytes
from metier.model.outcome import Refused


def unconfirmed(valid: ValidCall, situation: Situation) -> Refused | None:
    """Why the caller's word is not there, with what to ask him; None when it is, or none is needed."""
    if valid.confirmed is None:
        return None
    turn = valid.call.surroundings.turn
    if valid.confirmed:
        # What was approved has been confirmed before it was asked, and is the same act.
        if turn is None or valid.call.approval is not None:
            return None
        if situation.asked_in is not None and situation.asked_in < turn:
            return None
        reason = (
            "the caller has not had his turn since he was asked"
            if situation.asked_in is not None
            else "the caller was not asked for exactly this yet"
        )
    else:
        reason = "the caller has to confirm it first"
    prompt = valid.tool.confirmation or f"Shall I go ahead with {valid.tool.name}?"
    return Refused(
        call_id=valid.call.id,
        code="confirmation_required",
        reasons=(reason,),
        remedy="Ask the caller, then call again with the same arguments and confirmed: true",
        prompt=prompt,
    )


def question(valid: ValidCall, found: Bytes | None) -> tuple[str, str, int] | None:
    """Conversation, act and turn of a question to the caller; None where the door knows no turns.

    Args:
        found: the bytes of the skill that it would run with; None when it concerns no skill.
    """
    around = valid.call.surroundings
    if valid.confirmed is None or around.turn is None:
        return None
    skill = found.digest if found is not None else ""
    act = digest_bytes(canonical([definition_digest(valid.tool), skill, valid.arguments]))
    return conversation(valid.call.principal.id, around), act, around.turn


def conversation(principal: str, around: Surroundings) -> str:
    """Which conversation with whom a call belongs to; parts cannot run into each other. In a group each caller is asked for himself."""
    parts = (principal, around.channel, around.session, around.call_id, around.caller_id)
    return canonical([part or "" for part in parts]).decode()
