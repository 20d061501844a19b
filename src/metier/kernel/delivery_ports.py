"""How a message leaves: what a connector is, and how it says that it could not send.

Our own doors connect one by the name of their channel. Every other channel is a skill's, and is asked by a call like any other.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar, final

import anyio

from metier.dialects.names import skeleton

_T = TypeVar("_T")
_log: Final = logging.getLogger("metier.channels")


@final
class NotNow(Exception):
    """It was not sent, and may be later."""

    def __init__(self, seconds: float, why: str, *, doubtful: bool = False, late: bool = False) -> None:
        """`seconds` is how long to wait at least; 0 leaves it to who asked. `doubtful` means that it may have been sent all the
        same: it is sent again, and marked as such. `late`: whoever should send it began and never came back, so trying again may
        cost everybody who is served by the same."""
        super().__init__(why)
        self.seconds = seconds
        self.why = why
        self.doubtful = doubtful or late
        self.late = late


@final
class Never(Exception):
    """It was not sent and never will be, however often it is tried."""

    def __init__(self, why: str, *, closed: bool = False) -> None:
        """`closed`: whom it is for takes nothing from here, whatever it is. He alone can change that."""
        super().__init__(why)
        self.why = why
        self.closed = closed


class Connector(Protocol):
    """What hands messages to one channel."""

    async def send(self, chat: str, text: str, *, key: str, reply_to: str | None) -> str | None:
        """Send one message, and give the channel's own id for it, if it has one.

        Args:
            key: the same whenever the same message is sent again, for channels that can tell by it.

        Raises:
            NotNow: when it may be sent later.
            Never: when it can never be sent.
        """
        ...


@final
class Connectors:
    """Who sends for which channel of our own doors. Belongs to one loop."""

    def __init__(self) -> None:
        self._by_name: dict[str, Connector] = {}

    def connect(self, name: str, connector: Connector) -> None:
        """Have `connector` send what goes to the channel `name` from now on."""
        self._by_name[skeleton(name)] = connector

    def disconnect(self, name: str) -> None:
        """Have nobody send for it any more; what waits goes on waiting."""
        self._by_name.pop(skeleton(name), None)

    def get(self, name: str) -> Connector | None:
        """Who sends for the channel."""
        return self._by_name.get(skeleton(name))


async def attempt(send: Callable[[], Awaitable[_T]], seconds: float, what: str) -> _T:
    """Send something by a way that may fail in any way, within `seconds`. What it did before that nobody knows.

    Raises:
        NotNow: also for whatever else went wrong: a connector that is broken is not the others' matter.
        Never: as the connector says.
    """
    with anyio.move_on_after(seconds):
        try:
            return await send()
        except (NotNow, Never):
            raise
        except Exception as error:
            _log.exception("%s failed", what)
            raise NotNow(0, f"{what} failed; the log of Metier says how", doubtful=True) from error
    raise NotNow(0, f"{what} did not answer within {seconds:.0f} seconds", doubtful=True)
