"""Announcements as JSON, posted to an address of the operator's and signed, so that its receiver can tell that they are ours.

The signature is an HMAC with SHA-256 over the time, a dot and the body, as `Metier-Signature: t=<seconds>,v1=<hex>`. What is posted
says who asks for what, never with which arguments.
"""

import hashlib
import hmac
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

import msgspec
from anyio import to_thread

from metier.config.settings import Settings
from metier.errors import ConfigError
from metier.host.gateway_client import MakeOwnEgress
from metier.kernel.announce_ways import MOST_AT_ONCE
from metier.kernel.announce_words import plain
from metier.kernel.delivery_ports import NotNow
from metier.model.approval import Approval
from metier.model.digest import Json
from metier.sandbox.egress import Egress
from metier.sandbox.egress_limits import EgressLimits
from metier.sandbox.reply import Answer
from metier.sandbox.url import BadUrl, read_url

HEADER: Final = "Metier-Signature"
_LIMITS: Final = EgressLimits(
    upload_bytes=262_144, download_bytes=16_384, read_seconds=10.0, total_seconds=20.0, retries=1
)
_UNUSABLE: Final = 60.0
"""Seconds until it is tried again what only the operator can mend."""


@final
class WebhookAnnouncer:
    """Posts to the address in `[announce] webhook`."""

    way = "webhook"
    at_once = MOST_AT_ONCE

    def __init__(
        self,
        settings: Callable[[], Settings],
        reveal: Callable[[str], str | None],
        *,
        make: MakeOwnEgress = Egress,
    ) -> None:
        """`reveal` gives the value of a secret by its name; it blocks."""
        self._settings = settings
        self._reveal = reveal
        self._make = make

    def recipients(self) -> Sequence[str]:
        """The one address, if there is one. Another address is another recipient, and is told anew."""
        url = self._settings().announce.webhook
        return (hashlib.sha256(url.encode()).hexdigest()[:16],) if url else ()

    async def announce(
        self, recipient: str, items: Sequence[Approval], *, reminder: bool
    ) -> Mapping[str, str]:
        """Post them all at once."""
        del recipient
        event = "approvals.reminder" if reminder else "approvals.waiting"
        await self._post({"event": event, "items": [plain(each) for each in items]})
        return {}

    async def decided(self, recipient: str, approval: Approval, references: Sequence[str]) -> None:
        """Post how it ended. Who was told at another address is not: that is somebody else's, or nobody's, by now."""
        del references
        if recipient not in self.recipients():
            return
        await self._post({"event": "approvals.decided", "items": [plain(approval)]})

    async def _post(self, said: dict[str, Json]) -> None:
        announce = self._settings().announce
        url = read_url(announce.webhook)
        if isinstance(url, BadUrl):
            raise NotNow(_UNUSABLE, f"[announce] webhook cannot be read: {url.why}")
        secret = await to_thread.run_sync(self._reveal, announce.secret)
        if not secret:
            raise NotNow(
                _UNUSABLE,
                "the secret that [announce] names cannot be had; `metier secrets list` shows those there are",
            )
        at = str(int(time.time()))
        body = msgspec.json.encode({"at": int(at), **said})
        signature = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
        headers = {"Content-Type": "application/json", HEADER: f"t={at},v1={signature}"}
        try:
            made = self._make(hosts=frozenset(), own=url.origin, limits=_LIMITS, reveal=_nothing)
        except ConfigError as problem:
            raise NotNow(_UNUSABLE, f"[announce] webhook cannot be used: {problem.message}") from None
        async with made as egress:
            reply = await egress.request("POST", announce.webhook, headers=headers, body=body)
        if not isinstance(reply, Answer):
            raise NotNow(0, f"the webhook does not answer: {reply.message}")
        if not 200 <= reply.status < 300:
            wish = dict(reply.headers).get("retry-after", "")
            seconds = float(wish) if wish.isascii() and wish.isdigit() and len(wish) < 6 else 0.0
            raise NotNow(seconds, f"the webhook answers with status {reply.status}")


def _nothing(_name: str) -> str | None:
    return None
