"""Files that are not as they should be: never overwritten, never taken for empty, never the end of the command."""

import time

import pytest

from ical_desk import Desk

GOOD = "BEGIN:VEVENT\nUID:good\nSUMMARY:Good\nDTSTART:20260328T100000Z\nEND:VEVENT"

DAMAGED = {
    "cut": b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART:20260328T1000",
    "not ended": b"BEGIN:VCALENDAR\r\nVERSION:2.0\r\n",
    "crossed": b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nEND:VCALENDAR\r\nEND:VEVENT\r\n",
    "no calendar": b"BEGIN:VEVENT\r\nEND:VEVENT\r\n",
    "another format": b'{"events": []}',
    "a page": b"<html>sign in first</html>",
    "latin": "BEGIN:VCALENDAR\r\nX-A:\xe9\r\nEND:VCALENDAR\r\n".encode("latin-1"),
    "zeros": b"\0" * 4096,
    "something after": b"BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\nBEGIN",
    "inside itself": b"BEGIN:VCALENDAR\r\nBEGIN:VCALENDAR\r\nEND:VCALENDAR\r\nEND:VCALENDAR\r\n",
    "deep": b"BEGIN:VCALENDAR\r\n" + b"BEGIN:X\r\n" * 9 + b"END:X\r\n" * 9 + b"END:VCALENDAR\r\n",
    "blank": b" \r\n",
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_file_is_said_to_be_so_and_left_as_it_is(desk: Desk, kind: str) -> None:
    path = desk.folder / "calendar.ics"
    path.write_bytes(DAMAGED[kind])
    for words in (["today"], ["add", "Tea", "2026-03-28", "2026-03-29"]):
        problem = desk.refused(*words)
        assert "damaged" in problem.message and not problem.usage
        assert str(desk.folder) not in problem.message
    assert path.read_bytes() == DAMAGED[kind]


def test_an_unusual_ending_is_read_and_not_written(desk: Desk) -> None:
    path = desk.write(GOOD)
    path.write_bytes(path.read_bytes().replace(b"END:VCALENDAR", b"END:VCAL\r\n ENDAR"))
    before = path.read_bytes()
    assert len(desk.listed("today")) == 1
    assert "unusual" in desk.refused("add", "Tea", "2026-03-28", "2026-03-29").message
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "lines",
    [
        "DTSTART:garbage",
        "DTSTART:20260328T100000Z\nRRULE:FREQ=NEVER",
        "SUMMARY:no start",
        "DTSTART;TZID=Nowhere/Here:20260328T100000",
        "DTSTART:20260328T100000Z\nRRULE:FREQ=DAILY;UNTIL=x",
        "DTSTART:20260328T100000Z\nthis is no line of a calendar",
        "DTSTART:20260328T100000Z\nDTEND;TZID=Nowhere/Here:20260328T220000",
        "DTSTART:20260328T100000Z\nRRULE:FREQ=DAILY\nEXDATE;TZID=Nowhere/Here:20260328T100000",
        "DTSTART:20260301T100000Z\nRDATE;TZID=Nowhere/Here:20260328T100000",
        "DTSTART:20260301T100000Z\nRDATE;VALUE=PERIOD;TZID=Nowhere/Here:20260328T100000/PT1H",
        "DTSTART:20260328T100000Z\nRECURRENCE-ID;TZID=Nowhere/Here:20260301T100000",
        "DTSTART:20260301T100000Z\nRRULE:FREQ=MONTHLY;BYDAY=SA,1SU",
        "DTSTART:20260328T100000Z\nDTEND;VALUE=DATE:20260328",
        "DTSTART;VALUE=DATE:20260328\nDTEND:20260328T100000Z",
        "DTSTART:20260328T100000Z\nDTEND:20260328T090000Z",
    ],
)
def test_one_broken_event_hides_no_other_and_is_not_hidden_itself(desk: Desk, lines: str) -> None:
    desk.write(f"BEGIN:VEVENT\nUID:bad\n{lines}\nEND:VEVENT\n{GOOD}")
    assert desk.listed("today") == [
        "Sat 2026-03-28 11:00: Good",
        "(1 event of calendar could not be worked out, and may be missing here.)",
    ]


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=SECONDLY",
        "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=MINUTELY;BYSECOND=0,1,2,3,4,5,6,7,8,9,10",
    ],
)
def test_a_rule_without_end_is_given_up_and_the_rest_is_listed(desk: Desk, rule: str) -> None:
    desk.write(f"BEGIN:VEVENT\nUID:bad\nDTSTART:19700101T000000Z\nRRULE:{rule}\nEND:VEVENT\n{GOOD}")
    began = time.process_time()
    assert desk.listed("today") == [
        "Sat 2026-03-28 11:00: Good",
        "(1 event of calendar could not be worked out, and may be missing here.)",
    ]
    assert time.process_time() - began < 3


