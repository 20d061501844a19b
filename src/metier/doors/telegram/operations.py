"""The operations of `telegram_door`: what the skill that ships for Telegram asks of the door. None is privileged, and each looks itself at who asks."""

from typing import Final

from metier.kernel.operation import NOTHING, Does, Module, module, offered
from metier.model.digest import Json

_CONFIG: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {"config": {"type": "object"}},
    "additionalProperties": False,
}
_START: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {"auto": {"type": "boolean"}},
    "additionalProperties": False,
}
_WEBHOOK: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {"url": {"type": "string"}, "remove": {"type": "boolean"}},
    "additionalProperties": False,
}
_UPDATE: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {"update": {"type": "object"}, "secret_token": {"type": "string"}},
    "required": ["update", "secret_token"],
    "additionalProperties": False,
}
_NOTED: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "why": {"type": "string"},
        "user": {"type": "integer"},
        "chat": {"type": "integer"},
        "more": {
            "type": "integer",
            "description": "How many more of the kind there were since the last note.",
        },
    },
    "required": ["why", "user", "chat"],
    "additionalProperties": False,
}


def operations(
    *,
    configure: Does,
    start: Does,
    stop: Does,
    status: Does,
    set_webhook: Does,
    handle_webhook_update: Does,
    noted: Does,
) -> Module:
    """The module."""
    return module(
        "telegram_door",
        offered(
            "telegram_door.configure",
            configure,
            "Read the bot's settings anew; mode and poll time may be set for this session.",
            _CONFIG,
        ),
        offered("telegram_door.start", start, "Begin to listen to Telegram.", _START),
        offered("telegram_door.stop", stop, "Listen to Telegram no more.", NOTHING),
        offered("telegram_door.status", status, "How the bot fares.", NOTHING, effect="read", risk="low"),
        offered(
            "telegram_door.set_webhook",
            set_webhook,
            "Tell Telegram the configured address of the webhook, or that there is none.",
            _WEBHOOK,
        ),
        offered(
            "telegram_door.handle_webhook_update",
            handle_webhook_update,
            "Take in an update that was forwarded, with the secret that came with it.",
            _UPDATE,
        ),
        offered(
            "telegram_door.noted",
            noted,
            "Note that something came from Telegram and counts for nothing.",
            _NOTED,
            effect="read",
            risk="low",
        ),
    )
