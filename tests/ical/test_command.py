"""The program as others start it: its exit codes, what goes where, and that it never shows its insides."""

import os

from ical_desk import Desk


def test_the_exit_codes_tell_done_misused_and_not_possible_apart(desk: Desk) -> None:
    added = desk.run("add", "Tee mit Öl 🫖", "2026-03-28T15:00", "2026-03-28T16:00", "--location=Küche")
    assert (added.code, added.err) == (0, "")
    assert desk.run("2026-03-28").out == "Sat 2026-03-28 15:00–16:00: Tee mit Öl 🫖 (Küche) [calendar]\n"
    nothing = desk.run("2026-03-27")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "")
    misused = desk.run("yesterday")
    assert (misused.code, misused.out, misused.err.count("\n")) == (2, "", 1)
    (desk.folder / "calendar.ics").write_bytes(b"broken")
    failed = desk.run("today")
    assert (failed.code, failed.out, failed.err.count("\n")) == (1, "", 1)
    assert failed.err.startswith("metier-ical-query: ")


def test_help_and_version(desk: Desk) -> None:
    shown = desk.run("--help")
    assert shown.code == 0
    for word in ("today", "tomorrow", "week", "add TITLE START END", "--calendar", "--location", "--notes"):
        assert word in shown.out
    assert desk.run("--version").out.startswith("metier-ical-query 0.")


def test_words_that_are_not_utf_8_are_a_misuse(desk: Desk) -> None:
    ran = desk.run("add", os.fsdecode(b"\xff"), "2026-03-28", "2026-03-29")
    assert ran.code == 2 and "UTF-8" in ran.err


def test_a_reader_who_went_away_gets_no_traceback(desk: Desk) -> None:
    assert isinstance(desk.ask("add", "Tea", "2026-03-28", "2026-03-29"), str)
    process = desk.start("2026-03-28")
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    try:
        said = process.stderr.read()
        assert (process.wait(timeout=40), said) == (1, b"")
    finally:
        process.kill()
        process.stderr.close()


def test_a_folder_that_cannot_be_written_is_a_failure_in_one_sentence(desk: Desk) -> None:
    # Also root cannot: a file stands where the folder should be.
    desk.environ["METIER_CALENDAR_FILE"] = "/proc/self/status/calendar.ics"
    ran = desk.run("add", "Tea", "2026-03-28", "2026-03-29")
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "Traceback" not in ran.err and "/proc" not in ran.err
