"""Who may ask for what: people and agents, their tokens, and what they were granted in advance."""

from typing import Final, final

from msgspec import Struct

from metier.doors.http.console.asked import Unanswered, asked
from metier.doors.http.console.page import Page
from metier.doors.http.endpoint import Asking
from metier.model.role import PRINCIPALS, READ_AUDIT
from metier.record.tokens import Token


@final
class Person(Struct, frozen=True, kw_only=True):
    """Or an agent."""

    id: str
    kind: str
    roles: list[str]
    on_behalf_of: str
    revoked: bool
    owner: bool


@final
class Everybody(Struct, frozen=True, kw_only=True):
    """What `principals.list` answers."""

    owner: str
    principals: list[Person]
    roles: dict[str, list[str]]


@final
class Grant(Struct, frozen=True, kw_only=True):
    """What runs without anybody being asked."""

    id: str
    tool: str
    principal: str
    given_by: str
    given_at: str
    over: bool
    giver_may: bool
    words: list[str]


@final
class Given(Struct, frozen=True, kw_only=True):
    """What `grants.list` answers."""

    grants: list[Grant]


async def _people(asking: Asking) -> dict[str, object]:
    found = await asked(asking, "principals.list", {}, Everybody)
    given = await asked(asking, "grants.list", {}, Given)
    # Under the right of the API: whoever may not ask for the list there is not shown it here.
    known = (await asking.serving.gatekeeper.steering()).tokens if PRINCIPALS in await asking.rights() else {}
    tokens: list[Token] = sorted(known.values(), key=lambda each: each.principal)
    return {
        "people": None if isinstance(found, Unanswered) else found,
        "why": found.why if isinstance(found, Unanswered) else "",
        "grants": [] if isinstance(given, Unanswered) else given.grants,
        "grants_why": given.why if isinstance(given, Unanswered) else "",
        "tokens": tokens,
    }


PAGES: Final = (
    Page(
        path="/people",
        template="people.html",
        title="People and tokens",
        shows=_people,
        menu="People",
        right=(READ_AUDIT,),
        told=("people",),
    ),
)
