"""Messages on their way out: in pieces that Telegram takes, at a pace it bears, and to nobody who is not to be written to."""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final, final

import anyio
import msgspec
from msgspec import Struct

from metier.config.telegram import is_person
from metier.doors.telegram.api import BotApi, Trouble
from metier.doors.telegram.configured import Configured
from metier.doors.telegram.text import pieces
from metier.kernel.delivery_ports import Never, NotNow
from metier.model.digest import Json

BURST: Final = 20
"""Messages of one chat that may go at once; after that one a second, as Telegram asks."""
OVERALL: Final = 25
"""Of all chats, in a second."""
PATIENCE: Final = 2.0
"""How long one waits for its turn; what would take longer is tried again later."""
_NOT_SET_UP: Final = 5.0
"""Seconds until it is looked whether the bot runs now."""
_MOST_CHATS: Final = 10_000
_MOST_HALF_SENT: Final = 1_000
_LONGEST_NUMBER: Final = 15
_LONGEST_ANSWER: Final = 190


class _Message(Struct, frozen=True):
    message_id: int


@final
class Pace:
    """How fast a bot may speak. Belongs to one loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._chats: OrderedDict[int, tuple[float, float]] = OrderedDict()
        """How many may go at once, and as of when."""
        self._all = (float(OVERALL), clock())
        self._held_until = 0.0

    def hold(self, seconds: float) -> None:
        """Telegram asked for silence."""
        self._held_until = max(self._held_until, self._clock() + seconds)

    @property
    def silence(self) -> float:
        """For how long Telegram wants nothing at all."""
        return max(0.0, self._held_until - self._clock())

    def wait(self, chat: int) -> float:
        """How long until a message may go to this chat; where it may now, one has gone."""
        if silence := self.silence:
            return silence
        now = self._clock()
        left, since = self._chats.pop(chat, (float(BURST), now))
        left = min(float(BURST), left + (now - since))
        whole = min(float(OVERALL), self._all[0] + (now - self._all[1]) * OVERALL)
        go = left >= 1 and whole >= 1
        self._chats[chat] = (left - go, now)
        self._all = (whole - go, now)
        while len(self._chats) > _MOST_CHATS:
            self._chats.popitem(last=False)
        return 0.0 if go else max(1 - left, (1 - whole) / OVERALL, 0.01)


@final
class Sender:
    """The connector of the channel `telegram`."""

    def __init__(self, api: Callable[[], BotApi | None], configured: Callable[[], Configured]) -> None:
        """`api` gives None while the bot is not set up."""
        self._api = api
        self._configured = configured
        self.pace = Pace()
        self._half_sent: OrderedDict[str, int] = OrderedDict()
        """By key: how many pieces of a message went out before something happened."""

    async def send(self, chat: str, text: str, *, key: str, reply_to: str | None) -> str | None:
        """Send one message to one person; the id of its last piece, which has its bot's number before it.

        Raises:
            NotNow: as Telegram asks, or when it cannot be reached.
            Never: to somebody who is not to be written to, and where Telegram refuses it for good.
        """
        if not is_person(chat):
            raise Never("only people are written to, by their number: no name, no group")
        api = self._running()
        if not self._configured().may_write(int(chat)):
            raise Never(f"{chat} is not among the people this bot speaks with (setting admin_chat_ids)")
        several = pieces(text)
        if not several:
            raise Never("there is nothing in it that could be sent")
        last, kept = 0, f"{api.bot}:{key}"
        for count, piece in enumerate(several):
            if count < self._half_sent.get(kept, 0):
                continue
            answered = _number(reply_to, api.bot) if count == 0 else None
            last = await self.say(int(chat), piece, reply_to=answered, by=api)
            self._keep(kept, count + 1)
        self._half_sent.pop(kept, None)
        return f"{api.bot}:{last}" if last else None

    def _keep(self, key: str, count: int) -> None:
        self._half_sent[key] = count
        while len(self._half_sent) > _MOST_HALF_SENT:
            self._half_sent.popitem(last=False)

    async def say(
        self,
        chat: int,
        text: str,
        *,
        reply_to: str | None = None,
        buttons: Json = None,
        by: BotApi | None = None,
    ) -> int:
        """One message of ours, as plain text: nothing in it is markup. Gives its number. With `by` it is said by that bot or not at all.

        Raises:
            NotNow, Never: as above.
        """
        reply: Json = {"message_id": int(reply_to), "allow_sending_without_reply": True} if reply_to else None
        given: dict[str, Json] = {
            "chat_id": chat,
            "text": text,
            "link_preview_options": {"is_disabled": True},
            "reply_parameters": reply,
            "reply_markup": buttons,
        }
        api = await self._turn(chat, by)
        try:
            return (await api.ask_for(_Message, "sendMessage", given)).message_id
        except Trouble as trouble:
            raise self._told(trouble) from None

    async def answer(self, query: str, text: str) -> None:
        """Tell who pressed a button what came of it. It shows in no chat, so it needs no turn; but silence is silence.

        Raises:
            NotNow, Never: as above.
        """
        api = self._running()
        if silence := self.pace.silence:
            raise NotNow(silence, "Telegram bears nothing at the moment")
        try:
            await api.ask("answerCallbackQuery", {"callback_query_id": query, "text": text[:_LONGEST_ANSWER]})
        except Trouble as trouble:
            raise self._told(trouble) from None

    async def document(self, chat: int, name: str, data: bytes) -> None:
        """A file for somebody.

        Raises:
            NotNow, Never: as above.
        """
        api = await self._turn(chat)
        try:
            await api.upload("sendDocument", name, data, chat_id=str(chat))
        except Trouble as trouble:
            raise self._told(trouble) from None

    async def ask(self, method: str, chat: int, given: Mapping[str, Json]) -> msgspec.Raw:
        """Anything that shows in a chat.

        Raises:
            NotNow, Never: as above.
        """
        api = await self._turn(chat)
        try:
            return await api.ask(method, {"chat_id": chat, **given})
        except Trouble as trouble:
            raise self._told(trouble) from None

    def _running(self) -> BotApi:
        """The bot that runs. Until it said who it is nothing is sent: what is sent is known by its number.

        Raises:
            NotNow: while none does.
        """
        api = self._api()
        if api is None or not api.bot:
            raise NotNow(_NOT_SET_UP, "the bot does not run; telegram.start begins it")
        return api

    async def _turn(self, chat: int, by: BotApi | None = None) -> BotApi:
        """The bot, when it may say something in this chat. It is the one that runs now, or `by`: what another one says or changes is not
        the same, for its messages are others under the same numbers."""
        api = by or self._running()
        deadline = time.monotonic() + PATIENCE
        while seconds := self.pace.wait(chat):
            if time.monotonic() + seconds > deadline:
                raise NotNow(seconds, "Telegram bears no more messages at the moment")
            await anyio.sleep(seconds)
        if self._running() is not api:
            raise NotNow(_NOT_SET_UP, "it is another bot by now, and what was half said is begun anew")
        return api

    def _told(self, trouble: Trouble) -> NotNow | Never:
        match trouble.kind:
            case "flood":
                self.pace.hold(trouble.seconds)
                return NotNow(trouble.seconds, trouble.message)
            case "refused" | "closed":
                return Never(trouble.message, closed=trouble.kind == "closed")
            case "doubtful" | "unreadable":
                return NotNow(trouble.seconds, trouble.message, doubtful=True)
            case "unauthorized" | "unusable":
                return NotNow(60.0, trouble.message)
            case _:
                return NotNow(trouble.seconds, trouble.message)


def _number(reply_to: str | None, bot: int) -> str | None:
    """The message that is answered: `BOT:NUMBER`, as it is stored, or its number alone. One of another bot's is none here."""
    whose, _, number = (reply_to or "").rpartition(":")
    if whose not in ("", str(bot)) or not (number.isascii() and number.isdecimal()):
        return None
    return number if len(number) <= _LONGEST_NUMBER else None
