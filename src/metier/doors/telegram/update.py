"""What Telegram says happened, as one of three: somebody said something, somebody pressed a button, or it is nothing to us. Pure.

Who somebody is, is his number and nothing else. Only what a person wrote himself, now, to the bot alone, counts as said: what was edited,
forwarded, sent through another bot, in a channel, in a group or in a group's name is somebody else's word, or many people's.
"""

from typing import Any, Final, TypeAlias, final

import msgspec
from msgspec import Struct

WANTED: Final = ("message", "callback_query")
"""The kinds of updates that are asked for. Others may come all the same."""
HIGHEST: Final = 1 << 31
"""No update has such a number: Telegram counts in 32 bits."""
_NOT_SAID: Final = (
    ("forward_origin", "it was forwarded"),
    ("forward_from", "it was forwarded"),
    ("forward_from_chat", "it was forwarded"),
    ("forward_sender_name", "it was forwarded"),
    ("forward_date", "it was forwarded"),
    ("is_automatic_forward", "it was forwarded"),
    ("via_bot", "it was sent through another bot"),
    ("sender_chat", "it was sent in the name of a group or a channel"),
    ("sender_business_bot", "it was sent through another bot"),
    ("business_connection_id", "it was written to somebody else"),
    ("edit_date", "it was edited"),
)
_KINDS: Final = {
    "edited_message": "it was edited",
    "channel_post": "it was posted in a channel",
    "edited_channel_post": "it was posted in a channel",
    "inline_query": "it was an inline query",
    "chosen_inline_result": "it was an inline query",
    "business_message": "it was written to somebody else",
}


@final
class Said(Struct, frozen=True, kw_only=True):
    """A person wrote to the bot, alone with it."""

    update: int
    bot: int = 0
    """Which bot that is: numbers of messages are its own, and another bot has others under the same."""
    user: int
    message: int
    text: str
    at: int
    """Seconds since 1970, as Telegram has it."""
    name: str = ""
    """What he calls himself: to be shown, never to be believed."""
    reply_to: int | None = None


@final
class Pressed(Struct, frozen=True, kw_only=True):
    """A person pressed a button under a message of the bot's."""

    update: int
    bot: int = 0
    query: str
    user: int
    chat: int
    message: int
    data: str


@final
class Passed(Struct, frozen=True, kw_only=True):
    """Nothing to us."""

    update: int
    """0 where even that cannot be read."""
    why: str
    user: int = 0
    chat: int = 0


Update: TypeAlias = Said | Pressed | Passed


class _User(Struct, frozen=True):
    id: int
    is_bot: bool
    first_name: str = ""


class _Chat(Struct, frozen=True):
    id: int
    type: str


class _Reply(Struct, frozen=True):
    message_id: int


class _Message(Struct, frozen=True, rename={"sender": "from"}):
    message_id: int
    chat: _Chat
    date: int
    sender: _User | None = None
    text: str | None = None
    caption: str | None = None
    reply_to_message: _Reply | None = None


class _Place(Struct, frozen=True):
    message_id: int
    chat: _Chat


class _Query(Struct, frozen=True, rename={"sender": "from"}):
    id: str
    sender: _User
    message: _Place | None = None
    data: str | None = None


class _Number(Struct, frozen=True):
    update_id: int


def read(data: bytes | msgspec.Raw, bot: int = 0) -> Update:
    """One update that `bot` was told, whatever it is."""
    number = _number(data)
    try:
        tree = msgspec.json.decode(data, type=dict[str, Any])
        if not number:
            return Passed(update=0, why="it cannot be read")
        if "message" in tree:
            return _said(number, bot, tree["message"])
        if "callback_query" in tree:
            return _pressed(number, bot, msgspec.convert(tree["callback_query"], _Query))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError):
        return Passed(update=number, why="it cannot be read")
    kind = next((each for each in tree if each != "update_id"), "")
    return Passed(
        update=number, why=_KINDS.get(kind, "it is of a kind that is not asked for"), **_who(tree, kind)
    )


def _number(data: bytes | msgspec.Raw) -> int:
    """Its number, also where the rest of it cannot be read, so that it can be confirmed; 0 where that cannot be read either."""
    try:
        found = msgspec.json.decode(data, type=_Number).update_id
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return 0
    return found if 0 < found < HIGHEST else 0


def _who(tree: Any, kind: str) -> dict[str, int]:
    try:
        found = msgspec.convert(tree[kind], _Message)
    except (msgspec.MsgspecError, KeyError):
        return {}
    return {"user": found.sender.id if found.sender else 0, "chat": found.chat.id}


def _said(number: int, bot: int, tree: Any) -> Said | Passed:
    found = msgspec.convert(tree, _Message)
    user = found.sender.id if found.sender is not None else 0
    why = next((why for name, why in _NOT_SAID if tree.get(name)), "")
    text = found.text if found.text is not None else found.caption
    if not why:
        match found:
            case _Message(sender=None):
                why = "nobody is named as its sender"
            case _Message(sender=_User(is_bot=True)):
                why = "a bot sent it"
            case _Message(chat=_Chat(type="private")) if found.chat.id == user and user > 0:
                why = "" if text else "it has no text"
            case _:
                why = "it was written in a group"
    if why or found.sender is None or text is None:
        return Passed(update=number, why=why, user=user, chat=found.chat.id)
    return Said(
        update=number,
        bot=bot,
        user=user,
        message=found.message_id,
        text=text,
        at=found.date,
        name=found.sender.first_name,
        reply_to=found.reply_to_message.message_id if found.reply_to_message else None,
    )


def _pressed(number: int, bot: int, found: _Query) -> Pressed | Passed:
    if found.message is None or found.data is None or found.sender.is_bot:
        return Passed(update=number, why="the button is under no message of ours", user=found.sender.id)
    return Pressed(
        update=number,
        bot=bot,
        query=found.id,
        user=found.sender.id,
        chat=found.message.chat.id,
        message=found.message.message_id,
        data=found.data,
    )
