"""People's word by Telegram: what waits is shown to the approvers in full, as plain text, with buttons; a pressed one decides through the
same desk as `metier approvals`, so roles and four_eyes hold, and the first word counts wherever it is said.

The one who presses is known by his number alone, and has to be the one who was shown it, by the bot that showed it. Nothing of this
passes through a skill.
"""

import logging
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, final

from anyio import to_thread

from metier.config.settings import Settings
from metier.doors.telegram.api import BotApi
from metier.doors.telegram.configured import Configured
from metier.doors.telegram.request import LABELS, Request, ended, request
from metier.doors.telegram.sending import Sender
from metier.doors.telegram.update import Pressed
from metier.doors.telegram.word import NOT_HIS, Word
from metier.errors import MetierError
from metier.kernel.delivery_ports import Never, NotNow
from metier.kernel.telegram_buttons import Button, Buttons, Yes
from metier.model.approval import Approval
from metier.model.digest import Json
from metier.model.role import APPROVE

_DATA: Final = re.compile(r"([A-Za-z0-9_-]{22})\.([osd])", re.ASCII)
_NOT_RUNNING: Final = 5.0
"""Seconds until it is looked whether the bot runs now."""
_NOT_SHOWN: Final = 60.0
"""Seconds until it is tried again to show something to who could not be reached, or had no right to decide."""
_MOST_KNOWN: Final = 1_000
_MOST_FILES: Final = 3
"""So often a file is sent of which nobody knows whether it arrives; then it is shown without."""
_log: Final = logging.getLogger("metier.telegram")


