"""The gate asked about a call that is not made: the same look, the same layers, no record and no run."""

import os
import secrets

from msgspec.structs import replace

from metier.catalog.here import owner
from metier.config.settings import Settings
from metier.disclosure.read_skill import TOOL as READ_SKILL
from metier.gate.explain import Explained, explain
from metier.gate.principals import rebuilt
from metier.gate.situation import look
from metier.gate.validate import validate
from metier.model.call import Call
from metier.model.digest import Json
from metier.model.outcome import Refused
from metier.model.trust_level import level_of
from metier.record.steering import steering
from metier.runtime.state import State


def explained(
    settings: Settings, tool: str, arguments: Json, *, principal: str = "", level: str | None = None
) -> Explained | Refused:
    """What every layer would say.

    Raises:
        MetierError: when configuration or state cannot be used.
    """
    state = State(lambda: settings)
    try:
        seen = state.look()
        who = rebuilt(principal or "agent:cli", "", steering(state.database).principals, owner())
        if isinstance(who, str):
            return Refused(call_id="", code="forbidden", reasons=(who,), remedy="`metier principals list`")
        call = Call(id=f"call_{secrets.token_hex(12)}", principal=who, tool=tool, arguments=arguments)
        tools = {READ_SKILL.name: READ_SKILL}
        valid = validate(call, tools=tools, catalog=seen.catalog, ground=seen.ground)
        if isinstance(valid, Refused):
            return valid
        found = look(valid, catalog=seen.catalog, trust=state.trust, bundles=state.bundles)
        situation = state.look_at(valid, seen, found, dict(os.environ), wait=True)
        if level is not None:
            situation = replace(situation, level=level_of(level))
        return explain(valid, situation)
    finally:
        state.database.close()
