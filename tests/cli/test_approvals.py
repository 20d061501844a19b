"""`metier approvals` and `metier grants`: what waits is shown as it is, and decided at the terminal."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from approval_kit import TOOL, approve, ask, changed, claim, given, state, wanted
from machine import Machine
from metier.catalog.here import owner
from metier.model.role import ROLES
from metier.record.approval_clock import moment
from metier.record.approvals import keep_waiting
from metier.record.database import Database
from metier.record.deciding import Decider
from metier.record.standing import give, grants_in

HERE = Decider(id=owner(), kind="human", rights=ROLES["owner"])


@pytest.fixture
def database(machine: Machine) -> Iterator[Database]:
    with Database.open(str(machine.state / "state.db")) as opened:
        yield opened


def waiting(database: Database, call_id: str = "call_1", **fields: object) -> str:
    """A request whose caller waits for it and will run it himself, so that approving it runs nothing here."""
    approval = ask(database, wanted(call_id=call_id, **fields))  # type: ignore[arg-type]
    keep_waiting(database, approval, moment().running + 600)
    return approval


def test_looking_makes_no_state(machine: Machine) -> None:
    assert "Nothing waits" in machine.metier("approvals", "list").stderr
    assert "no standing grants" in machine.metier("grants", "list").stderr
    assert machine.json("approvals", "list", "--json") == []
    assert "no such request" in machine.metier("approvals", "show", "apr_x", check=1).stderr
    assert not (machine.state / "state.db").exists()


def test_what_waits_is_listed_with_who_asks_and_how_long_it_waits(
    machine: Machine, database: Database
) -> None:
    first, second = waiting(database), waiting(database, "call_2")
    said = machine.metier("approvals", "list").stdout.splitlines()
    assert [line.split()[0] for line in said] == [first, second]
    assert "notes/remove (act, high risk) by agent:a for human:owner" in said[0]
    assert "14 min" in said[0]
    listed = machine.json("approvals", "list", "--json")
    assert [(each["id"], each["state"], each["waited_for"]) for each in listed] == [
        (first, "pending", True),
        (second, "pending", True),
    ]


def test_a_request_is_shown_with_everything_an_approver_needs(machine: Machine, database: Database) -> None:
    approval = waiting(database)
    said = machine.metier("approvals", "show", approval).stdout
    for part in (
        "notes/remove (act, high risk, free)",
        "agent:a (agent) on behalf of human:owner",
        "notes 1.2 sha256:" + "a" * 64,
        'read "/notes"; see the variables "LANG"',
        '"/work (device 1, inode 2)"',
        "high risk is asked at trust level 'supervised_auto'",
        '  "id": 7,\n  "folder": "/notes"',
        f"metier approvals approve {approval}",
    ):
        assert part in said, part
    shown = machine.json("approvals", "show", approval, "--json")
    assert f"fingerprint    {shown['fingerprint'][:16]}\n" in said
    assert shown["shown"]["arguments"] == {"id": 7, "folder": "/notes"}


def test_apr_23_the_end_of_a_long_command_is_shown(machine: Machine, database: Database) -> None:
    approval = waiting(database, arguments={"command": "echo " + "x" * 20_000 + " " * 300 + "; rm -rf /"})
    said = machine.metier("approvals", "show", approval).stdout
    assert " " * 300 + '; rm -rf /"' in said
    assert "read it to its end" in said


def test_apr_24_nothing_hostile_reaches_the_terminal_unseen(machine: Machine, database: Database) -> None:
    hostile = "\x1b[2J a\u202eb \u200b \U000e0041 p\u0430ypal \r"
    tool = changed(TOOL, description=f"Harmless {hostile}", confirmation=hostile)
    approval = waiting(database, arguments={hostile: hostile}, tool=tool, session=hostile)
    for command in (("list",), ("show", approval), ("show", approval, "--json"), ("list", "--json")):
        said = machine.metier("approvals", *command).stdout
        assert not set(said) & set("\x1b\u202e\u200b\U000e0041\r"), command
    said = machine.metier("approvals", "show", approval).stdout
    assert "\\u{202e}" in said
    assert "look alike in one word" in said


def test_apr_25_a_trailing_blank_of_a_token_can_be_seen(machine: Machine, database: Database) -> None:
    approval = waiting(database, arguments={"argv": ["rm", "-rf ", "a\tb", "c\nd"]})
    said = machine.metier("approvals", "show", approval).stdout
    assert '    "rm",\n    "-rf ",\n    "a\\tb",\n    | "c\\n"\n    | "d"\n' in said


def test_apr_26_the_skills_own_words_come_last_and_are_marked(machine: Machine, database: Database) -> None:
    approval = waiting(
        database, tool=changed(TOOL, confirmation="Just reading a file?", description="Reads.")
    )
    said = machine.metier("approvals", "show", approval).stdout
    assert '"Just reading a file?" (its own words)' in said
    assert said.index("act, high risk") < said.index('"id": 7') < said.index("Just reading")


def test_a_yes_at_the_terminal_is_the_owners(machine: Machine, database: Database) -> None:
    approval = waiting(database)
    claimed = [claim(database, approval)]
    assert claimed == ["nobody has decided yet"]
    # The caller is waiting; as soon as it is approved he takes it up.
    keep_waiting(database, approval, moment().running + 2)
    machine.metier("approvals", "approve", approval, check=None)
    listed = machine.json("approvals", "list", "--all", "--json")
    assert listed[0]["decided_by"] == owner()
    assert listed[0]["scope"] == "once"


def test_a_no_is_final_and_its_word_is_kept_for_the_model(machine: Machine, database: Database) -> None:
    approval = waiting(database)
    assert "is denied" in machine.metier("approvals", "deny", approval, "--word", "not on a Friday").stdout
    assert state(database, approval) == "denied"
    said = machine.metier("approvals", "approve", approval, check=1).stderr
    assert "denied already" in said
    assert '"not on a Friday"' in machine.metier("approvals", "show", approval).stdout
    assert machine.json("approvals", "deny", approval, "--json", check=1)["code"] == "not_open"
    assert machine.metier("audit", "tail").stdout.count("decision_refused") == 2


def test_what_was_approved_can_be_taken_back_until_it_ran(machine: Machine, database: Database) -> None:
    approval = waiting(database)
    assert "nobody has decided" in machine.metier("approvals", "revoke", approval, check=1).stderr
    approve(database, approval, by=HERE)
    assert "taken back" in machine.metier("approvals", "revoke", approval).stdout
    assert claim(database, approval) == "it was taken back"


def test_an_id_that_is_none_is_told_so(machine: Machine, database: Database) -> None:
    for command in ("show", "approve", "deny", "revoke"):
        for id in ("apr_none", "\udcff"):
            assert "no such request" in machine.metier("approvals", command, id, check=1).stderr
    assert "no such grant" in machine.metier("grants", "revoke", "\udcff", check=1).stderr


def test_a_standing_grant_for_one_call_says_once(machine: Machine, database: Database) -> None:
    approval = waiting(database)
    keep_waiting(database, approval, moment().running + 2)
    done = machine.metier(
        "approvals", "approve", approval, "--always", "--uses", "1", stdin="n\n", check=None
    )
    assert "until it is revoked, once\n" in done.stderr


@pytest.mark.parametrize("answer", ["y\n", "n\n"])
def test_a_standing_grant_is_shown_before_it_is_given(
    machine: Machine, database: Database, answer: str
) -> None:
    approval = waiting(database)
    keep_waiting(database, approval, moment().running + 2)
    said = machine.metier(
        "approvals", "approve", approval, "--always", "--uses", "3", stdin=answer, check=None
    ).stderr
    for part in (
        "exactly those of this request",
        "until it is revoked, 3 times",
        "HIGH risk",
        "no other bytes",
    ):
        assert part in said, part
    with database.reading() as connection:
        found = grants_in(connection)
    assert len(found) == (1 if answer == "y\n" else 0)
    assert (state(database, approval) == "pending") == (answer == "n\n")
    if found:
        assert found[0].id in said, "the very grant that was shown"
        assert found[0].given_by == owner()


def test_options_that_do_not_fit_are_refused(machine: Machine, database: Database) -> None:
    approval = ask(database, wanted(session=None))
    machine.metier("approvals", "approve", approval, "--uses", "3", check=2)
    machine.metier("approvals", "approve", approval, "--always", "--json", check=2)
    assert (
        "no session" in machine.metier("approvals", "approve", approval, "--session", "--yes", check=2).stderr
    )
    assert state(database, approval) == "pending"


def test_four_eyes_hold_at_the_terminal_too(machine: Machine, database: Database) -> None:
    machine.state.mkdir(exist_ok=True)
    Path(machine.state / "metier.toml").write_text("[approvals]\nfour_eyes = true\n", encoding="utf-8")
    agent = changed(wanted().valid.call.principal, on_behalf_of=owner())
    approval = waiting(database, principal=agent)
    assert "second person" in machine.metier("approvals", "approve", approval, check=1).stderr
    assert state(database, approval) == "pending"


def test_grants_are_listed_without_their_key_and_revoked(machine: Machine, database: Database) -> None:
    grant = given(days=2)
    give(database, grant)
    said = machine.metier("grants", "list").stdout
    assert grant.id in said
    assert "notes/remove" in said
    assert grant.key not in said + json.dumps(machine.json("grants", "list", "--json"))
    assert machine.json("grants", "revoke", grant.id, "--json") == [{"id": grant.id, "problem": ""}]
    assert "no such grant" in machine.metier("grants", "revoke", grant.id, check=1).stderr
    assert machine.json("grants", "list", "--json") == []
