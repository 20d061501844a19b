"""What was disabled for what it did does not come back: not under another name, and not in another place."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.from_thread
import pytest
from msgspec import structs

from boxes import Box
from machine import Machine, write_skill
from metier.gate.situation import Situation
from metier.model.call import ValidCall
from metier.model.job import Event, Report
from metier.model.outcome import Completed, Failed, Outcome, Refused
from metier.pipeline import run
from metier.record.database import Database
from metier.record.disabling import disable, enable
from metier.record.verify import verify
from test_execute import Forge, asked

MOUNT = Event(kind="syscall", detail="mount")
NAMELESS = "---\ndescription: Does a thing.\n---\n\nDo it.\n"
"""Without a name of its own it is called as its folder is, so the same bytes can have any name."""


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Forge]:
    machine = Machine(tmp_path)
    folder = machine.skills / "tea"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(NAMELESS, encoding="utf-8")
    write_skill(machine.skills / "coffee")
    made = Forge(machine)
    made.trusted("tea")
    made.trusted("coffee")
    yield made
    made.database.close()


def copied(forge: Forge, name: str = "green-tea") -> None:
    shutil.copytree(forge.machine.skills / "tea", forge.machine.skills / name)


def renamed(forge: Forge, name: str = "green-tea") -> None:
    (forge.machine.skills / "tea").rename(forge.machine.skills / name)


def violate(forge: Forge) -> None:
    forge.sandboxes = [Box(report=Report(ending="stopped", violations=(MOUNT,)))]
    outcome = forge.call()
    assert isinstance(outcome, Failed)
    assert outcome.code == "violation"
    forge.sandboxes = [Box()]


def digest_of(forge: Forge, name: str) -> str:
    (digest,) = (digest for trusted, digest in forge.trust.all().trusted if trusted == name)
    return digest


def test_sup_18_a_renamed_copy_runs_as_long_as_nothing_was_violated(forge: Forge) -> None:
    copied(forge)
    assert isinstance(forge.call(skill="green-tea"), Completed)


@pytest.mark.parametrize("moved", [copied, renamed])
def test_sup_18_the_same_bytes_do_not_return_under_another_name(forge: Forge, moved: object) -> None:
    violate(forge)
    assert callable(moved)
    moved(forge)
    outcome = forge.call(skill="green-tea")
    assert isinstance(outcome, Refused)
    assert outcome.code == "skill_disabled"
    assert "as 'tea'" in outcome.reasons[0]
    assert "metier skills enable tea" in outcome.reasons[0]
    assert forge.sandboxes[0].jobs == []
    assert isinstance(forge.call(skill="coffee"), Completed), "other bytes are free"


def test_sup_18_a_copy_that_was_trusted_before_the_violation_does_not_run_after_it(forge: Forge) -> None:
    copied(forge)
    forge.trusted("green-tea")
    assert isinstance(forge.call(skill="green-tea"), Completed)
    violate(forge)
    outcome = forge.call(skill="green-tea")
    assert isinstance(outcome, Refused)
    assert outcome.code == "skill_disabled"
    listed = forge.machine.catalog().get("green-tea")
    assert listed is not None
    assert listed.shown == "disabled"
    assert "as 'tea'" in listed.why


def test_sup_18_trust_does_not_bring_the_bytes_back_and_enabling_the_name_does(forge: Forge) -> None:
    violate(forge)
    digest = digest_of(forge, "tea")
    copied(forge)
    granted = forge.trust.all().permissions["tea", digest]
    assert forge.trust.grant("green-tea", digest, permissions=granted, by="human:test", how="operator")
    assert isinstance(forge.call(skill="green-tea"), Refused)
    assert enable(forge.database, "tea", by="human:test")
    assert forge.trust.all().disabled_bytes == {}
    assert isinstance(forge.call(skill="green-tea"), Completed)
    assert isinstance(forge.call(), Completed)


def test_sup_18_a_call_of_the_copy_that_was_judged_already_does_not_begin(forge: Forge) -> None:
    copied(forge)
    forge.trusted("green-tea")
    house = forge.house

    async def late(valid: ValidCall) -> Situation:
        found = await house.look(valid)
        forge.disable("tea", "call_0", "mount", digest_of(forge, "tea"))
        return found

    outcome = anyio.run(run, asked("green-tea"), structs.replace(house, look=late))
    assert isinstance(outcome, Refused)
    assert outcome.code == "skill_disabled"
    assert forge.sandboxes[0].jobs == []


def test_sup_18_the_copy_does_not_begin_while_the_disabling_is_being_written(forge: Forge) -> None:
    copied(forge)
    forge.trusted("green-tea")
    assert isinstance(forge.call(skill="green-tea"), Completed), "else this proves nothing"
    meanwhile: list[Outcome] = []

    def slowly(name: str, call_id: str, why: str, digest: str) -> None:
        forge.sandboxes = [Box()]
        call = structs.replace(asked("green-tea"), id="call_2")
        meanwhile.append(anyio.from_thread.run(run, call, house))
        forge.disable(name, call_id, why, digest)

    forge.disabling = slowly
    forge.sandboxes = [Box(report=Report(ending="stopped", violations=(MOUNT,)))]
    house = forge.house
    assert isinstance(forge.call(), Failed)
    (twin,) = meanwhile
    assert isinstance(twin, Refused)
    assert twin.code == "skill_disabled"
    assert forge.sandboxes[0].jobs == []


def test_who_disables_a_skill_himself_disables_a_name_and_keeps_what_a_violation_disabled(
    forge: Forge,
) -> None:
    copied(forge)
    disable(forge.database, "tea", why="not now", by="human:test")
    assert isinstance(forge.call(skill="green-tea"), Completed)
    assert enable(forge.database, "tea", by="human:test")
    violate(forge)
    disable(forge.database, "tea", why="not now", by="human:test")
    assert isinstance(forge.call(skill="green-tea"), Refused)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("DELETE FROM disabled_bytes", "the table forgot it"),
        ("UPDATE disabled_bytes SET digest = 'sha256:other'", "bytes of 'tea'"),
        ("INSERT INTO disabled_bytes VALUES ('coffee', 'sha256:any')", "bytes of 'coffee'"),
    ],
)
def test_who_edits_the_disabled_bytes_behind_our_back_is_found(forge: Forge, change: str, said: str) -> None:
    violate(forge)
    assert verify(forge.database).ok
    with forge.database.transaction() as connection:
        connection.execute(change)
    found = verify(forge.database)
    assert not found.ok
    assert said in found.problem


def test_sup_18_at_the_terminal_the_new_name_is_neither_trusted_nor_enabled_but_the_old_one_is(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path)
    folder = machine.skills / "tea"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(NAMELESS, encoding="utf-8")
    machine.metier("call", "read_skill", '{"name": "tea"}')
    with Database.open(str(machine.state / "state.db")) as database:
        with database.reading() as connection:
            (digest,) = connection.execute("SELECT digest FROM trust WHERE name = 'tea'").fetchone()
        disable(database, "tea", call_id="call_7", why="it tried: syscall", digest=digest)
    folder.rename(machine.skills / "green-tea")
    call = ("call", "read_skill", json.dumps({"name": "green-tea"}))
    assert machine.metier(*call, check=3).stderr.startswith("Refused (skill_disabled)")
    assert "as 'tea'" in machine.metier("skills", "info", "green-tea").stdout
    assert "as 'tea'" in machine.metier("skills", "trust", "green-tea", "--yes", check=1).stderr
    assert "nobody disabled it" in machine.metier("skills", "enable", "green-tea", check=1).stderr
    machine.metier(*call, check=3)
    machine.metier("skills", "enable", "tea")
    machine.metier(*call)
