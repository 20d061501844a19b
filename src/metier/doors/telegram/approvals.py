"""People's word by Telegram: what waits is shown to the approvers in full, as plain text, with buttons; a pressed one decides through the
same desk as `metier approvals`, so roles and four_eyes hold, and the first word counts wherever it is said.

The one who presses is known by his number alone, and has to be the one who was shown it. Nothing of this passes through a skill.
"""

import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, final

from anyio import to_thread

from metier.config.settings import Settings
from metier.doors.cli.request import grant_lines, lines
from metier.doors.telegram.api import BotApi, Trouble
from metier.doors.telegram.configured import Configured
from metier.doors.telegram.sending import Sender
from metier.doors.telegram.text import LONGEST, units
from metier.doors.telegram.update import Pressed
from metier.errors import MetierError
from metier.gate.principals import standing
from metier.kernel.delivery_ports import Never, NotNow
from metier.kernel.telegram_buttons import Button, Buttons
from metier.model.approval import Approval, Scope, StandingGrant
from metier.model.call import Principal
from metier.model.digest import Json
from metier.model.text import one_line
from metier.record.approvals import find
from metier.record.database import Database
from metier.record.decider import Decider
from metier.record.deciding import Undecided, decide
from metier.record.principals import registered_in
from metier.record.standing import proposed_grant

MOST_AT_ONCE: Final = 10
"""Requests that one message each is sent for; of more only how many they are is said."""
_DATA: Final = re.compile(r"([A-Za-z0-9_-]{22})\.([osd])", re.ASCII)
_LONGEST_ANSWER: Final = 190
_LABELS: Final = {"o": "Once", "s": "This session", "d": "Deny"}
_log: Final = logging.getLogger("metier.telegram")


