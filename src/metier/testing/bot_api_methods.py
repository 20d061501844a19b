"""What Telegram's Bot API does with each method, as its public description has it: what is accepted, what is refused and in which
words, and what comes back. No sockets here."""

import re
import threading
import time
from collections import deque
from typing import Any, Final, final

import msgspec

BOT_ID: Final = 7_000_000_001
LONGEST: Final = 4096
"""UTF-16 units of one message."""
LONGEST_DATA: Final = 64
"""Bytes of what a button carries."""
MOST_UPDATES: Final = 100
AHEAD: Final = 10
"""An offset that is further beyond the newest update than this is none: everything that waits is told, and nothing confirmed."""
LONGEST_POLL: Final = 50.0
_TAKEN_OUT: Final = re.compile("[\r\u030a\u0333\u033f\u2028-\u202e]")
"""Characters that the real one takes out of every message, without a word."""
_BLANKED: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")
_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{1,256}")


@final
class Refusal(Exception):
    """`{"ok": false, …}`."""

    def __init__(self, code: int, description: str, retry_after: int = 0) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.retry_after = retry_after

    @property
    def body(self) -> dict[str, Any]:
        """As it is sent."""
        more = {"parameters": {"retry_after": self.retry_after}} if self.retry_after else {}
        return {"ok": False, "error_code": self.code, "description": self.description, **more}


@final
class Sent(msgspec.Struct, kw_only=True):
    """A message of the bot, as it stands."""

    chat: int
    message_id: int
    text: str
    at: float
    reply_to: int | None = None
    buttons: tuple[tuple[str, str], ...] = ()
    """Label and data, in order."""
    document: bytes | None = None
    edits: int = 0
    parse_mode: str = ""


