"""What happens on which days: real .ics texts, seen from Berlin on 28 March 2026, the day before clocks go forward."""

import os
from datetime import UTC, date, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from ical_desk import Desk
from metier.ical.problem import Problem
from metier.ical.zone import operator_zone, window

CUSTOM_ZONE = """
BEGIN:VTIMEZONE
TZID:Office
BEGIN:STANDARD
DTSTART:19701025T030000
TZOFFSETFROM:+0300
TZOFFSETTO:+0200
RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU
END:STANDARD
BEGIN:DAYLIGHT
DTSTART:19700329T020000
TZOFFSETFROM:+0200
TZOFFSETTO:+0300
RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU
END:DAYLIGHT
END:VTIMEZONE
"""


def event(*lines: str, uid: str = "1", title: str = "Tea") -> str:
    return "\n".join(["BEGIN:VEVENT", f"UID:{uid}", f"SUMMARY:{title}", *lines, "END:VEVENT"])


def test_nothing_is_no_output_at_all(desk: Desk) -> None:
    assert desk.ask("today") == ""  # there is no file yet
    desk.write(event("DTSTART:20260401T100000Z"))
    assert desk.ask("today") == ""
    (desk.folder / "calendar.ics").write_bytes(b"")
    assert desk.ask("today") == ""


def test_an_event_is_one_line_with_time_title_place_and_calendar(desk: Desk) -> None:
    desk.write(event("DTSTART:20260328T090000Z", "DTEND:20260328T101500Z", "LOCATION:Main Street 5"))
    assert desk.ask("today") == "Sat 2026-03-28 10:00–11:15: Tea (Main Street 5) [calendar]\n"


def test_today_tomorrow_and_the_seven_days_from_today(desk: Desk) -> None:
    days = ["20260327", "20260328", "20260329", "20260403", "20260404"]
    desk.write("\n".join(event(f"DTSTART;VALUE=DATE:{day}", uid=day, title=day) for day in days))
    assert [line[-8:] for line in desk.listed("today")] == ["20260328"]
    assert [line[-8:] for line in desk.listed("tomorrow")] == ["20260329"]
    assert [line[-8:] for line in desk.listed("week")] == ["20260328", "20260329", "20260403"]
    assert [line[-8:] for line in desk.listed("2026-03-27")] == ["20260327"]


def test_which_day_it_is_depends_on_the_operators_zone(desk: Desk) -> None:
    desk.write(event("DTSTART;VALUE=DATE:20260329"))
    desk.now = datetime(2026, 3, 28, 23, 30, tzinfo=UTC)
    assert desk.listed("today") == ["Sun 2026-03-29, all day: Tea"]
    desk.environ["METIER_TIMEZONE"] = "America/New_York"
    assert desk.listed("today") == []


def test_whole_days_are_said_as_such(desk: Desk) -> None:
    desk.write(
        event("DTSTART;VALUE=DATE:20260328", uid="a", title="One")
        + "\n"
        + event("DTSTART;VALUE=DATE:20260327", "DTEND;VALUE=DATE:20260330", uid="b", title="Three")
    )
    assert desk.listed("today") == [
        "Fri 2026-03-27 – Sun 2026-03-29, all day: Three",
        "Sat 2026-03-28, all day: One",
    ]
    assert desk.listed("2026-03-30") == []


def test_what_began_before_the_day_and_lasts_into_it_is_listed(desk: Desk) -> None:
    desk.write(
        event("DTSTART:20260327T220000Z", "DTEND:20260328T010000Z", uid="a", title="Night")
        + "\n"
        + event("DTSTART:20250101T000000Z", "DTEND:20270101T000000Z", uid="b", title="Years")
        + "\n"
        + event("DTSTART:20260320T100000Z", "DURATION:P9D", uid="c", title="Nine days")
        + "\n"
        + event("DTSTART:20260327T200000Z", "DTEND:20260327T230000Z", uid="d", title="Ends at midnight")
    )
    assert [line.split(": ")[1] for line in desk.listed("today")] == ["Years", "Nine days", "Night"]
    assert "Fri 2026-03-27 23:00 – Sat 2026-03-28 02:00: Night" in desk.listed("today")


def test_what_takes_no_time_happens_when_it_begins(desk: Desk) -> None:
    desk.write(event("DTSTART:20260327T230000Z"))  # midnight in Berlin
    assert desk.listed("today") == ["Sat 2026-03-28 00:00: Tea"]
    assert desk.listed("2026-03-27") == []


