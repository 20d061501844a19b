"""What there is for a host to run, for people who ask: skills that live, channels, triggers, schedules, messages on their way.

It is read from what is kept, so it can be told whether there is a host or not. A row that cannot be read is counted and nothing more.
"""

import os
from typing import final

from msgspec import Struct

from metier.kernel.store import FILE, Store


@final
class Life(Struct, frozen=True, kw_only=True):
    """A skill that was switched on or off."""

    skill: str
    enabled: bool
    status: str
    error: str


@final
class About(Struct, frozen=True, kw_only=True):
    """All of it."""

    skills: tuple[Life, ...] = ()
    channels: tuple[str, ...] = ()
    triggers: int = 0
    """Switched on."""
    schedules: int = 0
    """Switched on."""
    next_schedule: str = ""
    next_due: float | None = None
    """Seconds since 1970."""
    to_send: int = 0
    not_sent: int = 0
    """Messages that were given up."""
    to_handle: int = 0


def about(home: str) -> About:
    """What is kept below `home`. Blocking.

    Raises:
        StateError: when it cannot be read.
    """
    if not os.path.lexists(os.path.join(home, FILE)):
        return About()
    store = Store(home)
    try:
        with store.reading() as connection:

            def count(query: str) -> int:
                return int(connection.execute(query).fetchone()[0])

            lives = connection.execute("SELECT skill, enabled, status, error FROM skill_life ORDER BY skill")
            soonest = connection.execute(
                "SELECT id, next_due FROM schedule WHERE enabled AND next_due IS NOT NULL ORDER BY next_due LIMIT 1"
            ).fetchone()
            return About(
                skills=tuple(
                    Life(
                        skill=skill,
                        # Where nobody said so by hand, the configuration did if the host has anything to say of it.
                        enabled=enabled == 1
                        or (enabled not in (0, 1) and (status, error) != ("disabled", "")),
                        status=status,
                        error=error,
                    )
                    for skill, enabled, status, error in lives
                ),
                channels=tuple(
                    name
                    for (name,) in connection.execute(
                        "SELECT name FROM channel WHERE connector <> '' ORDER BY name"
                    )
                ),
                triggers=count("SELECT count(*) FROM trigger WHERE enabled"),
                schedules=count("SELECT count(*) FROM schedule WHERE enabled"),
                next_schedule=soonest[0] if soonest else "",
                next_due=soonest[1] if soonest else None,
                to_send=count(
                    "SELECT count(*) FROM message WHERE direction = 'out' AND state IN ('waiting', 'sending')"
                ),
                not_sent=count("SELECT count(*) FROM message WHERE direction = 'out' AND state = 'failed'"),
                to_handle=count("SELECT count(*) FROM message WHERE direction = 'in' AND state = 'received'"),
            )
    finally:
        store.close()