@final
class Approvals:
    """The announcer for the way `telegram`, and what becomes of pressed buttons. Belongs to one loop."""

    way: str = "telegram"
    at_once: int = 1
    """Each request has a message of its own, with its own buttons."""

    def __init__(
        self,
        *,
        buttons: Buttons,
        sender: Sender,
        api: Callable[[], BotApi | None],
        configured: Callable[[], Configured],
        settings: Callable[[], Settings],
        owner: str,
        note: Callable[[str, int, int], Awaitable[None]],
        approved: Callable[[Yes], None],
    ) -> None:
        """`api` gives None while the bot does not run. `note` has something noted on the record. `approved` has what was approved run."""
        self._buttons = buttons
        self._sender = sender
        self._api = api
        self._configured = configured
        self._word = Word(buttons, settings, owner)
        self._not_shown: dict[int, str] = {}
        """By approver, the last time: why he was not."""
        self._files: Counter[tuple[str, int]] = Counter()
        """By request and approver: how often its file was sent and nobody knows whether it arrived."""
        self._note = note
        self._approved = approved

    def recipients(self) -> Sequence[str]:
        """Everybody whose buttons are somebody's word, while the bot runs: a button that nobody hears is none. With the bot, since
        another one has shown him nothing yet."""
        bot = self._bot()
        return [f"{bot}/{user}" for user in sorted(self._configured().approvers)] if bot else []

    def problems(self) -> list[str]:
        """Which approvers are not shown what waits, and why."""
        approvers = self._configured().approvers
        return [
            f"{user} was not shown what waits: {why}"
            for user, why in self._not_shown.items()
            if user in approvers
        ]

    async def announce(
        self, recipient: str, items: Sequence[Approval], *, reminder: bool
    ) -> Mapping[str, str]:
        """Show each to one approver; gives the numbers of the messages.

        Raises:
            NotNow, Never: as a connector does.
        """
        bot, user = self._reached(recipient)
        human = self._configured().approvers.get(user)
        if human is None:
            raise Never(f"{user} is no approver any more ([telegram] approvers)")
        if not await to_thread.run_sync(self._word.may_decide, human):
            raise self._later(user, f"{human} does not have the right {APPROVE!r}: metier principals list")
        try:
            told = {each.id: await self._tell(each, bot, user, human, reminder=reminder) for each in items}
        except Never as never:
            if not never.closed:
                raise
            raise self._later(user, f"{never.why}; he has to write to the bot first") from None
        self._not_shown.pop(user, None)
        self._reached(recipient)  # else it is another bot's by now, and under a number of that one's
        return told

    async def decided(self, recipient: str, approval: Approval, references: Sequence[str]) -> None:
        """Say under the request what became of it, and take its buttons away.

        Raises:
            NotNow, Never: as a connector does.
        """
        if self._bot() not in ("", recipient.partition("/")[0]):
            return  # nobody can change what another bot wrote, nor press what stands under it
        bot, user = self._reached(recipient)
        await to_thread.run_sync(self._buttons.over, approval.id)
        _, title = await to_thread.run_sync(self._buttons.place, approval.id, bot, user)
        gone: list[str] = []
        for reference in references:
            try:
                await self._settle(user, reference, f"{title or approval.id}\n{ended(approval)}")
            except Never as never:  # the other message is changed all the same
                gone.append(never.why)
        if gone:
            raise Never("; ".join(gone))

    async def pressed(self, pressed: Pressed) -> None:
        """Take somebody's word. Whoever it is, he is answered. Any number of them may be taken at once, and one twice: the desk decides
        once."""
        found = _DATA.fullmatch(pressed.data)
        human = self._configured().approvers.get(pressed.user)
        if human is None or found is None or pressed.chat != pressed.user:
            why = NOT_HIS.noted if found else "what a button carried was not ours"
            await self._refused(pressed, why, NOT_HIS.answer)
            return
        number, letter = found.groups()
        try:
            button = await to_thread.run_sync(
                self._buttons.look, number, str(pressed.bot), pressed.user, pressed.message
            )
        except MetierError as problem:
            _log.warning("a button that was pressed could not be looked up: %s", problem.message)
            await self._answer(
                pressed,
                "It could not be looked up, so nothing was decided. Try again, or at the terminal: metier approvals list",
            )
            return
        if isinstance(button, str):
            await self._refused(pressed, f"a button counted for nothing: {button}", button)
        elif letter not in button.offered:
            answer = f"Here it can only be denied. To approve it: metier approvals show {button.approval}"
            await self._refused(pressed, "an answer was given that its button did not offer", answer)
        else:
            await self._take(pressed, button, human, letter)

    async def _take(self, pressed: Pressed, button: Button, human: str, letter: str) -> None:
        """Have it decided, and run. Whoever cancels this waits for the thread that decides, and nothing is awaited between that and the run."""
        if letter == "d":
            said = await to_thread.run_sync(self._word.no, button, pressed.user, human)
        else:
            said = await to_thread.run_sync(self._word.yes, button, pressed.user, letter == "s")
        if said.yes is not None:
            self._approved(said.yes)
        if said.noted:
            await self._note(said.noted, pressed.user, pressed.chat)
        await self._answer(pressed, said.answer)
        if said.over:
            await self._try_to_settle(pressed, f"{button.title}\n{said.over}")

    def _later(self, user: int, why: str) -> NotNow:
        self._not_shown[user] = why
        return NotNow(_NOT_SHOWN, why)

    def _bot(self) -> str:
        """The number of the bot that runs; empty while none does, or it is not known which."""
        api = self._api()
        return str(api.bot) if api is not None and api.bot else ""

    def _reached(self, recipient: str) -> tuple[str, int]:
        """Bot and person.

        Raises:
            NotNow: while that bot does not run.
        """
        bot, _, user = recipient.partition("/")
        if self._bot() != bot:
            raise NotNow(_NOT_RUNNING, "the bot does not run; telegram.start begins it")
        return bot, int(user)

    async def _tell(self, approval: Approval, bot: str, user: int, human: str, *, reminder: bool) -> str:
        message, title = await to_thread.run_sync(self._buttons.place, approval.id, bot, user)
        if not message:
            return str(await self._show(approval, bot, user, human))
        if not reminder:
            return message  # it was shown, and only that could not be kept
        left = max(1, int((approval.ends - time.time()) / 60))
        said = f"{title}\nstill waits for your word; about {left} min left."
        return str(await self._sender.say(user, said, reply_to=message))

    async def _show(self, approval: Approval, bot: str, user: int, human: str) -> int:
        shown = await to_thread.run_sync(request, approval, human)
        if shown.file is not None:
            shown = await self._with_file(shown, user, approval.id, shown.file)
        number = await to_thread.run_sync(self._buttons.make, approval, bot, user, shown.title, shown.offered)
        row: list[Json] = [
            {"text": LABELS[each], "callback_data": f"{number}.{each}"} for each in shown.offered
        ]
        message = await self._sender.say(user, shown.text, buttons={"inline_keyboard": [row]})
        await to_thread.run_sync(self._buttons.shown, number, message)
        return message

    async def _with_file(self, shown: Request, user: int, approval: str, data: bytes) -> Request:
        """What is asked comes as a file first. Where that cannot be sent, nobody says yes to what he could not read."""
        try:
            await self._sender.document(user, f"{approval}.txt", data)
        except Never as never:
            if never.closed:
                raise
            why = never.why
        except NotNow as later:
            if len(self._files) > _MOST_KNOWN:
                self._files.clear()
            self._files[approval, user] += later.doubtful
            if self._files[approval, user] < _MOST_FILES:
                raise
            why = later.why
        else:
            return shown
        _log.warning("%s cannot be shown in full by Telegram: %s", approval, why)
        return shown.cut(approval)

    async def _refused(self, pressed: Pressed, why: str, answer: str) -> None:
        await self._note(why, pressed.user, pressed.chat)
        await self._answer(pressed, answer)

    async def _answer(self, pressed: Pressed, text: str) -> None:
        try:
            await self._sender.answer(pressed.query, text)
        except (NotNow, Never) as problem:  # his word counts all the same
            _log.info("who pressed a button was not answered: %s", problem.why)

    async def _try_to_settle(self, pressed: Pressed, text: str) -> None:
        try:
            await self._settle(pressed.user, str(pressed.message), text)
        except (NotNow, Never) as problem:  # it is said again when the announcement is ended
            _log.info("a message with buttons was not changed: %s", problem.why)

    async def _settle(self, user: int, message: str, text: str) -> None:
        try:
            await self._sender.ask("editMessageText", user, {"message_id": int(message), "text": text})
        except Never as never:
            if "not modified" not in never.why:
                raise