@pytest.mark.parametrize(
    ("start", "shown"),
    [
        ("DTSTART:20260330T100000Z", "12:00"),
        ("DTSTART:20260330T100000", "10:00"),
        ("DTSTART;TZID=Europe/Berlin:20260330T100000", "10:00"),
        ("DTSTART;TZID=America/New_York:20260330T100000", "16:00"),
        ("DTSTART;TZID=W. Europe Standard Time:20260330T100000", "10:00"),
        ('DTSTART;TZID="Asia/Tokyo":20260330T100000', "03:00"),
        ("DTSTART;TZID=Office:20260330T100000", "09:00"),
    ],
)
def test_every_way_to_write_a_zone_means_the_same_instant(desk: Desk, start: str, shown: str) -> None:
    desk.write(event(start), head=CUSTOM_ZONE)
    assert desk.listed("2026-03-30") == [f"Mon 2026-03-30 {shown}: Tea"]


def test_a_zone_under_a_makers_prefix_is_known(desk: Desk) -> None:
    desk.write(event("DTSTART;TZID=/mozilla.org/20050126_1/Asia/Tokyo:20260330T100000"))
    assert desk.run("2026-03-30").out == "Mon 2026-03-30 03:00: Tea [calendar]\n"


@pytest.mark.parametrize(
    "head",
    [
        "X-WR-TIMEZONE:America/New_York",
        'X-WR-TIMEZONE;X-FROM="a:b":America/New_York',
        "X-WR-TIMEZONE:Eastern Standard Time",
        "X-WR-TIMEZONE:America/New_York\nX-WR-TIMEZONE:America/New_York",
    ],
)
def test_a_calendars_own_zone_counts_for_what_has_none(desk: Desk, head: str) -> None:
    desk.write(event("DTSTART:20260330T100000"), head=head)
    assert desk.listed("2026-03-30") == ["Mon 2026-03-30 16:00: Tea"]


@pytest.mark.parametrize(
    "head", ["X-WR-TIMEZONE:Nowhere/Here", "X-WR-TIMEZONE:Asia/Tokyo\nX-WR-TIMEZONE:America/New_York"]
)
def test_a_calendars_zone_that_nobody_knows_counts_for_nothing_that_has_its_own(
    desk: Desk, head: str
) -> None:
    desk.write(
        event("DTSTART;TZID=Europe/Berlin:20260330T100000", uid="a", title="Zone")
        + "\n"
        + event("DTSTART:20260330T100000Z", uid="b", title="UTC")
        + "\n"
        + event("DTSTART;VALUE=DATE:20260330", uid="c", title="Day")
        + "\n"
        + event("DTSTART:20260330T100000", uid="d", title="None"),
        head=head,
    )
    assert desk.listed("2026-03-30") == [
        "Mon 2026-03-30, all day: Day",
        "Mon 2026-03-30 10:00: Zone",
        "Mon 2026-03-30 12:00: UTC",
        "(1 event of calendar could not be worked out, and may be missing here.)",
    ]


def test_a_calendar_without_a_zone_that_says_so_is_the_operators(desk: Desk) -> None:
    desk.write(event("DTSTART:20260330T100000"), head="X-WR-TIMEZONE:")
    assert desk.listed("2026-03-30") == ["Mon 2026-03-30 10:00: Tea"]


def test_a_repetition_keeps_its_wall_clock_time_when_clocks_change(desk: Desk) -> None:
    desk.write(event("DTSTART;TZID=Europe/Berlin:20260105T100000", "DURATION:PT1H", "RRULE:FREQ=DAILY"))
    assert desk.listed("2026-03-28") == ["Sat 2026-03-28 10:00–11:00: Tea"]
    assert desk.listed("2026-03-29") == ["Sun 2026-03-29 10:00–11:00: Tea"]
    assert desk.listed("2026-10-25") == ["Sun 2026-10-25 10:00–11:00: Tea"]


def test_a_repetition_of_another_zone_moves_when_that_zones_clocks_change(desk: Desk) -> None:
    """New York changes on 8 March, Berlin on 29 March: for three weeks they are an hour closer."""
    desk.write(event("DTSTART;TZID=America/New_York:20260105T100000", "RRULE:FREQ=WEEKLY"))
    shown = [desk.listed(day)[0][15:20] for day in ("2026-03-02", "2026-03-09", "2026-03-30")]
    assert shown == ["16:00", "15:00", "16:00"]


