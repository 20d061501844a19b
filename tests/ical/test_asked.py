"""The command line is understood, whatever stands where."""

from datetime import date

import pytest

from metier.ical.asked import Add, Lookup, asked
from metier.ical.problem import Problem


@pytest.mark.parametrize("word", ["today", "tomorrow", "week", " Today ", "WEEK"])
def test_the_three_ranges_are_words(word: str) -> None:
    assert asked([word]) == Lookup(days=word.strip().lower())  # type: ignore[arg-type]


def test_a_date_is_a_range() -> None:
    assert asked(["2026-02-22"]) == Lookup(days=date(2026, 2, 22))


@pytest.mark.parametrize(
    "word",
    [
        "",
        "yesterday",
        "2026-02-30",
        "20260222",
        "2026-W08-7",
        "2026-2-2",
        "0001-01-01",
        "9999-12-31",
        "٢٠٢٦-٠٢-٢٢",
        "today;id",
    ],
)
def test_any_other_range_is_a_misuse(word: str) -> None:
    answer = asked([word])
    assert isinstance(answer, Problem) and answer.usage


@pytest.mark.parametrize(
    "words",
    [
        ["add", "T", "S", "E", "--calendar", "C", "--location", "L", "--notes", "N"],
        ["--calendar", "C", "add", "--location=L", "T", "S", "--notes=N", "E"],
        ["--notes=N", "--location=L", "--calendar=C", "--", "add", "T", "S", "E"],
    ],
)
def test_options_stand_anywhere_and_with_or_without_an_equals_sign(words: list[str]) -> None:
    assert asked(words) == Add(title="T", start="S", end="E", calendar="C", location="L", notes="N")


def test_the_value_of_an_option_may_look_like_anything() -> None:
    assert asked(["today", "--calendar", "--x"]) == Lookup(days="today", calendar="--x")
    assert asked(["today", "--calendar=a=b"]) == Lookup(days="today", calendar="a=b")


def test_a_title_may_begin_with_a_hyphen_and_after_two_of_them_with_anything() -> None:
    assert asked(["add", "-5 degrees", "S", "E"]) == Add(title="-5 degrees", start="S", end="E")
    assert asked(["add", "--", "--calendar", "S", "E"]) == Add(title="--calendar", start="S", end="E")
    assert asked(["--", "add", "--help", "S", "E"]) == Add(title="--help", start="S", end="E")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["add"],
        ["add", "T", "S"],
        ["add", "T", "S", "E", "X"],
        ["today", "tomorrow"],
        ["today", "--calendar"],
        ["today", "--calendar", "a", "--calendar=b"],
        ["today", "--cal", "a"],
        ["today", "--force"],
        ["today", "--notes", "x"],
        ["today", "--location=x"],
        ["add", "a\udcff", "S", "E"],
    ],
)
def test_what_cannot_be_understood_is_a_misuse_and_says_so(words: list[str]) -> None:
    answer = asked(words)
    assert isinstance(answer, Problem) and answer.usage and answer.message.endswith(".")


def test_help_and_version_are_asked_for_with_the_first_word_and_later_it_is_what_an_event_is_called() -> None:
    assert asked(["--help", "today"]) == "help"
    assert asked(["-h"]) == "help"
    assert asked(["--version"]) == "version"
    assert asked(["add", "-h", "S", "E"]) == Add(title="-h", start="S", end="E")
    assert asked(["add", "--", "--version", "S", "E"]) == Add(title="--version", start="S", end="E")
    for word in ("--help", "--version"):
        assert isinstance(asked(["today", word]), Problem)
