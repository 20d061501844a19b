"""Words that are no text keep nobody from stopping, disabling, denying and revoking; nor from looking."""

from collections.abc import Iterator
from typing import Any

import pytest

from approval_kit import ask, state, wanted
from machine import Machine, write_skill
from metier.record.database import Database
from metier.record.disabling import all_disabled
from metier.record.principals import registered_in
from metier.record.stop import stopped_in
from metier.record.verify import verify

ODD = ["\udcfc", "schlecht \udcff\udcfe", "\udcfc" * 3_000]
"""As a terminal of another encoding gives them: bytes that are no UTF-8."""


@pytest.fixture
def database(machine: Machine) -> Iterator[Database]:
    with Database.open(str(machine.state / "state.db")) as opened:
        yield opened


def plain(done: Any) -> None:
    assert "internal error" not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("word", ODD)
def test_the_stop_button_stops_whatever_word_is_given(
    machine: Machine, database: Database, word: str
) -> None:
    write_skill(machine.skills / "notes")
    plain(machine.metier("stop", "--why", word))
    with database.reading() as connection:
        assert "\\udc" in stopped_in(connection)
    assert "Refused (stopped)" in machine.metier("call", "read_skill", '{"name": "notes"}', check=3).stderr
    assert verify(database).ok


@pytest.mark.parametrize("word", ODD)
def test_a_skill_is_disabled_whatever_word_is_given(machine: Machine, database: Database, word: str) -> None:
    write_skill(machine.skills / "notes")
    plain(machine.metier("skills", "disable", "notes", "--why", word))
    with database.reading() as connection:
        assert "\\udc" in all_disabled(connection)["notes"]
    assert verify(database).ok


@pytest.mark.parametrize("word", ODD)
def test_a_request_is_denied_whatever_word_is_given(machine: Machine, database: Database, word: str) -> None:
    approval = ask(database, wanted())
    plain(machine.metier("approvals", "deny", approval, "--word", word))
    assert state(database, approval) == "denied"
    plain(machine.metier("approvals", "show", approval))
    assert verify(database).ok


def test_revoking_nobody_is_said_and_revoking_somebody_still_works(
    machine: Machine, database: Database
) -> None:
    for name in ODD:
        done = machine.metier("principals", "revoke", name, check=1)
        plain(done)
        assert "is not registered" in done.stderr
    machine.metier("principals", "revoke", "agent:cli")
    with database.reading() as connection:
        assert registered_in(connection)["agent:cli"].revoked
    assert verify(database).ok


@pytest.mark.parametrize(
    "words",
    [
        ("audit", "search"),
        ("audit", "erase", "--yes", "--call"),
        ("audit", "tail", "--call"),
        ("audit", "show"),
        ("approvals", "show"),
        ("approvals", "deny"),
        ("grants", "revoke"),
        ("calls", "cancel"),
        ("calls", "log"),
        ("skills", "disable"),
        ("skills", "enable"),
        ("skills", "untrust"),
    ],
)
def test_what_is_no_text_is_looked_for_and_not_found(
    machine: Machine, database: Database, words: tuple[str, ...]
) -> None:
    plain(machine.metier(*words, "\udcff\udcfe", check=None))


def test_what_was_stored_of_such_a_word_is_found_again(machine: Machine, database: Database) -> None:
    write_skill(machine.skills / "notes")
    machine.metier("skills", "disable", "notes", "--why", "schlecht \udcfc")
    assert "skill_disabled" in machine.metier("audit", "search", "schlecht \udcfc").stdout
