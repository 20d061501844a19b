"""Conversations as they are kept: threads, and the messages of each in their order, every one once. Blocking.

A thread is one chat of one channel under one owner: whoever has a channel after somebody else finds nothing of his. An inbound
message is known by its channel's own id for it, an outbound one by the key that its sender gave it.
"""

import sqlite3
from typing import Any, Final, final

import msgspec
from msgspec import Struct

from metier.kernel.channel_rules import FULL
from metier.kernel.operation import OperationError
from metier.model.digest import Json

MOST_THREADS: Final = 100_000
"""Of one channel."""
MOST_WAITING: Final = 1_000
"""Messages of one chat that wait to be sent."""
MOST_RECEIVED: Final = 10_000
"""Messages of one chat that wait to be handled."""
MOST_BYTES: Final = 1 << 30
"""What one skill may have stored on its channels, all together, and as much on those of others: a disk is full sooner than a skill
is tired."""
MOST_OF_STRANGER: Final = 1 << 24
"""What may lie in the chat of one whom the operator did not name, on a channel of our own doors."""
GIVE_UP: Final = 86_400.0
"""Seconds for which a message is tried."""
STRANGER: Final = "customer"
"""The role that our own doors give to who wrote a message and is in no list of the operator's."""
_ROW: Final = 200
"""Bytes of a message beside its words."""
WRITTEN: Final = f"""SELECT author, total(length(CAST(text AS BLOB)) + length(CAST(data AS BLOB)) + {_ROW})
    FROM message JOIN thread ON thread.id = message.thread
    WHERE erased = 0 AND direction <> 'in' AND author LIKE 'skill:%' AND author <> 'skill:' || owner"""  # noqa: S608  a constant
"""What each skill wrote on channels of others; further terms and the grouping are added to it."""
_MESSAGE: Final = (
    "message.id, thread, channel, owner, chat, direction, channel_message, reply_to, author, text, data, at, state, attempts, "
    "doubtful, next_try, give_up, done_at, error, call_id, erased"
)
_FROM: Final = "FROM message JOIN thread ON thread.id = message.thread"
_data: Final = msgspec.json.Decoder(Any)


@final
class Message(Struct, frozen=True, kw_only=True):
    """One message, as it lies there."""

    id: int
    thread: int
    channel: str
    owner: str
    chat: str
    direction: str
    """`in`, `out`, or `note` for what was only written down."""
    channel_message: str | None
    reply_to: str | None
    author: str
    text: str
    data: str
    at: float
    state: str
    """Inbound: received, handled. Outbound: waiting, sending, sent, failed. A note: kept."""
    attempts: int
    doubtful: int
    """How often it was sent without anybody knowing whether it arrived, so that it may have arrived more than once."""
    next_try: float
    give_up: float
    done_at: float
    error: str
    call_id: str
    erased: int

    @property
    def key(self) -> str:
        """What connectors know it by: the same whenever it is sent again."""
        return f"metier-{self.id}"


@final
class Thread(Struct, frozen=True, kw_only=True):
    """One chat of one channel."""

    id: int
    channel: str
    owner: str
    chat: str
    created_at: float
    last: int
    """Id of its newest message."""


@final
class SeenBy(Struct, frozen=True, kw_only=True):
    """What a skill sees: everything of its own, and what was said on the channels it needs under those who have them now."""

    skill: str
    channels: frozenset[tuple[str, str]] = frozenset()
    """Each with its owner."""

    def sees(self, thread: Thread) -> bool:
        return thread.owner == self.skill or (thread.channel, thread.owner) in self.channels


@final
class Stored(Struct, frozen=True, kw_only=True):
    """What became of a message that was to be kept."""

    thread: int
    message: int
    state: str
    duplicate: bool
    """It was here before."""


@final
class New(Struct, frozen=True, kw_only=True):
    """A message that is to be kept."""

    channel: str
    owner: str
    chat: str
    author: str
    text: str
    call_id: str
    data: Json = None
    id: str | None = None
    """The channel's own id for it, where it came in; what an answer refers to, where it goes out."""
    key: str = ""
    """Of an outbound one."""
    skill: str = ""
    """Who wants it kept, where that is a skill."""

    @property
    def guest(self) -> str:
        """The skill that writes on a channel of somebody else: that is its own matter, and not that of who has the channel."""
        return "" if self.skill == self.owner else self.skill

    @property
    def stranger(self) -> bool:
        """Whether one of our own doors says that somebody wrote it whom the operator did not name."""
        return not self.owner and isinstance(self.data, dict) and self.data.get("role") == STRANGER


