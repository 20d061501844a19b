"""Everybody who may ask for something: those who are registered, and those who are so without an entry."""

from typing import TYPE_CHECKING

from metier.model.digest import Json
from metier.model.role import Registered
from metier.record.registered import BUILT_IN_AGENTS, registered_in

if TYPE_CHECKING:
    from metier.record.database import Database


def everybody(database: "Database | None", owner: str) -> list[Registered]:
    """The table's entries, and those that are so without one. Blocking. Looking makes no state, so there may be none."""
    every = {owner: Registered(id=owner, kind="human", roles=frozenset({"owner"}))}
    for id in sorted(BUILT_IN_AGENTS):
        every[id] = Registered(id=id, kind="agent", on_behalf_of=owner, roles=frozenset({"agent"}))
    if database is not None:
        with database.reading() as connection:
            every |= {each.id: each for _, each in sorted(registered_in(connection).items())}
    return list(every.values())


def principal_plain(each: Registered) -> dict[str, Json]:
    """For programs."""
    return {
        "id": each.id,
        "kind": each.kind,
        "roles": [*sorted(each.roles)],
        "on_behalf_of": each.on_behalf_of,
        "revoked": each.revoked,
    }
