"""What one running call may ask of the host. Bound to that call: who asks is known here and never said by who asks.

A method is looked up, judged by the call's permissions and by its pace, and answered by its service. Whatever goes
wrong in a service crosses as a name and a sentence: no traceback, path or secret of the host. When the call is
over the bridge is closed, and from then on everything is refused.
"""

import logging
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Protocol, Self, final

import anyio

from metier.model.digest import Json
from metier.model.permission import PermissionSet
from metier.model.ports import Answered, NotAnswered

PER_SECOND: Final = 200
BURST: Final = 400
_log: Final = logging.getLogger("metier.host")


class Service(Protocol):
    """One method that running code can ask for. Made for one call, closed with it."""

    def allowed(self, permissions: PermissionSet) -> bool:
        """Whether a call with these permissions may use it at all. No is a violation."""
        ...

    async def answer(self, params: dict[str, Json]) -> Answered | NotAnswered:
        """Judge the parameters and answer."""
        ...

    async def aclose(self) -> None:
        """Let go of what was held for the call."""
        ...


@final
class Bridge:
    """The `Host` of one call."""

    def __init__(
        self, call_id: str, skill: str, permissions: PermissionSet, services: Mapping[str, Service]
    ) -> None:
        self._call_id = call_id
        self._skill = skill
        self._permissions = permissions
        self._services = dict(services)
        self._closed = False
        self._tokens = float(BURST)
        self._counted_at = time.monotonic()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def ask(self, method: str, params: dict[str, Json]) -> Answered | NotAnswered:
        """Answer one request of the running code."""
        if self._closed:
            return _over()
        if not self._in_pace():
            return NotAnswered(name="Busy", message=f"More than {PER_SECOND} requests a second; slow down")
        service = self._services.get(method)
        if service is None:
            return NotAnswered(name="NotFound", message=f"The host knows no {method[:64]!r}")
        if not service.allowed(self._permissions):
            message = f"{method} is outside what this skill may do; declare it and have it granted"
            return NotAnswered(name="PermissionDenied", message=message, kind="violation")
        try:
            answer = await service.answer(params)
        except Exception:  # noqa: BLE001  a fault of ours must not show its insides to the code that met it
            _log.exception("call %s of %s: %s failed", self._call_id, self._skill, method)
            return NotAnswered(name="HostError", message=f"The host could not answer {method}")
        return _over() if self._closed else answer

    def close(self) -> None:
        """Refuse everything from now on."""
        self._closed = True

    async def aclose(self) -> None:
        """Refuse everything from now on, and let go of what the services hold."""
        self.close()
        with anyio.CancelScope(shield=True):
            for service in {id(each): each for each in self._services.values()}.values():
                await service.aclose()

    def _in_pace(self) -> bool:
        now = time.monotonic()
        self._tokens = min(float(BURST), self._tokens + (now - self._counted_at) * PER_SECOND)
        self._counted_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def _over() -> NotAnswered:
    return NotAnswered(name="CallOver", message="The call is over; nothing can be asked of the host any more")
