"""What operators change while Metier runs, as it stood at one moment: level, stop, principals, tokens,
standing grants.

One cheap read. Whoever judges a call asks first whether the database changed since.
"""

from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

from metier.model.approval import StandingGrant
from metier.model.role import Registered
from metier.model.trust_level import LEAST, TrustLevel
from metier.record.level import level_in
from metier.record.principals import registered_in
from metier.record.standing import answering_in
from metier.record.stop import stopped_in
from metier.record.tokens import Token, tokens_in

if TYPE_CHECKING:
    import sqlite3

    from metier.record.database import Database


@final
class Steering(Struct, frozen=True, kw_only=True):
    """Left as it is, nothing is trusted and nobody is known."""

    level: TrustLevel = LEAST
    stopped: str = ""
    """Why nothing may run; empty when things may."""
    principals: dict[str, Registered] = {}
    tokens: dict[str, Token] = {}
    """By id: those that were not revoked. Whether one is over is for whoever uses it to see."""
    grants: tuple[StandingGrant, ...] = ()
    """Those that were not revoked, by people who may still approve. Whether one has expired or is used up is for whoever uses it to see."""


NO_STEERING: Final = Steering()


def steering(database: "Database") -> Steering:
    """All of it, of one moment.

    Raises:
        StateError: when it cannot be read; then nothing may run.
    """
    with database.reading() as connection:
        return steering_in(connection)


def steering_in(connection: "sqlite3.Connection") -> Steering:
    """The same, of the moment that `connection` is at."""
    return Steering(
        level=level_in(connection),
        stopped=stopped_in(connection),
        principals=registered_in(connection),
        tokens=tokens_in(connection),
        grants=answering_in(connection),
    )
