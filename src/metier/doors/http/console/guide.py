"""The first three steps of somebody new: trust a skill, have something asked for, approve it. Over for good once each was done."""

from typing import final

from msgspec import Struct

from metier.doors.http.endpoint import Asking
from metier.record.firsts import firsts_in


@final
class Step(Struct, frozen=True, kw_only=True):
    """One thing to do, and whether it was done."""

    name: str
    done: bool
    waiting: int = 0
    """Skills that could be trusted now."""


def guide(asking: Asking) -> list[Step]:
    """The steps, or none when nothing is left to be shown. Blocking."""
    with asking.serving.engine.state.database.reading() as connection:
        done = firsts_in(connection)
    if done.trusted and done.asked and done.approved:
        return []
    waiting = sum(each.shown == "pending_approval" for each in asking.runtime.catalog.listed)
    return [
        Step(name="trust", done=done.trusted, waiting=waiting),
        Step(name="call", done=done.asked),
        Step(name="approve", done=done.approved),
    ]
