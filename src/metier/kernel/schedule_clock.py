"""When a schedule is due, and whether its conditions hold. Pure but for reading the time zones; the cron expression is read by cronsim."""

from collections import deque
from collections.abc import Iterator, Set
from datetime import UTC, datetime
from itertools import islice
from typing import Final, final

from msgspec import Struct

from metier.kernel.schedule import (
    AnySchedule,
    Conditions,
    CronSchedule,
    IntervalSchedule,
    OnceSchedule,
    minute_of_day,
    moment,
    weekday,
    zone,
)

GRACE: Final = 60.0
"""Seconds by which something may be late and is still done. What is later was missed."""
TICK: Final = 0.001
"""Moments are known to the millisecond."""
MOST_COUNTED: Final = 10_000
"""Of a cron expression in one stretch: it is followed moment by moment. Intervals are counted without end."""
_HOUR: Final = 3_600.0
_LOOKS: Final = 20
_NONE: Final[frozenset[float]] = frozenset()


@final
class Stretch(Struct, frozen=True, kw_only=True):
    """Moments one behind the other that were missed."""

    first: float
    last: float
    count: int


def dues(schedule: AnySchedule, after: float, created_at: float) -> Iterator[float]:
    """Every moment later than `after` at which it is due, in order."""
    match schedule:
        case CronSchedule():
            yield from _cron(schedule, after)
        case IntervalSchedule():
            start, bounded = _start(schedule, created_at)
            count = (round(after * 1_000) - start) // schedule.interval_ms + 1
            count = max(count, 0) if bounded else count
            while True:
                yield (start + count * schedule.interval_ms) / 1_000
                count += 1
        case OnceSchedule():
            at = moment(schedule.timestamp)
            if at is not None and at > after:
                yield at


def next_due(
    schedule: AnySchedule, after: float, created_at: float, done: Set[float] = _NONE
) -> float | None:
    """The first of them that is not among those that were `done`."""
    return next((due for due in dues(schedule, after, created_at) if due not in done), None)


def counted(schedule: AnySchedule, first: float, last: float, created_at: float) -> int:
    """How many there are from `first` to `last`."""
    if not isinstance(schedule, IntervalSchedule):
        found = islice(_until(dues(schedule, first - TICK, created_at), last), MOST_COUNTED)
        return sum(1 for _ in found)
    start, bounded = _start(schedule, created_at)
    begin = -((start - round(first * 1_000)) // schedule.interval_ms)
    begin = max(begin, 0) if bounded else begin
    return max((round(last * 1_000) - start) // schedule.interval_ms - begin + 1, 0)


def latest(schedule: AnySchedule, first: float, last: float, created_at: float, most: int) -> list[float]:
    """The last ones from `first` to `last`, in order."""
    back = _HOUR
    found: deque[float] = deque(maxlen=most)
    for _ in range(_LOOKS):  # further and further back, since nobody knows how far apart they lie
        begin = max(first, last - back)
        found = deque(_until(dues(schedule, begin - TICK, created_at), last), maxlen=most)
        if len(found) == most or begin <= first:
            break
        back *= 8
    return [*found]


def overdue(
    schedule: AnySchedule,
    since: float,
    now: float,
    created_at: float,
    *,
    done: Set[float] = _NONE,
    done_until: float = 0.0,
) -> tuple[float | None, list[Stretch]]:
    """What became due from `since` to `now`: the one that is to be done, and those that were missed.

    Only the last is done, and only where it is not too late for it: a host that comes back does not do a week's work at once.

    Args:
        done: what was done already, by a clock that was ahead of this one.
        done_until: what was due until then may have been done, and is not done again.
    """
    last = next(iter(latest(schedule, max(since, now - GRACE), now, created_at, 1)), None)
    to_do = last if last is not None and last > done_until and last not in done else None
    end = now if to_do is None else to_do - TICK
    # What a person had done in between is no moment at which it was due.
    at_its_time = [
        at for at in done if since <= at <= end and next_due(schedule, at - TICK, created_at) == at
    ]
    missed: list[Stretch] = []
    for at in [*sorted(at_its_time), end + TICK]:
        if found := _stretch(schedule, since, at - TICK, created_at):
            missed.append(found)
        since = at + TICK
    return to_do, missed


def _stretch(schedule: AnySchedule, first: float, last: float, created_at: float) -> Stretch | None:
    begin = next_due(schedule, first - TICK, created_at)
    if begin is None or begin > last:
        return None
    (end,) = latest(schedule, begin, last, created_at, 1)
    return Stretch(first=begin, last=end, count=counted(schedule, begin, end, created_at))


def why_not(conditions: Conditions, now: float, environment: str) -> str:
    """Which of its conditions does not hold; empty when all do."""
    hours = conditions.active_hours
    if hours is not None:
        local = datetime.fromtimestamp(now, zone(hours.timezone) or UTC)
        minute, start, end = (
            local.hour * 60 + local.minute,
            minute_of_day(hours.start),
            minute_of_day(hours.end),
        )
        inside = start <= minute < end if start < end else minute >= start or minute < end
        if not inside:
            return f"it is outside its active hours ({hours.start} to {hours.end}, {hours.timezone})"
    if conditions.days_of_week is not None:
        local = datetime.fromtimestamp(now, zone(conditions.timezone) or UTC)
        if local.weekday() not in {weekday(day) for day in conditions.days_of_week}:
            return "it is not one of its days of the week"
    if conditions.environment is not None and environment not in conditions.environment:
        said = f"is {environment!r}" if environment else "is not set"
        return f"METIER_ENVIRONMENT {said}, and it is for {', '.join(conditions.environment)}"
    if conditions.session_active:  # one that was set up by an earlier version
        return "no session is open, as far as Metier knows"
    return ""


def _start(schedule: IntervalSchedule, created_at: float) -> tuple[int, bool]:
    """From which moment it is counted, and whether nothing is due before that. In whole milliseconds: the same moment must come out
    as the same number every time."""
    said = moment(schedule.start_at) if schedule.start_at is not None else None
    if said is not None:
        return round(said * 1_000), True
    return round(
        created_at * 1_000
    ), False  # before it was set up is where the clock was set back; it goes on


def _cron(schedule: CronSchedule, after: float) -> Iterator[float]:
    from cronsim import CronSim

    local = datetime.fromtimestamp(max(after, 0.0), zone(schedule.timezone) or UTC)
    for due in CronSim(schedule.expression, local):
        at = due.timestamp()
        if at > after:  # in an hour that comes twice cronsim may begin with the first
            yield at


def _until(moments: Iterator[float], now: float) -> Iterator[float]:
    for due in moments:
        if due > now:
            return
        yield due
