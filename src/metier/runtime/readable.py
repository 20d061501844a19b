"""Instructions that a model may be shown unasked: those it could read by itself, right now. Nothing is called for it, but every
layer is asked what it would say."""

import os
import secrets

from metier.catalog.listed import Listed
from metier.disclosure.read_skill import TOOL as READ_SKILL
from metier.gate.explain import explain
from metier.gate.situation import look
from metier.gate.validate import validate
from metier.model.call import Call, Principal
from metier.model.outcome import Refused
from metier.runtime.state import Seen, State


def readable(state: State, seen: Seen, principal: Principal, listed: Listed) -> str | None:
    """The instructions of a skill, or None where `principal` could not read them. Blocking."""
    call = Call(
        id=f"call_{secrets.token_hex(12)}",
        principal=principal,
        tool=READ_SKILL.name,
        arguments={"name": listed.name},
    )
    valid = validate(call, tools={READ_SKILL.name: READ_SKILL}, catalog=seen.catalog, ground=seen.ground)
    if isinstance(valid, Refused):
        return None
    found = look(valid, catalog=seen.catalog, trust=state.trust, bundles=state.bundles)
    situation = state.look_at(valid, seen, found, dict(os.environ), wait=True)
    return state.body(listed) if explain(valid, situation).ends == "runs" else None
