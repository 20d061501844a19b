"""The bot while it runs: started and stopped, listening by one of two ways, and begun anew where that failed for a reason that may pass."""

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, Literal, TypeAlias, final

import anyio
from anyio import to_thread

from metier.config.telegram import TelegramSettings, place
from metier.doors.telegram.api import BotApi, Trouble, shown_by
from metier.doors.telegram.configured import SECRET, SKILL, TOKEN, Configured, read, webhook_problem
from metier.doors.telegram.held import Held
from metier.doors.telegram.inbound import Inbound, Later
from metier.doors.telegram.polling import Polling
from metier.doors.telegram.update import WANTED
from metier.doors.telegram.update import read as read_update
from metier.doors.telegram.webhook import Webhook
from metier.errors import MetierError
from metier.kernel.operation import OperationError
from metier.kernel.store import Store
from metier.kernel.telegram_cursor import Cursor
from metier.model.digest import Json

State: TypeAlias = Literal["stopped", "starting", "running", "error"]
NOT_CONFIGURED: Final = "E_TELEGRAM_NOT_CONFIGURED"
_AGAIN: Final = 30.0
"""Seconds, at most, until what could not begin is tried again."""
_LOOK: Final = 2.0
"""Seconds between two looks at whether somebody else changed anything."""
_log: Final = logging.getLogger("metier.telegram")


