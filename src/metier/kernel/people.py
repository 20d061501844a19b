"""The modules `grants` and `principals`: what was allowed in advance, and who may ask for what. For operators."""

from typing import Final, cast, final

from anyio import to_thread

from metier.gate.in_words import grant_lines
from metier.kernel.operation import NOTHING, Asked, Module, OperationError, module
from metier.kernel.operators import FORBIDDEN, Desk, for_operators, taking, text, though_unrecorded
from metier.model.digest import Json
from metier.model.role import APPROVE, PRINCIPALS, READ_AUDIT, ROLES, Kind, Registered, rights_of
from metier.model.text import one_line
from metier.record.approval_clock import moment
from metier.record.everybody import everybody, principal_plain
from metier.record.grant_shown import grant_plain
from metier.record.principals import acting_for, add_principal, registered_in, revoke_principal
from metier.record.standing import answering_in, grants_in, revoke

UNKNOWN: Final = "E_UNKNOWN"
NOT_ADDED: Final = "E_PRINCIPALS_NOT_ADDED"
NOT_REVOKED: Final = "E_PRINCIPALS_NOT_REVOKED"
_ID: Final[dict[str, Json]] = {"type": "string", "minLength": 1, "maxLength": 200}
_ROLES: Final[dict[str, Json]] = {
    "type": "array",
    "items": {"enum": [*ROLES]},
    "uniqueItems": True,
    "maxItems": len(ROLES),
}


@final
class Grants:
    """What runs without anybody being asked."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def module(self) -> Module:
        """`grants.list` and `revoke`."""
        return module(
            "grants",
            for_operators(
                "grants.list",
                self._list,
                "Every standing grant that was not revoked.",
                NOTHING,
                permission=READ_AUDIT,
                effect="read",
            ),
            for_operators(
                "grants.revoke",
                self._revoke,
                "Take a standing grant back, at once: what it answered is asked again.",
                taking(["id"], id=_ID),
                permission=APPROVE,
            ),
        )

    async def _list(self, asked: Asked) -> Json:
        return await to_thread.run_sync(self._told)

    def _told(self) -> Json:
        with self._desk.database.reading() as connection:
            found, answering = grants_in(connection), {each.id for each in answering_in(connection)}
        now = moment()
        return {
            "grants": [
                {
                    **grant_plain(each, now),
                    "giver_may": each.id in answering,
                    "words": [*grant_lines(each)],
                }
                for each in found
            ]
        }

    async def _revoke(self, asked: Asked) -> Json:
        id = text(asked, "id")
        there, unrecorded = await though_unrecorded(
            lambda: revoke(self._desk.database, id, by=asked.principal.id), True
        )
        if not there:
            raise OperationError(
                UNKNOWN, f"there is no grant {one_line(id, 80)!r} that was not revoked; `grants.list` has all"
            )
        return {"id": id, "revoked": True, "unrecorded": unrecorded}


@final
class Principals:
    """Who may ask for what."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def module(self) -> Module:
        """`principals.list`, `add` and `revoke`."""
        return module(
            "principals",
            for_operators(
                "principals.list",
                self._list,
                "Everybody who is registered, and who needs no entry, with roles and rights.",
                NOTHING,
                permission=READ_AUDIT,
                effect="read",
            ),
            for_operators(
                "principals.add",
                self._add,
                "Register human:NAME or agent:NAME. An agent never has more than the human it acts for.",
                taking(["id"], id=_ID, roles=_ROLES, on_behalf_of=_ID),
                permission=PRINCIPALS,
                risk="high",
            ),
            for_operators(
                "principals.revoke",
                self._revoke,
                "Let somebody do nothing any more, at once, nor any agent that acts for him.",
                taking(["id"], id=_ID),
                permission=PRINCIPALS,
            ),
        )

    async def _list(self, asked: Asked) -> Json:
        found = await to_thread.run_sync(everybody, self._desk.database, self._desk.owner)
        roles: dict[str, Json] = {role: [*sorted(rights)] for role, rights in ROLES.items()}
        return {
            "owner": self._desk.owner,
            "principals": [{**principal_plain(each), "owner": each.id == self._desk.owner} for each in found],
            "roles": roles,
        }

    async def _add(self, asked: Asked) -> Json:
        return await to_thread.run_sync(self._added, asked)

    def _added(self, asked: Asked) -> Json:
        """Blocking."""
        desk, id, said = self._desk, text(asked, "id"), asked.arguments.get("roles")
        kind = id.partition(":")[0]
        agent = kind == "agent"
        by = desk.decider(asked)
        roles = frozenset(cast("list[str]", said) if isinstance(said, list) else ["agent"] if agent else [])
        new = Registered(
            id=id,
            kind=cast("Kind", kind),
            on_behalf_of=text(asked, "on_behalf_of") or (asked.principal.id if agent else ""),
            roles=roles,
        )
        # Who came with less than he has, by a token with few scopes, makes nobody who has more than that.
        if beyond := sorted(rights_of(roles) - by.rights):
            raise OperationError(
                FORBIDDEN,
                f"nobody gives a right he does not come with: {', '.join(beyond)}; come with them, or give other roles",
            )
        with desk.database.reading() as connection:
            known = registered_in(connection)
        if kind not in ("human", "agent"):
            raise OperationError(NOT_ADDED, f"{one_line(id, 80)!r} is no id; write human:NAME or agent:NAME")
        if problem := add_principal(desk.database, new, by=by.id, owner=desk.owner):
            raise OperationError(NOT_ADDED, problem)
        ended = acting_for(id, known) if id in known else ()
        return {**principal_plain(new), "known_before": id in known, "agents_ended": [*ended]}

    async def _revoke(self, asked: Asked) -> Json:
        desk, id = self._desk, text(asked, "id")
        problem, unrecorded = await though_unrecorded(
            lambda: revoke_principal(desk.database, id, by=asked.principal.id, owner=desk.owner), ""
        )
        if problem:
            raise OperationError(NOT_REVOKED, problem)
        return {"id": id, "revoked": True, "unrecorded": unrecorded}