@final
class Approvals:
    """The announcer for the way `telegram`, and what becomes of pressed buttons. Belongs to one loop."""

    way: str = "telegram"

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
        approved: Callable[[int, str, str], None],
    ) -> None:
        """`api` gives None while the bot does not run. `note` has something noted on the record. `approved` is told by whom, which
        request and its title, and has it run."""
        self._buttons = buttons
        self._sender = sender
        self._api = api
        self._configured = configured
        self._settings = settings
        self._owner = owner
        self._note = note
        self._approved = approved

    def recipients(self) -> Sequence[str]:
        """Everybody whose buttons are somebody's word, while the bot runs: a button that nobody hears is none."""
        return [str(user) for user in sorted(self._configured().approvers)] if self._api() is not None else []

    async def announce(
        self, recipient: str, items: Sequence[Approval], *, reminder: bool
    ) -> Mapping[str, str]:
        """Show each to one approver; gives the numbers of the messages.

        Raises:
            NotNow, Never: as a connector does.
        """
        user, told = int(recipient), dict[str, str]()
        human = self._configured().approvers.get(user)
        if human is None:
            raise Never(f"{user} is no approver any more ([telegram] approvers)")
        for each in items[:MOST_AT_ONCE]:
            message, title = await to_thread.run_sync(self._buttons.place, each.id, user)
            if message and reminder:
                left = max(1, int((each.expires_at - time.time()) / 60))
                await self._sender.say(
                    user, f"{title}\nstill waits for your word; about {left} min left.", reply_to=message
                )
            elif not message:  # else it was shown, and only that could not be kept
                message = str(await self._show(each, user, human))
            told[each.id] = message
        if len(items) > MOST_AT_ONCE:
            more = len(items) - MOST_AT_ONCE
            await self._sender.say(user, f"{more} more requests wait for your word: metier approvals list")
        return {each.id: told.get(each.id, "") for each in items}

    async def decided(self, recipient: str, approval: Approval, reference: str) -> None:
        """Say under the request what became of it, and take its buttons away.

        Raises:
            NotNow, Never: as a connector does.
        """
        user = int(recipient)
        await to_thread.run_sync(self._buttons.over, approval.id, user)
        if not reference:
            return
        _, title = await to_thread.run_sync(self._buttons.place, approval.id, user)
        await self._settle(user, reference, f"{title or approval.id}\n{_ended(approval)}")

    async def pressed(self, pressed: Pressed) -> None:
        """Take somebody's word. Whoever it is, he is answered."""
        found = _DATA.fullmatch(pressed.data)
        human = self._configured().approvers.get(pressed.user)
        if human is None or found is None or pressed.chat != pressed.user:
            why = (
                "a button was pressed that is not for who pressed it"
                if found
                else "what a button carried was not ours"
            )
            await self._note(why, pressed.user, pressed.chat)
            await self._answer(pressed, "This is not yours to decide.")
            return
        button = await to_thread.run_sync(self._buttons.take, found[1], pressed.user, pressed.message)
        if isinstance(button, str):
            await self._note(f"a button counted for nothing: {button}", pressed.user, pressed.chat)
            await self._answer(pressed, button)
            return
        await self._decided(pressed, button, human, found[2])

    async def _decided(self, pressed: Pressed, button: Button, human: str, letter: str) -> None:
        try:
            made = await to_thread.run_sync(partial(self._decide, button, human, letter))
        except MetierError as problem:
            await to_thread.run_sync(self._buttons.give_back, button)
            _log.warning("a word given by Telegram could not be kept: %s", problem.message)
            await self._answer(pressed, "It could not be written down, so nothing was decided. Try again.")
            return
        if isinstance(made, Undecided):
            if made.state in ("", "pending"):
                await to_thread.run_sync(self._buttons.give_back, button)
            await self._answer(pressed, f"Nothing was changed: {made.reason}.")
            if made.state not in ("", "pending"):
                await self._try_to_settle(pressed, f"{button.title}\n{made.reason}.")
            return
        await self._answer(pressed, "Approved." if made.state == "approved" else "Denied.")
        await self._try_to_settle(pressed, f"{button.title}\n{_ended(made)}")
        if made.state == "approved":
            self._approved(pressed.user, made.id, button.title)

    def _decide(self, button: Button, human: str, letter: str) -> Approval | Undecided:
        """As the person this number stands for, with what he may do today. Blocking."""
        settings = self._settings()
        with Database.open(settings.database) as database:
            found = find(database, button.approval)
            if found is None or found.fingerprint != button.fingerprint:
                return Undecided(code="unknown", reason="there is no such request any more", state="void")
            with database.reading() as connection:
                registered = registered_in(connection)
            rights = standing(Principal(id=human, kind="human"), registered, self._owner).rights
            scope: Scope = "session" if letter == "s" else "once"
            grant: StandingGrant | None = None
            if scope == "session" and found.shown is not None:
                proposed = proposed_grant(found.shown, "session", approval=found.id, by=human)
                if isinstance(proposed, str):
                    return Undecided(code="bad_grant", reason=proposed)
                grant = proposed
            return decide(
                database,
                found.id,
                by=Decider(id=human, kind="human", rights=rights),
                decision="deny" if letter == "d" else "approve",
                scope=scope,
                grant=grant,
                four_eyes=settings.approvals.four_eyes,
                payloads=settings.audit.payloads,
            )

    async def _show(self, approval: Approval, user: int, human: str) -> int:
        title = _title(approval)
        grant = _session_grant(approval, human)
        text = "\n".join([*lines(approval, time.time()), *_grant_words(grant)])
        if units(text) > LONGEST:
            await self._sender.document(user, f"{approval.id}.txt", text.encode())
            text = f"{title}\nIt is too long for a message: all of it is in the file above. Read that before you decide."
        number = await to_thread.run_sync(self._buttons.make, approval, user, title)
        letters = ["o", "s", "d"] if grant is not None else ["o", "d"]
        if approval.shown is None or approval.shown.file:
            letters = ["d"]  # only the process that asked can take a yes
        row: list[Json] = [{"text": _LABELS[each], "callback_data": f"{number}.{each}"} for each in letters]
        message = await self._sender.say(user, text, buttons={"inline_keyboard": [row]})
        await to_thread.run_sync(self._buttons.shown, number, message)
        return message

    async def _answer(self, pressed: Pressed, text: str) -> None:
        api = self._api()
        try:
            if api is not None:
                given: dict[str, Json] = {"callback_query_id": pressed.query, "text": text[:_LONGEST_ANSWER]}
                await api.ask("answerCallbackQuery", given)
        except Trouble as trouble:  # his word counts all the same
            _log.info("who pressed a button was not answered: %s", trouble.message)

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


def _title(approval: Approval) -> str:
    shown = approval.shown
    what = f"{shown.tool} ({shown.effect}, {shown.risk} risk)" if shown is not None else "a call"
    behalf = f" on behalf of {approval.on_behalf_of}" if approval.on_behalf_of else ""
    return one_line(f"{approval.id}: {what} by {approval.principal}{behalf}", 500)


def _session_grant(approval: Approval, human: str) -> StandingGrant | None:
    if approval.shown is None:
        return None
    grant = proposed_grant(approval.shown, "session", approval=approval.id, by=human)
    return grant if isinstance(grant, StandingGrant) else None


def _grant_words(grant: StandingGrant | None) -> list[str]:
    """What `This session` would let happen. The grant itself is made anew when that is pressed, so it is not named."""
    return ["", "With 'This session' nobody is asked again for:", *grant_lines(grant)[1:]] if grant else []


def _ended(approval: Approval) -> str:
    by = f" by {one_line(approval.decided_by, 80)}" if approval.decided_by else ""
    match approval.state:
        case "approved" | "spent":
            scope = f", {approval.scope}" if approval.scope else ""
            return f"approved{by}{scope}." + (" It has run." if approval.state == "spent" else "")
        case "denied":
            return f"denied{by}."
        case "expired":
            return "expired: nobody decided in time."
        case "void":
            return f"taken back{by}."
        case _:
            return "still waits for your word."
