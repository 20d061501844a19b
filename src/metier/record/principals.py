"""Who is registered, with which roles, and on whose behalf. Every change is on the record.

An id is one somebody: `kind:name`, written out in full. There is no id that means several, and none that means anybody.
Some ids need no entry and cannot be given one: the owner of this state, the agents that Metier itself speaks for, its
skills and its triggers. Of those the agents can be revoked like everybody else, and then be let in again.
"""

from typing import TYPE_CHECKING, Final, TypeAlias, cast, final

import msgspec

from metier.errors import RecordError, StateError
from metier.model.role import Registered
from metier.record.glance import Glance, rows_since
from metier.record.registered import AGENT_ROLES as AGENT_ROLES
from metier.record.registered import BUILT_IN_AGENTS as BUILT_IN_AGENTS
from metier.record.registered import READ, ROLES_BY_KIND, id_problem
from metier.record.registered import registered_in as registered_in
from metier.record.schema import KNOWS_SETTING

if TYPE_CHECKING:
    import sqlite3

    from metier.record.database import Database

_WRITE: Final = "INSERT OR REPLACE INTO principal VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_Row: TypeAlias = tuple[str, str, str, bytes, str, str, str, str]


def add_problem(new: Registered, registered: dict[str, Registered], *, owner: str) -> str:
    """Why `new` cannot be registered beside those who are; empty when it can."""
    if problem := id_problem(new.id, new.kind):
        return f"{new.id[:80]!r} is no id: {problem}"
    known = registered.get(new.id)
    if problem := _reserved(new, known, owner):
        return problem
    if known is not None and not known.revoked:
        return f"{new.id} is registered already; revoke it first to give it other roles"
    allowed = ROLES_BY_KIND[new.kind]
    if not new.roles or not new.roles <= allowed:
        return f"{new.id} needs one or more of these roles, and no other: {', '.join(sorted(allowed))}"
    if new.kind == "human":
        return "a human acts for himself, on nobody's behalf" if new.on_behalf_of else ""
    behalf = registered.get(new.on_behalf_of)
    known_human = behalf is not None and behalf.kind == "human" and not behalf.revoked
    if new.on_behalf_of and new.on_behalf_of != owner and not known_human:
        return f"{new.id} cannot act for {new.on_behalf_of[:80]!r}: no such human is registered"
    return ""


def add_principal(database: "Database", new: Registered, *, by: str, owner: str) -> str:
    """Register somebody. Gives why that was not done; empty when it was.

    Whatever was approved or granted under this id before ends with it, and so do its tokens, the ways it signed in, and
    everybody who was registered to act for it: an id that comes back may be somebody else.

    Raises:
        StateError: when it cannot be written or recorded; then nothing changed.
    """
    from metier.record.approval_ending import void_of
    from metier.record.chain import Act, append, now
    from metier.record.credentials import revoke_credentials_of
    from metier.record.standing import revoke_of
    from metier.record.tokens import revoke_tokens_of

    with database.transaction() as connection:
        known = registered_in(connection)
        if problem := add_problem(new, known, owner=owner):
            return problem
        at = now()
        agents = acting_for(new.id, known) if new.id in known else ()
        row = (new.id, new.kind, new.on_behalf_of, msgspec.json.encode(sorted(new.roles)), at, by, "", "")
        connection.execute(_WRITE, row)
        words = (f"roles: {', '.join(sorted(new.roles))}", f"for: {new.on_behalf_of or 'nobody else'}")
        append(
            connection,
            "principal_added",
            Act(principal=by),
            at=at,
            code=new.id,
            reasons=words,
            grant=_digest(row),
        )
        for id in agents:
            gone = _revoke(connection, id, at, by, owner)
            if gone is not None:
                append(
                    connection, "principal_revoked", Act(principal=by), at=at, code=id, grant=_digest(gone)
                )
        for id in (new.id, *agents):
            void_of(connection, id, at=at, by=by)
            revoke_of(connection, id, at=at, by=by)
            revoke_tokens_of(connection, id, at=at, by=by)
            revoke_credentials_of(connection, id, at=at, by=by)
    return ""


