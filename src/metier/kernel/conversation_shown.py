"""Threads and messages as they are told: plain JSON, the same for operations and for the command line."""

import time
from datetime import UTC, datetime

from metier.kernel.conversation_rows import Message, Thread, data_of
from metier.model.digest import Json


def thread_shown(thread: Thread) -> dict[str, Json]:
    """One thread."""
    return {
        "thread_id": thread.id,
        "channel": thread.channel,
        "skill": thread.owner,
        "chat_id": thread.chat,
        "created_at": moment(thread.created_at),
        "last_message_id": thread.last,
    }


def message_shown(message: Message) -> dict[str, Json]:
    """One message, with what became of it."""
    shown: dict[str, Json] = {
        "message_id": message.id,
        "thread_id": message.thread,
        "channel": message.channel,
        "chat_id": message.chat,
        "direction": message.direction,
        "author": "" if message.erased else message.author,
        "text": "" if message.erased else message.text,
        "at": moment(message.at),
        "state": message.state,
    }
    if message.channel_message is not None:
        shown["channel_message_id"] = message.channel_message
    if message.reply_to is not None:
        shown["reply_to"] = message.reply_to
    if not message.erased and (data := data_of(message)) is not None:
        shown["data"] = data
    if message.direction == "out":
        shown["attempts"] = message.attempts
        if message.doubtful:
            shown["may_have_arrived_twice"] = True
        if message.error:
            shown["error"] = message.error
        if message.state == "waiting" and message.next_try > time.time():
            shown["next_try"] = moment(message.next_try)
    if message.erased:
        shown["erased"] = True
    return shown


def moment(seconds: float) -> str:
    """A time as records have it, without the fractions; empty for one that no calendar has."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return ""
