"""`[budgets]`, `[binaries]` and `[approvals]`: the operator's file changes them, a project's makes them stricter."""

import os
from pathlib import Path

import pytest

from machine import Machine
from metier.config.ground import ground_of
from metier.config.settings import ApprovalSettings, BudgetSettings, Settings, Window
from metier.errors import ConfigError


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.state.mkdir()
    return made


def read(machine: Machine, own: str = "", project: str = "") -> Settings:
    (machine.state / "metier.toml").write_text(own, encoding="utf-8")
    (machine.project / "metier.toml").write_text(project, encoding="utf-8")
    return machine.settings()


def test_without_any_file_the_stated_defaults_hold(machine: Machine) -> None:
    settings = machine.settings()
    assert settings.budgets == BudgetSettings(
        principal=Window(calls=600, seconds=60),
        tool=Window(calls=3_000, seconds=60),
        skill=Window(calls=3_000, seconds=60),
        cheap=Window(calls=6_000, seconds=3_600),
        expensive=Window(calls=600, seconds=3_600),
    )
    assert settings.binaries.interpreters == frozenset()
    approvals = settings.approvals
    assert (approvals.unattended, approvals.expires_minutes) == ("deny", 15)
    assert (approvals.four_eyes, approvals.pending_per_principal) == (False, 100)


def test_the_operator_changes_a_number_or_a_stretch_and_the_rest_stays(machine: Machine) -> None:
    own = "[budgets.principal]\ncalls = 5\n[budgets.tool]\nseconds = 10\n[budgets.expensive]\ncalls = 0\nseconds = 1\n"
    found = read(machine, own).budgets
    assert found.principal == Window(calls=5, seconds=60)
    assert found.tool == Window(calls=3_000, seconds=10)
    assert found.expensive == Window(calls=0, seconds=1)
    assert found.skill == BudgetSettings().skill


def test_a_project_lowers_a_number_and_never_raises_one(machine: Machine) -> None:
    own = "[budgets.tool]\ncalls = 50\nseconds = 10\n"
    theirs = "[budgets.principal]\ncalls = 7\n[budgets.tool]\ncalls = 51\n[budgets.cheap]\ncalls = 0\n"
    found = read(machine, own, theirs).budgets
    assert found.principal == Window(calls=7, seconds=60)
    assert found.tool == Window(calls=50, seconds=10)
    assert found.cheap == Window(calls=0, seconds=3_600)


def test_a_project_asks_people_more_strictly_and_never_less(machine: Machine) -> None:
    own = '[approvals]\nunattended = "wait"\nexpires_minutes = 30\npending_per_principal = 10\n'
    assert read(machine, own).approvals == ApprovalSettings(
        unattended="wait", expires_minutes=30, pending_per_principal=10
    )
    theirs = (
        '[approvals]\nunattended = "deny"\nexpires_minutes = 5\nfour_eyes = true\npending_per_principal = 3\n'
    )
    strict = ApprovalSettings(unattended="deny", expires_minutes=5, four_eyes=True, pending_per_principal=3)
    assert read(machine, own, theirs).approvals == strict
    loose = "[approvals]\nexpires_minutes = 600\nfour_eyes = false\npending_per_principal = 5000\n"
    own = "[approvals]\nfour_eyes = true\n"
    assert read(machine, own, loose).approvals == ApprovalSettings(four_eyes=True)


