"""Who may let a skill in. To let in, or to write, what runs something takes the right to create skills."""

import json
import os
import re
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import metier
from machine import Machine, write_skill
from metier.catalog.bundle import BundleStore
from metier.catalog.entrust import entrust
from metier.catalog.hold import declared_by
from metier.doors.cli import metier as command
from metier.model.call import Bytes
from metier.model.role import CREATE, ROLES, TRUST, Registered
from metier.record.database import Database
from metier.record.decider import Decider
from metier.record.principals import add_principal

OWNER = "human:owner"
ACTION = {"id": "do", "type": "code", "language": "python", "code": "result = 1"}


def put(machine: Machine, name: str, **fields: object) -> None:
    folder = machine.project / "skills" / name
    folder.mkdir(parents=True)
    about = {"id": name, "description": "Keeps a desk.", "instructions": "Be tidy.", **fields}
    (folder / "skill.json").write_text(json.dumps(about))


def asked(machine: Machine, name: str, by: Decider) -> tuple[str, str]:
    """Why `by` could not trust it, and how it is shown then."""
    settings = machine.settings()
    listed = machine.catalog().get(name)
    assert listed is not None
    with Database.open(settings.database) as database:
        bundles = BundleStore(settings.bundles)
        made = bundles.take(listed.folder, now_ns=time.time_ns() + 10**10)
        snapshot = bundles.open(made.digest)
        assert snapshot is not None
        declared = declared_by(snapshot, listed.manifest, folder=listed.folder)
        assert declared is not None
        found = Bytes(digest=made.digest, signature=made.signature)
        why = entrust(listed, declared, found, database=database, by=by)
    again = machine.catalog().get(name)
    assert again is not None
    return why, again.shown


def person(rights: frozenset[str], id: str = "human:ada") -> Decider:
    return Decider(id=id, kind="human", rights=rights)


def test_a_skill_with_actions_is_let_in_only_by_who_may_create_skills(machine: Machine) -> None:
    put(machine, "desk", actions=[ACTION])
    why, shown = asked(machine, "desk", person(ROLES["operator"] - {CREATE}))
    assert CREATE in why
    assert shown == "pending_approval"
    assert asked(machine, "desk", person(ROLES["operator"])) == ("", "usable")


def test_a_skill_that_brings_a_script_is_one_that_runs_something(machine: Machine) -> None:
    folder = write_skill(machine.project / "skills" / "text")
    other = write_skill(machine.project / "skills" / "script")
    (other / "go.sh").write_text("echo tea\n")
    reader = person(frozenset({TRUST}))
    assert asked(machine, folder.name, reader) == ("", "usable"), "there is nothing in it but text"
    assert CREATE in asked(machine, other.name, reader)[0]


@pytest.mark.parametrize(
    ("files", "fields"),
    [
        (["scripts/go.sh"], {"disable_model_invocation": "true"}),
        (["hooks/openclaw/handler.ts"], {}),
        (
            [],
            {"disable_model_invocation": "true", "metadata": '{"openclaw": {"requires": {"bins": ["ls"]}}}'},
        ),
    ],
    ids=["only people may have it run", "only a hook", "only a program"],
)
def test_whoever_may_have_it_run_it_is_one_that_runs_something(
    machine: Machine, files: list[str], fields: dict[str, str]
) -> None:
    folder = write_skill(machine.project / "skills" / "quiet", **fields)
    for name in files:
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("export default async () => {};\n")
    assert CREATE in asked(machine, "quiet", person(frozenset({TRUST})))[0]
    assert asked(machine, "quiet", person(frozenset({TRUST, CREATE})))[0] == ""


def test_what_somebody_may_is_looked_up_when_he_says_so(machine: Machine) -> None:
    put(machine, "desk", actions=[ACTION])
    with Database.open(machine.settings().database) as database:
        ada = Registered(id="human:ada", kind="human", roles=frozenset({"approver"}))
        assert add_principal(database, ada, by=OWNER, owner=OWNER) == ""
    why, shown = asked(machine, "desk", person(ROLES["owner"]))
    assert "human:ada" in why
    assert shown == "pending_approval"


def test_nobody_but_a_person_lets_a_skill_in(machine: Machine) -> None:
    put(machine, "desk", actions=[ACTION])
    agent = Decider(id="agent:cli", kind="agent", rights=ROLES["owner"])
    assert asked(machine, "desk", agent) == (
        "only people trust skills, and 'agent:cli' is not one",
        "pending_approval",
    )


@pytest.mark.parametrize("may", [True, False])
def test_the_commands_ask_for_the_right_to_create_skills(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, may: bool
) -> None:
    put(machine, "desk", actions=[ACTION])
    monkeypatch.setenv("HOME", str(machine.home))
    monkeypatch.chdir(machine.project)
    if not may:
        monkeypatch.setitem(ROLES, "owner", ROLES["owner"] - {CREATE})

    def run(*words: str) -> Result:
        done = CliRunner().invoke(command, ["skills", *words])
        assert (done.exit_code == 0) == may
        assert (CREATE in done.output) != may
        return done

    run("new", "tea-words")
    assert os.path.lexists("skills/tea-words") == may
    run("trust", "desk", "--yes")
    found = machine.catalog().get("desk")
    assert found is not None
    assert found.shown == ("usable" if may else "pending_approval")


def test_a_persons_word_is_given_at_one_place_only() -> None:
    room = Path(metier.__file__).parent
    giving = {
        str(file.relative_to(room))
        for file in room.rglob("*.py")
        if re.search(r"how\s*=\s*[\"']operator[\"']", file.read_text(encoding="utf-8"))
    }
    assert giving == {"catalog/entrust.py"}
