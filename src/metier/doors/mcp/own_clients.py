"""Whether `[mcp] own_clients` names whom it can: an agent that there is, and that acts for the owner.

What is wrong there loosens nothing: such a client is asked like any other. But the operator waits for questions that never come, so
he is told when Metier begins to serve, and by `metier doctor`.
"""

import logging
import os
from collections.abc import Mapping
from typing import Final

from metier.catalog.here import owner
from metier.config.settings import Settings
from metier.errors import MetierError
from metier.gate.principals import rebuilt
from metier.model.role import Registered
from metier.model.text import one_line
from metier.record.database import Database
from metier.record.principals import registered_in

_log: Final = logging.getLogger("metier.mcp")


def problems(named: frozenset[str], registered: Mapping[str, Registered], owner: str) -> list[str]:
    """For each that is wrong, what, why it counts for nothing, and what to do."""
    said: list[str] = []
    for id in sorted(named):
        before = f"[mcp] own_clients names {one_line(id, 80)}, and nobody is asked there:"
        found = rebuilt(id, "", registered, owner)
        if isinstance(found, str):
            said.append(
                f"{before} {one_line(found, 200)}. `metier principals add {one_line(id, 80)}` registers it, or take it out"
            )
        elif found.on_behalf_of != owner:
            who = one_line(found.on_behalf_of or "nobody", 80)
            said.append(
                f"{before} it acts for {who} and not for {owner}, so who answers there is not you. Name an agent of your own, or take it out"
            )
    return said


def problems_here(settings: Settings) -> list[str]:
    """The same, of this configuration and this state. Blocking.

    Raises:
        StateError: when the state cannot be read.
    """
    named = settings.mcp.own_clients
    if not named:
        return []
    if not os.path.exists(settings.database):  # who only looks makes none
        return problems(named, {}, owner())
    with Database.open(settings.database) as database, database.reading() as connection:
        return problems(named, registered_in(connection), owner())


def tell(settings: Settings) -> None:
    """Into the log, which is standard error where nothing else was said. Blocking."""
    try:
        for each in problems_here(settings):
            _log.warning("%s", each)
    except MetierError as error:  # whoever is served next is told that, and why
        _log.info("own_clients could not be looked at: %s", one_line(str(error), 200))
