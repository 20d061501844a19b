"""The facts of a gate made by hand: the owner `human:test`, his agent `agent:test`, and the default level."""

from typing import Any

from msgspec import structs

from metier.gate.situation import NO_SKILL, Bytes, Facts, Situation, situation
from metier.model.call import ValidCall
from metier.model.role import Registered, Standing, rights_of
from metier.record.approval_clock import moment
from metier.record.steering import Steering

OWNER = "human:test"
AGENT = Registered(id="agent:test", kind="agent", on_behalf_of=OWNER, roles=frozenset({"agent"}))
STEERING = Steering(level="supervised_auto", principals={AGENT.id: AGENT})
AS_NEW = Steering(level="supervised_auto")
"""What a new database says."""
FACTS = Facts(steering=STEERING, owner=OWNER)
OF_AGENTS = Standing(rights=rights_of(frozenset({"agent"})))
OF_OWNERS = Standing(rights=rights_of(frozenset({"owner"})))


def judged(valid: ValidCall, found: Bytes = NO_SKILL, facts: Facts = FACTS, **more: Any) -> Situation:
    """The situation of a call, with single facts replaced. When it begins, a new database is as it was judged with."""
    made = situation(valid, found, facts, now=moment())
    return structs.replace(made, **{"steering": AS_NEW, **more})
