"""Who is at the other end of a connection. Made by the door that authenticated it, never from what a client says of itself."""

from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from anyio import to_thread
from msgspec import Struct

from metier.catalog.here import owner
from metier.gate.principals import standing, token_problem
from metier.model.call import Principal
from metier.model.role import EXECUTE, Registered, Standing
from metier.record.database import Database
from metier.record.principals import registered_in
from metier.record.tokens import tokens_in

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from anyio import Event
    from mcp.server.context import ServerRequestContext

    from metier.record.steering import Steering
    from metier.record.tokens import Token

    Context: TypeAlias = ServerRequestContext[Any, Any]
    Who: TypeAlias = Callable[[Context], "Peer"]

BUILT_IN: Final = "agent:mcp"
"""Whoever speaks over standard input and output, and was given no other name."""


@final
class Peer(Struct, frozen=True, kw_only=True):
    """One client, for one request of its."""

    principal: Principal
    connection: str
    """What it is spoken to over, for as long as that lasts."""
    remote: bool = False
    """Whether it is not the local user's own, so that nothing about this machine is said to it."""
    gone: "Event | None" = None
    """Set once nobody waits for an answer to this request; None where that ends the request itself."""
    steering: "Callable[[], Awaitable[Steering]] | None" = None
    """What operators decided, as its door keeps it until something is written; None where it is read each time."""


async def standing_of(peer: Peer, database: Database) -> Standing:
    """What it may do at this moment.

    Raises:
        StateError: when the state cannot be read.
    """
    if peer.steering is not None:
        known = await peer.steering()
        return _today(peer.principal, known.tokens, known.principals)
    return await to_thread.run_sync(_standing, peer.principal, database)


def _standing(principal: Principal, database: Database) -> Standing:
    with database.reading() as connection:
        return _today(principal, tokens_in(connection), registered_in(connection))


def _today(
    principal: Principal, tokens: "Mapping[str, Token]", registered: "Mapping[str, Registered]"
) -> Standing:
    problem = token_problem(principal, tokens) if principal.token else ""
    return Standing(problem=problem) if problem else standing(principal, registered, owner())


def problem_with(peer: Peer, steering: "Steering") -> str:
    """Why it may do nothing at all, as `steering` has it; empty where it may do something."""
    return _today(peer.principal, steering.tokens, steering.principals).problem


async def may_use(peer: Peer, database: Database) -> bool:
    """Whether it is shown skills at all.

    Raises:
        StateError: when the state cannot be read.
    """
    found = await standing_of(peer, database)
    return not found.problem and EXECUTE in found.rights
