"""The door as the host has it: set up, started and stopped by the skill that ships for it, and by nobody else."""

import hmac
import logging
from collections.abc import Awaitable, Callable
from typing import Final, final

import anyio
import msgspec
from anyio.abc import TaskGroup

from metier.catalog.catalog import Catalog
from metier.config.settings import Settings
from metier.doors.telegram.api import Trouble
from metier.doors.telegram.approvals import Approvals
from metier.doors.telegram.bot import Bot
from metier.doors.telegram.configured import CHANNEL, SKILL
from metier.doors.telegram.inbound import Inbound, Later
from metier.doors.telegram.operations import operations
from metier.doors.telegram.sending import Sender
from metier.doors.telegram.taking_up import TakingUp
from metier.doors.telegram.update import Pressed, read
from metier.errors import MetierError
from metier.gate.principals import HOST
from metier.kernel.calling import Calls
from metier.kernel.events import OURS, Events, Happened
from metier.kernel.operation import Asked, Module, OperationError
from metier.kernel.store import Store
from metier.kernel.telegram_buttons import Buttons
from metier.model.digest import Json
from metier.model.text import one_line

BAD_PARAMS: Final = "E_TELEGRAM_BAD_PARAMS"
FAILED: Final = "E_TELEGRAM_FAILED"
FORBIDDEN: Final = "E_AGENT_FORBIDDEN"
_log: Final = logging.getLogger("metier.telegram")


