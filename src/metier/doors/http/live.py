"""What happens, told to whoever listens: read from the record, so that what other processes do is told too, and in its order.

One look serves everybody. The number of a record is the id of its event, so who was cut off goes on where he was. A listener gets
what he may see and has a bounded queue; when that is full he is cut off, and comes back with the number he had.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

import anyio
import msgspec
from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import checkpoint
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from metier.doors.http.problem import Refusal
from metier.errors import MetierError
from metier.model.call import Principal
from metier.openfile import Signature
from metier.record.approvals import askers
from metier.record.chain import Record
from metier.record.newest import after, newest
from metier.record.search import is_look

if TYPE_CHECKING:
    from metier.kernel.events import Happened
    from metier.runtime.engine import Engine

LOOK_SECONDS: Final = 0.15
QUEUE: Final = 256
MOST_LISTENERS: Final = 64
MOST_OF_ONE: Final = 8
"""Of one principal; when he comes once more the oldest of his goes, which often nobody reads any more."""
MOST_OF_AGENTS: Final = 32
"""Of all agents together: the rest is for people, who have to see what waits for them."""
MOST_MISSED: Final = 1_000
"""So many records are told again to who comes back; who missed more is told to look anew."""
_PAGE: Final = 200
_log: Final = logging.getLogger("metier.http")
Kind: TypeAlias = Literal[
    "approval.pending",
    "approval.decided",
    "call.began",
    "call.ended",
    "call.refused",
    "call.cancelled",
    "runtime.stopped",
    "runtime.resumed",
    "skills.changed",
    "people.changed",
    "policy.changed",
    "host.changed",
    "record.changed",
    "event",
    "reset",
]
KINDS: Final[dict[str, Kind]] = {
    "skill_approval_queued": "approval.pending",
    "skill_approved": "approval.decided",
    "skill_rejected": "approval.decided",
    "approval_expired": "approval.decided",
    "skill_execution_started": "call.began",
    "skill_executed": "call.ended",
    "skill_execution_error": "call.ended",
    "skill_execution_blocked": "call.refused",
    "outcome_given": "call.ended",
    "call_cancelled": "call.cancelled",
    "stopped": "runtime.stopped",
    "resumed": "runtime.resumed",
    **dict.fromkeys(
        ("skill_trusted", "skill_untrusted", "skill_pinned", "skill_disabled", "skill_enabled"),
        "skills.changed",
    ),
    **dict.fromkeys(
        ("principal_added", "principal_revoked", "token_added", "token_revoked"), "people.changed"
    ),
    **dict.fromkeys(
        ("credential_set", "credential_revoked", "grant_given", "grant_revoked"), "people.changed"
    ),
    **dict.fromkeys(("policy_changed", "trust_level_changed"), "policy.changed"),
    **dict.fromkeys(("host_started", "host_ended"), "host.changed"),
    **dict.fromkeys(("signed_in", "decision_refused", "message_done", "payload_erased"), "record.changed"),
    **dict.fromkeys(("head_signed", "key_rotated", "state_restored"), "record.changed"),
}
"""Everything that is written down is told: a page that shows it looks again."""


@final
class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened. Never an argument or a result: who may see those asks for them."""

    kind: Kind
    seq: int = 0
    """Number of its record; 0 for what has none, and is told once."""
    at: str = ""
    call_id: str = ""
    tool: str = ""
    skill: str = ""
    principal: str = ""
    on_behalf_of: str = ""
    approval: str = ""
    state: str = ""
    """What became of it: the event of its record, or the name of an event."""
    code: str = ""
    asked_by: str = ""
    """Of a decision: whose request it was about. Its `principal` is who decided."""
    asked_for: str = ""
    """On whose behalf he asked."""
    look: bool = False
    """A person only had something read for him, as pages do: no news for any of them."""


@final
class _Listener(msgspec.Struct, frozen=True, kw_only=True):
    who: Principal
    may_see: Callable[[Change], bool]