@pytest.mark.parametrize(
    "text",
    [
        "[budgets.principal]\ncalls = -1\n",
        "[budgets.principal]\ncalls = 1.5\n",
        "[budgets.principal]\ncalls = true\n",
        "[budgets.principal]\ncalls = 'unlimited'\n",
        "[budgets.principal]\ncalls = 1000000001\n",
        "[budgets.principal]\nseconds = 0\n",
        "[budgets.principal]\nseconds = 86401\n",
        "[budgets.principal]\nsecond = 1\n",
        "[budgets.free]\ncalls = 1\n",
        "[budgets]\nprincipal = 5\n",
        "[binaries]\ninterpreters = 'bash'\n",
        "[binaries]\ninterpreters = ['*']\n",
        "[binaries]\ninterpreters = ['']\n",
        "[binaries]\ninterpreters = ['/bin/bash']\n",
        '[binaries]\ninterpreters = ["bash\\n"]\n',
        "[binaries]\ninterpreter = ['bash']\n",
        "[approvals]\nunattended = 'allow'\n",
        "[approvals]\nunattended = 'Wait'\n",
        "[approvals]\nexpires_minutes = 0\n",
        "[approvals]\nexpires_minutes = 10081\n",
        "[approvals]\nfour_eyes = 'no'\n",
        "[approvals]\nfour_eyes = 0\n",
        "[approvals]\npending_per_principal = -1\n",
        "[approvals]\nfoureyes = true\n",
    ],
)
def test_what_cannot_be_understood_stops_everything_and_says_where(machine: Machine, text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(machine, text)
    assert "metier.toml" in refused.value.message
    assert refused.value.remedy


@pytest.mark.parametrize(
    "text",
    [
        "[binaries]\ninterpreters = ['bash']\n",
        "[binaries]\ninterpreters = []\n",
        "[budgets.principal]\nseconds = 1\n",
        "[budgets.principal]\ncalls = 1\nseconds = 1\n",
        "[approvals]\nunattended = 'wait'\n",
    ],
)
def test_a_projects_file_loosens_nothing(machine: Machine, text: str) -> None:
    read(machine, own=text)
    with pytest.raises(ConfigError, match="may only restrict"):
        read(machine, project=text)


def test_a_misspelled_key_is_told_the_nearest_one(machine: Machine) -> None:
    with pytest.raises(ConfigError, match="did you mean 'interpreters'"):
        read(machine, "[binaries]\ninterpretors = ['bash']\n")
    with pytest.raises(ConfigError, match="did you mean 'four_eyes'"):
        read(machine, "[approvals]\nfoureyes = true\n")
    with pytest.raises(ConfigError, match="did you mean 'node_modules'"):
        read(machine, "[xbot.resolve]\nnode_module = true\n")
    with pytest.raises(ConfigError) as caught:
        read(machine, project="[gateway]\nurl = 'https://a.example'\n")
    assert "did you mean" not in str(caught.value), "what only the operator's file may have is no hint"


def test_the_ground_names_every_place_that_metier_decides_by(machine: Machine, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("x", encoding="utf-8")
    own = f'[binaries]\ninterpreters = ["bash"]\n[secrets]\ntea = "file://{key}"\nmilk = "env://MILK"\n'
    settings = read(machine, own, "[skills]\n")
    ground = ground_of(settings, {"PATH": "/usr/bin::/bin"})
    assert ground.state == str(machine.state)
    assert set(ground.decides_by) == {
        str(machine.state / "metier.toml"),
        str(machine.state / "policy.toml"),
        str(machine.project / "metier.toml"),
    }
    assert ground.secret_files == (str(key),)
    assert ground.interpreters == {"bash"}
    assert ground.started_from == ("/usr/bin", "/bin")
    assert ground.links == {}
    (machine.project / "metier.toml").unlink()
    assert str(machine.project / "metier.toml") not in ground_of(machine.settings()).decides_by


def test_a_file_with_keys_for_skills_in_it_holds_secrets(machine: Machine) -> None:
    assert ground_of(read(machine)).secret_files == ()
    keyed = ground_of(read(machine, '[skills.entries.tea]\napiKey = "k"\n'))
    assert str(machine.state / "metier.toml") in keyed.secret_files


def test_the_ground_knows_its_places_by_their_real_paths_too(machine: Machine, tmp_path: Path) -> None:
    real = tmp_path / "disk"
    os.rename(machine.state, real)
    machine.state.symlink_to(real)
    ground = ground_of(machine.settings())
    assert (ground.state, ground.workspace) == (str(real), str(real / "workspace"))
    assert ground.links[ground.state] == str(machine.state)
    assert ground.links[ground.workspace] == str(machine.state / "workspace")