@final
class Telegram:
    """Telegram, in the process that holds the host role. Belongs to one loop."""

    channel: str = CHANNEL

    def __init__(
        self,
        *,
        store: Store,
        events: Events,
        calls: Calls,
        settings: Callable[[], Settings],
        catalog: Callable[[], Catalog],
        owner: str,
        values: Callable[[str], Awaitable[dict[str, Json]]],
        reveal: Callable[[str, str], Awaitable[str | None]],
        take_up: Callable[[str], Awaitable[object]],
        wake: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """
        Args:
            values: the stored settings of a skill, secrets masked.
            reveal: one secret setting of a skill, by its dotted path.
            take_up: runs a call that was approved, by the id of the approval; gives how it ended.
            wake: has what waits to be sent on a channel be tried now.
        """
        self.channel = CHANNEL
        self._events = events
        self._catalog = catalog
        self._tasks: TaskGroup | None = None
        self._wake = wake
        self._bot = bot = Bot(
            store=store,
            own=lambda: settings().telegram,
            values=values,
            reveal=reveal,
            began=self._begun,
        )
        self.connector = Sender(lambda: bot.api, bot.configured)
        self._inbound = Inbound(calls, owner, bot.configured, self._pressed)
        buttons = Buttons(store)
        self._taking_up = TakingUp(settings=settings, buttons=buttons, here=take_up, say=self.connector.say)
        self.announcer = Approvals(
            buttons=buttons,
            sender=self.connector,
            api=lambda: bot.api,
            configured=bot.configured,
            settings=settings,
            owner=owner,
            note=self._inbound.note,
            approved=self._taking_up.approved,
        )

    def module(self) -> Module:
        """`telegram_door`: what its skill asks, and what the host itself notes."""
        return operations(
            configure=self.configure,
            start=self.start,
            stop=self.stop,
            status=self.status,
            set_webhook=self.set_webhook,
            handle_webhook_update=self.handle_webhook_update,
            noted=self.noted,
        )

    async def run(self) -> None:
        """Be there until cancelled: what is started runs in here."""
        with self._events.listening(self._heard):
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                tasks.start_soon(self._taking_up.run)
                try:
                    await self._bot.run(self._inbound)
                finally:
                    self._tasks = None

    async def configure(self, asked: Asked) -> Json:
        """Read the settings anew; mode and time of a poll may be set for this session. Who is let in, and every secret, may not."""
        self._only_its_skill(asked)
        given = asked.arguments.get("config")
        if isinstance(given, dict):
            if other := sorted(given.keys() - {"mode", "polling"}):
                named = one_line(other[0], 40)
                message = f"{named!r} is not set here: use `metier settings set {SKILL}`; here go mode and polling.timeout_sec"
                raise OperationError(BAD_PARAMS, message)
            if given.get("mode") not in (None, "polling", "webhook") or not isinstance(
                given.get("polling"), dict | None
            ):
                raise OperationError(BAD_PARAMS, "mode is polling or webhook, and polling is {timeout_sec}")
            self._bot.session = given
        await self._bot.reread()
        self._bot.again()
        return self._status()

    async def start(self, asked: Asked) -> Json:
        """Begin to listen. With `auto` only where the setting auto_start says so."""
        self._only_its_skill(asked)
        await self._bot.reread()
        self._bot.armed = True
        if asked.arguments.get("auto") is not True or self._bot.configured().auto_start:
            await self._bot.start()
        return self._status()

    async def stop(self, asked: Asked) -> Json:
        """Listen no more."""
        self._only_its_skill(asked)
        self._bot.stop()
        return self._status()

    async def status(self, asked: Asked) -> Json:
        """How it fares."""
        self._only_its_skill(asked)
        await self._bot.reread()
        return self._status()

    async def set_webhook(self, asked: Asked) -> Json:
        """Tell Telegram where to bring what happens: to the address in the settings, or with `remove` nowhere any more."""
        self._only_its_skill(asked)
        await self._bot.reread()
        counts, remove = self._bot.configured(), asked.arguments.get("remove") is True
        if asked.arguments.get("url", counts.webhook) != counts.webhook:
            message = "only the address in the setting webhook.url is ever told to Telegram"
            raise OperationError(BAD_PARAMS, message)
        api = await self._bot.made()
        try:
            if remove:
                await api.ask("deleteWebhook", {"drop_pending_updates": False})
            else:
                await self._bot.tell_webhook(api)
        except Trouble as trouble:
            raise OperationError(FAILED, trouble.message) from None
        finally:
            await api.close()
        return {"ok": True, "url": "" if remove else counts.webhook}

    async def handle_webhook_update(self, asked: Asked) -> Json:
        """Take in an update that a web server of the operator's forwards, with the secret that Telegram showed there. A pressed button is
        not taken this way: it would have passed through a skill."""
        self._only_its_skill(asked)
        await self._bot.reread()
        secret, shown = await self._bot.webhook_secret(), asked.arguments.get("secret_token")
        if not isinstance(shown, str) or not hmac.compare_digest(shown.encode(), secret.encode()):
            raise OperationError(FORBIDDEN, "the secret is missing or wrong, so it may not be from Telegram")
        try:
            found = read(msgspec.json.encode(asked.arguments.get("update")), await self._bot.number())
        except Trouble as trouble:
            raise OperationError(
                FAILED, f"which bot it is for cannot be asked now; bring it again: {trouble.message}"
            ) from None
        if isinstance(found, Pressed):
            raise OperationError(FORBIDDEN, "a pressed button is taken by Metier's own listener only")
        try:
            await self._inbound.take(found)
        except Later as later:
            raise OperationError(FAILED, f"it could not be taken in now; bring it again: {later}") from None
        return {"ok": True}

    async def noted(self, asked: Asked) -> Json:
        """Something that came in and counts for nothing is on the record: that is all."""
        if asked.principal.id != HOST:
            raise OperationError(FORBIDDEN, "only the host itself notes what came in")
        return None

    def _status(self) -> Json:
        inbound = self._inbound
        told: dict[str, Json] = {
            "received": inbound.received,
            "ignored": inbound.ignored,
            "refused": inbound.refused,
        }
        problems = [*self._bot.problems(), *self.announcer.problems()]
        if inbound.refused:
            problems.append(
                f"{inbound.refused:,} messages were refused and are gone; the last: {inbound.refused_why}"
            )
        return {**self._bot.status(), **told, "problems": list[Json](problems)}

    def _only_its_skill(self, asked: Asked) -> None:
        listed = self._catalog().by_name.get(SKILL)
        bundled = listed is not None and listed.skill is not None and listed.skill.source == "bundled"
        if asked.principal.id != f"skill:{SKILL}" or not bundled:
            message = f"only the skill {SKILL} that ships with Metier speaks with this module"
            raise OperationError(FORBIDDEN, message)

    def _heard(self, happened: Happened) -> None:
        named = happened.payload.get("skill") if isinstance(happened.payload, dict) else None
        if happened.source != OURS or named != SKILL:
            return
        if happened.name == "skills.disabled":
            self._bot.stop()
        elif happened.name == "settings.skill.updated" and self._tasks is not None:
            self._tasks.start_soon(self._set_anew)

    async def _set_anew(self) -> None:
        try:
            await self._bot.renew(anyway=True)
        except (MetierError, OperationError) as problem:
            _log.warning("the settings of %s cannot be read: %s", SKILL, problem)

    async def _begun(self) -> None:
        if self._wake is not None:
            await self._wake(CHANNEL)

    async def _pressed(self, pressed: Pressed) -> None:
        await self.announcer.pressed(pressed)
