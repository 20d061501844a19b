"""The text for a model: what is chosen for it, and that whatever is not in it is named with the reason."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from machine import Machine, write_skill
from metier.disclosure.prompt import FITTING, NONE_FITS, Made, Wanted, prompt

ALL = 32


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Made]:
    """Makes the text from a catalog of thirty fillers and two skills about spreadsheets."""
    machine = Machine(tmp_path)
    for number in range(30):
        write_skill(machine.skills / f"filler-{number:02}", description=f"Number {number}.")
    for name in ("sheets", "tables"):
        write_skill(machine.skills / name, description="Work with spreadsheets.", body=f"The {name}.")
    catalog, settings = machine.catalog(), machine.settings()
    own = {name: each for name, each in catalog.by_name.items() if each.root.kind != "bundled"}
    catalog = replace(catalog, by_name=own)

    def made(*, unusable: str = "", **wanted) -> Made:
        return prompt(
            catalog,
            settings,
            Wanted(**wanted),
            body=lambda listed: None if listed.name == unusable else f"The {listed.name}.",
        )

    return made


def test_a_message_narrows_a_large_catalog_and_the_text_says_so(make: Callable[..., Made]) -> None:
    made = make(message="open my spreadsheet")
    assert made.names == ("sheets", "tables")
    assert FITTING + f"Listed: 2 of {ALL} skills." in made.text
    assert list(made.left_out) == ["message"]
    assert len(made.dropped) == ALL - 2
    assert "filler-07" in made.dropped


def test_what_fits_beyond_the_limit_is_told_apart_from_what_does_not_fit(make: Callable[..., Made]) -> None:
    for full in (False, True):
        made = make(message="open my spreadsheet", most=1, full=full)
        assert made.names == ("sheets",)
        assert made.left_out["limit"] == ("tables",)
        assert len(made.left_out["message"]) == ALL - 2


@pytest.mark.parametrize("full", [False, True])
def test_when_nothing_fits_the_list_is_shown_after_all(make: Callable[..., Made], full: bool) -> None:
    made = make(message="zzzz qqqq", full=full)
    assert len(made.names) == ALL
    assert made.dropped == ()
    assert NONE_FITS in made.text
    assert "<name>\nsheets\n</name>" in made.text
    assert "Listed:" not in made.text


def test_a_small_catalog_is_never_narrowed(make: Callable[..., Made]) -> None:
    assert make(message="zzzz qqqq", most=ALL) == make()
    assert make(message="open my spreadsheet", most=0) == make()


def test_the_list_has_a_limit_when_one_is_asked_for(make: Callable[..., Made]) -> None:
    made = make(most=3)
    assert made.names == ("filler-00", "filler-01", "filler-02")
    assert made.text.count("<skill>") == 3
    assert f"Listed: 3 of {ALL} skills." in made.text
    assert list(made.left_out) == ["limit"]
    assert len(made.dropped) == ALL - 3
    assert len(make().names) == len(make(most=0).names) == ALL


def test_room_is_a_reason_only_where_room_was_short(make: Callable[..., Made]) -> None:
    made = make(budget=1_500)
    assert len(made.text) <= 1_500
    assert list(made.left_out) == ["room"]
    assert len(made.names) + len(made.dropped) == ALL
    both = make(budget=1_500, most=ALL - 3)
    assert list(both.left_out) == ["limit", "room"]
    assert len(both.left_out["limit"]) == 3


def test_the_system_prompt_comes_first_in_both_forms(make: Callable[..., Made]) -> None:
    assert make(system="You help.").text == f"You help.\n\n{make().text}"
    assert make(system="You help.", full=True).text.startswith("You help.\n\n# Available Skills\n\n")


def test_instructions_that_may_not_be_used_give_their_place_to_the_next(make: Callable[..., Made]) -> None:
    made = make(full=True, most=2, unusable="filler-01")
    assert made.names == ("filler-00", "filler-02")
    assert made.left_out["unusable"] == ("filler-01",)
    assert len(made.left_out["limit"]) == ALL - 3
