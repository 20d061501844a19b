"""What waits to be sent is handed to its channel: in the order of each chat, again after a fault, and never forgotten.

Only the host does this. A message is claimed before it is sent and marked after, so one that was being sent when the host died is
sent again and says so: each at least once. A chat that fails waits by itself; the others go on.
"""

import logging
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, TypeVar, final

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

import metier.kernel.delivery_rows as rows
from metier.errors import MetierError
from metier.kernel.calling import Calls
from metier.kernel.channel_rows import channel_in
from metier.kernel.channel_rules import OURS
from metier.kernel.conversation_rows import Message
from metier.kernel.delivery_ports import Connector, Connectors, Never, NotNow, attempt
from metier.kernel.delivery_skill import SkillConnector
from metier.kernel.delivery_watch import LOOK_SECONDS, Watch
from metier.kernel.events import OURS as OUR_EVENTS
from metier.kernel.events import Events, Happened
from metier.kernel.skill_record import enabled_by
from metier.kernel.store import Store
from metier.model.digest import Json
from metier.model.text import one_line

SENT: Final = "channels.message.sent"
FAILED: Final = "channels.message.failed"
RETRIED: Final = "channels.message.retried"
"""It may have been sent already, and is sent again."""
MOST_AT_ONCE: Final = 8
"""Chats of one channel that are sent to at one time: a channel that hangs holds up no other."""
SECONDS: Final = 120.0
"""How long one message may take, with everything that has to be asked first."""
GRACE_SECONDS: Final = 3.0
"""How long what is on its way may go on when the host ends."""
MOST_LATE: Final = 2
"""So often one message may make a skill's connector hang. Each time everything else that the skill is doing is lost with it."""
_NOBODY: Final = 30.0
"""Seconds until it is looked again whether somebody sends for a channel."""
_T = TypeVar("_T")
_log: Final = logging.getLogger("metier.channels")


