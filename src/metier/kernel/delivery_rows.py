"""Messages on their way out, as they are kept: waiting, sending, then sent or failed. Blocking.

The oldest message of a chat that is not sent yet is its head, and only a head is ever sent: a later one overtakes none.
"""

import sqlite3
from typing import Final, final

from msgspec import Struct

from metier.kernel.conversation_rows import GIVE_UP, Message, message_in, read_messages

INTERRUPTED: Final = "Metier ended while it was being sent, so it is sent again and may arrive twice"
STALE: Final = "it waited for a day and nobody sent it"
LONGEST_WHY: Final = 300
"""Characters of a reason that are kept."""
_FIRST_PAUSE: Final = 2.0
_LONGEST_PAUSE: Final = 600.0
_LONGEST_WISH: Final = 7_200.0
"""Seconds; a channel that wants longer pauses is asked all the same."""
_OPEN: Final = "direction = 'out' AND state IN ('waiting', 'sending')"
_CHATS: Final = f"""WITH RECURSIVE waiting (thread) AS (
    SELECT min(thread) FROM message WHERE {_OPEN}
    UNION ALL
    SELECT (SELECT min(thread) FROM message WHERE {_OPEN} AND thread > waiting.thread) FROM waiting WHERE waiting.thread IS NOT NULL
  ) SELECT thread FROM waiting WHERE thread IS NOT NULL"""  # noqa: S608  constants
"""The chats in which something waits, from one to the next: it takes as long as there are chats, not messages."""


@final
class Head(Struct, frozen=True, kw_only=True):
    """The next message of one chat."""

    thread: int
    message: int
    channel: str
    next_try: float


def is_due(next_try: float, now: float) -> bool:
    """Whether it is time. What lies further ahead than anything is put off was put off by a clock that was wrong."""
    return not now < next_try <= now + _LONGEST_WISH


def recover(connection: sqlite3.Connection, now: float) -> list[Message]:
    """Have everything wait again that was being sent when the host ended. Gives those messages, as they were."""
    found = read_messages(connection, f"WHERE {_OPEN} AND state = 'sending'", ())
    connection.execute(
        f"""UPDATE message SET state = 'waiting', doubtful = doubtful + 1, next_try = ?, error = ?
            WHERE {_OPEN} AND state = 'sending'""",  # noqa: S608  a constant
        (now, INTERRUPTED),
    )
    return found


def heads(connection: sqlite3.Connection) -> list[Head]:
    """The next message of every chat that has one, oldest first."""
    rows = connection.execute(
        f"""SELECT message.thread, message.id, channel, next_try FROM message JOIN thread ON thread.id = message.thread
           WHERE message.id IN (
             SELECT (SELECT min(id) FROM message WHERE thread = chats.thread AND {_OPEN}) FROM ({_CHATS}) AS chats
           ) ORDER BY message.id"""  # noqa: S608  constants
    )
    return [
        Head(thread=thread, message=id, channel=channel, next_try=next_try)
        for thread, id, channel, next_try in rows
    ]


def claim(connection: sqlite3.Connection, thread: int, now: float) -> Message | None:
    """Take the next message of a chat to send it; None when there is none, or it has to wait.

    One that waited for longer than it is tried has failed, and is given back as such: what is stale says what nobody means any
    more, and after a backup was restored it may have been sent long ago.
    """
    (id,) = connection.execute(
        f"SELECT min(id) FROM message WHERE thread = ? AND {_OPEN}",  # noqa: S608  a constant
        (thread,),
    ).fetchone()
    message = message_in(connection, id) if id is not None else None
    if message is None or message.state != "waiting" or not is_due(message.next_try, now):
        return None
    if now >= message.give_up:
        fail(connection, message.id, f"given up: {message.error or STALE}", now)
    else:
        connection.execute(
            "UPDATE message SET state = 'sending', attempts = attempts + 1 WHERE id = ?", (id,)
        )
    return message_in(connection, message.id)


def sent(connection: sqlite3.Connection, id: int, channel_message: str | None, now: float) -> None:
    """It is out."""
    connection.execute(
        "UPDATE message SET state = 'sent', channel_message = ?, done_at = ?, error = '' WHERE id = ? AND state = 'sending'",
        (channel_message, now, id),
    )


def put_off(
    connection: sqlite3.Connection, message: Message, seconds: float, why: str, now: float, *, doubtful: bool
) -> bool:
    """Have it wait for another try. False when it was tried for long enough, and has failed."""
    pause = min(_FIRST_PAUSE * 2 ** min(message.attempts - 1, 16), _LONGEST_PAUSE)
    next_try = now + max(pause, min(seconds, _LONGEST_WISH))
    if now >= message.give_up:
        fail(connection, message.id, f"given up: {why}", now, doubtful=doubtful)
        return False
    connection.execute(
        """UPDATE message SET state = 'waiting', next_try = ?, error = ?, doubtful = doubtful + ?
           WHERE id = ? AND state = 'sending'""",
        (next_try, why[:LONGEST_WHY], int(doubtful), message.id),
    )
    return True


def fail(connection: sqlite3.Connection, id: int, why: str, now: float, *, doubtful: bool = False) -> None:
    """It will not be sent."""
    connection.execute(
        """UPDATE message SET state = 'failed', done_at = ?, error = ?, doubtful = doubtful + ?
           WHERE id = ? AND direction = 'out' AND state <> 'sent'""",
        (now, why[:LONGEST_WHY], int(doubtful), id),
    )


def wake(connection: sqlite3.Connection, *, channel: str = "", owner: str = "") -> None:
    """Have what waits on this channel, or on all channels of this skill, be tried now: who sends for it has just come."""
    connection.execute(
        f"""UPDATE message SET next_try = 0 WHERE {_OPEN} AND state = 'waiting' AND next_try > 0
            AND thread IN (SELECT id FROM thread WHERE channel = ? OR (owner <> '' AND owner = ?))""",  # noqa: S608  a constant
        (channel, owner),
    )


def retry(connection: sqlite3.Connection, id: int, now: float) -> bool:
    """Have one that failed, or that waits for its next try, be tried again now. It keeps its place in the order."""
    changed = connection.execute(
        """UPDATE message SET state = 'waiting', next_try = 0, give_up = ?
           WHERE id = ? AND direction = 'out' AND state IN ('failed', 'waiting') AND erased = 0""",
        (now + GIVE_UP, id),
    )
    return changed.rowcount > 0


def undelivered(connection: sqlite3.Connection, *, channel: str = "", limit: int = 100) -> list[Message]:
    """What should have reached somebody and did not, or not yet: oldest first."""
    where = """WHERE message.id IN (
                 SELECT id FROM message WHERE direction = 'out' AND state IN ('waiting', 'sending')
                 UNION ALL SELECT id FROM message WHERE direction = 'out' AND state = 'failed'
               ) AND erased = 0 AND (? = '' OR channel = ?) ORDER BY message.id LIMIT ?"""
    return read_messages(connection, where, (channel, channel, limit))
