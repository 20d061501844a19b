"""What the host does for others: the operations of calls that they announced on the record, and nothing else.

The key of the line makes nothing happen by itself. The record says who asks, and for what; it must have been the process at the
other end that announced it, after this host began, with these arguments. Each is taken once: what one host took and did not end
is older than the next host.
"""

from typing import Final, cast, final

from anyio import CapacityLimiter, to_thread

from metier.kernel.host_line_socket import Peer
from metier.kernel.host_line_words import FORBIDDEN, Do, Wrong
from metier.kernel.operation import Asked
from metier.model.call import Principal, Surroundings
from metier.model.role import Kind
from metier.record.calls import process_as_recorded
from metier.record.database import Database
from metier.record.open_intent import OpenIntent, open_intent, still_open

_REMEMBERED: Final = 4096
_KINDS: Final = frozenset({"human", "agent", "skill", "trigger"})
_TWICE: Final = Wrong(code=FORBIDDEN, message="this call was handed to the host before, and is done once")


@final
class Announced:
    """The calls of others, as the record has them. Each is taken once."""

    def __init__(self, database: Database, since: int) -> None:
        self._database = database
        self._since = since
        self._taken: set[int] = set()
        self._limiter = CapacityLimiter(2)

    async def taken(self, wanted: Do, peer: Peer) -> OpenIntent | Wrong:
        """What the record says about the call, found to be the peer's own and as he tells it; or why nothing comes of it."""
        found = await to_thread.run_sync(self._found, wanted, peer, limiter=self._limiter)
        if isinstance(found, Wrong):
            return found
        if found.seq in self._taken:
            return _TWICE
        if len(self._taken) >= _REMEMBERED:
            # One that has its outcome can never be asked for again, so only the others have to be known.
            known = frozenset(self._taken)
            under_way = await to_thread.run_sync(still_open, self._database, limiter=self._limiter)
            self._taken -= known - under_way  # and not those that others took meanwhile
            if found.seq in self._taken:
                return _TWICE
        self._taken.add(found.seq)
        return found

    def _found(self, wanted: Do, peer: Peer) -> OpenIntent | Wrong:
        found = open_intent(self._database, wanted.call_id)
        if found is None or found.process != process_as_recorded(peer.pid):
            return Wrong(
                code=FORBIDDEN,
                message="the host does only what the record announces, and it announces no such call of the process that asks; "
                "a process in another container cannot ask the host of this one",
            )
        if found.seq <= self._since:
            return Wrong(
                code=FORBIDDEN, message="this call was announced before this host began; make it anew"
            )
        if not found.has(wanted.arguments):
            return Wrong(code=FORBIDDEN, message="the record announces this call with other arguments")
        return found


def asked_by_record(found: OpenIntent, wanted: Do) -> Asked | Wrong:
    """The operation as the record announces it."""
    kind = found.principal.partition(":")[0]
    module, dot, operation = found.tool.partition(".")
    if kind not in _KINDS or not dot:
        return Wrong(code=FORBIDDEN, message="the record announces no operation of a module for this call")
    # What the code of a skill asks for is recorded under that skill's own name.
    if kind != "skill" and found.skill != wanted.skill:
        return Wrong(code=FORBIDDEN, message="the record announces this call as one of another skill")
    around = wanted.surroundings
    return Asked(
        call_id=found.call_id,
        principal=Principal(
            id=found.principal,
            kind=cast("Kind", kind),
            on_behalf_of=found.on_behalf_of or None,
            scopes=found.scopes,
            token=found.token,
        ),
        module=module,
        operation=operation,
        arguments=wanted.arguments,
        skill=wanted.skill,
        depth=max(wanted.depth, 0),
        cause=wanted.cause,
        surroundings=Surroundings(
            call_id=around.call_id,
            caller_id=around.caller_id,
            transcript=around.transcript,
            turn=around.turn,
            channel=found.channel or None,
            session=found.session or None,
        ),
    )
