"""Telling somebody how a schedule ended: in the log, by a webhook, or as a memory of the workspace.

What leaves this machine or stays on it is a call of the schedule's own, judged and recorded like any other. A memory is written by the
core skill `fs_write`. A webhook is the operation `schedules.notify`: nobody but the schedule itself has it done, and only to an address
that stands in it. It goes out by the one way out there is, to the host its URL names and no other, and never to this machine or a
private network.
"""

import logging
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias, final

import msgspec
from anyio import to_thread

from metier.errors import MetierError
from metier.gate.principals import TRIGGERED
from metier.kernel.calling import Calls
from metier.kernel.firing_call import bounded_call, told_of
from metier.kernel.operation import Asked, Offered, OperationError, offered
from metier.kernel.schedule import AnySchedule, Notice, all_notices
from metier.kernel.schedule_store import all_schedules
from metier.kernel.store import Store
from metier.kernel.webhook_url import read_webhook
from metier.model.call import Cause, Principal, Surroundings
from metier.model.digest import Json
from metier.model.outcome import Completed, Outcome
from metier.model.text import one_line
from metier.record.redact import redact
from metier.sandbox.egress import Egress
from metier.sandbox.egress_limits import EgressLimits
from metier.sandbox.reply import Answer

MEMORY_TOOL: Final = "fs_write/execute"
NOTIFY: Final = "schedules.notify"
FORBIDDEN: Final = "E_AGENT_FORBIDDEN"
NOT_TOLD: Final = "E_SCHEDULES_NOT_TOLD"
_SECONDS: Final = 20.0
_CALL_SECONDS: Final = 25.0
"""A little longer than a webhook, so that it is the webhook that says what took so long."""
_log: Final = logging.getLogger("metier.schedules")

ToHost: TypeAlias = Callable[[str], Egress]
"""A way out to one host."""


class Webhooks(Protocol):
    """Posts JSON somewhere."""

    async def webhook(self, url: str, payload: dict[str, Json]) -> str:
        """Why it did not arrive; empty when it did."""
        ...


def _way_out(host: str) -> Egress:
    return Egress(hosts=frozenset({host}), limits=EgressLimits(total_seconds=_SECONDS))


@final
class PostedWebhooks:
    """By way of Egress."""

    def __init__(self, to_host: ToHost = _way_out) -> None:
        self._to_host = to_host

    async def webhook(self, url: str, payload: dict[str, Json]) -> str:
        """See `Webhooks`."""
        read = read_webhook(url)
        if isinstance(read, str):
            return f"the webhook's URL cannot be used: {read}"
        body = await to_thread.run_sync(msgspec.json.encode, payload)
        try:
            async with self._to_host(read.place) as egress:
                reply = await egress.request(
                    "POST", url, headers={"content-type": "application/json"}, body=body, follow=False
                )
        except (MetierError, ValueError) as error:
            return f"the webhook's URL cannot be used: {one_line(str(error), 120)}"
        if isinstance(reply, Answer):
            return "" if 200 <= reply.status < 300 else f"the webhook answered with {reply.status}"
        return f"the webhook was not reached: {one_line(reply.message, 120)}"


@final
class Notifying:
    """The operation behind webhooks."""

    def __init__(self, store: Store, webhooks: Webhooks) -> None:
        self._store = store
        self._webhooks = webhooks

    def offered(self) -> Offered:
        """See `metier.kernel.operation.offered`."""
        return offered(
            NOTIFY,
            self._notify,
            "Tell a webhook of this schedule how it ended.",
            {
                "type": "object",
                "properties": {"url": {"type": "string"}, "about": {"type": "object"}},
                "required": ["url", "about"],
                "additionalProperties": False,
            },
            privileged=True,
        )

    async def _notify(self, asked: Asked) -> Json:
        url, about = str(asked.arguments["url"]), asked.arguments["about"]
        if not await to_thread.run_sync(self._is_his, asked.principal, url):
            raise OperationError(
                FORBIDDEN, "a webhook is posted by the schedule that names it, and by nobody else"
            )
        # Its outcome is in the words of whatever it called.
        told = await to_thread.run_sync(redact, about)
        if why := await self._webhooks.webhook(url, told if isinstance(told, dict) else {}):
            raise OperationError(NOT_TOLD, why)
        return {"ok": True}

    def _is_his(self, principal: Principal, url: str) -> bool:
        """Whether it is a schedule that asks, and this address stands in it."""
        schedules = {f"{TRIGGERED[1]}{each.id}": each.schedule for each in all_schedules(self._store)}
        schedule = schedules.get(principal.id)
        return schedule is not None and url in _urls(schedule)


def _urls(schedule: AnySchedule) -> set[str]:
    return {each.url for each in all_notices(schedule) if each.type == "webhook"}


@final
class Teller:
    """Tells whom a schedule names."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def tell(
        self, notices: tuple[Notice, ...], principal: Principal, about: dict[str, Json], cause: Cause
    ) -> list[str]:
        """Tell each of them. Who was not reached, and why."""
        problems: list[str] = []
        for notice in notices:
            match notice.type:
                case "log":
                    _log.info("schedule %s: %s", about.get("schedule"), about.get("outcome"))
                case "webhook":
                    problems.append(await self._post(principal, notice.url, about, cause))
                case "memory":
                    problems.append(await self._remember(principal, about, cause))
        return [each for each in problems if each]

    async def _post(self, principal: Principal, url: str, about: dict[str, Json], cause: Cause) -> str:
        outcome = await self._call(principal, NOTIFY, {"url": url, "about": about}, cause)
        return "" if isinstance(outcome, Completed) else f"a webhook was not told: {told_of(outcome)}"

    async def _remember(self, principal: Principal, about: dict[str, Json], cause: Cause) -> str:
        due = str(about.get("due")).replace(":", "").replace("+", "_")
        arguments: dict[str, Json] = {
            "path": f"memory/schedules/{principal.id.rpartition('/')[2]}-{due}.md",
            "content": f"# {about.get('name')}\n\n{about.get('due')}: {about.get('outcome')}\n",
            "overwrite": True,
        }
        outcome = await self._call(principal, MEMORY_TOOL, arguments, cause)
        return "" if isinstance(outcome, Completed) else f"the memory was not written: {told_of(outcome)}"

    async def _call(
        self, principal: Principal, tool: str, arguments: dict[str, Json], cause: Cause
    ) -> Outcome:
        return await bounded_call(
            self._calls,
            principal,
            tool,
            arguments,
            seconds=_CALL_SECONDS,
            surroundings=Surroundings(),
            cause=cause,
        )