@final
class BotState:
    """One bot: what waits for it, what it sent. Safe to be used by several threads."""

    def __init__(self, bot: int = BOT_ID) -> None:
        self.bot = bot
        self.turn = threading.Condition()
        self.waiting: deque[dict[str, Any]] = deque()
        """Updates that were not confirmed, in order."""
        self.confirmed: deque[dict[str, Any]] = deque(maxlen=1000)
        self.sent: list[Sent] = []
        self.answers: list[tuple[str, str]] = []
        """To pressed buttons: the id of the query and the text."""
        self.webhook: dict[str, Any] = {}
        self.blocked: set[int] = set()
        self.unknown: set[int] = set()
        self.again = 0
        """So many confirmed updates are told once more with the next answer."""
        self.offsets: list[int] = []
        self.timeouts: list[float] = []
        self._update = 100_000
        self._message = 0
        self._queries: dict[str, bool] = {}
        self._polling = 0

    def begin(self, *, update: int, message: int) -> None:
        """Count from these numbers on."""
        with self.turn:
            self._update, self._message = update, message

    # --- what people do

    def post(self, update: dict[str, Any]) -> int:
        """Have this update wait for the bot; it gets a number of its own unless it has one."""
        with self.turn:
            self._update += 1
            update = {"update_id": self._update, **update}
            self.waiting.append(update)
            self.turn.notify_all()
            return int(update["update_id"])

    def message(self, user: int, text: str, **more: Any) -> int:
        """`user` writes to the bot. Gives the number of the message."""
        name = more.pop("username", None)
        chat = more.pop("chat", {"id": user, "type": "private", "first_name": "Test"})
        kind = more.pop("kind", "message")
        with self.turn:
            self._message += 1
            number = self._message
        said = {
            "message_id": number,
            "from": {"id": user, "is_bot": False, "first_name": "Test"}
            | ({"username": name} if name else {}),
            "chat": chat,
            "date": int(time.time()),
            "text": text,
            **more,
        }
        self.post({kind: said})
        return number

    def press(self, user: int, sent: Sent, data: str) -> str:
        """`user` presses a button under a message of the bot. Gives the id of the query."""
        with self.turn:
            query = str(4_000_000_000 + len(self._queries))
            self._queries[query] = False
        chat = {"id": sent.chat, "type": "private" if sent.chat > 0 else "supergroup"}
        message = {
            "message_id": sent.message_id,
            "from": me(self.bot),
            "chat": chat,
            "date": int(sent.at),
            "text": sent.text,
        }
        pressed = {
            "id": query,
            "from": {"id": user, "is_bot": False, "first_name": "Test"},
            "message": message,
        }
        self.post({"callback_query": {**pressed, "chat_instance": "-1234567890", "data": data}})
        return query

    # --- what the bot asks

    def do(self, method: str, given: dict[str, Any]) -> Any:
        """The result of a method.

        Raises:
            Refusal: as the real one would refuse.
        """
        found = {
            "getme": lambda: me(self.bot),
            "getupdates": lambda: self._get_updates(given),
            "sendmessage": lambda: self._send(given),
            "senddocument": lambda: self._send(given, document=given.get("document")),
            "editmessagetext": lambda: self._edit(given),
            "answercallbackquery": lambda: self._answer(given),
            "setwebhook": lambda: self._set_webhook(given),
            "deletewebhook": lambda: self._delete_webhook(given),
            "getwebhookinfo": lambda: self._webhook_info(),
        }.get(method.lower())
        if found is None:
            raise Refusal(404, "Not Found")
        return found()

    def _get_updates(self, given: dict[str, Any]) -> list[dict[str, Any]]:
        if self.webhook.get("url"):
            raise Refusal(
                409,
                "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first",
            )
        timeout = min(float(given.get("timeout", 0)), LONGEST_POLL)
        limit = max(1, min(int(given.get("limit", MOST_UPDATES)), MOST_UPDATES))
        offset = int(given.get("offset", 0))
        deadline = time.monotonic() + timeout
        with self.turn:
            self._polling += 1
            mine = self._polling
            self.turn.notify_all()  # who polls already is told that he is not alone
            self.offsets.append(offset)
            self.timeouts.append(timeout)
            newest = max(self._update, *(each["update_id"] for each in self.waiting), 0)
            known = offset if offset <= newest + AHEAD else 0
            while self.waiting and self.waiting[0]["update_id"] < known:
                self.confirmed.append(self.waiting.popleft())
            while not self.waiting and not self.again and (left := deadline - time.monotonic()) > 0:
                self.turn.wait(left)
                if self._polling != mine:
                    raise Refusal(
                        409,
                        "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
                    )
            old = [*self.confirmed][-self.again :] if self.again else []
            self.again = 0
            return [*old, *self.waiting][:limit]

    def _chat(self, given: dict[str, Any]) -> int:
        try:
            chat = int(given.get("chat_id", ""))
        except (TypeError, ValueError):
            raise Refusal(400, "Bad Request: chat not found") from None
        if chat in self.unknown or not chat:
            raise Refusal(400, "Bad Request: chat not found")
        if chat in self.blocked:
            raise Refusal(403, "Forbidden: bot was blocked by the user")
        return chat

    def _send(self, given: dict[str, Any], document: Any = None) -> dict[str, Any]:
        chat = self._chat(given)
        text = _cleaned(given.get("caption" if document is not None else "text", ""))
        if document is None:
            _check_text(text)
        reply = _object(given.get("reply_parameters")).get("message_id")
        with self.turn:
            self._message += 1
            sent = Sent(
                chat=chat,
                message_id=self._message,
                text=text,
                at=time.time(),
                reply_to=int(reply) if reply is not None else None,
                buttons=_buttons(given.get("reply_markup")),
                document=document,
                parse_mode=str(given.get("parse_mode", "")),
            )
            self.sent.append(sent)
            self.turn.notify_all()
        return _message(sent, self.bot)

    def _edit(self, given: dict[str, Any]) -> dict[str, Any]:
        chat, text = self._chat(given), _cleaned(given.get("text", ""))
        _check_text(text)
        buttons = _buttons(given.get("reply_markup"))
        with self.turn:
            number = str(given.get("message_id", ""))
            found = [each for each in self.sent if each.chat == chat and str(each.message_id) == number]
            if not found:
                raise Refusal(400, "Bad Request: message to edit not found")
            if (found[0].text, found[0].buttons) == (text, buttons):
                raise Refusal(
                    400,
                    "Bad Request: message is not modified: specified new message content and reply markup are exactly the same "
                    "as a current content and reply markup of the message",
                )
            found[0].text, found[0].buttons, found[0].edits = text, buttons, found[0].edits + 1
            self.turn.notify_all()
            return _message(found[0], self.bot)

    def _answer(self, given: dict[str, Any]) -> bool:
        query = str(given.get("callback_query_id", ""))
        with self.turn:
            if self._queries.get(query, True):
                raise Refusal(
                    400,
                    "Bad Request: query is too old and response timeout expired or query ID is invalid",
                )
            self._queries[query] = True
            self.answers.append((query, str(given.get("text", ""))))
            self.turn.notify_all()
        return True

    def _set_webhook(self, given: dict[str, Any]) -> bool:
        url, secret = str(given.get("url", "")), given.get("secret_token")
        if url and not url.startswith("https://"):
            raise Refusal(400, "Bad Request: bad webhook: An HTTPS URL must be provided for webhook")
        if secret is not None and not _SECRET.fullmatch(str(secret)):
            raise Refusal(400, "Bad Request: secret token contains unallowed characters")
        with self.turn:
            self.webhook = {"url": url, "secret_token": secret} if url else {}
            self._forget(given)
            self.turn.notify_all()
        return True

    def _delete_webhook(self, given: dict[str, Any]) -> bool:
        with self.turn:
            self.webhook = {}
            self._forget(given)
        return True

    def _forget(self, given: dict[str, Any]) -> None:
        if str(given.get("drop_pending_updates", "")).lower() == "true":
            self.waiting.clear()

    def _webhook_info(self) -> dict[str, Any]:
        return {
            "url": self.webhook.get("url", ""),
            "has_custom_certificate": False,
            "pending_update_count": len(self.waiting),
        }


