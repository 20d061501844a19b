"""`@xpell/agent-skill-telegram`: a Telegram bot as a channel, in XBot's contract.

It carries the settings and the operations. The door to Telegram is Metier's own: it has the token, makes every request, takes what comes in
through `channels.route_inbound_message`, and sends what `channels.send_message` stored. This code has no network and no secret.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CHANNEL = "telegram"
LONGEST = 65_536
"""Bytes of one message."""


class TelegramError(Exception):
    """What is told to who asked."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class TelegramModule:
    """The module `telegram`: the connector of the channel of the same name."""

    name = "telegram"
    operations = ["configure", "start", "stop", "send", "status", "set_webhook", "handle_webhook_update"]

    def __init__(self, ctx: "Any") -> None:
        self._ctx = ctx

    async def configure(self, params: "dict[str, Any]", meta: "Any" = None) -> "Any":
        """Read the settings anew. `config` may hold mode and polling.timeout_sec, for as long as the bot runs."""
        return await self._door("configure", {"config": _object(params.get("config"))})

    async def start(self, params: "dict[str, Any]", meta: "Any" = None) -> "Any":
        """Begin to listen."""
        return await self._door("start", {})

    async def stop(self, params: "dict[str, Any]", meta: "Any" = None) -> "Any":
        """Listen no more."""
        return await self._door("stop", {})

    async def status(self, params: "dict[str, Any]", meta: "Any" = None) -> "Any":
        """How the bot fares, and with how many people it has spoken (of the newest hundred)."""
        found: Any = await self._ctx.execute("conv", "list_threads", {"channel": CHANNEL, "limit": 100})
        threads = _object(found).get("threads", [])
        return {**await self._door("status", {}), "conversations": len(threads)}

    async def send(self, params: "dict[str, Any]", meta: "Any" = None) -> "Any":
        """Send a message: it is stored with its conversation, and leaves in its turn."""
        chat, text = params.get("chat_id"), params.get("text")
        if isinstance(chat, int) and not isinstance(chat, bool):
            chat = str(chat)
        if not isinstance(chat, str) or not isinstance(text, str) or not text.strip():
            raise TelegramError("E_TELEGRAM_BAD_PARAMS", "send takes chat_id, a person's number, and text")
        if len(text.encode()) > LONGEST:
            raise TelegramError("E_TELEGRAM_BAD_PARAMS", f"a message has at most {LONGEST:,} bytes")
        given: dict[str, Any] = {"channel": CHANNEL, "chat_id": chat, "text": text}
        for name in ("key", "reply_to"):
            if isinstance(params.get(name), str):
                given[name] = params[name]
        return await self._ctx.execute("channels", "send_message", given)

    async def set_webhook(self, params: "dict[str, Any]", meta: "Any" = None) -> "Any":
        """Tell Telegram the address in the setting webhook.url; with `remove`, that there is none."""
        return await self._door(
            "set_webhook", {name: params[name] for name in ("url", "remove") if name in params}
        )

    async def handle_webhook_update(self, params: "dict[str, Any]", meta: "Any" = None) -> "Any":
        """Take in an update that a web server forwards, with the secret token that came with it."""
        secret = params.get("secret_token")
        if not isinstance(params.get("update"), dict) or not isinstance(secret, str):
            raise TelegramError(
                "E_TELEGRAM_BAD_PARAMS",
                "handle_webhook_update takes update, and secret_token as Telegram's header has it",
            )
        return await self._door("handle_webhook_update", {"update": params["update"], "secret_token": secret})

    async def _door(self, operation: str, params: "dict[str, Any]") -> "Any":
        return await self._ctx.execute("telegram_door", operation, params)


async def on_enable(ctx: "Any") -> None:
    """Register the module and the channel, and begin to listen where the settings say so."""
    ctx.register_module(TelegramModule(ctx))
    await ctx.execute("channels", "register", {"channel": CHANNEL, "connector_module": "telegram"})
    try:
        status = await ctx.execute("telegram_door", "start", {"auto": True})
    except Exception as problem:  # noqa: BLE001  a bot that is not set up yet is no reason not to be there
        ctx.log("warn", f"the bot was not started: {problem}")
        return
    ctx.log("info", "telegram is there", {"state": status.get("state")})


async def on_disable(ctx: "Any") -> None:
    """Listen no more."""
    await ctx.execute("telegram_door", "stop", {})


def _object(value: "Any") -> "dict[str, Any]":
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


skill: "dict[str, Any]" = {
    "id": "@xpell/agent-skill-telegram",
    "version": "1.0.0",
    "name": "Telegram",
    "description": "A Telegram bot as a channel: messages of the people you name come in, answers and requests for approval go out.",
    "settings": {
        "defaults": {
            "admin_chat_ids": [],
            "mode": "polling",
            "auto_start": False,
            "polling": {"timeout_sec": 30},
            "webhook": {"url": ""},
        },
        "schema": {
            "title": "Telegram",
            "fields": [
                {
                    "key": "bot_token",
                    "label": "Bot token",
                    "type": "string",
                    "secret": True,
                    "help": "As @BotFather gave it.",
                    "placeholder": "123456789:AA…",
                },
                {
                    "key": "admin_chat_ids",
                    "label": "People the bot listens to",
                    "type": "string_list",
                    "help": "Numbers of Telegram users, one each. No names, no groups; an empty list is nobody.",
                    "placeholder": "123456789",
                },
                {
                    "key": "mode",
                    "label": "How messages come in",
                    "type": "select",
                    "options": [
                        {"label": "Polling: Telegram is asked", "value": "polling"},
                        {"label": "Webhook: Telegram calls an address of yours", "value": "webhook"},
                    ],
                },
                {
                    "key": "auto_start",
                    "label": "Start with the host",
                    "type": "boolean",
                    "help": "Otherwise telegram.start begins it.",
                },
                {
                    "key": "polling.timeout_sec",
                    "label": "How long one poll waits, in seconds",
                    "type": "number",
                    "help": "5 to 60.",
                    "placeholder": "30",
                },
                {
                    "key": "webhook.url",
                    "label": "Address of the webhook",
                    "type": "string",
                    "help": "https, as Telegram reaches it from outside.",
                    "placeholder": "https://bot.example.com/telegram",
                },
                {
                    "key": "webhook.secret_token",
                    "label": "Secret of the webhook",
                    "type": "string",
                    "secret": True,
                    "help": "16 to 256 letters, digits, - and _. Without it there is no webhook.",
                },
            ],
        },
        "sensitive": ["bot_token", "webhook.secret_token"],
    },
    "capabilities": {
        "channels": ["telegram"],
        "network": True,
        "kernel_ops": ["channels.route_inbound_message", "channels.send_message", "conv.list_threads"],
    },
    "on_enable": on_enable,
    "on_disable": on_disable,
}
