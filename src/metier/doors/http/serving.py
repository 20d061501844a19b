"""What the HTTP door works with, once for the whole server."""

import logging
from typing import TYPE_CHECKING, Final, final

import anyio

from metier.doors.http.room import Room
from metier.model.call import Surroundings
from metier.runtime import Runtime
from metier.runtime.engine import Engine

if TYPE_CHECKING:
    from metier.doors.http.idempotency import Kept
    from metier.doors.http.identity import Gatekeeper, Identity
    from metier.doors.http.live import Live


@final
class Serving:
    """Belongs to one loop."""

    def __init__(self, engine: Engine, gatekeeper: "Gatekeeper", kept: "Kept", live: "Live") -> None:
        self.engine: Final = engine
        self.gatekeeper: Final = gatekeeper
        self.kept: Final = kept
        """Answers to calls that were made with a key."""
        self.live: Final = live
        self.room: Final = Room()
        self.verifying: Final = anyio.CapacityLimiter(1)
        """Whoever verifies the record: it reads everything."""
        self.ending: Final = anyio.Event()
        """Set once the server is about to end."""
        self.log: Final = logging.getLogger("metier.http")

    def end(self, seconds: float) -> None:
        """Streams end, who waits for a decision goes home with what he has, and the rest has so long to finish."""
        self.ending.set()
        self.engine.words.close()
        self.live.close()
        self.room.end(seconds)

    def runtime(self, identity: "Identity") -> Runtime:
        """Everything, as this principal sees it. What he asks belongs to the session or token he came with."""
        around = Surroundings(session=identity.session)
        return Runtime(self.engine, identity.principal, around)
