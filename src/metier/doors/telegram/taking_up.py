"""What was approved by a button runs: by whoever asked where he waits for it, else here, under the configuration of the project it was
asked in. A yes that was cut off before that, by a crash or by the end of the host, is taken up by the next one. Nothing runs twice for it:
the decision is used up with the record of the intent, and one gets it.

A yes is done with when who said it was told how it ended. Until then it is kept, and the next host tells him.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, final

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from metier.config.settings import Settings
from metier.doors.telegram.how_ended import by_outcome, by_record
from metier.errors import MetierError
from metier.kernel.delivery_ports import Never, NotNow
from metier.kernel.telegram_buttons import Buttons, Yes
from metier.model.approval import Approval
from metier.model.outcome import Failed
from metier.model.text import one_line
from metier.runtime.taking_up import look, take_up

_AGAIN: Final = 10.0
"""Seconds until it is looked again what was left, where that could not be read, or how something ended that runs elsewhere."""
_MOST_LOOKS: Final = 60
_FIRST_PAUSE: Final = 5.0
_LONGEST_PAUSE: Final = 300.0
_TOLD_FOR: Final = 86_400.0
"""Seconds for which it is tried to say how something ended."""
_log: Final = logging.getLogger("metier.telegram")


@final
class TakingUp:
    """Belongs to one loop."""

    def __init__(
        self,
        *,
        settings: Callable[[], Settings],
        buttons: Buttons,
        here: Callable[[str], Awaitable[object]],
        say: Callable[[int, str], Awaitable[object]],
    ) -> None:
        """
        Args:
            here: runs an approved call in this process, for what was asked in this process's own project.
            say: tells one person something; raises NotNow or Never.
        """
        self._settings = settings
        self._buttons = buttons
        self._here = here
        self._say = say
        self._under_way: set[str] = set()
        self._tasks: TaskGroup | None = None

    async def run(self) -> None:
        """Until cancelled. First comes what an earlier host left."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                tasks.start_soon(self._take_up_what_is_left)
                await anyio.sleep_forever()
            finally:
                self._tasks = None
                self._under_way.clear()

    def approved(self, yes: Yes) -> None:
        """Have it run. Where nothing runs any more the next host does."""
        self._start(yes, None)

    def _start(self, yes: Yes, spent: Approval | None) -> None:
        if self._tasks is not None and yes.approval not in self._under_way:
            self._under_way.add(yes.approval)
            self._tasks.start_soon(self._one, yes, spent)

    async def _take_up_what_is_left(self) -> None:
        """Every yes that was said by a button and not followed."""
        while True:
            try:
                await self._left()
            except MetierError as problem:
                _log.warning("what was approved and not run cannot be looked at: %s", problem.message)
                await anyio.sleep(_AGAIN)
            else:
                return

    async def _left(self) -> None:
        for yes in await to_thread.run_sync(self._buttons.unfinished):
            found = await to_thread.run_sync(look, self._settings(), yes.approval)
            if found is not None and found.state in ("approved", "spent") and found.decided_by == yes.by:
                self._start(yes, found if found.state == "spent" else None)
            elif found is None or found.state != "pending":
                await to_thread.run_sync(self._buttons.finished, yes.approval)

    async def _one(self, yes: Yes, spent: Approval | None) -> None:
        """Run what was approved, unless that was begun before, and say how it ended. Its result is for who asked, and is not sent
        anywhere."""
        try:
            said = await self._ended(yes) if spent is None else await self._recorded(spent)
            if said:
                await self._tell(yes, one_line(f"{yes.title}: {said}", 1_000))
                await to_thread.run_sync(self._buttons.finished, yes.approval)
        except MetierError as problem:  # the next host says it again: better twice than never
            _log.warning("that %s is done with could not be written down: %s", yes.approval, problem.message)
        except Exception:  # noqa: BLE001  one broken call must not end the door
            _log.exception("taking up %s broke", yes.approval)
        finally:
            self._under_way.discard(yes.approval)

    async def _ended(self, yes: Yes) -> str:
        """How it ended; empty where this host ends before that, and the next one takes it up."""
        try:
            ended: object = await take_up(self._settings(), yes.approval, self._here)
            if isinstance(ended, Failed) and ended.code == "interrupted":
                return ""
            said = by_outcome(ended)
        except MetierError as problem:
            ended, said = problem, f"it did not run: {problem.message}."
        try:
            found = await to_thread.run_sync(look, self._settings(), yes.approval)
        except MetierError as problem:
            _log.warning("how %s stands cannot be looked up: %s", yes.approval, problem.message)
            return said
        if found is not None and found.state == "spent" and isinstance(ended, MetierError):
            return await self._recorded(found)  # it broke after it had begun
        if found is not None and found.state == "approved":
            return f"{said} Your yes still counts for a while: metier approvals approve {yes.approval}"
        return said

    async def _recorded(self, spent: Approval) -> str:
        """How it ended that an earlier host began, or somebody else: as the record has it."""
        for _ in range(_MOST_LOOKS):
            try:
                if said := await to_thread.run_sync(by_record, self._settings().database, spent):
                    return said
            except MetierError as problem:
                _log.warning("how %s ended cannot be looked up: %s", spent.id, problem.message)
            await anyio.sleep(_AGAIN)
        return f"it was begun; how it ended is not known here: metier audit search --call {spent.call_id}"

    async def _tell(self, yes: Yes, said: str) -> None:
        """Say how it ended, and again until it was said: who said yes relies on it."""
        pause, until = _FIRST_PAUSE, anyio.current_time() + _TOLD_FOR
        while True:
            try:
                await self._say(yes.recipient, said)
            except Never as never:
                _log.warning("how %s ended cannot be said by Telegram: %s", yes.approval, never.why)
            except NotNow as later:
                _log.info("how %s ended could not be said yet: %s", yes.approval, later.why)
                if anyio.current_time() < until:
                    await anyio.sleep(max(pause, later.seconds))
                    pause = min(2 * pause, _LONGEST_PAUSE)
                    continue
                _log.warning("how %s ended was not said by Telegram: %s", yes.approval, later.why)
            return
