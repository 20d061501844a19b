"""How much of what callers sent is kept with refusals. Being refused costs a caller nothing, so it must not cost us the disk.

Beyond it a payload is kept as its keyed digest and its length, and the record says so. The refusal itself is always recorded.
"""

import time
from collections.abc import Callable
from typing import Final, final

REFUSED_BYTES: Final = 16_384
"""Of one payload."""
HOURLY_BYTES: Final = 8_388_608
"""Of one principal, in each process."""
_SECONDS: Final = 3600.0
_MOST_PRINCIPALS: Final = 1024
"""Those beyond share what one has."""


@final
class RefusedRoom:
    """Counts for an hour, then begins anew."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._used: dict[str, int] = {}

    def take(self, principal: str, size: int) -> int:
        """How large a payload may be to be kept with a refusal of about `size` bytes; 0 when there is no room left."""
        now = self._clock()
        if now - self._began >= _SECONDS:
            self._began = now
            self._used.clear()
        if principal not in self._used and len(self._used) >= _MOST_PRINCIPALS:
            principal = ""
        used = self._used.get(principal, 0)
        if used + size > HOURLY_BYTES:
            return 0
        self._used[principal] = used + size
        return REFUSED_BYTES