@final
class Bot:
    """Belongs to one loop."""

    def __init__(
        self,
        *,
        store: Store,
        own: Callable[[], TelegramSettings],
        values: Callable[[str], Awaitable[dict[str, Json]]],
        reveal: Callable[[str, str], Awaitable[str | None]],
        began: Callable[[], Awaitable[None]],
    ) -> None:
        """`began` is told whenever it can be sent again."""
        self._began = began
        self._store = store
        self._own = own
        self._values = values
        self._reveal = reveal
        self._stored: dict[str, Json] = {}
        self._known: BotApi | None = None
        """Which bot it was, the last time that was asked while it did not run."""
        self._state: State = "stopped"
        self._error = ""
        self._heard_at = 0.0
        self._wanted = False
        self._changed = anyio.Event()
        self.session: dict[str, Json] = {}
        """What was set for this session alone."""
        self.armed = False
        """Whether its skill lives, so that the setting auto_start may have it begin."""
        self.api: BotApi | None = None
        """None while it is not started."""

    def configured(self) -> Configured:
        """What counts now."""
        return read(self._stored, self._own(), self.session)

    async def reread(self) -> None:
        """Take the settings as they are stored now."""
        self._stored = await self._values(SKILL)

    async def made(self) -> BotApi:
        """A way to Telegram as the bot that is set up now, also while it does not run."""
        return BotApi(self.configured().api, *await self._secrets())

    async def number(self) -> int:
        """Of the bot that is set up, also while it does not run.

        Raises:
            Trouble: when Telegram does not say it.
        """
        api = self.api if self.api is not None and self.api.bot else self._known
        if api is None or not api.is_for(*await self._secrets()):
            api = await self.made()
            try:
                await api.meet()
            finally:
                await api.close()
            self._known = api
        return api.bot

    async def _secrets(self) -> tuple[str, str]:
        return await self._reveal(SKILL, TOKEN) or "", await self._reveal(SKILL, SECRET) or ""

    async def start(self) -> None:
        """Have it run.

        Raises:
            OperationError: when it is not set up for that.
        """
        if not await self._reveal(SKILL, TOKEN):
            message = f"there is no bot token: metier settings set {SKILL} bot_token=…"
            raise OperationError(NOT_CONFIGURED, message)
        if self.configured().mode == "webhook":
            await self.webhook_secret()
        self.api = self.api or await self.made()
        self._wanted, self._state, self._error = True, "starting", ""
        self.again()

    def stop(self) -> None:
        """Have it run no more."""
        self._wanted, self._state, self._error, self.session = False, "stopped", "", {}
        self.armed = False
        self.again()

    def again(self) -> None:
        """Begin anew, as things are set up now."""
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def run(self, inbound: Inbound) -> None:
        """Be there until cancelled; what is started runs in here."""
        try:
            async with anyio.create_task_group() as watching:
                watching.start_soon(self._watch)
                while True:
                    changed = self._changed
                    async with anyio.create_task_group() as tasks:
                        if self._wanted:
                            tasks.start_soon(self._serve, inbound)
                        else:
                            await self._close()
                        await changed.wait()
                        tasks.cancel_scope.cancel()
        finally:
            self._state = "stopped"

    async def webhook_secret(self) -> str:
        """What Telegram shows with everything it brings for the bot that is set up now.

        Raises:
            OperationError: when there is none, or nothing to show it for.
        """
        token, secret = await self._secrets()
        if problem := webhook_problem(self.configured(), secret):
            raise OperationError(NOT_CONFIGURED, problem)
        return shown_by(token, secret)

    async def tell_webhook(self, api: BotApi) -> None:
        """Tell Telegram where to bring what happens: to the address in the settings, and no other.

        Raises:
            OperationError: as `webhook_secret`.
            Trouble: when Telegram does not take it.
        """
        await self.webhook_secret()
        if not api.is_for(*await self._secrets()):  # it would not be masked in what Telegram says of it
            raise Trouble(
                "down", "the token or the webhook's secret was changed meanwhile; it is tried again"
            )
        given: dict[str, Json] = {
            "url": self.configured().webhook,
            "secret_token": api.shown,
            "allowed_updates": [*WANTED],
        }
        await api.ask("setWebhook", given)

    def status(self) -> dict[str, Json]:
        """How it fares, without secrets."""
        counts, me = self.configured(), self.api.me if self.api is not None else None
        return {
            "running": self._state == "running",
            "state": self._state,
            "error": self._error,
            "mode": counts.mode,
            "bot": {"id": me.id, "username": me.username} if me is not None else None,
            "polling": {"timeout_sec": counts.poll_seconds, "last_at": self._heard_at},
            "webhook": {"url": counts.webhook, "listen": counts.listen},
            "admins": len(counts.admins),
            "approvers": len(counts.approvers),
        }

    def problems(self) -> list[str]:
        """What is wrong with the settings."""
        counts = self.configured()
        found = [
            f"{each!r} in admin_chat_ids is nobody: only a person's number counts" for each in counts.nobody
        ]
        if not counts.admins and not counts.customers:
            found.append("admin_chat_ids names nobody, so nobody is listened to")
        return found

    async def _serve(self, inbound: Inbound) -> None:
        failures, began = 0, time.monotonic()
        try:
            while True:
                pause = _AGAIN
                try:
                    self.api = self.api or await self.made()
                    await self._listen(self.api, inbound)
                except Trouble as trouble:
                    self._failed(trouble.message)
                    if trouble.kind not in ("unauthorized", "unusable"):
                        failures = 1 if time.monotonic() - began > 2 * _AGAIN else failures + 1
                        pause = trouble.seconds or min(_AGAIN, 0.5 * 2 ** min(failures, 8))
                except (OperationError, MetierError) as problem:
                    self._failed(problem.message)
                except OSError as error:
                    self._failed(f"{self.configured().listen} cannot be listened at: {error.strerror}")
                await anyio.sleep(pause)
                began = time.monotonic()
        finally:
            await self._close()

    async def _watch(self) -> None:
        """Take the settings anew when another process changed them: whoever was taken out of the list is not heard any more, and with
        another token it is another bot."""
        seen: int | None = None
        while True:
            try:
                before, seen = seen, await to_thread.run_sync(self._store.changes)
                if before != seen:
                    now = await self._secrets()
                    await self.renew(anyway=self.api is not None and not self.api.is_for(*now))
            except (OperationError, MetierError) as problem:
                _log.warning("the settings of %s cannot be read: %s", SKILL, problem)
            await anyio.sleep(_LOOK)

    async def renew(self, *, anyway: bool = False) -> None:
        """Begin anew where the settings are others now, and begin where they say so now.

        Raises:
            MetierError, OperationError: when they cannot be read.
        """
        before = self._stored
        await self.reread()
        if before == self._stored and not anyway:
            return
        if self.armed and not self._wanted and self.configured().auto_start:
            try:
                await self.start()
            except OperationError as problem:
                self._failed(problem.message)
        elif self._wanted:
            self.again()

    async def _close(self) -> None:
        api, self.api = self.api, None
        if api is not None:
            with anyio.CancelScope(shield=True):
                await api.close()

    async def _listen(self, api: BotApi, inbound: Inbound) -> None:
        counts = self.configured()
        me = await api.meet()
        if counts.mode == "polling":
            await api.ask("deleteWebhook", {"drop_pending_updates": False})
            self._told("")
            await self._began()
            await Polling(
                api, Cursor(self._store, me.id, counts.api), inbound, self.configured, self._told
            ).run()
            return
        await self.webhook_secret()
        where = place(counts.listen)
        if where is None:
            raise OperationError(NOT_CONFIGURED, "[telegram] listen is no address and port")
        held = Held()

        async def brought(body: bytes) -> None:
            update, before = read_update(body, me.id), inbound.received
            try:
                await inbound.take(update)
            except Later as later:
                held.kept_out(update.user, str(later), alone=later.alone)
                raise
            else:
                held.taken_in(update.user, stored=inbound.received > before)
            finally:
                self._told(held.waits)

        webhook = Webhook(api.shown, counts.path, brought)
        async with await webhook.listener(*where) as listener:
            await self.tell_webhook(api)
            self._told("")
            await self._began()
            await webhook.serve(listener)

    def _told(self, problem: str) -> None:
        self._heard_at = time.time()
        if problem and problem != self._error:
            _log.warning("Telegram: %s", problem)
        self._state, self._error = "running", problem

    def _failed(self, problem: str) -> None:
        _log.warning("Telegram: %s", problem)
        self._state, self._error = "error", problem