def take_in(connection: sqlite3.Connection, new: New, now: float) -> Stored:
    """Keep a message that came in, once.

    Raises:
        OperationError: where too many wait already.
    """
    thread = _thread(connection, new, now)
    row = connection.execute(
        "SELECT id, state FROM message WHERE thread = ? AND channel_message = ? AND direction = 'in'",
        (thread, new.id),
    ).fetchone()
    if row is not None:
        return Stored(thread=thread, message=row[0], state=row[1], duplicate=True)
    (many,) = connection.execute(
        "SELECT count(*) FROM message WHERE thread = ? AND direction = 'in' AND state = 'received'", (thread,)
    ).fetchone()
    if many >= MOST_RECEIVED:
        raise OperationError(FULL, f"{many:,} messages of this chat wait to be handled; try again later")
    return _put(connection, thread, new, "in", "received", now)


def put_out(connection: sqlite3.Connection, new: New, now: float) -> Stored:
    """Have a message wait to be sent; the same key in the same chat is the same message.

    Raises:
        OperationError: where too many wait already.
    """
    thread = _thread(connection, new, now)
    row = connection.execute(
        "SELECT id, state FROM message WHERE thread = ? AND key = ? AND direction = 'out'", (thread, new.key)
    ).fetchone()
    if row is not None:
        return Stored(thread=thread, message=row[0], state=row[1], duplicate=True)
    (many,) = connection.execute(
        """SELECT count(*) FROM message WHERE thread = ? AND direction = 'out' AND state IN ('waiting', 'sending')""",
        (thread,),
    ).fetchone()
    if many >= MOST_WAITING:
        raise OperationError(
            FULL,
            f"{many:,} messages of this chat wait to be sent; `metier conversations undelivered` says why",
        )
    return _put(connection, thread, new, "out", "waiting", now)


def put_note(connection: sqlite3.Connection, thread: Thread, new: New, now: float) -> Stored:
    """Write something down in a conversation. It is sent to nobody."""
    return _put(connection, thread.id, new, "note", "kept", now)


def thread_in(connection: sqlite3.Connection, id: int) -> Thread | None:
    """One thread."""
    found = _threads(connection, "WHERE id = ?", (id,))
    return found[0] if found else None


def thread_of(connection: sqlite3.Connection, channel: str, owner: str, chat: str) -> Thread | None:
    """The thread of one chat."""
    found = _threads(connection, "WHERE channel = ? AND owner = ? AND chat = ?", (channel, owner, chat))
    return found[0] if found else None


def threads_in(
    connection: sqlite3.Connection,
    *,
    channel: str = "",
    seen_by: "SeenBy | None" = None,
    limit: int = 50,
    before: int = 0,
) -> list[Thread]:
    """Threads, the one with the newest message first.

    Args:
        seen_by: None for who sees all.
        before: only those whose newest message is older than this one.
    """
    terms, values = ["1 = 1"], list[object]()
    if channel:
        terms.append("channel = ?")
        values.append(channel)
    if before:
        terms.append("last < ?")
        values.append(before)
    if seen_by is not None:
        pairs = sorted(seen_by.channels)
        terms.append(" OR ".join(("(owner = ?", *("(channel = ? AND owner = ?)" for _ in pairs))) + ")")
        values += [seen_by.skill, *(each for pair in pairs for each in pair)]
    return _threads(
        connection, f"WHERE {' AND '.join(terms)} ORDER BY last DESC, id DESC LIMIT ?", (*values, limit)
    )


def messages_in(
    connection: sqlite3.Connection, thread: int, *, limit: int = 50, before: int = 0
) -> list[Message]:
    """The newest messages of a thread, oldest first; with `before` those before that message."""
    found = read_messages(
        connection,
        "WHERE thread = ? AND (? = 0 OR message.id < ?) ORDER BY message.id DESC LIMIT ?",
        (thread, before, before, limit),
    )
    return found[::-1]


def message_in(connection: sqlite3.Connection, id: int) -> Message | None:
    """One message."""
    found = read_messages(connection, "WHERE message.id = ?", (id,))
    return found[0] if found else None