@pytest.mark.slow
def test_many_rules_without_end_cost_no_more_than_a_few(desk: Desk) -> None:
    events = "\n".join(
        f"BEGIN:VEVENT\nUID:{number}\nDTSTART:19700101T000000Z\nRRULE:FREQ=SECONDLY\nEND:VEVENT"
        for number in range(50)
    )
    desk.write(f"{GOOD}\n{events}")
    began = time.process_time()
    assert desk.listed("today")[-1].startswith("(50 events ")
    assert time.process_time() - began < 4


def plain(count: int) -> str:
    """Events of today that happen once."""
    return "\n".join(
        f"BEGIN:VEVENT\nUID:once-{number}\nSUMMARY:Once {number}\nDTSTART:20260328T1{number}0000Z\nEND:VEVENT"
        for number in range(count)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "count"),
    [
        ("FREQ=SECONDLY", 2),
        ("FREQ=SECONDLY", 60),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", 60),
        ("FREQ=HOURLY", 60),
    ],
)
def test_however_many_rules_without_end_come_first_what_happens_once_is_listed(
    desk: Desk, rule: str, count: int
) -> None:
    events = "\n".join(
        f"BEGIN:VEVENT\nUID:{number}\nDTSTART:20000101T000000Z\nRRULE:{rule};WKST=SU\nEND:VEVENT"
        for number in range(count)
    )
    desk.write(f"{events}\n{plain(10)}")
    began = time.process_time()
    shown = desk.listed("today")
    assert time.process_time() - began < 4
    assert [line.split(": ")[-1] for line in shown if "Once" in line] == [
        f"Once {each}" for each in range(10)
    ]
    assert shown[-1].startswith("("), "and that there is more is said"


@pytest.mark.slow
def test_a_few_rules_without_end_keep_no_other_series_from_being_listed(desk: Desk) -> None:
    events = "\n".join(
        f"BEGIN:VEVENT\nUID:{number}\nDTSTART:20000101T000000Z\nRRULE:FREQ=SECONDLY\nEND:VEVENT"
        for number in range(20)
    )
    weekly = "BEGIN:VEVENT\nUID:w\nSUMMARY:Weekly\nDTSTART:20200104T100000Z\nRRULE:FREQ=WEEKLY\nEND:VEVENT"
    desk.write(f"{events}\n{weekly}")
    assert desk.listed("today") == [
        "Sat 2026-03-28 11:00: Weekly",
        "(20 events of calendar could not be worked out, and may be missing here.)",
    ]


def zone(name: str, rule: str, offset: str = "+0100") -> str:
    changes = "\n".join(
        f"BEGIN:{kind}\nDTSTART:19700101T000000\nTZOFFSETFROM:{offset}\nTZOFFSETTO:{offset}\n{rule}\nEND:{kind}"
        for kind in ("STANDARD", "DAYLIGHT")
    )
    return f"BEGIN:VTIMEZONE\nTZID:{name}\n{changes}\nEND:VTIMEZONE"


@pytest.mark.slow
def test_zones_whose_rules_have_no_end_are_given_up_and_what_is_in_no_such_zone_is_listed(desk: Desk) -> None:
    """Several events in each: a library that was broken off while it worked in a zone never works in it again."""
    odd = "\n".join(
        f"BEGIN:VEVENT\nUID:{number}\nDTSTART;TZID=Odd{number % 6}:20260328T100000\n{rule}END:VEVENT"
        for number, rule in enumerate(["", "RRULE:FREQ=DAILY;UNTIL=20270101\n"] * 12)
    )
    fine = (
        "BEGIN:VEVENT\nUID:f\nSUMMARY:Fine\nDTSTART;TZID=Office:20260328T100000\nRRULE:FREQ=DAILY\nEND:VEVENT"
    )
    zones = [zone(f"Odd{number}", "RRULE:FREQ=SECONDLY") for number in range(6)]
    desk.write(f"{odd}\n{plain(10)}\n{fine}", head="\n".join(zones))
    began = time.process_time()
    shown = desk.listed("today")
    assert time.process_time() - began < 4
    assert [line.split(": ")[-1] for line in shown[:-1]] == [f"Once {each}" for each in range(10)]
    assert shown[-1].startswith("(25 events "), "also the one in a zone that nobody defined"


