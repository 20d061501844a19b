"""Who one is, signing out, and the tokens of programs: made, listed and revoked by whoever manages principals.

A token is made by a person who signed in, never by another token: whoever got hold of one cannot make himself a second. And he
makes it for himself and for agents that act for him: with one of somebody else's he would be two, and could approve what he asked.
"""

import time
from functools import partial
from typing import Annotated, Final, final

from anyio import to_thread
from msgspec import Meta, Struct
from starlette.responses import Response

from metier.doors.http import sessions
from metier.doors.http.endpoint import NO_STORE, Asking, Endpoint, as_json
from metier.doors.http.identity import by_name
from metier.doors.http.problem import Refusal, not_found
from metier.doors.http.sign_in_routes import signed_out
from metier.gate.principals import is_own, useless
from metier.model.instant import written
from metier.model.role import PRINCIPALS, Registered
from metier.record import tokens
from metier.record.tokens import MOST_DAYS, Made, Token


@final
class Me(Struct, frozen=True, kw_only=True):
    """Who asks, and what he may do."""

    principal: str
    kind: str
    on_behalf_of: str
    by: str
    """`session` or `token`."""
    rights: list[str]
    expires_at: str


@final
class Shown(Struct, frozen=True, kw_only=True):
    """A token as it can be seen again."""

    id: str
    principal: str
    name: str
    scopes: list[str]
    expires_at: str
    added_at: str
    added_by: str
    state: str
    """`usable`, `expired` or `revoked`."""


@final
class Tokens(Struct, frozen=True, kw_only=True):
    """Every token there was."""

    tokens: list[Shown]


@final
class Wanted(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token to be made."""

    principal: Annotated[str, Meta(min_length=1, max_length=200)]
    name: Annotated[str, Meta(min_length=1, max_length=80)]
    scopes: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=64)]], Meta(min_length=1, max_length=32)
    ]
    days: Annotated[int, Meta(ge=1, le=MOST_DAYS)] = 30


@final
class New(Struct, frozen=True, kw_only=True):
    """A token, and the one time that its text is seen."""

    token: Shown
    text: str


async def _me(asking: Asking) -> Response:
    principal, identity = asking.identity.principal, asking.identity
    made = Me(
        principal=principal.id,
        kind=principal.kind,
        on_behalf_of=principal.on_behalf_of or "",
        by=identity.by,
        rights=sorted(await asking.rights()),
        expires_at=written(identity.expires_at),
    )
    return as_json(made, headers=NO_STORE)


async def _sign_out(asking: Asking) -> Response:
    identity = asking.identity
    if identity.by != "session":
        raise Refusal(
            409, "not_signed_in", "a token is not signed out", remedy="Revoke it with `metier tokens revoke`"
        )
    gatekeeper = asking.serving.gatekeeper
    await to_thread.run_sync(sessions.end, gatekeeper.doors, identity.ref)
    return signed_out(gatekeeper.cookie_for(by_name(asking.request.headers)))


async def _list(asking: Asking) -> Tokens:
    database = asking.serving.engine.state.database

    def look() -> list[Token]:
        with database.reading() as connection:
            return list(tokens.tokens_in(connection, all=True).values())

    found = await to_thread.run_sync(look)
    return Tokens(tokens=[_shown(each) for each in sorted(found, key=lambda each: each.added_at)])


async def _add(asking: Asking) -> Response:
    wanted: Wanted = asking.body
    identity = asking.identity
    if identity.by != "session":
        raise Refusal(
            403,
            "needs_session",
            "only a person who signed in makes a token",
            remedy="Sign in, or use `metier tokens add`",
        )
    scopes = frozenset(wanted.scopes)
    if beyond := scopes - await asking.rights():
        raise Refusal(
            403,
            "forbidden",
            f"nobody gives more than he has, and you lack {', '.join(sorted(beyond))[:300]}",
            remedy="Leave them out, or let the owner make it: metier tokens add",
        )
    owner, maker = asking.serving.gatekeeper.owner, identity.principal.id

    def unless(registered: dict[str, Registered]) -> str:
        if not is_own(wanted.principal, maker, registered, owner):
            raise Refusal(
                403,
                "not_yours",
                f"{wanted.principal[:80]!r} is not you, and no agent that acts for you",
                remedy="The owner makes it at the terminal: metier tokens add",
            )
        return useless(wanted.principal, scopes, registered, owner)

    made = await to_thread.run_sync(
        partial(
            tokens.add_token,
            asking.serving.engine.state.database,
            principal=wanted.principal,
            name=wanted.name,
            scopes=scopes,
            expires_at=time.time() + wanted.days * 86_400,
            by=maker,
            owner=owner,
            unless=unless,
        )
    )
    if not isinstance(made, Made):
        raise Refusal(
            409,
            "no_token_made",
            made,
            remedy="`metier principals list` shows who there is, and which rights he has",
        )
    return as_json(New(token=_shown(made.token), text=made.text), 201, NO_STORE)


async def _revoke(asking: Asking) -> Response:
    problem = await to_thread.run_sync(
        partial(
            tokens.revoke_token,
            asking.serving.engine.state.database,
            asking.given["token"],
            by=asking.identity.principal.id,
        )
    )
    if problem:
        raise not_found()
    return Response(status_code=204)


def _shown(token: Token) -> Shown:
    over = "revoked" if token.revoked else "expired" if token.is_over(time.time()) else "usable"
    return Shown(
        id=token.id,
        principal=token.principal,
        name=token.name,
        scopes=sorted(token.scopes),
        expires_at=written(token.expires_at),
        added_at=token.added_at,
        added_by=token.added_by,
        state=over,
    )


ENDPOINTS: Final = (
    Endpoint(method="GET", path="/api/v1/me", about="Who asks, and what he may do.", does=_me, answer=Me),
    Endpoint(
        method="POST",
        path="/api/v1/sign-out",
        about="End the session that this request came with.",
        does=_sign_out,
        by=("session",),
        answers={204: None},
        problems=(409,),
    ),
    Endpoint(
        method="GET",
        path="/api/v1/tokens",
        about="Every token there was, without what lets anybody in.",
        does=_list,
        right=(PRINCIPALS,),
        people=True,
        answer=Tokens,
    ),
    Endpoint(
        method="POST",
        path="/api/v1/tokens",
        about="Make a token. Its text is in this answer and nowhere else.",
        does=_add,
        by=("session",),
        right=(PRINCIPALS,),
        people=True,
        body=Wanted,
        answers={201: New},
        problems=(409,),
    ),
    Endpoint(
        method="DELETE",
        path="/api/v1/tokens/{token}",
        about="Revoke a token, at once.",
        does=_revoke,
        right=(PRINCIPALS,),
        people=True,
        answers={204: None},
        problems=(404,),
    ),
)
