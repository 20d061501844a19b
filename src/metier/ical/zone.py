"""The operator's time zone, and what a time means in it."""

import os
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Final, Literal, final
from zoneinfo import ZoneInfo

from msgspec import Struct

from metier.ical.problem import Problem, failed

_SYSTEM: Final = "/etc/localtime"


@final
class Window(Struct, frozen=True, kw_only=True):
    """Some whole days of the operator."""

    first: date
    after: date
    """The day after the last one."""
    zone: ZoneInfo

    @property
    def start(self) -> datetime:
        """When the first day begins, in UTC."""
        return midnight(self.first, self.zone)

    @property
    def end(self) -> datetime:
        """When the last day is over, in UTC."""
        return midnight(self.after, self.zone)


def operator_zone(environ: Mapping[str, str]) -> ZoneInfo | Problem:
    """METIER_TIMEZONE, else TZ, else what the machine is set to, else UTC. A name that means nothing is not passed over."""
    for variable in ("METIER_TIMEZONE", "TZ"):
        # A colon before the name is POSIX for: this is a name, no rule.
        name = environ.get(variable, "").strip().removeprefix(":")
        if name:
            return _named(name) or failed(
                f"{variable} does not name a time zone that is known here. Write it like Europe/Berlin."
            )
    return _of_the_machine() or ZoneInfo("UTC")


def _named(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):  # a folder of names raises the second
        return None


def _of_the_machine() -> ZoneInfo | None:
    _, found, name = os.path.realpath(_SYSTEM).partition("/zoneinfo/")
    if found and (zone := _named(name)) is not None:
        return zone
    try:
        with open(_SYSTEM, "rb") as rules:
            return ZoneInfo.from_file(rules)
    except (ValueError, OSError):
        return None


def window(days: date | Literal["today", "tomorrow", "week"], now: datetime, zone: ZoneInfo) -> Window:
    """The days meant, seen from `now`."""
    if isinstance(days, date):
        first, count = days, 1
    else:
        first, count = now.astimezone(zone).date(), 7 if days == "week" else 1
        first += timedelta(days=1 if days == "tomorrow" else 0)
    return Window(first=first, after=first + timedelta(days=count), zone=zone)


def midnight(day: date, zone: ZoneInfo) -> datetime:
    """When that day begins there, in UTC; where clocks skip midnight, when they have skipped it."""
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)


def instant(time: datetime, zone: ZoneInfo) -> datetime:
    """That time in UTC. One without a zone is the operator's."""
    return (time if time.tzinfo is not None else time.replace(tzinfo=zone)).astimezone(UTC)


def exists(time: datetime, zone: ZoneInfo) -> bool:
    """Whether clocks there ever show this time, which has no zone of its own."""
    return instant(time, zone).astimezone(zone).replace(tzinfo=None) == time
