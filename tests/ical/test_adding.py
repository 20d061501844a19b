"""An event that is added is there afterwards as it was said, and nothing else has changed."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import icalendar
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from ical_desk import Desk
from metier.ical import file_store
from metier.ical.asked import Add
from metier.ical.entry import Entry, entry

FOREIGN = """
X-WR-CALNAME:Mine
X-ODD;X-PARAM="a:b;c":kept
BEGIN:VTODO
UID:todo
SUMMARY:Not an event
END:VTODO
BEGIN:VEVENT
UID:1
DTSTART:20260101T100000Z
SUMMARY:Old
X-APPLE-THING;VALUE=BINARY;ENCODING=BASE64:AAAA
BEGIN:VALARM
ACTION:DISPLAY
TRIGGER:-PT5M
END:VALARM
END:VEVENT
"""


def test_what_was_added_is_listed_with_everything_that_was_said(desk: Desk) -> None:
    answer = desk.ask(
        "add", "Tea", "2026-03-28T15:00", "2026-03-28T16:30", "--location", "Kitchen", "--notes", "a\nb"
    )
    assert answer == "Added Sat 2026-03-28 15:00–16:30: Tea (Kitchen) [calendar]\n"
    assert desk.listed("today") == ["Sat 2026-03-28 15:00–16:30: Tea (Kitchen)"]
    (event,) = icalendar.Calendar.from_ical((desk.folder / "calendar.ics").read_bytes()).walk("VEVENT")
    assert (event["DESCRIPTION"], event["UID"][-7:]) == ("a\nb", "@metier")
    assert event["DTSTAMP"].dt == desk.now


@pytest.mark.parametrize(
    ("start", "end", "shown"),
    [
        ("2026-03-28T15:00", "2026-03-28T16:00", "Sat 2026-03-28 15:00–16:00"),
        ("2026-03-28 15:00:30", "2026-03-28T16:00:00.123456", "Sat 2026-03-28 15:00–16:00"),
        ("2026-03-28T15:00Z", "2026-03-28T16:00+00:00", "Sat 2026-03-28 16:00–17:00"),
        ("2026-03-28T15:00-0500", "2026-03-28T23:00", "Sat 2026-03-28 21:00–23:00"),
        ("2026-03-28", "2026-03-29", "Sat 2026-03-28, all day"),
        ("2026-03-28", "2026-03-31", "Sat 2026-03-28 – Mon 2026-03-30, all day"),
        ("2026-03-28T23:00", "2026-03-29T04:00", "Sat 2026-03-28 23:00 – Sun 2026-03-29 04:00"),
    ],
)
def test_times_are_the_operators_unless_they_say_otherwise(
    desk: Desk, start: str, end: str, shown: str
) -> None:
    assert desk.ask("add", "Tea", start, end) == f"Added {shown}: Tea [calendar]\n"
    assert desk.listed("today") == [f"{shown}: Tea"]


@pytest.mark.parametrize(
    ("start", "end", "says"),
    [
        ("2026-03-28T15:00", "2026-03-28T15:00", "after the start"),
        ("2026-03-28T15:00", "2026-03-28T14:00", "after the start"),
        ("2026-03-28T15:00+02:00", "2026-03-28T14:30+01:00", None),
        ("2026-03-28T15:00+01:00", "2026-03-28T15:30+02:00", "after the start"),
        ("2026-03-28", "2026-03-28", "the day after"),
        ("2026-03-28", "2026-03-28T15:00", "both"),
        ("tomorrow", "2026-03-28T15:00", "start is not understood"),
        ("2026-03-28T15:00", "", "end is not understood"),
        ("2026-03-28T25:00", "2026-03-28T26:00", "not understood"),
        ("0001-01-01T00:00", "2026-03-28T15:00", "not understood"),
        ("2026-03-28T15:00", "9999-12-31T23:59", "not understood"),
        ("2026-03-29T02:30", "2026-03-29T05:00", "put forward"),
        ("2026-03-28T15:00\nRRULE:FREQ=DAILY", "2026-03-28T16:00", "not understood"),
    ],
)
def test_an_end_that_does_not_follow_its_start_is_a_misuse(
    desk: Desk, start: str, end: str, says: str | None
) -> None:
    if says is None:
        assert isinstance(desk.ask("add", "Tea", start, end), str)
        return
    problem = desk.refused("add", "Tea", start, end)
    assert problem.usage and says in problem.message
    assert not (desk.folder / "calendar.ics").exists()


def test_every_byte_that_others_wrote_stays(desk: Desk) -> None:
    path = desk.write(FOREIGN)
    os.chmod(path, 0o640)
    before = path.read_bytes()
    assert isinstance(desk.ask("add", "Tea", "2026-03-28", "2026-03-29"), str)
    after = path.read_bytes()
    place = before.rindex(b"END:VCALENDAR")
    assert after.startswith(before[:place]) and after.endswith(before[place:])
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(desk.folder)) == [".calendar.ics.lock", "calendar.ics"]


def test_line_ends_are_written_as_the_file_writes_its_own(desk: Desk) -> None:
    path = desk.write(FOREIGN)
    path.write_bytes(path.read_bytes().replace(b"\r\n", b"\n"))
    assert isinstance(desk.ask("add", "Tea", "2026-03-28", "2026-03-29"), str)
    assert b"\r" not in path.read_bytes()
    assert desk.listed("today") == ["Sat 2026-03-28, all day: Tea"]


HOSTILE = [
    "x\r\nEND:VEVENT\r\nBEGIN:VEVENT",
    "x\nATTENDEE:mailto:a@b",
    "a\rb",
    "a\x00b",
    "a\x1b[2J",
    "a\x85b",
    "a\x7fb",
    "",
    "  \n ",
    "a\tb",
    "x" * 501,
]


@pytest.mark.parametrize("title", HOSTILE)
def test_a_title_that_is_no_line_of_text_is_a_misuse(desk: Desk, title: str) -> None:
    assert desk.refused("add", title, "2026-03-28", "2026-03-29").usage
    assert not (desk.folder / "calendar.ics").exists()


@pytest.mark.parametrize("text", ["a\rb", "a\x00b", "a\x0bb", "x" * 10_001])
def test_notes_may_have_lines_and_no_other_control_characters(desk: Desk, text: str) -> None:
    assert desk.refused("add", "Tea", "2026-03-28", "2026-03-29", "--notes", text).usage


@pytest.mark.parametrize(
    "text",
    [
        "END:VEVENT",
        "C:\\New\\new",
        "a\\\\N",
        "a;b,c:d",
        "\\n\\,\\;\\\\",
        "\\",
        "=?x?=",
        '"',
        "^n^'",
        "a\u2028b",
        "𝄞" * 99,
        "%0D%0AX:1",
    ],
)
def test_a_text_that_looks_like_calendar_lines_stays_a_text(desk: Desk, text: str) -> None:
    notes = f"{text}\nEND:VEVENT\nEND:VCALENDAR\n{text}"
    said = desk.ask("add", text, "2026-03-28", "2026-03-29", "--location", text, "--notes", notes)
    assert isinstance(said, str)
    (event,) = icalendar.Calendar.from_ical((desk.folder / "calendar.ics").read_bytes()).walk("VEVENT")
    assert [str(event[name]) for name in ("SUMMARY", "LOCATION", "DESCRIPTION")] == [text, text, notes]
    assert sorted(event) == ["DESCRIPTION", "DTEND", "DTSTAMP", "DTSTART", "LOCATION", "SUMMARY", "UID"]


TITLES = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=80
).filter(str.strip)
ZONES = st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC"])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    title=TITLES,
    notes=TITLES,
    zone=ZONES,
    start=st.datetimes(datetime(1971, 1, 1), datetime(2150, 1, 1)),  # noqa: DTZ001 - hypothesis wants them bare
    minutes=st.integers(1, 100_000),
)
def test_whatever_is_added_comes_back_on_its_day(
    desk: Desk, title: str, notes: str, zone: str, start: datetime, minutes: int
) -> None:
    path = desk.folder / "calendar.ics"
    path.unlink(missing_ok=True)
    desk.environ["METIER_TIMEZONE"] = zone
    begins = start.replace(second=0, microsecond=0, tzinfo=UTC)
    over = begins + timedelta(minutes=minutes)
    said = desk.ask("add", "--notes", notes, "--", title, begins.isoformat(), over.isoformat())
    assert isinstance(said, str), said
    for moment in (begins, over - timedelta(minutes=1)):
        day = moment.astimezone(ZoneInfo(zone)).date()
        assert desk.ask(day.isoformat()) == said.removeprefix("Added ")
    after = over.astimezone(ZoneInfo(zone)).date() + timedelta(days=1)
    assert desk.ask(after.isoformat()) == ""
    (event,) = icalendar.Calendar.from_ical(path.read_bytes()).walk("VEVENT")
    assert (event["SUMMARY"], event["DTSTART"].dt, event["DTEND"].dt) == (title.strip(), begins, over)


@pytest.mark.slow
def test_adding_from_several_programs_at_once_loses_nothing(desk: Desk) -> None:
    titles = {f"Event {number}" for number in range(8)}
    programs = [desk.start("add", title, "2026-03-28", "2026-03-29") for title in sorted(titles)]
    try:
        ends = [(program.communicate(timeout=50), program.returncode) for program in programs]
    finally:
        for program in programs:
            program.kill()
    assert [code for _, code in ends] == [0] * len(titles), ends
    assert {line.split(": ")[1] for line in desk.listed("today")} == titles


@pytest.mark.slow
def test_a_calendar_that_another_program_is_writing_is_waited_for_and_then_left_alone(desk: Desk) -> None:
    import fcntl

    path = desk.write(FOREIGN)
    before = path.read_bytes()
    with open(desk.folder / ".calendar.ics.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "Another program" in desk.refused("add", "Tea", "2026-03-28", "2026-03-29").message
        assert path.read_bytes() == before
    assert isinstance(desk.ask("add", "Tea", "2026-03-28", "2026-03-29"), str)


class Meanwhile:
    """An event; while it is being put in, another program writes to the file, and takes no lock."""

    def __init__(self, entry: Entry, path: Path, other: bytes) -> None:
        self._entry, self._path, self._other = entry, path, other
        self.times = 0

    @property
    def text(self) -> bytes:
        self.times += 1
        if self.times == 1:
            self._path.write_bytes(self._other)
        return self._entry.text


def new_entry(title: str) -> Entry:
    add = Add(title=title, start="2026-03-28", end="2026-03-29")
    made = entry(add, datetime(2026, 3, 28, tzinfo=UTC), ZoneInfo("Europe/Berlin"))
    assert isinstance(made, Entry)
    return made


def test_a_file_that_another_program_changed_meanwhile_is_read_again(desk: Desk) -> None:
    path = desk.write(FOREIGN)
    assert isinstance(desk.ask("add", "Theirs", "2026-03-28", "2026-03-29"), str)
    other = path.read_bytes()
    desk.write(FOREIGN)
    place = file_store.place(desk.environ, "")
    assert isinstance(place, file_store.Place)
    late: Any = Meanwhile(new_entry("Ours"), path, other)
    assert file_store.add(place, late) is None
    assert late.times == 2
    assert [line.split(": ")[1] for line in desk.listed("today")] == ["Ours", "Theirs"]


def test_what_is_not_one_event_is_not_put_into_a_file(desk: Desk) -> None:
    before = desk.write(FOREIGN).read_bytes()
    place = file_store.place(desk.environ, "")
    assert isinstance(place, file_store.Place)
    good = new_entry("Ours")
    for text in (good.text * 2, b"", b"END:VCALENDAR\r\n"):
        problem = file_store.add(place, structs.replace(good, text=text))
        assert problem is not None and "Nothing was changed" in problem.message
    assert (desk.folder / "calendar.ics").read_bytes() == before


def test_what_a_program_that_was_ended_had_begun_to_write_is_taken_away(desk: Desk) -> None:
    left = desk.folder / ".calendar.ics.0123456789abcdef"
    kept = [desk.folder / name for name in (".other.ics.0123456789abcdef", ".calendar.ics.mine", "notes")]
    for path in (left, *kept):
        path.write_text("half")
    assert isinstance(desk.ask("add", "Tea", "2026-03-28", "2026-03-29"), str)
    assert not left.exists() and all(path.exists() for path in kept)


def test_a_name_that_no_calendar_has_begins_none_and_the_names_there_are_are_said(desk: Desk) -> None:
    tea = ("add", "Tea", "2026-03-28", "2026-03-29", "--calendar")
    assert desk.refused(*tea, "Wrok").message.startswith("There is no calendar of that name. Leave ")
    (desk.folder / "Work.ics").touch()
    desk.write("", name="calendar")
    problem = desk.refused(*tea, "Wrok")
    assert problem.usage and problem.message.endswith("There are: Work, calendar.")
    assert sorted(path.name for path in desk.folder.iterdir()) == ["Work.ics", "calendar.ics"]
    for number in range(30):
        (desk.folder / f"{number:02}.ics").touch()
    assert desk.refused(*tea, "Wrok").message.endswith("18, 19, and 12 more.")


def test_a_named_calendar_is_begun_with_an_empty_file(desk: Desk) -> None:
    (desk.folder / "Work.ics").touch()
    assert isinstance(desk.ask("add", "Tea", "2026-03-28", "2026-03-29", "--calendar", "Work"), str)
    assert isinstance(desk.ask("add", "More", "2026-03-28", "2026-03-29", "--calendar", "work"), str)
    assert len(desk.listed("today", "--calendar", "Work")) == 2
    assert sorted(path.name for path in desk.folder.glob("*.ics")) == ["Work.ics"]


def test_the_primary_calendar_is_begun_with_its_first_event_also_by_its_name(desk: Desk) -> None:
    assert desk.listed("today", "--calendar", "calendar") == []
    assert isinstance(desk.ask("add", "Tea", "2026-03-28", "2026-03-29", "--calendar=calendar"), str)
    assert len(desk.listed("today")) == 1


def test_a_lock_that_is_a_link_is_not_followed(desk: Desk, tmp_path: Path) -> None:
    (desk.folder / ".calendar.ics.lock").symlink_to(tmp_path / "elsewhere")
    assert "cannot be written" in desk.refused("add", "Tea", "2026-03-28", "2026-03-29").message
    assert not (tmp_path / "elsewhere").exists()