@final
class Live:
    """Belongs to one loop. `run` looks for as long as the server is there."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._listeners: dict[MemoryObjectSendStream[Change], _Listener] = {}
        """The oldest first."""
        self._seen = 0
        self._files: tuple[Signature | None, ...] | None = None
        """How the configuration and the rules lay there at the last look."""
        self._wake = anyio.Event()
        self._limiter = CapacityLimiter(1)
        self._closed = False

    @property
    def heard(self) -> bool:
        """Whether anybody listens."""
        return bool(self._listeners)

    def close(self) -> None:
        """Every stream ends."""
        self._closed = True
        for each in tuple(self._listeners):
            self._drop(each)

    def _make_room(self, who: Principal) -> None:
        """For one more of his."""
        mine = [stream for stream, each in self._listeners.items() if each.who.id == who.id]
        if len(mine) >= MOST_OF_ONE and not self._closed:
            self._drop(mine[0])
            return
        agents = sum(each.who.kind == "agent" for each in self._listeners.values())
        if (
            self._closed
            or len(self._listeners) >= MOST_LISTENERS
            or (who.kind == "agent" and agents >= MOST_OF_AGENTS)
        ):
            raise Refusal(
                503,
                "too_many_listeners",
                "as many listen as can",
                remedy="Try again when somebody has stopped; what happens can be looked up meanwhile",
                retry_after="5",
            )

    async def run(self) -> None:
        """Until cancelled."""
        catalog, self._files = self._engine.seen.catalog, None
        while True:
            if not self._listeners:
                self._wake = anyio.Event()
                await self._wake.wait()
                catalog, self._files = self._engine.seen.catalog, None
            await anyio.sleep(LOOK_SECONDS)
            if self._engine.seen.catalog is not catalog:
                catalog = self._engine.seen.catalog
                self._tell(Change(kind="skills.changed"))
            try:
                await self._look_at_files()
                await self._look()
            except MetierError as error:  # whoever asks for something is told
                _log.warning("what happened cannot be read at the moment: %s", error.message)

    async def _look_at_files(self) -> None:
        """Who changes the rules by hand writes nothing on the record; the next call does."""
        files = await to_thread.run_sync(self._written_down, limiter=self._limiter)
        if self._files is not None and files != self._files:
            self._tell(Change(kind="policy.changed"))
        self._files = files

    async def _look(self) -> None:
        while new := await to_thread.run_sync(self._since, self._seen, limiter=self._limiter):
            for seq, change in new:
                if seq <= self._seen:
                    continue  # whoever began to listen meanwhile was told
                self._seen = seq
                if change is not None:
                    self._tell(change)

    def happened(self, what: "Happened") -> None:
        """An event of this process: its name, and nothing of what it carries."""
        self._tell(
            Change(kind="event", state=what.name[:200], skill="" if what.source == "metier" else what.source)
        )

    async def listen(
        self, who: Principal, known: int | None, may_see: Callable[[Change], bool]
    ) -> tuple[list[Change], MemoryObjectReceiveStream[Change], Callable[[], None]]:
        """What was missed since record `known`, what comes from now on, and how to stop listening.

        Raises:
            Refusal: when as many listen as can.
        """
        last = await to_thread.run_sync(self._newest, limiter=self._limiter)
        self._make_room(who)
        if not self._listeners:
            self._seen = last
        send, receive = anyio.create_memory_object_stream[Change](QUEUE)
        self._listeners[send] = _Listener(who=who, may_see=may_see)
        self._wake.set()

        def stop() -> None:
            self._drop(send)
            receive.close()

        try:
            missed = await self._missed(known, last, self._seen, may_see) if known is not None else []
        except BaseException:
            stop()  # whoever could not be told what he missed keeps nobody's place
            raise
        return missed, receive, stop

    async def _missed(
        self, known: int, last: int, upto: int, may_see: Callable[[Change], bool]
    ) -> list[Change]:
        """What came after record `known`, up to `upto`: later ones are told like everything from now on. `last` is the newest there is; who
        knows of a later one knows another record than this."""
        if known > last or upto - known > MOST_MISSED:
            return [Change(kind="reset", seq=upto)]
        found: list[Change] = []
        while known < upto:
            page = await to_thread.run_sync(self._since, known, limiter=self._limiter)
            if not page:
                break
            found += [
                change for seq, change in page if change is not None and seq <= upto and may_see(change)
            ]
            known = page[-1][0]
        return found

    def _tell(self, change: Change) -> None:
        for stream, listener in tuple(self._listeners.items()):
            if not listener.may_see(change):
                continue
            try:
                stream.send_nowait(change)
            except anyio.WouldBlock:
                self._drop(stream)  # he does not read; nobody keeps more for him
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._drop(stream)

    def _drop(self, stream: MemoryObjectSendStream[Change]) -> None:
        self._listeners.pop(stream, None)
        stream.close()

    def _written_down(self) -> tuple[Signature | None, ...]:
        return self._engine.state.files_of(self._engine.seen)

    def _newest(self) -> int:
        return newest(self._engine.state.database)

    def _since(self, seq: int) -> list[tuple[int, Change | None]]:
        database = self._engine.state.database
        records = after(database, seq, _PAGE)
        decided = {each.approval for each in records if _kind(each) == "approval.decided"}
        asked = askers(database, decided) if decided else {}
        return [(each.seq, change_of(each, asked)) for each in records]


def change_of(record: Record, asked: Mapping[str, tuple[str, str]]) -> Change | None:
    """What is told of a record; None where that is nobody's matter here. `asked`: who asked for what was decided, and for whom."""
    kind = _kind(record)
    if kind is None:
        return None
    asked_by, asked_for = asked.get(record.approval, ("", "")) if kind == "approval.decided" else ("", "")
    return Change(
        kind=kind,
        seq=record.seq,
        at=record.at,
        call_id=record.call_id,
        tool=record.tool,
        skill=record.skill,
        principal=record.principal,
        on_behalf_of=record.on_behalf_of,
        approval=record.approval,
        state=record.event,
        code=record.code,
        asked_by=asked_by,
        asked_for=asked_for,
        look=is_look(record, in_vain=True),  # else a page would hear of its own look in vain, and look again
    )


