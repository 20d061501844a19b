"""Telling somebody how a schedule ended: in the log, by a webhook, or as a memory of the workspace.

A webhook goes out by the one way out there is, to the host its URL names and no other, and never to this machine or a private
network. A memory is written by the core skill `fs_write`, as a call that is judged like any other.
"""

import logging
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias, final
from urllib.parse import urlsplit

import msgspec
from anyio import to_thread

from metier.errors import MetierError
from metier.kernel.calling import Calls
from metier.kernel.firing import bounded_call, told_of
from metier.kernel.schedule import Notice
from metier.model.call import Principal, Surroundings
from metier.model.digest import Json
from metier.model.outcome import Completed
from metier.model.text import one_line
from metier.sandbox.egress import Egress
from metier.sandbox.egress_limits import EgressLimits
from metier.sandbox.reply import Answer

MEMORY_TOOL: Final = "fs_write/execute"
_SECONDS: Final = 20.0
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
        body = await to_thread.run_sync(msgspec.json.encode, payload)
        try:
            async with self._to_host(urlsplit(url).netloc) as egress:
                reply = await egress.request(
                    "POST", url, headers={"content-type": "application/json"}, body=body, follow=False
                )
        except (MetierError, ValueError) as error:
            return f"the webhook's URL cannot be used: {one_line(str(error), 120)}"
        if isinstance(reply, Answer):
            return "" if 200 <= reply.status < 300 else f"the webhook answered with {reply.status}"
        return f"the webhook was not reached: {one_line(reply.message, 120)}"


@final
class Teller:
    """Tells whom a schedule names."""

    def __init__(self, calls: Calls, webhooks: Webhooks) -> None:
        self._calls = calls
        self._webhooks = webhooks

    async def tell(
        self, notices: tuple[Notice, ...], principal: Principal, about: dict[str, Json]
    ) -> list[str]:
        """Tell each of them. Who was not reached, and why."""
        problems: list[str] = []
        for notice in notices:
            match notice.type:
                case "log":
                    _log.info("schedule %s: %s", about.get("schedule"), about.get("outcome"))
                case "webhook":
                    problems.append(await self._webhooks.webhook(notice.url, about))
                case "memory":
                    problems.append(await self._remember(principal, about))
        return [each for each in problems if each]

    async def _remember(self, principal: Principal, about: dict[str, Json]) -> str:
        due = str(about.get("due")).replace(":", "").replace("+", "_")
        arguments: dict[str, Json] = {
            "path": f"memory/schedules/{principal.id.rpartition('/')[2]}-{due}.md",
            "content": f"# {about.get('name')}\n\n{about.get('due')}: {about.get('outcome')}\n",
            "overwrite": True,
        }
        outcome = await bounded_call(
            self._calls, principal, MEMORY_TOOL, arguments, seconds=_SECONDS, surroundings=Surroundings()
        )
        return "" if isinstance(outcome, Completed) else f"the memory was not written: {told_of(outcome)}"
