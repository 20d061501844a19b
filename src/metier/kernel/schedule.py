"""A schedule as it is written down (ADR 023 of F.R.I.D.A.Y.): when, under which conditions, what, and who is told. Nothing runs here."""

import re
from datetime import datetime
from typing import Annotated, Final, Literal, TypeAlias, final
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta, Struct

from metier.kernel.operation import OperationError
from metier.kernel.trigger_template import places_problem
from metier.model.digest import Json
from metier.model.text import one_line

BAD: Final = "E_SCHEDULES_BAD_PARAMS"
MOST_ARGUMENTS: Final = 65_536
SHORTEST_INTERVAL: Final = 10_000
_YEAR: Final = 31_536_000_000
LATEST: Final = 253_402_300_799.0
"""The end of the year 9999, after which there are no dates."""
_CLOCK: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

Word: TypeAlias = Annotated[str, Meta(min_length=1, max_length=100)]
When: TypeAlias = Annotated[str, Meta(min_length=1, max_length=40)] | int
"""ISO 8601 with its offset from UTC, or milliseconds since 1970."""


@final
class ActiveHours(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From `start` until before `end`; over midnight where the end comes first."""

    start: str
    end: str
    timezone: Word = "UTC"


@final
class Conditions(
    Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """What must hold when it is due; else it is skipped, and that is said."""

    active_hours: ActiveHours | None = None
    days_of_week: Annotated[tuple[int | str, ...], Meta(min_length=1, max_length=7)] | None = None
    """0 (Sunday) to 6 (Saturday), or mon to sun."""
    timezone: Word = "UTC"
    """In which the days are counted."""
    environment: Annotated[tuple[Word, ...], Meta(min_length=1, max_length=20)] | None = None
    """METIER_ENVIRONMENT of the host must be one of these."""
    session_active: bool | None = None


@final
class Notice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Who is told."""

    type: Literal["webhook", "log", "memory"]
    url: Annotated[str, Meta(max_length=2_000)] = ""


Notices: TypeAlias = Annotated[tuple[Notice, ...], Meta(max_length=5)]


@final
class Notifications(
    Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """Of which ends."""

    on_success: Notices = ()
    on_failure: Notices = ()
    on_skip: Notices = ()


class Schedule(
    Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """What every schedule has. One of the three kinds below."""

    name: Word
    tool: Annotated[str, Meta(max_length=200)] = ""
    action_id: Annotated[str, Meta(max_length=200)] = ""
    skill: Annotated[str, Meta(max_length=200)] = ""
    arguments: dict[str, Json] = {}
    enabled: bool = True
    conditions: Conditions = Conditions()
    timeout_ms: Annotated[int, Meta(ge=100, le=3_600_000)] = 300_000
    retry_count: Annotated[int, Meta(ge=0, le=10)] = 2
    retry_delay_ms: Annotated[int, Meta(ge=0, le=3_600_000)] = 5_000
    notifications: Notifications = Notifications()

    @property
    def called(self) -> str:
        """The tool it calls."""
        if self.tool or not self.action_id:
            return self.tool
        return f"{self.skill}/{self.action_id}" if self.skill else self.action_id


@final
class CronSchedule(Schedule, frozen=True, kw_only=True, tag_field="type", tag="cron"):
    """Five fields, in a time zone. What a change of the clocks skips is done right after it; what it repeats, once."""

    expression: Word
    timezone: Word = "UTC"


@final
class IntervalSchedule(Schedule, frozen=True, kw_only=True, tag_field="type", tag="interval"):
    """Every so often, counted from `startAt`, or from when it was set up."""

    interval_ms: Annotated[int, Meta(ge=SHORTEST_INTERVAL, le=_YEAR)]
    start_at: When | None = None


@final
class OnceSchedule(Schedule, frozen=True, kw_only=True, tag_field="type", tag="once"):
    """At one moment."""

    timestamp: When


AnySchedule: TypeAlias = CronSchedule | IntervalSchedule | OnceSchedule
_TYPES: Final[dict[str, type[AnySchedule]]] = {
    "cron": CronSchedule,
    "interval": IntervalSchedule,
    "once": OnceSchedule,
}


def read(value: Json) -> AnySchedule:
    """The schedule that `value` describes.

    Raises:
        OperationError: saying what is wrong, and where.
    """
    kind = _TYPES.get(str(value.get("type"))) if isinstance(value, dict) else None
    if kind is None:
        raise OperationError(BAD, f"a schedule is an object with a `type`: {', '.join(_TYPES)}")
    try:
        found: AnySchedule = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise OperationError(BAD, f"this is no schedule: {one_line(str(error), 300)}") from None
    if problem := _problem(found):
        raise OperationError(BAD, f"the schedule {one_line(found.name, 60)!r}: {problem}")
    return found


def written(schedule: AnySchedule) -> str:
    """As it is stored; `read` takes it back."""
    return msgspec.json.encode(schedule).decode()


def all_notices(schedule: AnySchedule) -> tuple[Notice, ...]:
    """Whom it tells of anything."""
    told = schedule.notifications
    return (*told.on_success, *told.on_failure, *told.on_skip)


def moment(when: When) -> float | None:
    """Seconds since 1970; None for what is no moment."""
    if isinstance(when, int):
        return when / 1_000 if 0 <= when / 1_000 <= LATEST else None
    try:
        found = datetime.fromisoformat(when)
    except ValueError:
        return None
    if found.tzinfo is None:
        return None
    seconds = found.timestamp()
    return seconds if 0 <= seconds <= LATEST else None


def minute_of_day(clock: str) -> int:
    """Of `09:30`: 570. -1 for what is no time of day."""
    found = _CLOCK.fullmatch(clock)
    return -1 if found is None else int(found[1]) * 60 + int(found[2])


def weekday(day: int | str) -> int:
    """Monday is 0, as Python has it. -1 for what is no day."""
    if isinstance(day, int):
        return (day - 1) % 7 if 0 <= day <= 7 else -1
    word = day.strip().lower()[:3]
    return _DAYS.index(word) if word in _DAYS else -1


def zone(name: str) -> ZoneInfo | None:
    """The time zone of that name; None where there is none."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # OSError: the name of a folder, or one that is too long
        return None


def _problem(found: AnySchedule) -> str:
    if bool(found.tool) == bool(found.action_id):
        return "name the `tool` that it calls (or an `actionId`, not both)"
    if len(msgspec.json.encode(found.arguments)) > MOST_ARGUMENTS:
        return f"its arguments have more than {MOST_ARGUMENTS:,} bytes"
    for notice in all_notices(found):
        if (notice.type == "webhook") != notice.url.startswith("https://"):
            return "a webhook needs a `url` that begins with https://, and nothing else has one"
    if problem := places_problem(found.arguments) or _conditions_problem(found.conditions):
        return problem
    match found:
        case CronSchedule():
            return _cron_problem(found)
        case IntervalSchedule():
            bad = found.start_at is not None and moment(found.start_at) is None
            return f"`startAt`: {_MOMENT}" if bad else ""
        case OnceSchedule():
            return f"`timestamp`: {_MOMENT}" if moment(found.timestamp) is None else ""


_MOMENT: Final = "write a moment as 2030-01-31T08:00:00+01:00, or in milliseconds since 1970"


def _cron_problem(found: CronSchedule) -> str:
    from cronsim import CronSim, CronSimError

    if zone(found.timezone) is None:
        return f"there is no time zone {one_line(found.timezone, 60)!r}; write one like Europe/Berlin"
    if len(found.expression.split()) != 5:
        return "a cron expression has five fields: minute, hour, day of the month, month, day of the week"
    try:
        next(CronSim(found.expression, datetime(2024, 1, 1)))  # noqa: DTZ001  only whether it ever comes
    except (CronSimError, ValueError, AssertionError) as error:
        return f"the cron expression cannot be read: {one_line(str(error), 100) or 'it says nothing'}"
    except StopIteration:
        return "the cron expression names a day that never comes"
    return ""


def _conditions_problem(found: Conditions) -> str:
    hours = found.active_hours
    if hours is not None:
        start, end = minute_of_day(hours.start), minute_of_day(hours.end)
        if min(start, end) < 0 or start == end:
            return "`activeHours` has two different times of day, written as 09:00"
        if zone(hours.timezone) is None:
            return f"there is no time zone {one_line(hours.timezone, 60)!r}"
    if any(weekday(day) < 0 for day in found.days_of_week or ()):
        return "`daysOfWeek` holds what is no day: 0 (Sunday) to 6, or mon to sun"
    return (
        "" if zone(found.timezone) is not None else f"there is no time zone {one_line(found.timezone, 60)!r}"
    )
