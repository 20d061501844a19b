"""Refusals in the words of this door.

The gate says that there is no such tool before it asks who wants it, and names others as we call them. Here a client is answered with
what it was shown, in the names it was shown; and whoever is let in no more is told that, and nothing else.
"""

import difflib
from collections.abc import Sequence
from typing import Final

from metier.doors.mcp.peer import Peer, standing_of
from metier.doors.mcp.tools import shown_to
from metier.errors import MetierError
from metier.model.outcome import REMEDIES, Refused
from metier.model.role import EXECUTE
from metier.runtime.engine import Engine

_BEFORE_RIGHTS: Final = frozenset({"unknown_tool", "unknown_skill", "invalid_arguments", "not_trusted"})
"""What is said of a call before anybody asked whose it is."""
_OF_THIS_MACHINE: Final = frozenset({"setup_unusable", "record_unavailable"})
"""Refusals whose reasons name files."""
SETUP: Final = (
    "the state cannot be used at the moment; any `metier` command on that machine says what is wrong"
)
"""What a client that is not the local user's own is told instead."""
_MOST: Final = 20


async def in_our_words(engine: Engine, peer: Peer, refused: Refused, *, tool: str, skill: str) -> Refused:
    """What `peer` is told. `tool` and `skill` are the names it gave."""
    refused = of_this_machine(peer, refused)
    if refused.code not in _BEFORE_RIGHTS:
        return refused
    try:
        standing = await standing_of(peer, engine.state.database)
        if standing.problem or EXECUTE not in standing.rights:
            why = standing.problem or f"{peer.principal.id!r} has no right to use tools"
            return _with(refused, why, remedy=REMEDIES["forbidden"])
        if refused.code == "unknown_tool":
            names = [each.name for each in await shown_to(engine, peer)]
            return _with(refused, remedy=_others(tool, names, "Tools"))
        if refused.code == "unknown_skill":
            names = [each.name for each in engine.seen.catalog.usable() if each.model_may_invoke]
            return _with(refused, remedy=_others(skill, names, "Skills"))
    except MetierError:  # nobody knows what it may see, so it is told of nothing
        return _with(refused, remedy="")
    return refused


def of_this_machine(peer: Peer, refused: Refused) -> Refused:
    """The same, without what is nobody's business who is not here."""
    if not peer.remote or refused.code not in _OF_THIS_MACHINE:
        return refused
    return Refused(call_id=refused.call_id, code=refused.code, reasons=(SETUP,))


def _with(refused: Refused, why: str = "", *, remedy: str) -> Refused:
    return Refused(
        call_id=refused.call_id,
        code="forbidden" if why else refused.code,
        reasons=(why,) if why else refused.reasons,
        remedy=remedy,
    )


def _others(name: str, names: Sequence[str], what: str) -> str:
    if near := difflib.get_close_matches(name[:200], names, n=1):
        return f"Did you mean {near[0]!r}?"
    if not names:
        return f"There are no {what.lower()} here at the moment"
    more = f", and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return f"{what} are: {', '.join(names[:_MOST])}{more}"