@pytest.mark.parametrize("start", ["DTSTART;TZID=Europe/Berlin:", "DTSTART:"])
@pytest.mark.parametrize(
    ("begins", "duration", "shown"),
    [
        ("20260328T220000", "PT8H", "Sat 2026-03-28 22:00 – Sun 2026-03-29 07:00"),
        ("20260328T120000", "PT24H", "Sat 2026-03-28 12:00 – Sun 2026-03-29 13:00"),
        ("20260328T120000", "P1D", "Sat 2026-03-28 12:00 – Sun 2026-03-29 12:00"),
        ("20260328T120000", "P1DT2H", "Sat 2026-03-28 12:00 – Sun 2026-03-29 14:00"),
        ("20260322T120000", "P1W", "Sun 2026-03-22 12:00 – Sun 2026-03-29 12:00"),
        ("20260329T013000", "PT1H", "Sun 2026-03-29 01:30–03:30"),
        ("20260329T023000", "PT1H", "Sun 2026-03-29 03:30–04:30"),
    ],
)
def test_hours_that_an_event_takes_go_by_and_its_days_are_those_of_the_calendar_when_clocks_change(
    desk: Desk, start: str, begins: str, duration: str, shown: str
) -> None:
    alarm = ("BEGIN:VALARM", "ACTION:DISPLAY", "TRIGGER:-PT5M", "REPEAT:2", "DURATION:P1D", "END:VALARM")
    desk.write(event(*alarm, f"{start}{begins}", f"DURATION:{duration}", "RRULE:FREQ=DAILY;COUNT=1"))
    assert desk.listed("2026-03-29") == [f"{shown}: Tea"]


@pytest.mark.parametrize("zone", [";TZID=Europe/Berlin", ""])
@pytest.mark.parametrize(
    ("first", "last", "shown"), [("0200", "0300", "03:00–04:00"), ("0230", "0330", "03:30–04:30")]
)
def test_what_begins_in_the_skipped_hour_still_takes_its_time(
    desk: Desk, zone: str, first: str, last: str, shown: str
) -> None:
    desk.write(event(f"DTSTART{zone}:20260329T{first}00", f"DTEND{zone}:20260329T{last}00"))
    assert desk.listed("2026-03-29") == [f"Sun 2026-03-29 {shown}: Tea"]


def test_what_takes_no_time_by_the_clocks_of_two_zones_takes_none(desk: Desk) -> None:
    desk.write(event("DTSTART:20260328T090000Z", "DTEND;TZID=Europe/Berlin:20260328T100000"))
    assert desk.listed("today") == ["Sat 2026-03-28 10:00: Tea"]


def test_an_hour_that_is_skipped_happens_after_the_skip(desk: Desk) -> None:
    desk.write(
        event(
            "DTSTART;TZID=Europe/Berlin:20260301T023000",
            "DTEND;TZID=Europe/Berlin:20260301T031500",
            "RRULE:FREQ=DAILY",
        )
    )
    assert desk.listed("2026-03-28") == ["Sat 2026-03-28 02:30–03:15: Tea"]
    assert desk.listed("2026-03-29") == ["Sun 2026-03-29 03:30–04:15: Tea"]


def test_an_hour_that_comes_twice_says_which(desk: Desk) -> None:
    desk.write(
        event("DTSTART:20261025T003000Z", "DTEND:20261025T013000Z", uid="a")
        + "\n"
        + event("DTSTART:20261025T080000Z", "DTEND:20261025T090000Z", uid="b", title="Later")
    )
    assert desk.listed("2026-10-25") == [
        "Sun 2026-10-25 02:30+0200–02:30+0100: Tea",
        "Sun 2026-10-25 09:00–10:00: Later",
    ]


def test_the_day_on_which_clocks_change_has_its_23_or_25_hours(desk: Desk) -> None:
    times = {"20260328T225959Z": 28, "20260328T230000Z": 29, "20260329T215959Z": 29, "20260329T220000Z": 30}
    desk.write("\n".join(event(f"DTSTART:{time}", uid=time, title=time) for time in times))
    for day in (28, 29, 30):
        expected = [time for time, falls_on in times.items() if falls_on == day]
        assert [line[-16:] for line in desk.listed(f"2026-03-{day}")] == expected
    assert window(date(2026, 10, 25), desk.now, ZoneInfo("Europe/Berlin")).end == datetime(
        2026, 10, 25, 23, tzinfo=UTC
    )