def _kind(record: Record) -> Kind | None:
    """Who asked took it back himself: that too decides a request."""
    kind = KINDS.get(record.event)
    return "approval.decided" if kind == "call.cancelled" and record.approval else kind


def written(change: Change) -> bytes:
    """As a stream has it."""
    head = f"id: {change.seq}\n" if change.seq else ""
    return f"{head}event: {change.kind}\ndata: ".encode() + msgspec.json.encode(change) + b"\n\n"


async def frames(
    missed: Sequence[Change],
    changes: MemoryObjectReceiveStream[Change],
    still: Callable[[], Awaitable[bool]],
    *,
    beat: float,
    look: float,
) -> AsyncGenerator[bytes]:
    """What is sent, until he may not listen any more, is cut off, or the server ends. `still` is asked every `look` seconds."""
    yield b"retry: 2000\n\n"
    for place in range(0, len(missed), _PAGE):
        yield b"".join(map(written, missed[place : place + _PAGE]))
        await checkpoint()  # that he is gone is known only after this, and then nothing more is written
    looked = beaten = anyio.current_time()
    with changes:
        while True:
            change: Change | None = None
            with anyio.move_on_after(max(looked + look - anyio.current_time(), 0.0)):
                try:
                    change = await changes.receive()
                except anyio.EndOfStream:
                    return
            now = anyio.current_time()
            if now >= looked + look or change is None:
                if not await still():
                    return
                looked = now
            if change is not None:
                yield written(change)
            elif now - beaten >= beat:
                beaten = now
                yield b": \n\n"
