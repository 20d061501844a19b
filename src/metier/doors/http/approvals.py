"""What waits for somebody's word: looked at, decided, taken up. The same desk as at the terminal and in Telegram.

A person decides what is shown to him: he sends the fingerprint of the act that he saw, and a page that is out of date decides nothing.
A yes rests on the configuration as it is at that moment, of the operator and of the project the request comes from. A no waits for
nothing. Who may only read the record sees of a request what the record shows. Others see only what is asked by them or for them, and
nothing of it but how it stands.
"""

import time
from collections.abc import Callable
from typing import Annotated, Final, cast, final

from anyio import to_thread
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace
from starlette.responses import Response

from metier.config.again import read_again, read_where_asked
from metier.doors.http.endpoint import Asking, Endpoint, forbidden
from metier.doors.http.making import Wait, answer, asked_elsewhere, decided, is_asked_here, keep, while_there
from metier.doors.http.problem import Refusal, not_found
from metier.gate.in_words import lines
from metier.gate.shown import real_project
from metier.model.approval import Approval, Scope, StandingGrant, State
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.model.role import APPROVE, EXECUTE, READ_AUDIT
from metier.record.approval_viewed import as_viewed
from metier.record.approvals import approvals_in, find
from metier.record.database import Database
from metier.record.decider import Decider
from metier.record.deciding import Undecided, decide, revoke_approval
from metier.record.standing import proposed_grant
from metier.runtime.taking_up import take_up

_SCOPES: Final = "Approve it once, or name scope, uses and days as docs/approvals.md has them"
_NOT_DECIDED: Final[dict[str, tuple[int, str]]] = {
    "forbidden": (403, "Somebody who has that right can decide it; `metier principals list` shows who"),
    "own_request": (403, "Let another person decide it, who did not ask and is not asked for"),
    "not_open": (409, "Look at how it stands; what is still wanted is asked for anew"),
    "expired": (409, "Let who asked ask again, and decide that"),
    "not_as_recorded": (409, "Say no to it, and see `metier audit verify`"),
    "bad_grant": (422, _SCOPES),
    "only_there": (409, "Decide it where it was asked, or say no from here"),
}
"""With which status, and what to do, where it was not decided."""


@final
class Listing(Struct, frozen=True, kw_only=True):
    """Which ones."""

    over: bool = False
    """Also those that are over."""
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 2_000
    """At most so many, the newest."""


@final
class Approvals(Struct, frozen=True, kw_only=True):
    """Oldest first."""

    approvals: list[Approval]


@final
class InWords(Struct, frozen=True, kw_only=True):
    """One request as an approver reads it, wherever he does."""

    id: str
    state: State
    fingerprint: str
    """Of exactly what these words are about: send it with the decision. Empty for who may not decide."""
    lines: list[str]
    """Plain text, some of several lines. Every character of it can be seen."""


@final
class Yes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Somebody's yes to exactly what he saw."""

    fingerprint: Annotated[str, Meta(min_length=1, max_length=200)]
    """Of the act, as the request was shown to him."""
    scope: Scope = "once"
    any_arguments: bool = False
    uses: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    days: Annotated[float, Meta(gt=0, le=3_650)] | None = None