def test_exceptions_overrides_and_extra_dates_of_a_series(desk: Desk) -> None:
    desk.write(
        event(
            "DTSTART;TZID=Europe/Berlin:20260323T100000",
            "DURATION:PT30M",
            "RRULE:FREQ=DAILY;COUNT=7",
            "EXDATE;TZID=Europe/Berlin:20260325T100000",
            "RDATE;TZID=Europe/Berlin:20260402T170000",
        )
        + "\n"
        + event(
            "RECURRENCE-ID;TZID=Europe/Berlin:20260326T100000",
            "DTSTART;TZID=Europe/Berlin:20260326T150000",
            "DURATION:PT30M",
            title="Tea moved",
        )
        + "\n"
        + event(
            "RECURRENCE-ID;TZID=Europe/Berlin:20260327T100000",
            "DTSTART;TZID=Europe/Berlin:20260327T100000",
            "STATUS:CANCELLED",
        )
    )
    shown = {
        day: desk.listed(f"2026-{day}")
        for day in ("03-24", "03-25", "03-26", "03-27", "03-29", "03-30", "04-02")
    }
    assert shown == {
        "03-24": ["Tue 2026-03-24 10:00–10:30: Tea"],
        "03-25": [],
        "03-26": ["Thu 2026-03-26 15:00–15:30: Tea moved"],
        "03-27": [],
        "03-29": ["Sun 2026-03-29 10:00–10:30: Tea"],
        "03-30": [],
        "04-02": ["Thu 2026-04-02 17:00–17:30: Tea"],
    }


def test_an_override_that_moves_an_event_into_the_day_brings_it_along(desk: Desk) -> None:
    desk.write(
        event("DTSTART:20260101T100000Z", "RRULE:FREQ=YEARLY")
        + "\n"
        + event("RECURRENCE-ID:20260101T100000Z", "DTSTART:20260328T100000Z", title="Moved far")
    )
    assert desk.listed("today") == ["Sat 2026-03-28 11:00: Moved far"]
    assert desk.listed("2026-01-01") == []


def test_a_series_ends_where_it_says(desk: Desk) -> None:
    desk.write(event("DTSTART:20260101T100000Z", "RRULE:FREQ=DAILY;UNTIL=20260328T100000Z"))
    assert (len(desk.listed("today")), desk.listed("tomorrow")) == (1, [])


@pytest.mark.parametrize(
    ("start", "until"),
    [
        ("DTSTART:20260320T213000Z", "20260328"),
        ("DTSTART:20260320T223000", "20260328"),
        ("DTSTART;TZID=America/New_York:20260320T173000", "20260328"),
        ("DTSTART;TZID=America/New_York:20260320T173000", "20260328T173000"),
        ("DTSTART:20260320T223000", "20260328T213000Z"),
    ],
)
@pytest.mark.parametrize("head", ["", "X-WR-TIMEZONE:Europe/Berlin"])
def test_the_last_day_of_a_series_counts_to_its_end_and_its_last_time_in_its_own_zone(
    desk: Desk, start: str, until: str, head: str
) -> None:
    desk.write(event(start, f"RRULE:FREQ=DAILY;UNTIL={until}"), head=head)
    assert desk.listed("today") == ["Sat 2026-03-28 22:30: Tea"]
    assert desk.listed("tomorrow") == []


@pytest.mark.parametrize(
    "period", ["20260310T090000Z/20260410T000000Z", "20260310T090000Z/P30DT15H", "20260310T090000Z/PT735H"]
)
def test_a_long_period_besides_the_rule_is_listed_on_all_its_days(desk: Desk, period: str) -> None:
    desk.write(event("DTSTART:20260101T093000Z", "DTEND:20260101T100000Z", f"RDATE;VALUE=PERIOD:{period}"))
    for day in ("2026-03-10", "2026-03-28", "2026-04-10"):
        assert desk.listed(day) == ["Tue 2026-03-10 10:00 – Fri 2026-04-10 02:00: Tea"]


