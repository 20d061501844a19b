"""What comes from Telegram, taken in: each message by the operation `channels.route_inbound_message`, as everything else that happens.

What is not taken in is noted on the record, with a number and a reason, and not more often than anybody could read. What strangers write
does not keep anything else from being noted. A message is known by its number and its bot's: another bot begins to count anew.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, final

import anyio

from metier.doors.telegram.configured import CHANNEL, Configured
from metier.doors.telegram.update import Passed, Pressed, Said, Update
from metier.errors import MetierError, RecordError, StateError
from metier.gate.principals import HOST
from metier.kernel.calling import Calls
from metier.kernel.channel_rules import BROKEN, FULL, UNKNOWN, clean_text
from metier.kernel.conversation_rows import STRANGER
from metier.model.call import Principal, Surroundings
from metier.model.digest import Json
from metier.model.outcome import UNHEARD, Completed, Failed, Outcome, Refused
from metier.model.text import one_line

NOTED: Final = "telegram_door.noted"
_LIFTED: Final = frozenset(
    {"record_unavailable", "budget_exceeded", "stopped", "changed_meanwhile", "setup_unusable"}
)
_PASSES: Final = frozenset({"interrupted", "unrecorded", "busy", "not_started"})
_TO_MEND: Final = frozenset({StateError.code, RecordError.code, BROKEN, UNKNOWN})
"""What somebody has to mend here: the files, or the channel. It is no fault of the message, and keeps everybody's."""
_EVERY: Final = 60.0
"""Seconds between two notes of the same kind about the same person."""
_MOST_NOTES: Final = 30
"""In that time, of what everybody writes; and as many of everything else, which needs a message of ours to come about."""
_MOST_PRESSES: Final = 1_000
"""That are known as heard."""
_LONGEST_NAME: Final = 80
_log: Final = logging.getLogger("metier.telegram")


@final
class Later(Exception):
    """It could not be taken in now, and is not lost: whoever brought it brings it again."""

    def __init__(self, why: str, *, passes: bool, alone: bool = False) -> None:
        """`passes`: it is sure to be taken in once others lifted what keeps it. `alone`: that keeps nobody else's."""
        super().__init__(why)
        self.passes = passes
        self.alone = alone


@final
class Inbound:
    """Takes in what happened. Belongs to one loop."""

    def __init__(
        self,
        calls: Calls,
        owner: str,
        configured: Callable[[], Configured],
        pressed: Callable[[Pressed], Awaitable[None]],
    ) -> None:
        self._calls = calls
        self._host = Principal(id=HOST, kind="agent", on_behalf_of=owner, roles=frozenset({"agent"}))
        self._configured = configured
        self._pressed = pressed
        self._noted: dict[tuple[int, str], tuple[float, int]] = {}
        self._notes: dict[bool, list[float]] = {True: [], False: []}
        """When something was noted: of what was written, and of all else."""
        self._presses: OrderedDict[str, None] = OrderedDict()
        self._turn = anyio.Lock()
        self.received = 0
        self.ignored = 0
        self.refused = 0
        """Messages that were to be taken in, and were refused for good."""
        self.refused_why = ""
        """The last time."""

    async def take(self, update: Update) -> None:
        """Take it in, or note why not.

        Raises:
            Later: when it has to be tried again.
        """
        try:
            match update:
                case Said() if self._configured().may_write(update.user):
                    async with self._turn:  # one after the other, as they came
                        await self._route(update)
                case Said():
                    why = "he is not among the people this bot speaks with"
                    await self._note(
                        Passed(update=update.update, why=why, user=update.user, chat=update.user)
                    )
                case Pressed():
                    await self._press(update)
                case Passed():
                    await self._note(update)
        except MetierError as problem:
            mended = isinstance(problem, StateError | RecordError)
            raise Later(problem.message, passes=mended, alone=isinstance(update, Pressed)) from problem

    async def _press(self, pressed: Pressed) -> None:
        """Hand it on, once: it may be told again, also while it is being heard."""
        key = f"{pressed.bot}:{pressed.query}"
        if key in self._presses:
            return
        self._presses[key] = None
        while len(self._presses) > _MOST_PRESSES:
            self._presses.popitem(last=False)
        try:
            await self._pressed(pressed)
        except BaseException:  # it was not heard to its end
            self._presses.pop(key, None)
            raise

    async def _route(self, said: Said) -> None:
        admin = said.user in self._configured().admins
        data: dict[str, Json] = {
            "role": "admin" if admin else STRANGER,
            "name": one_line(said.name, _LONGEST_NAME),
            "sent_at": said.at,
            "reply_to": f"{said.bot}:{said.reply_to}" if said.reply_to is not None else None,
        }
        outcome = await self._calls.call(
            self._host,
            "channels.route_inbound_message",
            {
                "channel": CHANNEL,
                "chat_id": str(said.user),
                "message_id": f"{said.bot}:{said.message}",
                "author": f"telegram:{said.user}",
                "text": clean_text(said.text),
                "data": data,
            },
            surroundings=Surroundings(
                channel=CHANNEL, session=f"{CHANNEL}:{said.user}", caller_id=str(said.user)
            ),
        )
        try:
            problem = _problem(outcome)
        except Later as later:
            if admin or not later.alone:
                raise
            problem = str(
                later
            )  # anybody may write: a hundred that wait for room would keep everybody else's from being told
        if problem:
            _log.log(
                logging.WARNING if admin else logging.INFO,
                "a message of %d was not taken in: %s",
                said.user,
                problem,
            )
            self.refused, self.refused_why = self.refused + 1, problem
            return
        self.received += 1

    async def _note(self, passed: Passed, *, written: bool = True) -> None:
        self.ignored += 1
        now, key = time.monotonic(), (passed.user, passed.why)
        last, more = self._noted.get(key, (-_EVERY, 0))
        notes = self._notes[written] = [each for each in self._notes[written] if now - each < _EVERY]
        if now - last < _EVERY or len(notes) >= _MOST_NOTES:
            self._noted[key] = (last, more + 1)
            return
        if len(self._noted) > 1_000:
            self._noted = {each: seen for each, seen in self._noted.items() if now - seen[0] < _EVERY}
        self._noted[key] = (now, 0)
        notes.append(now)
        arguments: dict[str, Json] = {
            "why": passed.why,
            "user": passed.user,
            "chat": passed.chat,
            "more": more,
        }
        await self._calls.call(self._host, NOTED, arguments)

    async def note(self, why: str, user: int, chat: int) -> None:
        """Note something that was refused to somebody, and is no message that he wrote."""
        await self._note(Passed(update=0, why=why, user=user, chat=chat), written=False)


def _problem(outcome: Outcome) -> str:
    """Why it was not done, for good; empty when it was.

    Raises:
        Later: when it may be done another time.
    """
    match outcome:
        case Completed():
            return ""
        case Refused() if outcome.code in _LIFTED or outcome.remedy in UNHEARD:
            raise Later("; ".join(outcome.reasons), passes=True)
        case Refused():
            return "; ".join(outcome.reasons)
        case Failed() if outcome.code in _PASSES:
            raise Later(outcome.message, passes=True)
        case Failed(value={"code": str(code)}) if code in _TO_MEND:
            raise Later(outcome.message, passes=True)
        case Failed(value={"code": str(code)}) if code == FULL:
            raise Later(outcome.message, passes=True, alone=True)
        case Failed(code="internal"):
            raise Later(outcome.message, passes=False)
        case Failed():
            return outcome.message
        case _:
            return "somebody would have to approve it first"
