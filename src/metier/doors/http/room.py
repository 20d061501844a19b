"""Who has requests under way, so that nobody takes all the room there is, and an end to all of them when the server ends.

A request is a stranger's until somebody was let in with it. Everybody has so many under way and no more, and agents together leave
some of the room to people: whoever has to say no to an agent, or stop it, is not kept out by that agent's waiting.
"""

import math
from collections.abc import Generator, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, final

import anyio

from metier.doors.http.problem import Refusal

if TYPE_CHECKING:
    from metier.model.call import Principal

MOST_OF_ONE: Final = 96
"""Requests of one principal under way at once, waits and streams among them."""
MOST_OF_AGENTS: Final = 384
"""Of all agents together. The rest of the connections is for people, and for who is not known yet."""
PLACE: Final = "metier.place"
"""Where a request's place lies in its scope."""


@final
class Place:
    """Of one request."""

    def __init__(self, room: "Room", until: float) -> None:
        self._room = room
        self.within: Final = anyio.CancelScope(deadline=until)
        """What is done for it, cut off when the server's grace is over."""
        self.principal: Principal | None = None
        """Whom it was let in as; None while it is a stranger's."""
        self.call = ""
        """The call that is made for it, by its id; empty while there is none."""

    def let_in(self, principal: "Principal") -> None:
        """
        Raises:
            Refusal: when he has as many under way as he may.
        """
        if self.principal is None:
            self._room.require(principal)
            self.principal = principal


@final
class Room:
    """Belongs to one loop."""

    def __init__(self) -> None:
        self._places: set[Place] = set()
        self._until = math.inf

    @contextmanager
    def place(self, scope: MutableMapping[str, Any]) -> Generator[Place]:
        """For one request, until it is answered."""
        made = scope[PLACE] = Place(self, self._until)
        self._places.add(made)
        try:
            yield made
        finally:
            self._places.discard(made)

    def require(self, principal: "Principal") -> None:
        """
        Raises:
            Refusal: when there is no room for another request of his.
        """
        known = [each.principal for each in self._places if each.principal is not None]
        if sum(each.id == principal.id for each in known) >= MOST_OF_ONE:
            raise Refusal(
                429,
                "too_many_requests",
                f"{MOST_OF_ONE} requests of yours are under way",
                remedy="Wait until some of them have ended; one that waits for a decision can be taken up later",
                retry_after="2",
            )
        if principal.kind == "agent" and sum(each.kind == "agent" for each in known) >= MOST_OF_AGENTS:
            raise Refusal(
                429,
                "too_many_requests",
                "agents have as many requests under way as they may",
                remedy="Wait until some of them have ended",
                retry_after="2",
            )

    def end(self, seconds: float) -> None:
        """Whatever is under way has so long to finish."""
        self._until = anyio.current_time() + seconds
        for each in self._places:
            each.within.deadline = self._until


def let_in(scope: MutableMapping[str, Any], principal: "Principal") -> None:
    """The request of this scope is one of his.

    Raises:
        Refusal: when he has as many under way as he may.
    """
    found = scope.get(PLACE)
    if isinstance(found, Place):
        found.let_in(principal)


def runs_for(scope: MutableMapping[str, Any], call_id: str) -> None:
    """This call is made for the request of this scope: who is cut off is told which."""
    found = scope.get(PLACE)
    if isinstance(found, Place):
        found.call = call_id


def call_of(scope: MutableMapping[str, Any]) -> str:
    """The call that is made for the request of this scope; empty where there is none."""
    found = scope.get(PLACE)
    return found.call if isinstance(found, Place) else ""


def let_in_as(scope: object) -> "Principal | None":
    """Whom the request of this scope was let in as; None for a stranger's, and where there was none yet."""
    found = scope.get(PLACE) if isinstance(scope, MutableMapping) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return found.principal if isinstance(found, Place) else None
