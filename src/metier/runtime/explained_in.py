"""The gate asked about a call that is not made: the same look, the same layers, no record and no run."""

import os
import secrets
from collections.abc import Callable, Mapping
from typing import Final, get_args

from msgspec.structs import replace

from metier.catalog.here import owner
from metier.gate.explain import Explained, explain
from metier.gate.principals import rebuilt
from metier.gate.situation import hearing, look
from metier.gate.validate import validate
from metier.hooks import is_told
from metier.model.call import Call, Principal, ValidCall
from metier.model.digest import Json
from metier.model.entry import InlineCode
from metier.model.outcome import Refused
from metier.model.role import Kind, Registered
from metier.model.skill import Tool
from metier.model.text import one_line
from metier.model.trust_level import level_of
from metier.model.verdict import Verdict
from metier.record.database import Database
from metier.record.steering import steering
from metier.runtime.own import OPERATOR_RUN, OwnRun, own_tool
from metier.runtime.state import Seen, State

_ANY_FILE: Final = OwnRun(name="", data=b"", entry=InlineCode(language="python", source=""))
_OWN_RUN: Final = own_tool(_ANY_FILE)
_KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


def explained_in(
    state: State,
    seen: Seen,
    tool: str,
    arguments: Json,
    *,
    principal: str = "",
    level: str | None = None,
    exactly: bool = True,
    operations: Callable[[str], Mapping[str, Tool]],
) -> Explained | Refused:
    """What every layer would say. Of `operator.run`: to a file that is allowed nothing, run from here. Blocking.

    Args:
        principal: who would ask; left empty, who does: the owner runs files, an agent calls tools.
        exactly: whether who reads it may know which arguments a standing grant is for.
        operations: tells what modules offer, for the name of an operation that is asked about.
    """
    runs = tool == OPERATOR_RUN
    asker = principal or (owner() if runs else "agent:cli")
    who = _asking(asker, steering(state.database).principals)
    if isinstance(who, str):
        return Refused(call_id="", code="forbidden", reasons=(who,), remedy="`metier principals list`")
    call = Call(
        id=f"call_{secrets.token_hex(12)}",
        principal=who,
        tool=seen.internal(tool),
        arguments=arguments,
        cwd=os.getcwd() if runs else None,
    )
    tools = {**seen.tools, _OWN_RUN.name: _OWN_RUN}
    if call.tool not in tools and "." in call.tool:
        tools |= operations(call.tool)
    valid = validate(call, tools=tools, catalog=seen.catalog, ground=seen.ground)
    if isinstance(valid, Refused):
        return valid
    found = look(valid, catalog=seen.catalog, trust=state.trust, bundles=state.bundles)
    situation = state.look_at(valid, seen, found, dict(os.environ), wait=True)
    if level is not None:
        situation = replace(situation, level=level_of(level))
    if seen.settings.hooks.gate and is_told(valid):
        names = ", ".join(seen.settings.hooks.gate)
        said = f"asked when it is called: the gate hooks of {one_line(names, 200)}"
        situation = hearing(situation, Verdict.abstain(said))
    if said := _in_its_place(seen.settings.home, valid, state.database):
        situation = hearing(situation, Verdict.deny(said))
    return explain(valid, situation, exactly=exactly)


def _in_its_place(home: str, valid: ValidCall, database: Database) -> str:
    """What a trigger would have run instead; empty where none would."""
    if not os.path.exists(os.path.join(home, "kernel.db")):
        return ""
    from metier.kernel.behalf import behind_of, since_of, somebody_else
    from metier.kernel.store import Store
    from metier.kernel.trigger_around import in_place_of
    from metier.kernel.trigger_store import all_triggers

    store = Store(home)
    try:
        since = since_of(database)
        kept = [each for each in all_triggers(store) if not somebody_else(each.behalf, since(each.owner))]
        return in_place_of(kept, valid, owner(), behind_of(database, owner()))
    finally:
        store.close()


def _asking(id: str, principals: Mapping[str, Registered]) -> Principal | str:
    """Who asks, as he is today. Of somebody who is revoked or unknown the layers have to say so, as in a call of his; only
    what can be nobody's id has no call to be explained."""
    who = rebuilt(id, "", principals, owner())
    kind = id.partition(":")[0]
    if isinstance(who, Principal) or kind not in _KINDS:
        return who
    known = principals.get(id)
    return Principal(id=id, kind=kind, on_behalf_of=(known.on_behalf_of or None) if known else None)
