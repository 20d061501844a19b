"""One beat for all that look at something every while: what wakes together wakes the processor once.

Twenty skills that live and do nothing would each wake it for itself, and waking is most of what a look costs.
"""

import math
import time
from typing import Final

BEAT: Final = 0.2
"""Seconds."""


def on_beat(seconds: float) -> float:
    """How long to wait for the first beat that is at least so many seconds away."""
    now = time.monotonic()
    return math.ceil((now + seconds) / BEAT) * BEAT - now