@pytest.mark.parametrize("offset", ["+2400", "+9999", "garbage"])
def test_a_zone_that_cannot_be_read_hides_nothing_that_is_not_in_it(desk: Desk, offset: str) -> None:
    bad = "BEGIN:VEVENT\nUID:1\nDTSTART;TZID=Odd:20260328T100000\nEND:VEVENT"
    desk.write(f"{bad}\n{GOOD}", head=zone("Odd", "RRULE:FREQ=YEARLY", offset))
    assert desk.listed("today") == [
        "Sat 2026-03-28 11:00: Good",
        "(1 event of calendar could not be worked out, and may be missing here.)",
    ]


def test_one_zone_without_end_keeps_another_of_the_file_from_nothing(desk: Desk) -> None:
    odd = "BEGIN:VEVENT\nUID:1\nDTSTART;TZID=Odd:20260328T100000\nEND:VEVENT"
    fine = (
        "BEGIN:VEVENT\nUID:f\nSUMMARY:Fine\nDTSTART;TZID=Fine:20150328T100000\nRRULE:FREQ=DAILY\nEND:VEVENT"
    )
    zones = [zone("Odd", "RRULE:FREQ=SECONDLY"), zone("Fine", "RRULE:FREQ=YEARLY", "+0300")]
    desk.write(f"{odd}\n{fine}", head="\n".join(zones))
    assert desk.listed("today") == [
        "Sat 2026-03-28 08:00: Fine",
        "(1 event of calendar could not be worked out, and may be missing here.)",
    ]


@pytest.mark.slow
def test_thousands_of_series_that_ended_cost_next_to_nothing(desk: Desk) -> None:
    ended = "\n".join(
        f"BEGIN:VEVENT\nUID:{number}\nDTSTART:20100101T100000Z\nDTEND:20100101T110000Z\n"
        "RRULE:FREQ=WEEKLY;UNTIL=20191231T100000Z\nEND:VEVENT"
        for number in range(2_000)
    )
    desk.write(f"{ended}\n{GOOD}")
    assert desk.listed("today") == ["Sat 2026-03-28 11:00: Good"], "none was too long to be worked out"


@pytest.mark.slow
def test_an_event_with_a_list_without_end_keeps_no_other_from_being_listed(desk: Desk) -> None:
    dates = ",".join(
        f"{year}0101T{second // 3600:02}{second // 60 % 60:02}{second % 60:02}Z"
        for year in range(1940, 2000)
        for second in range(10_000)
    )
    long = f"BEGIN:VEVENT\nUID:long\nDTSTART:20260328T080000Z\nEXDATE:{dates}\nEND:VEVENT"
    desk.write(f"{long}\n{GOOD}")
    assert desk.listed("today")[-2:] == [
        "Sat 2026-03-28 11:00: Good",
        "(1 event of calendar could not be worked out, and may be missing here.)",
    ]


def test_two_calendars_may_give_one_name_to_two_zones(desk: Desk) -> None:
    """Programs write `Customized Time Zone` for every zone that has no name."""
    texts: list[bytes] = []
    for offset in ("+0100", "+0300"):
        event = f"BEGIN:VEVENT\nUID:{offset}\nSUMMARY:{offset}\nDTSTART;TZID=Own:20260328T100000\nEND:VEVENT"
        texts.append(desk.write(event, head=zone("Own", "", offset)).read_bytes())
    (desk.folder / "calendar.ics").write_bytes(b"".join(texts))
    assert desk.listed("today") == ["Sat 2026-03-28 08:00: +0300", "Sat 2026-03-28 10:00: +0100"]


def test_a_long_list_is_cut_and_says_so(desk: Desk) -> None:
    desk.write(
        "BEGIN:VEVENT\nUID:1\nSUMMARY:Often\nDTSTART:20260328T000000Z\nRRULE:FREQ=MINUTELY;COUNT=300\nEND:VEVENT"
    )
    shown = desk.listed("2026-03-28")
    assert (len(shown), shown[-1]) == (201, "… and 100 more.")


def test_a_file_that_is_too_large_is_not_read(desk: Desk) -> None:
    with open(desk.folder / "calendar.ics", "wb") as file:
        file.truncate(17 * 1024 * 1024)
    assert "larger" in desk.refused("today").message
