"""What came in is told to whoever handles messages: at least once each, and in the order of each chat.

Every process may store a message; the host tells of it. A message is `received` until whoever kept it says that it is handled, so
what was told and not handled when the host died is told again. The next message of a chat waits for the one before it. Chats take turns:
however much is written in some, each of the others has its next message told before theirs come round again.
"""

import logging
import time
from typing import Final, final

import anyio
import anyio.lowlevel
from anyio import to_thread

from metier.errors import MetierError
from metier.kernel.conversation_rows import Message, data_of, message_in
from metier.kernel.delivery_watch import LOOK_SECONDS, Watch
from metier.kernel.events import Events
from metier.kernel.store import Store

RECEIVED: Final = "channels.message.received"
PATIENCE: Final = 300.0
"""Seconds for which the next message of a chat waits for one that nobody says is handled."""
MOST_OPEN: Final = 64
"""Chats whose messages are being handled at one time."""
_CHATS: Final = """WITH RECURSIVE waiting (thread) AS (
    SELECT min(thread) FROM message WHERE direction = 'in' AND state = 'received'
    UNION ALL
    SELECT (SELECT min(thread) FROM message WHERE direction = 'in' AND state = 'received' AND thread > waiting.thread)
    FROM waiting WHERE waiting.thread IS NOT NULL
  ) SELECT thread FROM waiting WHERE thread IS NOT NULL"""
"""The chats in which something waits, from one to the next: it takes as long as there are chats, not messages."""
_log: Final = logging.getLogger("metier.channels")


@final
class Inbox:
    """Belongs to one loop. `run` is for the host."""

    def __init__(self, store: Store, events: Events, *, patience: float = PATIENCE) -> None:
        self._store = store
        self._events = events
        self._patience = patience
        self._watch = Watch(store)
        self._kept: dict[int, int] = {}
        """By message: how many said that they handle it, and have not said that they did."""
        self._open: dict[int, tuple[int, float]] = {}
        """By thread: the message that is being handled, and until when the next one waits for it."""
        self._told: dict[int, int] = {}
        """By thread: the last message that was told in this process."""
        self._last_turn = 0
        """The thread whose turn it was last."""

    def poke(self) -> None:
        """Something came in."""
        self._watch.poke()

    def keep(self, message: int) -> None:
        """Say, while being told of a message, that you handle it. Then it is yours until you call `mark_handled`."""
        self._kept[message] = self._kept.get(message, 0) + 1

    async def mark_handled(self, message: int) -> None:
        """Say that you are done with a message that you kept, however it went."""
        left = self._kept.pop(message, 0) - 1
        if left > 0:
            self._kept[message] = left
            return
        await self._handled(message)

    async def run(self) -> None:
        """Tell of everything that came in, until cancelled."""
        self._told.clear()
        self._open.clear()
        while True:
            pause = LOOK_SECONDS
            try:
                while await self._round():
                    pass
            except MetierError as problem:  # the disk is full, or somebody holds the file: later
                _log.warning("what came in cannot be looked at: %s", problem.message)
                pause = 5.0
            await self._watch.wait(pause)

    async def _round(self) -> bool:
        """Tell of the next message of every chat that waits for none. Whether there may be more."""
        now = time.monotonic()
        for thread, (message, until) in list(self._open.items()):
            if until <= now:
                _log.warning(
                    "message %d is not handled after %.0f s; the next of its chat is told",
                    message,
                    self._patience,
                )
                del self._open[thread]
        waiting = await to_thread.run_sync(
            self._next, dict(self._told), frozenset(self._open), MOST_OPEN - len(self._open), self._last_turn
        )
        if waiting:
            self._last_turn = waiting[-1].thread
        for message in sorted(waiting, key=lambda each: each.id):
            await self._tell(message)
        return bool(waiting)

    async def _tell(self, message: Message) -> None:
        self._told[message.thread] = message.id
        self._open[message.thread] = (message.id, time.monotonic() + self._patience)
        self._events.emit(
            RECEIVED,
            {
                "channel": message.channel,
                "thread": message.thread,
                "message": message.id,
                "chat": message.chat,
                "skill": message.owner,
                "author": message.author,
                "text": message.text,
                "at": message.at,
                "data": data_of(message),
                "call_id": message.call_id,
            },
        )
        if message.id not in self._kept:
            await self._handled(message.id)
        await anyio.lowlevel.checkpoint()

    async def _handled(self, message: int) -> None:
        while True:
            try:
                await to_thread.run_sync(self._mark, message)
                break
            except MetierError as problem:
                _log.warning("message %d cannot be marked as handled: %s", message, problem.message)
                await anyio.sleep(5.0)
        for thread, (open, _) in list(self._open.items()):
            if open == message:
                del self._open[thread]
        self.poke()

    def _next(self, told: dict[int, int], busy: frozenset[int], most: int, last: int) -> list[Message]:
        """The next message of each chat whose turn it is, beginning after the chat `last`, in the order of their turns."""
        found: list[Message] = []
        with self._store.reading() as connection:
            chats = [thread for (thread,) in connection.execute(_CHATS).fetchall()]
            for thread in sorted(chats, key=lambda each: (each <= last, each)):
                if len(found) >= most:
                    break
                if thread in busy:
                    continue
                (id,) = connection.execute(
                    """SELECT min(id) FROM message
                       WHERE thread = ? AND id > ? AND direction = 'in' AND state = 'received'""",
                    (thread, told.get(thread, 0)),
                ).fetchone()
                message = message_in(connection, id) if id is not None else None
                if message is not None:
                    found.append(message)
        return found

    def _mark(self, message: int) -> None:
        with self._store.writing() as connection:
            connection.execute(
                "UPDATE message SET state = 'handled', done_at = ? WHERE id = ? AND direction = 'in' AND state = 'received'",
                (time.time(), message),
            )