@final
class Deliveries:
    """Belongs to one loop. `run` is for the host."""

    def __init__(
        self,
        store: Store,
        events: Events,
        calls: Calls,
        connectors: Connectors,
        owner: str,
        *,
        skill_of: Callable[[str], str] = lambda _module: "",
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`owner` is the human for whom skills send; `skill_of` says which skill has a module now."""
        self._skill_of = skill_of
        self._store = store
        self._events = events
        self._calls = calls
        self._connectors = connectors
        self._owner = owner
        self._seconds = seconds
        self._clock = clock
        self._watch = Watch(store)
        self._late: Counter[int] = Counter()
        """By message that waits: how often its connector hung."""
        self._on_their_way: set[anyio.CancelScope] = set()
        """What is being sent at this moment."""
        self._trying: dict[int, str] = {}
        """By thread: the channel, while a message that made its connector hang before is being sent again."""
        self._came: set[str] = set()
        """Skills that came to life, and whose messages are not looked at yet."""
        self._busy: dict[int, str] = {}
        """By thread: the channel, while a message of it is being sent."""

    def poke(self) -> None:
        """Something waits to be sent."""
        self._watch.poke()

    async def wake(self, channel: str) -> None:
        """Have what waits on a channel be tried now: who sends for it has just come."""
        await self._surely(
            lambda: self._written(lambda connection, _now: rows.wake(connection, channel=channel))
        )
        self.poke()

    async def run(self) -> None:
        """Send what waits, until cancelled."""
        with self._events.listening(self._heard):
            await self._run()

    async def _run(self) -> None:
        self._busy.clear()
        self._trying.clear()
        for message in await self._surely(lambda: self._written(rows.recover)):
            self._tell(RETRIED, message, error=rows.INTERRUPTED)
        async with anyio.create_task_group() as sending:
            try:
                while True:
                    await self._watch.wait(await self._begin_due(sending))
            finally:  # what is on its way has a moment to arrive and be noted, or the next host would send it again
                for each in self._on_their_way:
                    each.deadline = anyio.current_time() + GRACE_SECONDS

    async def _begin_due(self, sending: TaskGroup) -> float:
        """Begin to send what is due; gives the seconds until there may be more."""
        try:
            while self._came:
                await to_thread.run_sync(self._wake_all, self._came.pop())
            waiting = await to_thread.run_sync(self._heads)
            for head in self._due(waiting):
                self._busy[head.thread] = head.channel
                sending.start_soon(self._drain, head.thread)
            return self._pause(waiting)
        except MetierError as problem:  # the disk is full, or somebody holds the file: later
            _log.warning("what waits to be sent cannot be looked at: %s", problem.message)
            return 5.0

    def _due(self, waiting: list[rows.Head]) -> list[rows.Head]:
        """What is to be sent now. Of those that made their connector hang one at a time: together nobody could tell which one does."""
        now, many = self._clock(), Counter(self._busy.values())
        trying = {*self._trying.values()}
        found: list[rows.Head] = []
        for head in waiting:
            if (
                head.thread in self._busy
                or not rows.is_due(head.next_try, now)
                or many[head.channel] >= MOST_AT_ONCE
                or (self._late[head.message] and head.channel in trying)
            ):
                continue
            many[head.channel] += 1
            if self._late[head.message]:
                self._trying[head.thread] = head.channel
                trying.add(head.channel)
            found.append(head)
        return found

    def _pause(self, waiting: list[rows.Head]) -> float:
        """Seconds until the next one is due. One whose channel is busy is looked at when that is done."""
        now = self._clock()
        later = (head.next_try - now for head in waiting if not rows.is_due(head.next_try, now))
        return min((LOOK_SECONDS, *later))

    async def _drain(self, thread: int) -> None:
        """Send what waits in one chat, one after the other, up to the first that has to wait."""
        try:
            while (message := await self._surely(lambda: self._claim(thread))) is not None:
                if message.state == "failed":
                    self._tell(FAILED, message, error=message.error)
                elif not await self._whole(message):
                    return
        finally:
            self._busy.pop(thread, None)
            self._trying.pop(thread, None)
            self.poke()

    async def _whole(self, message: Message) -> bool:
        """Send one message, to its end also where the host ends meanwhile. False when the chat has to wait."""
        with anyio.CancelScope(shield=True) as alone:
            self._on_their_way.add(alone)
            try:
                return await self._one(message)
            finally:
                self._on_their_way.discard(alone)
        return False

    async def _one(self, message: Message) -> bool:
        """Send one message. False when the chat has to wait."""
        try:
            given = await attempt(
                lambda: self._sent(message), self._seconds, f"the connector of {message.channel}"
            )
        except NotNow as later:
            if later.late and self._hung(message):
                return await self._never(
                    message, f"given up, for it hung {MOST_LATE} times: {later.why}", doubtful=True
                )
            why, seconds, doubtful = one_line(later.why, rows.LONGEST_WHY), later.seconds, later.doubtful
            stays = await self._surely(
                lambda: self._written(
                    lambda connection, now: rows.put_off(
                        connection, message, seconds, why, now, doubtful=doubtful
                    )
                )
            )
            if stays and doubtful:
                self._tell(RETRIED, message, error=why)
            if not stays:
                self._tell(FAILED, message, error=why)
            return not stays
        except Never as never:
            return await self._never(message, never.why)
        self._late.pop(message.id, None)
        await self._surely(
            lambda: self._written(lambda connection, now: rows.sent(connection, message.id, given, now))
        )
        self._tell(SENT, message, channel_message=given)
        return True

    async def _never(self, message: Message, why: str, *, doubtful: bool = False) -> bool:
        said = one_line(why, rows.LONGEST_WHY)
        self._late.pop(message.id, None)
        await self._surely(
            lambda: self._written(
                lambda connection, now: rows.fail(connection, message.id, said, now, doubtful=doubtful)
            )
        )
        self._tell(FAILED, message, error=said)
        return True

    def _hung(self, message: Message) -> bool:
        """Whether it made its connector hang often enough."""
        self._late[message.id] += 1
        return self._late[message.id] >= MOST_LATE

    async def _sent(self, message: Message) -> str | None:
        connector = await to_thread.run_sync(self._connector, message)
        return await connector.send(message.chat, message.text, key=message.key, reply_to=message.reply_to)

    def _connector(self, message: Message) -> Connector:
        """Who sends it. Blocking.

        Raises:
            NotNow: when nobody does at the moment.
        """
        name = message.channel
        if not message.owner:
            ours = self._connectors.get(name) if name in OURS else None
            if ours is None:
                raise NotNow(_NOBODY, f"nobody sends for {name!r} now: it is not set up, or not started")
            return ours
        with self._store.reading() as connection:
            channel = channel_in(connection, name)
        if channel is None or channel.owner != message.owner:
            why = f"the skill {message.owner!r} does not have the channel any more"
            raise NotNow(_NOBODY, f"nobody sends for {name!r} now: {why}")
        if channel.is_off:
            why = f"the skill {message.owner!r} is not started; `metier skills start {message.owner}`"
            raise NotNow(_NOBODY, f"nobody sends for {name!r} now: {why}")
        if self._skill_of(channel.connector) not in ("", channel.skill):
            why = f"another skill has the module {channel.connector!r} now, and it is not told what is for {message.owner!r}"
            raise NotNow(_NOBODY, f"nobody sends for {name!r} now: {why}")
        behalf = enabled_by(self._store, channel.skill, self._owner)
        return SkillConnector(self._calls, behalf, channel, message)

    def _heard(self, happened: Happened) -> None:
        """Who came to life sends what waited for it."""
        named = happened.payload.get("skill") if isinstance(happened.payload, dict) else None
        if happened.source == OUR_EVENTS and happened.name == "skills.enabled" and isinstance(named, str):
            self._came.add(named)
            self.poke()

    def _wake_all(self, skill: str) -> None:
        self._written(lambda connection, _now: rows.wake(connection, owner=skill))

    def _tell(self, event: str, message: Message, **more: Json) -> None:
        payload: dict[str, Json] = {
            "channel": message.channel,
            "thread": message.thread,
            "message": message.id,
            "chat": message.chat,
            "attempts": message.attempts,
            "call_id": message.call_id,
        }
        self._events.emit(event, payload | more)

    async def _surely(self, work: Callable[[], _T]) -> _T:
        """Do it, however long the file cannot be written: what was sent must not be forgotten for that."""
        while True:
            try:
                return await to_thread.run_sync(work)
            except MetierError as problem:
                _log.warning("what is sent cannot be written down: %s", problem.message)
                await anyio.sleep(5.0)

    def _written(self, work: Callable[[sqlite3.Connection, float], _T]) -> _T:
        with self._store.writing() as connection:
            return work(connection, self._clock())

    def _heads(self) -> list[rows.Head]:
        with self._store.reading() as connection:
            return rows.heads(connection)

    def _claim(self, thread: int) -> Message | None:
        return self._written(lambda connection, now: rows.claim(connection, thread, now))
