"""Who is registered, as the table has it: read, and never more taken from it than is certain."""

import re
from typing import TYPE_CHECKING, Final, cast

import msgspec

from metier.model.role import APPROVE, ROLES, Kind, Registered, rights_of
from metier.record.glance import UNDECODABLE
from metier.record.schema import KNOWS_SETTING

if TYPE_CHECKING:
    import sqlite3

BUILT_IN_AGENTS: Final = frozenset({"agent:cli", "agent:console", "agent:host", "agent:library", "agent:mcp"})
"""The command line, the library, the host and `metier mcp`, which act on the owner's behalf."""
AGENT_ROLES: Final = frozenset({"agent", "viewer"})
"""All other roles come with rights that only a person may use."""
ROLES_BY_KIND: Final[dict[Kind, frozenset[str]]] = {
    "human": frozenset(ROLES),
    "agent": AGENT_ROLES,
    "skill": frozenset(),
    "trigger": frozenset(),
}
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}")
_COLUMNS: Final = "id, kind, on_behalf_of, roles, added_at, added_by, revoked_at, revoked_by"
READ: Final = f"SELECT {_COLUMNS} FROM principal"  # noqa: S608  a constant
_roles: Final = msgspec.json.Decoder(frozenset[str])


def registered_in(connection: "sqlite3.Connection") -> dict[str, Registered]:
    """Everybody in the table, by id. An entry that cannot be understood is one that was revoked."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version < KNOWS_SETTING:
        return {}
    rows = (_registered(row) for row in connection.execute(READ))
    return {each.id: each for each in rows}


def since_in(connection: "sqlite3.Connection", id: str) -> str:
    """When the one of this id was registered; empty where nobody is. Revoking does not change it, and adding the id again does: by
    this whoever keeps something for an id tells that it is still the same somebody's."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version < KNOWS_SETTING or not id.isprintable():  # what is no text cannot even be asked for
        return ""
    row = connection.execute("SELECT added_at FROM principal WHERE id = ?", (id,)).fetchone()
    return str(row[0]) if row is not None else ""


def id_problem(id: str, kind: str) -> str:
    """Why `id` cannot stand for one somebody of this kind; empty when it can."""
    before, colon, name = id.partition(":")
    if not colon or before != kind or kind not in ROLES_BY_KIND:
        return f"an id of this kind is written '{kind}:name'"
    if not _NAME.fullmatch(name):
        return (
            "a name has 1 to 64 small letters, digits, dots, hyphens, underscores or @, a letter or digit first; "
            "it is one somebody, so there is no * in it"
        )
    return ""


def _registered(row: tuple[object, ...]) -> Registered:
    """One entry. What it is not certain of, it does not give."""
    id, kind, behalf, roles, *_, revoked_at, _ = row
    nobody = Registered(id=str(id), kind="agent", revoked=True)
    if not all(isinstance(part, str) for part in (id, kind, behalf, revoked_at)) or not isinstance(
        roles, bytes
    ):
        return nobody
    try:
        names = _roles.decode(roles)
    except UNDECODABLE:
        return nobody
    if id_problem(cast("str", id), cast("str", kind)):
        return nobody
    return Registered(
        id=cast("str", id),
        kind=cast("Kind", kind),
        on_behalf_of=cast("str", behalf),
        roles=names,
        revoked=revoked_at != "",
    )


def since_of(connection: "sqlite3.Connection", id: str) -> tuple[bool, str]:
    """Whether somebody is registered, and since when. Added anew he may be somebody else."""
    if not id.isprintable():
        return False, ""
    row = connection.execute(
        "SELECT added_at FROM principal WHERE id = ? AND revoked_at = ''", (id,)
    ).fetchone()
    return (False, "") if row is None else (True, str(row[0]))


def may_approve(connection: "sqlite3.Connection", id: str) -> bool:
    """Whether the word of somebody who approved something still counts: he was not revoked, and has the right today. What he
    said before he was revoked is ended for good when his id is added again.

    The owner of this machine needs no entry, so one who is in no table was him when he decided.
    """
    found = registered_in(connection).get(id)
    return found is None or (not found.revoked and APPROVE in rights_of(found.roles))