def me(bot: int = BOT_ID) -> dict[str, Any]:
    """The bot itself."""
    return {
        "id": bot,
        "is_bot": True,
        "first_name": "Metier",
        "username": "metier_test_bot",
        "can_join_groups": True,
        "can_read_all_group_messages": False,
        "supports_inline_queries": False,
    }


def units(text: str) -> int:
    """How long a text is for Telegram."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _cleaned(text: Any) -> str:
    """As it arrives."""
    return _BLANKED.sub(" ", _TAKEN_OUT.sub("", str(text)))


def _check_text(text: str) -> None:
    if not text.strip():
        raise Refusal(400, "Bad Request: message text is empty")
    if units(text) > LONGEST:
        raise Refusal(400, "Bad Request: message is too long")


def _object(given: Any) -> dict[str, Any]:
    """An object, also where it came as the text of one, as forms have it."""
    try:
        found = msgspec.json.decode(given) if isinstance(given, str) else given
    except msgspec.DecodeError:
        raise Refusal(400, "Bad Request: can't parse reply markup JSON object") from None
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _buttons(markup: Any) -> tuple[tuple[str, str], ...]:
    rows: list[list[dict[str, Any]]] = _object(markup).get("inline_keyboard", [])
    found = tuple((str(each.get("text")), str(each.get("callback_data"))) for row in rows for each in row)
    if any(not 1 <= len(data.encode()) <= LONGEST_DATA for _, data in found):
        raise Refusal(400, "Bad Request: BUTTON_DATA_INVALID")
    return found


def _message(sent: Sent, bot: int) -> dict[str, Any]:
    chat = {"id": sent.chat, "type": "private" if sent.chat > 0 else "supergroup"}
    return {
        "message_id": sent.message_id,
        "from": me(bot),
        "chat": chat,
        "date": int(sent.at),
        "text": sent.text,
    }
