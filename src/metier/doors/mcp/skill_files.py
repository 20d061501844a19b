"""Reading a skill for a client: through the gate, as `read_skill`, and then the very bytes that were judged."""

import secrets
import time
from typing import final

from anyio import to_thread
from msgspec import Struct

from metier.catalog.bundle import Snapshot
from metier.catalog.hold import hold
from metier.catalog.listed import Listed
from metier.disclosure.read_skill import TOOL as READ_SKILL
from metier.doors.mcp.peer import Peer
from metier.doors.mcp.refusals import of_this_machine
from metier.model.call import Call, Surroundings
from metier.model.digest import Json
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.runtime.engine import Engine


@final
class NotRead(Struct, frozen=True):
    """Why a client is not given it."""

    why: str


async def asked(engine: Engine, peer: Peer, name: str, path: str | None) -> Outcome:
    """Through the gate. A file is judged and recorded as one whose bytes are handed out."""
    arguments: dict[str, Json] = {"name": name} if path is None else {"name": name, "path": path}
    return await engine.run(
        Call(
            id=f"call_{secrets.token_hex(12)}",
            principal=peer.principal,
            tool=READ_SKILL.name,
            arguments=arguments,
            surroundings=Surroundings(channel="mcp", session=peer.connection, takes_bytes=path is not None),
        )
    )


async def snapshot_of(engine: Engine, peer: Peer, name: str, path: str | None) -> Snapshot | NotRead:
    """The skill as it was judged, once the gate let `peer` read this file of it (its instructions, where `path` is None).

    Raises:
        MetierError: when what is kept of it cannot be used.
    """
    for _ in range(2):  # it may be given other bytes while it is judged
        before = await to_thread.run_sync(digest_of, engine, name)
        outcome = await asked(engine, peer, name, path)
        if not isinstance(outcome, Completed):
            return NotRead(why_not(peer, outcome))
        after = await to_thread.run_sync(digest_of, engine, name)
        if before == after != "":
            found = await to_thread.run_sync(engine.state.bundles.open, after)
            if found is not None:
                return found
    return NotRead(f"the skill {name!r} was changed meanwhile; read it again")


def why_not(peer: Peer, outcome: Outcome) -> str:
    """In words, why nothing was read."""
    match outcome:
        case Refused():
            return "; ".join(of_this_machine(peer, outcome).reasons)
        case Failed():
            return outcome.message
        case Pending():
            return f"a person has to decide that first: metier approvals show {outcome.approval_id}"
        case Completed():
            return ""


def digest_of(engine: Engine, name: str) -> str:
    """Of the bytes it would be read from; empty where it cannot be. Blocking."""
    listed: Listed | None = engine.seen.catalog.get(name)
    if listed is None:
        return ""
    held = hold(listed, trust=engine.state.trust, bundles=engine.state.bundles, now_ns=time.time_ns())
    return held.bytes.digest if held.bytes is not None and not held.broken and not held.refusal else ""