def read_messages(connection: sqlite3.Connection, where: str, values: tuple[object, ...]) -> list[Message]:
    """The messages for which `where` holds, which is text of ours."""
    rows = connection.execute(f"SELECT {_MESSAGE} {_FROM} {where}", values)
    return [Message(**dict(zip(Message.__struct_fields__, row, strict=True))) for row in rows]


def data_of(message: Message) -> Json:
    """What the channel told beside the text; nothing where it cannot be read."""
    try:
        return _data.decode(message.data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _threads(connection: sqlite3.Connection, where: str, values: tuple[object, ...]) -> list[Thread]:
    names = Thread.__struct_fields__
    rows = connection.execute(f"SELECT {', '.join(names)} FROM thread {where}", values)  # noqa: S608  constants
    return [Thread(**dict(zip(names, row, strict=True))) for row in rows]


def _thread(connection: sqlite3.Connection, new: New, now: float) -> int:
    row = connection.execute(
        "SELECT id FROM thread WHERE channel = ? AND owner = ? AND chat = ?",
        (new.channel, new.owner, new.chat),
    ).fetchone()
    if row is not None:
        return row[0]
    (many,) = connection.execute("SELECT count(*) FROM thread WHERE channel = ?", (new.channel,)).fetchone()
    # Who writes on another's channel leaves room for the people there.
    if many >= (MOST_THREADS // 2 if new.guest else MOST_THREADS):
        raise OperationError(FULL, f"the channel has {many:,} chats, and more are not kept")
    made = connection.execute(
        "INSERT INTO thread (channel, owner, chat, created_at, last, size) VALUES (?, ?, ?, ?, 0, 0)",
        (new.channel, new.owner, new.chat, now),
    )
    return int(made.lastrowid or 0)


def _put(
    connection: sqlite3.Connection, thread: int, new: New, direction: str, state: str, now: float
) -> Stored:
    data = msgspec.json.encode(new.data).decode()
    size = len(new.text.encode("utf-8", "surrogatepass")) + len(data) + _ROW
    _require_room(connection, thread, new, size)
    made = connection.execute(
        """INSERT INTO message (thread, direction, channel_message, key, reply_to, author, text, data, at, state, attempts,
               doubtful, next_try, give_up, done_at, error, call_id, erased)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, ?, 0, '', ?, 0)""",
        (
            thread,
            direction,
            new.id if direction == "in" else None,
            new.key if direction == "out" else None,
            new.id if direction == "out" else None,
            new.author,
            new.text,
            data,
            now,
            state,
            now + GIVE_UP,
            new.call_id,
        ),
    )
    id = int(made.lastrowid or 0)
    own = 0 if new.guest else size
    connection.execute("UPDATE thread SET last = ?, size = size + ? WHERE id = ?", (id, own, thread))
    return Stored(thread=thread, message=id, state=state, duplicate=False)


def _require_room(connection: sqlite3.Connection, thread: int, new: New, size: int) -> None:
    """Refuse what is more than a skill may have stored, or strangers. The people that the operator named have no bound."""
    owner = new.owner
    if new.guest:
        _count(connection, new.guest, size)
    if new.guest or not (owner or new.stranger):
        return
    (used,) = connection.execute("SELECT total(size) FROM thread WHERE owner = ?", (owner,)).fetchone()
    if used + size > MOST_BYTES:
        whose = "of this skill" if owner else "that strangers may write on"
        raise OperationError(
            FULL,
            f"the channels {whose} hold {used / 1_048_576:,.0f} MB, and more is not kept; "
            "`metier conversations erase` makes room",
        )
    if new.stranger:
        (used,) = connection.execute("SELECT size FROM thread WHERE id = ?", (thread,)).fetchone()
        if used + size > MOST_OF_STRANGER:
            raise OperationError(
                FULL,
                f"the chat of this stranger holds {used / 1_048_576:,.0f} MB, and more is not kept; "
                "`metier conversations erase` makes room",
            )


def _count(connection: sqlite3.Connection, skill: str, size: int) -> None:
    (used,) = connection.execute(
        """INSERT INTO written (skill, size) VALUES (?, ?) ON CONFLICT (skill) DO UPDATE SET size = size + excluded.size
           RETURNING size""",
        (skill, size),
    ).fetchone()
    if used > MOST_BYTES:
        raise OperationError(
            FULL,
            f"this skill has {(used - size) / 1_048_576:,.0f} MB stored on channels that are not its own, and more is not kept; "
            "`metier conversations erase` makes room",
        )
