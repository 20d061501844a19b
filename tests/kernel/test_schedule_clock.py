"""When schedules are due: cron through changes of the clocks, intervals, moments, and what counts as missed."""

from datetime import UTC, datetime
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest

from metier.kernel.schedule import Conditions, read
from metier.kernel.schedule_clock import GRACE, Stretch, counted, dues, latest, next_due, overdue, why_not
from metier.model.digest import Json

BERLIN = ZoneInfo("Europe/Berlin")


def schedule(**fields: Json):
    return read({"name": "n", "tool": "a/b", **fields})


def cron(expression: str, zone: str = "Europe/Berlin"):
    return schedule(type="cron", expression=expression, timezone=zone)


def berlin(*when: int, fold: int = 0) -> float:
    return datetime(*when, tzinfo=BERLIN, fold=fold).timestamp()  # type: ignore[arg-type]


def first(expression: str, after: float, count: int = 3) -> list[str]:
    found = islice(dues(cron(expression), after, 0), count)
    return [datetime.fromtimestamp(each, BERLIN).isoformat() for each in found]


def test_an_hour_that_the_clocks_skip_is_made_up_right_after_and_once() -> None:
    assert first("30 2 * * *", berlin(2026, 3, 28, 12)) == [
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
        "2026-03-31T02:30:00+02:00",
    ]


def test_in_an_hour_that_comes_twice_it_is_due_once() -> None:
    expected = ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]
    assert first("30 2 * * *", berlin(2026, 10, 25, 1), 2) == expected
    # Whoever asks in the second of the two hours is not told of the first one again.
    assert first("30 2 * * *", berlin(2026, 10, 25, 2, 15, fold=1), 1) == expected[1:]
    assert first("30 2 * * *", berlin(2026, 10, 25, 2, 45, fold=1), 1) == expected[1:]


def test_what_is_due_every_so_many_minutes_stays_so_through_both_changes() -> None:
    for start in (berlin(2026, 10, 25, 0, 50), berlin(2026, 3, 29, 0, 50)):
        found = [*islice(dues(cron("*/30 * * * *"), start, 0), 12)]
        assert {round(after - before) for before, after in pairwise(found)} == {1_800}


def test_a_zone_is_a_zone_and_not_an_offset() -> None:
    assert first("0 9 * * 1-5", berlin(2026, 3, 27, 12), 1) == ["2026-03-30T09:00:00+02:00"]
    assert (
        next_due(cron("0 9 * * *", "UTC"), berlin(2026, 7, 1, 0), 0)
        == datetime(2026, 7, 1, 9, tzinfo=UTC).timestamp()
    )


def test_an_interval_counts_from_its_start_and_gives_the_same_moments_each_time() -> None:
    made = schedule(type="interval", intervalMs=10_001, startAt="2026-01-01T00:00:00Z")
    start = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    assert next_due(made, start - 100, 0) == start
    found = [*islice(dues(made, start + 3_600, 0), 50)]
    assert found[0] > start + 3_600
    for moment in found:
        assert next_due(made, moment - 0.5, 0) == moment, "so that what was done once is known again"
    plain = schedule(type="interval", intervalMs=60_000)
    assert next_due(plain, 1_000.0, 1_000.0) == 1_060.0, "from when it was set up, and not at once"


def test_a_moment_is_due_once() -> None:
    made = schedule(type="once", timestamp="2030-01-31T08:00:00+01:00")
    at = datetime(2030, 1, 31, 7, tzinfo=UTC).timestamp()
    assert next_due(made, at - 1, 0) == at
    assert next_due(made, at, 0) is None
    assert next_due(schedule(type="once", timestamp=int(at * 1_000)), 0, 0) == at


def test_of_what_came_due_while_nobody_looked_only_the_last_is_done_if_it_is_not_too_late() -> None:
    every_hour = cron("0 * * * *", "UTC")
    since = datetime(2026, 1, 1, 0, tzinfo=UTC).timestamp()
    to_do, missed = overdue(every_hour, since, since + 5 * 3_600 + GRACE / 2, 0)
    assert to_do == since + 5 * 3_600
    assert missed == [Stretch(first=since, last=since + 4 * 3_600, count=5)]
    to_do, missed = overdue(every_hour, since, since + 5 * 3_600 + GRACE + 1, 0)
    assert to_do is None
    assert missed == [Stretch(first=since, last=since + 5 * 3_600, count=6)]
    assert overdue(every_hour, since, since, 0) == (since, [])


def test_a_year_of_minutes_is_counted_in_bounds() -> None:
    every_minute = cron("* * * * *", "UTC")
    to_do, missed = overdue(every_minute, 1_700_000_040.0, 1_731_536_040.0, 0)
    assert to_do == 1_731_536_040.0, "the one that is due now is not lost in it"
    assert missed == [Stretch(first=1_700_000_040.0, last=1_731_535_980.0, count=10_000)]


def test_of_a_week_of_moments_all_are_counted_and_the_latest_are_told() -> None:
    now, week = 1_800_000_000.0, 7 * 86_400
    often = schedule(type="interval", intervalMs=10_000)
    _, (missed,) = overdue(often, now - week + 10, now + 65, now - week)
    assert missed == Stretch(first=now - week + 10, last=now + 50, count=week // 10 + 5)
    assert latest(often, missed.first, missed.last, now - week, 3) == [now + 30, now + 40, now + 50]
    rare = cron("0 0 29 2 *", "UTC")  # the look goes as far back as it must
    began, ends = berlin(2001, 1, 1), berlin(2026, 1, 1)
    assert len(latest(rare, began, ends, 0, 20)) == 6
    assert [datetime.fromtimestamp(each, UTC).year for each in latest(rare, began, ends, 0, 2)] == [
        2020,
        2024,
    ]
    later = schedule(type="interval", intervalMs=10_000, startAt=int(now * 1_000))
    assert counted(later, now - 1_000, now + 25, 0) == 3, "nothing is due before its start"
    for first, last in ((now - 61, now + 3), (now + 1, now + 9), (now, now)):
        told = [*latest(often, first, last, now - 5, 100)]
        assert counted(often, first, last, now - 5) == len(told), "counted is what is told"


@pytest.mark.parametrize(
    ("conditions", "holds"),
    [
        ({"activeHours": {"start": "09:00", "end": "17:00", "timezone": "Europe/Berlin"}}, True),
        ({"activeHours": {"start": "09:00", "end": "12:00", "timezone": "Europe/Berlin"}}, False),
        ({"activeHours": {"start": "22:00", "end": "13:00"}}, True),
        ({"activeHours": {"start": "22:00", "end": "06:00"}}, False),
        ({"daysOfWeek": ["wed", "thursday"]}, True),
        ({"daysOfWeek": [4]}, True),
        ({"daysOfWeek": [0, 6]}, False),
        ({"environment": ["production"]}, True),
        ({"environment": ["test"]}, False),
        ({"sessionActive": True}, False),
        ({"sessionActive": False}, True),
        ({}, True),
    ],
)
def test_conditions_are_judged_by_the_moment_it_is_due(conditions: dict[str, Json], holds: bool) -> None:
    at = datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp()  # a Thursday, 13:00 in Berlin
    made = schedule(type="interval", intervalMs=60_000, conditions=conditions)
    assert isinstance(made.conditions, Conditions)
    assert (why_not(made.conditions, at, "production") == "") is holds
