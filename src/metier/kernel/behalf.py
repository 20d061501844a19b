"""On whose behalf something acts that was set up once and acts later: a trigger, a schedule, the life of a skill.

With the id it is kept when that somebody was registered. An id that was revoked and added again may be somebody else, and what the
one before him left must not act with his rights, without a word of his. Who owns the state is never registered: with his id
nothing is kept.
"""

from collections.abc import Callable
from typing import TypeAlias, final

from msgspec import Struct

from metier.gate.principals import standing
from metier.model.call import Principal
from metier.record.database import Database
from metier.record.registered import registered_in, since_in

Since: TypeAlias = Callable[[str], str]
"""When the one of an id was registered, as it is kept beside the id; empty where nobody of that id is. Blocks."""


Behind: TypeAlias = Callable[[Principal], tuple[str, ...]]
"""Everybody on whose behalf somebody acts, one behind the other. Blocks."""


@final
class Behalf(Struct, frozen=True):
    """Somebody, as he was when he set something up."""

    id: str
    since: str = ""


def never(_: str) -> str:
    """Where nobody is registered."""
    return ""


def since_of(database: Database) -> Since:
    """As the record's own database has it."""

    def since(id: str) -> str:
        with database.reading() as connection:
            return since_in(connection, id)

    return since


def by_itself(_: Principal) -> tuple[str, ...]:
    """Where nobody acts for another."""
    return ()


def behind_of(database: Database, owner: str) -> Behind:
    """As the record's own database has it."""

    def behind(principal: Principal) -> tuple[str, ...]:
        with database.reading() as connection:
            return standing(principal, registered_in(connection), owner).behind

    return behind


def somebody_else(behalf: Behalf, now: str) -> str:
    """Why nothing is done on behalf of who set something up; empty where he is still the one that is registered (`now`)."""
    if behalf.since == now:
        return ""
    return f"{behalf.id!r} was registered anew after that, and may be somebody else; who wants it enables it again"