def test_a_series_that_ended_before_is_left_out_unless_its_last_event_lasts_or_was_moved(desk: Desk) -> None:
    ended = "RRULE:FREQ=WEEKLY;UNTIL=20260321T090000Z;BYDAY=SA"
    desk.write(event("DTSTART:20260307T090000Z", "DTEND:20260307T100000Z", ended))
    assert desk.listed("today") == []
    desk.write(event("DTSTART:20260307T090000Z", "DTEND:20260314T100000Z", ended, title="Long"))
    assert desk.listed("today") == ["Sat 2026-03-21 10:00 – Sat 2026-03-28 11:00: Long"]
    later = "RECURRENCE-ID;RANGE=THISANDFUTURE:20260314T090000Z"
    desk.write(
        event("DTSTART:20260307T090000Z", "DTEND:20260307T100000Z", ended)
        + "\n"
        + event(later, "DTSTART:20260321T110000Z", "DTEND:20260321T120000Z", title="Later")
    )
    assert desk.listed("today") == ["Sat 2026-03-28 12:00–13:00: Later"]


def test_the_times_of_an_alarm_are_not_those_of_its_event(desk: Desk) -> None:
    alarm = ("BEGIN:VALARM", "DTSTART:19900101T000000Z", "DTEND:19900101T000000Z", "END:VALARM")
    desk.write(event(*alarm, "DTSTART:20260328T090000Z", "DTEND:20260328T100000Z"))
    assert desk.listed("today") == ["Sat 2026-03-28 10:00–11:00: Tea"]


@pytest.mark.parametrize("word", ["PRIVATE", "confidential"])
def test_of_what_is_private_only_the_time_is_said(desk: Desk, word: str) -> None:
    desk.write(event("DTSTART:20260328T090000Z", "DTEND:20260328T100000Z", f"CLASS:{word}", "LOCATION:There"))
    assert desk.listed("today") == ["Sat 2026-03-28 10:00–11:00: (private)"]
    desk.write(event("DTSTART:20260328T090000Z", "CLASS:PUBLIC"))
    assert desk.listed("today") == ["Sat 2026-03-28 10:00: Tea"]


def test_of_two_titles_and_places_the_first_is_said(desk: Desk) -> None:
    desk.write(event("DTSTART:20260328T090000Z", "SUMMARY:Other", "LOCATION:Here", "LOCATION:There"))
    assert desk.listed("today") == ["Sat 2026-03-28 10:00: Tea (Here)"]


def test_what_was_cancelled_is_left_out_in_any_spelling(desk: Desk) -> None:
    desk.write(
        event("DTSTART:20260328T100000Z", "STATUS:cancelled", uid="a")
        + "\n"
        + event("DTSTART:20260328T110000Z", "STATUS:TENTATIVE", uid="b", title="Maybe")
    )
    assert desk.listed("today") == ["Sat 2026-03-28 12:00: Maybe"]


def test_folded_lines_are_read_whole_also_where_a_character_was_cut(desk: Desk) -> None:
    path = desk.write(event("DTSTART:20260328T100000Z", title="Tea"))
    cut = "Tö".encode()[:-1] + b"\r\n " + "Tö".encode()[-1:] + b"\n\tea"
    path.write_bytes(path.read_bytes().replace(b"Tea", cut))
    assert desk.listed("today") == ["Sat 2026-03-28 11:00: Töea"]


def test_two_calendars_in_one_file_are_both_read(desk: Desk) -> None:
    first = desk.write(event("DTSTART:20260328T100000Z", title="First")).read_bytes()
    second = desk.write(event("DTSTART:20260328T110000Z", title="Second")).read_bytes()
    (desk.folder / "calendar.ics").write_bytes(b"\xef\xbb\xbf" + first + second)
    assert [line[-6:].strip() for line in desk.listed("today")] == ["First", "Second"]


def test_a_text_from_outside_stays_on_its_line_and_shows_what_is_hidden(desk: Desk) -> None:
    desk.write(
        event("DTSTART:20260328T100000Z", "LOCATION:\x1b[2J\\n[work]", title="Tea\\nSat 2026-03-28\u202eevil")
    )
    (line,) = desk.listed("today")
    assert line == "Sat 2026-03-28 11:00: Tea Sat 2026-03-28\\u{202e}evil (\\u{1b}[2J [work])"


def test_one_calendar_is_asked_at_a_time_and_the_primary_when_none_is_named(desk: Desk) -> None:
    desk.write(event("DTSTART:20260328T100000Z"))
    desk.write(event("DTSTART:20260328T110000Z", title="Work"), name="Work")
    assert desk.ask("today") == "Sat 2026-03-28 11:00: Tea [calendar]\n"
    assert desk.ask("today", "--calendar", "work") == "Sat 2026-03-28 12:00: Work [Work]\n"
    assert desk.ask("today", "--calendar=Work.ics") == "Sat 2026-03-28 12:00: Work [Work]\n"
    assert "no calendar of that name" in desk.refused("today", "--calendar", "Wrok").message