@final
class No(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Somebody's no."""

    word: Annotated[str, Meta(max_length=500)] = ""
    """What whoever asked is told."""
    fingerprint: Annotated[str, Meta(min_length=1, max_length=200)] | UnsetType = UNSET


@final
class TakeUp(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long to wait for a decision that is not there yet."""

    wait: Wait = 0.0


@final
class Nothing(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An empty object."""


async def _listed(asking: Asking) -> Approvals:
    query: Listing = asking.query
    everything, seen_as = await asking.sees_all(APPROVE, READ_AUDIT), await seen_by(asking)

    def read() -> list[Approval]:
        with asking.serving.engine.state.database.reading() as connection:
            return approvals_in(connection, over=query.over)

    found = await to_thread.run_sync(read)
    seen = [each for each in found if everything or asking.is_his(each.principal, each.on_behalf_of)]
    told = seen[-query.limit :]
    return Approvals(approvals=await to_thread.run_sync(lambda: [seen_as(each) for each in told]))


async def _one(asking: Asking) -> Approval:
    found = await to_thread.run_sync(find, asking.serving.engine.state.database, asking.given["approval"])
    everything = await asking.sees_all(APPROVE, READ_AUDIT)
    if found is None or not (everything or asking.is_his(found.principal, found.on_behalf_of)):
        raise not_found()
    return await to_thread.run_sync(await seen_by(asking), found)


async def _in_words(asking: Asking) -> InWords:
    found = await to_thread.run_sync(find, asking.serving.engine.state.database, asking.given["approval"])
    if found is None:
        raise not_found()
    exact, seen_as = await asking.sees_all(APPROVE), await seen_by(asking)

    def said() -> InWords:  # it may be long
        seen = seen_as(found)
        words = lines(seen, time.time(), commands=False, exact=exact)
        return InWords(id=seen.id, state=seen.state, fingerprint=seen.fingerprint, lines=words)

    return await to_thread.run_sync(said)


async def seen_by(asking: Asking) -> Callable[[Approval], Approval]:
    """What of a request he is shown: all of it who may decide, as the record has it who may read that, else how it stands."""
    if await asking.sees_all(APPROVE):
        return lambda approval: approval
    if await asking.sees_all(READ_AUDIT):
        payloads = asking.serving.engine.seen.settings.audit.payloads
        return lambda approval: as_viewed(approval, payloads)
    return _bare


def _bare(approval: Approval) -> Approval:
    """For who asked: how it stands. What its approver is shown is for him, and the fingerprint is his key to it."""
    return replace(approval, shown=None, fingerprint="")


async def _approve(asking: Asking) -> Approval:
    made = await to_thread.run_sync(_approved, asking, await _decider(asking))
    asking.serving.engine.words.said(made.id)
    return made


def _approved(asking: Asking, by: Decider) -> Approval:
    """Blocking."""
    body: Yes = asking.body
    engine = asking.serving.engine
    settings = read_again(engine.seen.settings)
    database, approval = engine.state.database, asking.given["approval"]
    found = _found(database, approval, body.fingerprint)
    project = found.shown.project if found.shown is not None else ""
    there = settings if project == real_project(settings.project) else read_where_asked(settings, project)
    grant: StandingGrant | None = None
    if body.scope != "once":
        if found.shown is None:
            raise _undecided(Undecided(code="not_open", reason="it is over", state=found.state))
        proposed = proposed_grant(
            found.shown,
            body.scope,
            approval=approval,
            by=by.id,
            any_arguments=body.any_arguments,
            uses=body.uses,
            days=body.days,
        )
        if isinstance(proposed, str):
            raise Refusal(422, "bad_grant", f"that cannot be granted: {proposed}", remedy=_SCOPES)
        grant = proposed
    elif body.any_arguments or body.uses is not None or body.days is not None:
        raise Refusal(
            422,
            "bad_grant",
            "any_arguments, uses and days go with the scope session or always",
            remedy=_SCOPES,
        )
    made = decide(
        database,
        approval,
        by=replace(by, chats=settings.telegram.chats_of(by.id)),
        decision="approve",
        scope=body.scope,
        grant=grant,
        four_eyes=settings.approvals.four_eyes or there.approvals.four_eyes,
    )
    if isinstance(made, Undecided):
        raise _undecided(made)
    return made


async def _deny(asking: Asking) -> Approval:
    by = await _decider(asking)

    def denied() -> Approval:
        body: No = asking.body
        engine, approval = asking.serving.engine, asking.given["approval"]
        database = engine.state.database
        if body.fingerprint is not UNSET:
            _found(database, approval, body.fingerprint)
        payloads = engine.seen.settings.audit.payloads
        made = decide(database, approval, by=by, decision="deny", word=body.word, payloads=payloads)
        if isinstance(made, Undecided):
            raise _undecided(made)
        return made

    try:
        return await to_thread.run_sync(denied)
    finally:
        asking.serving.engine.words.said(asking.given["approval"])  # also where it is denied and not recorded


async def _revoke(asking: Asking) -> Approval:
    database, approval = asking.serving.engine.state.database, asking.given["approval"]
    by = await _decider(asking)
    made = await to_thread.run_sync(lambda: revoke_approval(database, approval, by=by))
    if isinstance(made, Undecided):
        raise _undecided(made)
    return made


async def _take_up(asking: Asking) -> Response:
    """Who asked runs what was approved, or waits for that. A person who may decide runs it for whoever asked."""
    body: TakeUp = asking.body
    engine, approval = asking.serving.engine, asking.given["approval"]
    found = await to_thread.run_sync(find, engine.state.database, approval)
    his = found is not None and found.principal == asking.identity.principal.id
    decides = await asking.sees_all(APPROVE)
    if found is None or not (his or decides):
        raise not_found()
    right = found.shown.right if found.shown is not None else EXECUTE
    may = right in await asking.rights()  # a token does no more than its scopes name
    if not (may or decides):
        raise forbidden(right)
    # Nobody runs it in another's name, and with another token of his own only as who decides: then it is kept for who asked.
    mine = may and his and is_asked_here(asking, found)
    waiting = Pending(call_id=found.call_id, approval_id=found.id, reasons=("nobody has decided yet",))
    if not (mine or decides):
        raise asked_elsewhere()
    if found.state == "pending" and not (mine and body.wait > 0):
        return answer(waiting)
    if mine:
        ended = await while_there(asking.request, lambda: decided(asking, waiting, body.wait))
    else:
        ended = await take_up(engine.seen.settings, approval, lambda id: engine.resume(id, of=None))
        if isinstance(ended, Approval):
            raise Refusal(
                409,
                "taken_up",
                "who asked was waiting for it, and runs it himself",
                remedy=f"GET /api/v1/calls/{found.call_id} says how it stands",
            )
    outcome = cast("Outcome", ended)
    if not isinstance(outcome, Pending):
        await keep(asking, found.principal, outcome)
    return answer(outcome)


async def _decider(asking: Asking) -> Decider:
    """Who he is, with what he may do today within what his token may."""
    identity = asking.identity
    return Decider(
        id=identity.principal.id,
        kind=identity.principal.kind,
        rights=await asking.rights(),
        session=identity.session,
        token=identity.principal.token,
    )


def _found(database: Database, approval: str, fingerprint: str) -> Approval:
    found = find(database, approval)
    if found is None:
        raise not_found()
    if found.fingerprint and found.fingerprint != fingerprint:
        raise Refusal(
            409,
            "not_what_was_shown",
            "this is not the act that you were shown",
            remedy="Look at the request again, and send the fingerprint that stands there",
        )
    return found


def _undecided(why: Undecided) -> Refusal:
    if why.code == "unknown":
        return not_found()
    status, remedy = _NOT_DECIDED[why.code]
    return Refusal(status, why.code, f"{why.reason}; nothing was changed", remedy=remedy)


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/v1/approvals",
        about="What waits for a decision, and what was approved and has not run: all for who may decide, as the record shows it for who may read that, else what is asked by you or for you.",
        does=_listed,
        query=Listing,
        answer=Approvals,
    ),
    Endpoint(
        method="GET",
        path="/api/v1/approvals/{approval}",
        about="One request: who, what exactly, with which rights, and why it is asked.",
        does=_one,
        answer=Approval,
        problems=(404,),
    ),
    Endpoint(
        method="GET",
        path="/api/v1/approvals/{approval}/shown",
        about="One request in words, for an approver to read: with nothing cut, and everything in it to be seen.",
        does=_in_words,
        people=True,
        right=(APPROVE, READ_AUDIT),
        answer=InWords,
        problems=(404,),
    ),
    Endpoint(
        method="POST",
        path="/api/v1/approvals/{approval}/approve",
        about="Let exactly the act that was shown run, once; with a scope also what is like it.",
        does=_approve,
        people=True,
        right=(APPROVE,),
        body=Yes,
        answer=Approval,
        problems=(404, 409),
    ),
    Endpoint(
        method="POST",
        path="/api/v1/approvals/{approval}/deny",
        about="Say no. It never runs.",
        does=_deny,
        people=True,
        right=(APPROVE,),
        body=No,
        answer=Approval,
        problems=(404, 409),
    ),
    Endpoint(
        method="POST",
        path="/api/v1/approvals/{approval}/revoke",
        about="Take back what was approved and has not run.",
        does=_revoke,
        people=True,
        right=(APPROVE,),
        body=Nothing,
        answer=Approval,
        problems=(404, 409),
    ),
    Endpoint(
        method="POST",
        path="/api/v1/approvals/{approval}/take-up",
        about="Run what was approved, once: as who asked, who may also wait for the decision; or for him, as who may decide.",
        does=_take_up,
        body=TakeUp,
        answer=Completed | Refused | Failed,
        answers={202: Pending},
        problems=(404, 409),
    ),
)
