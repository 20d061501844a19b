"""One page of the console: where it is, who may see it, and what it shows.

A page does nothing by being looked at. What a person does on it is a request to the API, so nothing is possible here that is not
possible there, through the same gate.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias, final

from msgspec import Struct

from metier.doors.http.endpoint import Asking
from metier.model.role import APPROVE, READ_AUDIT, STEER

Shows: TypeAlias = Callable[[Asking], Awaitable[Mapping[str, object]]]
"""Gives what its template is filled with. What it must not show it refuses, as the API does."""

LOOKS: Final = (READ_AUDIT, APPROVE, STEER)
"""Who has one of these rights has business here."""


@final
class Page(Struct, frozen=True, kw_only=True):
    """A path and what is there."""

    path: str
    template: str
    title: str
    shows: Shows
    menu: str
    """Which word of the menu it belongs to."""
    right: tuple[str, ...] = LOOKS
    """He must have one of these."""
    query: type[Struct] | None = None
    told: tuple[str, ...] = ()
    """What makes it look anew by itself: the first word of an event's kind (`approval`, `call`, `skills`), or of the name of an operation
    that was done (`schedules`)."""
    asks: bool = False
    """Its query has something asked in the name of who looks: a link of another site only fills in the form."""
    pace_ms: int = 0
    """At least so long between two of those looks, where one costs more than a moment."""