@pytest.mark.parametrize(
    "name", ["../secret", "a/b", ".hidden", "..", "a\\b", "a\nb", " ", "x" * 101, ".ics"]
)
def test_a_calendar_name_leads_to_no_other_folder(desk: Desk, name: str) -> None:
    desk.write(event("DTSTART:20260328T100000Z"), name="../secret")
    assert desk.refused("today", "--calendar", name).usage
    assert desk.refused("add", "x", "2026-03-28", "2026-03-29", "--calendar", name).usage


def test_a_calendar_that_is_a_link_a_folder_or_a_pipe_is_not_opened(desk: Desk, tmp_path: Path) -> None:
    outside = desk.write(event("DTSTART:20260328T100000Z"), name="../outside")
    (desk.folder / "link.ics").symlink_to(outside)
    (desk.folder / "box.ics").mkdir()
    os.mkfifo(desk.folder / "pipe.ics")
    for name in ("link", "box", "pipe"):
        assert "cannot be read" in desk.refused("today", "--calendar", name).message
        assert (
            "cannot be read"
            in desk.refused("add", "x", "2026-03-28", "2026-03-29", "--calendar", name).message
        )


def test_a_file_that_the_operator_names_is_the_primary_calendar_and_may_be_a_link(
    desk: Desk, tmp_path: Path
) -> None:
    desk.write(event("DTSTART:20260328T100000Z"), name="mine")
    (tmp_path / "link.ics").symlink_to(desk.folder / "mine.ics")
    folder = desk.environ.pop("METIER_CALENDAR_FOLDER")
    desk.environ["METIER_CALENDAR_FILE"] = str(tmp_path / "link.ics")
    assert desk.ask("today") == "Sat 2026-03-28 11:00: Tea [link]\n"
    assert desk.refused("today", "--calendar", "other").usage
    desk.environ["METIER_CALENDAR_FOLDER"] = folder
    assert desk.ask("today", "--calendar", "mine") == "Sat 2026-03-28 11:00: Tea [mine]\n"
    assert isinstance(desk.ask("add", "More", "2026-03-28", "2026-03-29"), str)
    assert (tmp_path / "link.ics").is_symlink()
    assert len(desk.listed("today", "--calendar", "mine")) == 2


def test_a_file_that_is_named_and_cannot_be_there_is_not_taken_for_an_empty_one(
    desk: Desk, tmp_path: Path
) -> None:
    desk.environ["METIER_CALENDAR_FILE"] = str(tmp_path / "misspelt" / "mine.ics")
    for words in (["today"], ["add", "Tea", "2026-03-28", "2026-03-29"]):
        problem = desk.refused(*words)
        assert "METIER_CALENDAR_FILE" in problem.message and str(tmp_path) not in problem.message
    desk.environ["METIER_CALENDAR_FILE"] = str(tmp_path / "mine.ics")
    assert desk.ask("today") == "", "nobody has written to it yet"
    assert isinstance(desk.ask("add", "Tea", "2026-03-28", "2026-03-29"), str)


def test_without_any_calendar_it_says_how_to_set_one_up(desk: Desk) -> None:
    desk.environ.clear()
    problem = desk.refused("today")
    assert "METIER_CALENDAR_FOLDER" in problem.message and not problem.usage
    desk.environ["METIER_CALENDAR_FOLDER"] = str(desk.folder / "nowhere")
    assert "is not there" in desk.refused("today").message
    assert str(desk.folder) not in desk.refused("today").message


def test_the_zone_is_metiers_variable_then_tz_then_the_machines() -> None:
    assert operator_zone({"METIER_TIMEZONE": "Asia/Tokyo", "TZ": "Europe/Paris"}) == ZoneInfo("Asia/Tokyo")
    assert operator_zone({"TZ": ":Europe/Paris"}) == ZoneInfo("Europe/Paris")
    assert isinstance(operator_zone({}), ZoneInfo)


@pytest.mark.parametrize(
    "name", ["Nowhere/Here", "../../etc/passwd", "/etc/passwd", "CET-1CEST", "Europe", "a\0b", "x" * 5000]
)
def test_a_zone_that_is_not_known_is_not_guessed(name: str) -> None:
    problem = operator_zone({"METIER_TIMEZONE": name})
    assert isinstance(problem, Problem) and "METIER_TIMEZONE" in problem.message
