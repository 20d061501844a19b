"""Messages of channels, told to the hooks of skills: Metier's own events alone, never what a skill emitted under the same name."""

from typing import Final

from metier.hooks import Hooks
from metier.kernel.events import OURS, Happened, Listener
from metier.model.digest import Json

_ACTIONS: Final = {"channels.message.received": "received", "channels.message.sent": "sent"}


def message_listener(hooks: Hooks) -> Listener:
    """What to listen with in the host: there messages come in and go out."""

    def heard(happened: Happened) -> None:
        action = _ACTIONS.get(happened.name)
        if action is None or happened.source != OURS or not isinstance(happened.payload, dict):
            return
        payload = happened.payload
        channel, chat = _text(payload.get("channel")), _text(payload.get("chat"))
        words = {
            "channelId": channel,
            "conversationId": _text(payload.get("thread")) or chat,
            "messageId": _text(payload.get("message")),
            "content": _text(payload.get("text")),
        }
        if action == "received":
            words["from"] = _text(payload.get("author")) or chat
        else:
            words["to"] = chat
        hooks.message(action, f"{channel}:{chat}", words, inside=_text(payload.get("call_id")))

    return heard


def _text(value: Json) -> str:
    """An id or a text, however the channel has it."""
    if isinstance(value, dict):
        value = value.get("id", value.get("name"))
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