def acting_for(id: str, registered: dict[str, Registered]) -> tuple[str, ...]:
    """Everybody who is registered to act on somebody's behalf and is not revoked."""
    return tuple(
        sorted(each.id for each in registered.values() if each.on_behalf_of == id and not each.revoked)
    )


def revoke_principal(database: "Database", id: str, *, by: str, owner: str) -> str:
    """Let somebody do nothing any more, nor those who act on his behalf. Gives why that was not done; empty when it was.

    Whoever is revoked already is so once more: that settles an entry that the record does not know.

    Raises:
        RecordError: when it is revoked but could not be recorded. Revoking never waits.
        StateError: when it could not be revoked.
    """
    from metier.record.chain import Act, append, now

    if not id.isprintable():  # what is no text cannot even be asked for
        return f"{id[:80]!r} is not registered"
    if id == owner:
        return f"{id} owns this state; there would be nobody left to let anybody in"
    at = now()
    try:
        with database.transaction() as connection:
            row = _revoke(connection, id, at, by, owner)
            if row is None:
                return f"{id[:80]!r} is not registered"
            append(connection, "principal_revoked", Act(principal=by), at=at, code=id, grant=_digest(row))
    except StateError as error:
        with database.transaction() as connection:
            _revoke(connection, id, at, by, owner)
        raise RecordError(
            f"{id} is revoked, but that could not be recorded: {error.message}", remedy=error.remedy
        ) from error
    return ""


@final
class PrincipalLedger:
    """Who must be in the table if the chain is right."""

    def __init__(self) -> None:
        self._entries: dict[str, str] = {}
        """By id: the digest of the entry as it was last recorded."""

    def take(self, record: Glance) -> None:
        """Follow one more record."""
        if record.event in ("principal_added", "principal_revoked"):
            self._entries[record.code] = record.grant

    def problem(self, connection: "sqlite3.Connection") -> str:
        """Where the table says something else than the records. The connection gives text as bytes."""
        missing = set(self._entries)
        for row in rows_since(KNOWS_SETTING, connection, f"{READ} ORDER BY id"):
            id = row[0].decode("utf-8", "replace") if isinstance(row[0], bytes) else repr(row[0])
            recorded = self._entries.get(id)
            if recorded is None:
                return f"{id!r} is registered, and no record says so; {_REMEDY}"
            if not all(isinstance(part, bytes) for part in row) or _digest(row) != recorded:
                return f"the entry of {id!r} is not the one that was recorded; {_REMEDY}"
            missing.discard(id)
        return f"{min(missing)!r} is on the record, and the table forgot it; {_REMEDY}" if missing else ""


_REMEDY: Final = "revoke it, or add it again, to settle it"


def _reserved(new: Registered, known: Registered | None, owner: str) -> str:
    if new.id == owner:
        return f"{new.id} owns this state and needs no entry"
    if new.kind in ("skill", "trigger"):
        return f"{new.id}: Metier itself speaks for its skills and triggers, so none can be registered"
    if new.id not in BUILT_IN_AGENTS:
        return ""
    if known is None or not known.revoked:
        return f"{new.id} is Metier's own and needs no entry"
    if new.roles != frozenset({"agent"}) or new.on_behalf_of != owner:
        return f"{new.id} is let in again only as it was: role agent, for {owner}"
    return ""


def _revoke(connection: "sqlite3.Connection", id: str, at: str, by: str, owner: str) -> _Row | None:
    """The entry as it is now; None when there is nobody of that id."""
    found: tuple[object, ...] | None = connection.execute(f"{READ} WHERE id = ?", (id,)).fetchone()
    if found is None and id not in BUILT_IN_AGENTS:
        return None
    kept: tuple[object, ...] = (id, "agent", owner, b'["agent"]', at, by)
    if found is not None and all(isinstance(part, str | bytes) for part in found):
        kept = found[:6]
    row = cast("_Row", (*kept, at, by))
    connection.execute(_WRITE, row)
    return row


def _digest(row: tuple[str | bytes, ...]) -> str:
    from metier.record.chain import grant_digest

    return grant_digest(*(part.encode() if isinstance(part, str) else part for part in row))
