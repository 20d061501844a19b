"""When a schedule is due, and whether its conditions hold. Pure but for reading the time zones; the cron expression is read by cronsim."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

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
MOST_COUNTED: Final = 10_000


def dues(schedule: AnySchedule, after: float, created_at: float) -> Iterator[float]:
    """Every moment later than `after` at which it is due, in order."""
    match schedule:
        case CronSchedule():
            yield from _cron(schedule, after)
        case IntervalSchedule():
            # In whole milliseconds: the same moment must come out as the same number every time.
            step = schedule.interval_ms
            said = moment(schedule.start_at) if schedule.start_at is not None else None
            start = round((said if said is not None else created_at) * 1_000)
            count = (round(after * 1_000) - start) // step + 1
            if (
                said is not None
            ):  # before it was set up is only where the clock was set back, and then it goes on
                count = max(count, 0)
            while True:
                yield (start + count * step) / 1_000
                count += 1
        case OnceSchedule():
            at = moment(schedule.timestamp)
            if at is not None and at > after:
                yield at


def next_due(schedule: AnySchedule, after: float, created_at: float) -> float | None:
    """The first of them."""
    return next(dues(schedule, after, created_at), None)


def overdue(
    schedule: AnySchedule, since: float, now: float, created_at: float, done_until: float = 0.0
) -> tuple[float | None, list[float], int]:
    """What became due from `since` to `now`: the one that is to be done, the latest of those that were missed, and how many were.

    Only the last is done, and only where it is not too late for it: a host that comes back does not do a week's work at once.

    Args:
        done_until: what was due until then may have been done, and is not done again.
    """
    recent = [*_until(dues(schedule, max(since, now - GRACE) - 0.001, created_at), now)]
    to_do = recent[-1] if recent and recent[-1] > done_until else None
    missed: list[float] = []
    count = 0
    for due in _until(dues(schedule, since - 0.001, created_at), now):
        if due == to_do:
            continue
        count += 1
        missed = [*missed[-19:], due]
        if count >= MOST_COUNTED:
            break
    return to_do, missed, count


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
