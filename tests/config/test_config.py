"""Configuration: unknown is an error, a project may only restrict, secrets are not kept."""

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from machine import Machine
from metier.config.load import load
from metier.config.settings import Settings
from metier.errors import ConfigError
from metier.openfile import has_second_name


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.state.mkdir()
    return made


def own(machine: Machine, text: str) -> Settings:
    (machine.state / "metier.toml").write_text(text, encoding="utf-8")
    return machine.settings()


def project(machine: Machine, text: str) -> Settings:
    (machine.project / "metier.toml").write_text(text, encoding="utf-8")
    return machine.settings()


def test_without_any_file_everything_has_its_default(machine: Machine) -> None:
    settings = machine.settings()
    assert settings.skills.allow is None
    assert settings.prompt.max_skills == 20
    assert settings.home == str(machine.state)
    assert [root.kind for root in settings.roots].count("bundled") == 1


@pytest.mark.parametrize(
    "text",
    [
        "reqiureApproval = true\n",
        "[skills]\nalowed = []\n",
        "[skill]\nallow = []\n",
        '[skills]\nallow = "all"\n',
        "[skills]\nallow = [1]\n",
        '[skills]\nallowlist = "off"\n',
        "[prompt]\nmax_skills = -1.5\n",
        "[skills.entries.x]\nenabeld = false\n",
        "[skills.entries.x]\nenabled = 'no'\n",
    ],
)
def test_parse_12_an_unknown_key_or_a_wrong_type_is_an_error_and_not_ignored(
    machine: Machine, text: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        own(machine, text)
    assert refused.value.remedy
    assert "metier.toml" in refused.value.message


@pytest.mark.parametrize("limit", [-1, -1000])
def test_a_negative_limit_is_refused(machine: Machine, limit: int) -> None:
    for key in ("max_skills", "budget"):
        with pytest.raises(ConfigError):
            own(machine, f"[prompt]\n{key} = {limit}\n")


@pytest.mark.parametrize(
    "text",
    [
        '[audit]\npayloads = "full"\n',
        "[prompt]\nmax_skills = 0\n",
        "[skills.entries.x]\nenabled = true\n",
        '[skills]\nallowlist = "trust"\n',
        "[config]\nx = 1\n",
    ],
)
def test_a_projects_file_may_only_restrict(machine: Machine, text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        project(machine, text)
    assert "may only restrict" in refused.value.remedy


def test_a_project_can_take_away_and_never_add(machine: Machine) -> None:
    own(machine, '[skills]\nallow = ["a", "b"]\ndisabled = ["c"]\n')
    settings = project(machine, '[skills]\nallow = ["b", "x"]\ndisabled = ["d"]\nallowlist = "required"\n')
    assert settings.skills.allow == {"b"}
    assert settings.skills.disabled == {"c", "d"}
    assert settings.skills.allowlist == "required"


def test_roots_a_project_adds_are_not_trusted_and_the_operators_are(machine: Machine) -> None:
    (machine.top / "mine").mkdir()
    own(machine, f'[skills]\nroots = ["{machine.top}/mine"]\n')
    settings = project(machine, '[skills]\nroots = ["theirs"]\n')
    trusted = {Path(root.path).name: root.trusted for root in settings.roots if root.kind == "extra"}
    assert trusted == {"mine": True, "theirs": False}


def test_a_root_of_the_project_that_is_a_link_out_of_it_is_passed_over_and_said(machine: Machine) -> None:
    outside = machine.top / "outside"
    outside.mkdir()
    (machine.project / "skills").symlink_to(outside)
    settings = project(machine, '[skills]\nroots = ["../outside"]\n')
    assert str(outside) not in {root.path for root in settings.roots}
    assert len([warning for warning in settings.warnings if "outside" in warning]) == 2


def test_a_file_that_others_can_write_is_refused(machine: Machine) -> None:
    own(machine, "")
    (machine.state / "metier.toml").chmod(0o622)
    with pytest.raises(ConfigError, match="other users"):
        machine.settings()


def test_a_named_configuration_file_must_exist(machine: Machine) -> None:
    with pytest.raises(ConfigError, match="no configuration file"):
        machine.settings(config=str(machine.top / "gone.toml"))


def test_secret_values_are_not_kept(machine: Machine) -> None:
    canary = "s3cr3t-canary-value"
    (machine.home / ".openclaw").mkdir()
    (machine.home / ".openclaw/openclaw.json").write_text(
        f'{{skills: {{entries: {{other: {{apiKey: "{canary}", env: {{K: "{canary}"}}}}}}}}, gateway: {{token: "{canary}"}}}}',
        encoding="utf-8",
    )
    settings = own(
        machine, f'[skills.entries.github]\napiKey = "{canary}"\nenv = {{ GH_TOKEN = "{canary}" }}\n'
    )
    assert settings.skills.entries["github"].api_key
    assert settings.skills.entries["github"].env == {"GH_TOKEN"}
    assert settings.skills.entries["other"].api_key
    assert canary not in repr(settings)
    assert canary.encode() not in msgspec.json.encode(settings)


def test_openclaws_own_file_switches_skills_off_and_ours_wins(machine: Machine) -> None:
    (machine.home / ".openclaw").mkdir()
    config = machine.home / ".openclaw/openclaw.json"
    config.write_text(
        "{skills: {entries: {a: {enabled: false}, b: {enabled: false}, c: 7}}, // comment\n}",
        encoding="utf-8",
    )
    settings = own(machine, "[skills.entries.b]\nenabled = true\n")
    assert {name: entry.enabled for name, entry in settings.skills.entries.items()} == {
        "a": False,
        "b": True,
        "c": False,
    }
    assert "skills.entries.c" in settings.warnings[0]


def test_when_openclaws_own_file_cannot_be_read_its_skills_are_held_back(machine: Machine) -> None:
    (machine.home / ".openclaw/skills").mkdir(parents=True)
    (machine.home / ".openclaw/openclaw.json").write_text("{skills: ", encoding="utf-8")
    settings = machine.settings()
    assert list(settings.held_roots) == [str(machine.home / ".openclaw/skills")]


def test_dot_env_files_are_never_read(machine: Machine) -> None:
    (machine.project / ".env").write_text("METIER_HOME=/nowhere\n", encoding="utf-8")
    assert machine.settings().home == str(machine.state)


def test_a_configuration_file_that_is_no_plain_file_stops_everything_at_once(machine: Machine) -> None:
    os.mkfifo(machine.project / "metier.toml")
    with pytest.raises(ConfigError, match="not a regular file"):
        machine.settings()


@pytest.mark.parametrize("whose", [own, project])
def test_a_configuration_file_with_a_second_name_is_not_read(
    machine: Machine, whose: Callable[[Machine, str], Settings]
) -> None:
    assert whose(machine, '[skills]\ndisabled = ["evil"]\n').skills.disabled == {"evil"}
    folder = machine.state if whose is own else machine.project
    os.link(folder / "metier.toml", machine.top / "granted.txt")
    with pytest.raises(ConfigError, match="second name") as caught:
        machine.settings()
    assert "cp -p" in caught.value.remedy
    (machine.top / "granted.txt").unlink()
    assert machine.settings().skills.disabled == {"evil"}


def test_files_of_others_may_have_several_names_for_nothing_of_ours_can_write_them() -> None:
    def status(names: int, user: int) -> os.stat_result:
        return os.stat_result((0o100644, 1, 1, names, user, 0, 0, 0, 0, 0))

    assert has_second_name(status(2, os.geteuid()))
    assert not has_second_name(status(1, os.geteuid()))
    assert not has_second_name(status(2, os.geteuid() + 1))


def test_a_configuration_file_is_read_whole_or_not_at_all(machine: Machine) -> None:
    padding = "# " + "x" * 1_048_576 + "\n"
    with pytest.raises(ConfigError, match="nobody can know what it forbids"):
        project(machine, padding + '[skills]\ndisabled = ["evil"]\n')


def test_a_relative_root_of_the_operator_is_refused_because_it_would_be_another_one_in_every_project(
    machine: Machine,
) -> None:
    with pytest.raises(ConfigError, match="not absolute"):
        own(machine, '[skills]\nroots = ["my-skills"]\n')
    (machine.home / "mine").mkdir()
    # `~` is the home of the account that runs, whatever the test machine's HOME says.
    assert own(machine, f'[skills]\nroots = ["{machine.home}/mine"]\n')


def test_the_root_folder_can_be_a_project_and_nothing_is_said_of_folders_that_are_not_there(
    machine: Machine,
) -> None:
    assert load(project="/", environ=machine.environ).warnings == ()


def test_an_empty_home_means_the_users_own(machine: Machine) -> None:
    assert not load(project=str(machine.project), environ={"HOME": ""}).home.startswith("/.metier")


@pytest.mark.parametrize("write", [own, project])
@pytest.mark.parametrize("text", ["a" + ".a" * 6_000 + " = 1", "a = " + "1" * 5_000, "a = " + "[" * 5_000])
def test_a_file_that_costs_too_much_to_parse_is_refused_with_its_line(
    machine: Machine, write: Callable[[Machine, str], Settings], text: str
) -> None:
    with pytest.raises(ConfigError, match=r"metier\.toml: .*\(at line 2\)") as refused:
        write(machine, f"# ours\n{text}\n")
    assert "not valid" not in refused.value.message, "it was not parsed at all"
    assert refused.value.remedy
