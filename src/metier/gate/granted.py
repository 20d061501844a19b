"""Whether a standing grant answers for a call that must be asked. Pure.

A grant answers an ASK and nothing else. What it was not given for is asked as ever.
"""

from hmac import compare_digest
from typing import Final

from msgspec import convert

from metier.gate.fingerprint import definition_digest
from metier.gate.replaced import may_replace
from metier.model.approval import StandingGrant
from metier.model.call import AuthorizedCall
from metier.model.permission import PermissionSet
from metier.model.verdict import Decision
from metier.record.approval_clock import Moment, moment
from metier.record.standing import arguments_digest, expired, only_as_asked

_RISKS: Final = ("low", "medium", "high")


def answers(
    grant: StandingGrant,
    authorized: AuthorizedCall,
    *,
    cwd: str,
    now: float | Moment,
    programs: str = "",
    interpreter: str = "",
) -> str:
    """Why `grant` does not answer for this call; empty when it does. `cwd` is the text of the folder's identity, `programs` the
    digest of the files its programs are, `interpreter` one of them that is one by another
    name."""
    valid = authorized.valid
    call, tool = valid.call, valid.tool
    if authorized.verdict.decision is not Decision.ASK:
        return "it answers only what is asked"
    if grant.tool != tool.name:
        return "it is for another tool"
    if (grant.principal, grant.on_behalf_of) != (call.principal.id, call.principal.on_behalf_of or ""):
        return "it is for another principal"
    if grant.session and grant.session != call.surroundings.session:
        return "it is for another session"
    if expired(grant, moment(now)):
        return "it has expired"
    if grant.uses_left is not None and grant.uses_left < 1:
        return "it is used up"
    if tool.approval == "always" and not grant.names_tool:
        return "the tool asks every time, and the grant was not given in spite of that"
    if may_replace(valid):
        return "what may replace a file is asked each time, with the file that is lost"
    if tool.risk not in _RISKS[: _RISKS.index(grant.risk) + 1]:
        return f"it answers for {grant.risk} risk at most"
    if grant.programs != programs:
        return "a program it uses, or an agent it starts, is no longer the one it was given for"
    if not grant.arguments and (why := only_as_asked(valid.permissions.binaries, interpreter)):
        return why
    return _of_another_act(grant, authorized, cwd)


def _of_another_act(grant: StandingGrant, authorized: AuthorizedCall, cwd: str) -> str:
    """What the call does that the grant was not given for."""
    valid, found = authorized.valid, authorized.bytes
    skill, digest = valid.skill.name if valid.skill else "", found.digest if found else ""
    if (grant.skill, grant.skill_digest) != (skill, digest) or (skill and not digest):
        return "it is for other bytes of the skill or the file, or for another"
    if grant.definition != definition_digest(valid.tool):
        return "the tool is no longer the one it was given for"
    if grant.cwd and grant.cwd != cwd:
        return "it is for another working directory"
    if not _permissions(grant).covers(valid.permissions):
        return "the call needs more than it was given for"
    if grant.arguments and not compare_digest(grant.arguments, arguments_digest(grant.key, valid.arguments)):
        return "it is for other arguments"
    return ""


def _permissions(grant: StandingGrant) -> PermissionSet:
    return convert(grant.permissions, PermissionSet)
