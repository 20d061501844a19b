"""What a skill needs, what of it is missing here, and how to get it."""

from pathlib import Path
from typing import Any

import pytest

from metier.catalog.requirements import Environment, check, install_hint
from metier.config.settings import SkillEntry
from metier.model.program import OperatorProgram
from metier.model.requirement import Installer, RequirementError, Requirements
from metier.model.skill import Skill


def _skill(installers: tuple[Installer, ...] = (), **needs: Any) -> Skill:
    return Skill(
        name="x",
        description="d",
        dialect="openclaw",
        key="k",
        primary_env="TOKEN",
        requirements=Requirements(**needs),
        installers=installers,
    )


def _machine(path: str = "", platform: str = "linux", **more: Any) -> Environment:
    return Environment(path=path, env=more.pop("env", {}), platform=platform, **more)


def _missing(skill: Skill, machine: Environment) -> list[str]:
    return [f"{each.type}: {each.name}" for each in check(skill, machine)]


def test_a_skill_that_needs_nothing_misses_nothing() -> None:
    assert check(_skill(), _machine()) == ()


def test_everything_missing_is_named_in_order() -> None:
    skill = _skill(binaries=("a", "b"), any_binaries=("c", "d"), env=("E",), config=("f.g",), os=("darwin",))
    assert _missing(skill, _machine()) == [
        "operating system: darwin",
        "environment variable: E",
        "configuration: f.g",
        "binary: a",
        "binary: b",
        "binary (any of): c, d",
    ]
    assert str(check(skill, _machine())[3]) == 'skill "x" requires binary "a"'


def test_a_missing_requirement_says_type_name_skill_and_how_to_install_it() -> None:
    brew, apt = Installer(kind="brew", target="gh"), Installer(kind="apt", target="gh", binaries=("gh",))
    [found] = check(_skill((brew, apt), binaries=("gh",)), _machine())
    assert found == RequirementError(type="binary", name="gh", skill="x", install=(brew, apt))
    [found] = check(_skill((brew,), any_binaries=("gh", "hub")), _machine())
    assert found == RequirementError(type="binary (any of)", name="gh, hub", skill="x", install=(brew,))


@pytest.mark.parametrize("env", [{}, {"A": "", "B": " \t"}], ids=["unset", "empty"])
def test_each_missing_variable_is_one_error_without_installers(env: dict[str, str]) -> None:
    brew = Installer(kind="brew", target="gh")
    assert check(_skill((brew,), env=("A", "B")), _machine(env=env)) == (
        RequirementError(type="environment variable", name="A", skill="x"),
        RequirementError(type="environment variable", name="B", skill="x"),
    )
    [found] = check(_skill((brew,), env=("A",), binaries=("gh",)), _machine())[1:]
    assert found.install == (brew,), "the installers are there, for what they can bring"


def test_always_skips_all_but_the_operating_system() -> None:
    skill = _skill(binaries=("a",), env=("E",), os=("darwin",), always=True)
    assert _missing(skill, _machine()) == ["operating system: darwin"]
    assert _missing(skill, _machine(platform="darwin")) == []


@pytest.mark.parametrize(
    ("written", "platform", "fits"),
    [
        ("linux", "linux", True),
        ("Linux", "linux", False),
        ("macos", "darwin", True),
        ("macOS", "darwin", True),
        ("windows", "win32", True),
        ("darwin", "linux", False),
        ("macos", "linux", False),
    ],
)
def test_an_operating_system_may_be_spelled_as_authors_do(written: str, platform: str, fits: bool) -> None:
    assert (not _missing(_skill(os=(written,)), _machine(platform=platform))) is fits


def test_only_an_executable_file_on_the_path_is_a_binary(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    (first / "folder").mkdir(mode=0o755)
    (first / "text").touch(mode=0o644)
    (second / "tool").touch(mode=0o755)
    (tmp_path / "outside").touch(mode=0o755)
    machine = _machine(f"{first}::{second}")
    names = ("folder", "text", "tool", "absent", "../outside", str(second / "tool"), "", "a\0b")
    assert [name for name in names if machine.has_binary(name)] == ["tool"]
    assert _missing(_skill(any_binaries=("absent", "tool")), machine) == []


def test_each_binary_is_looked_for_once(tmp_path: Path) -> None:
    machine = _machine(str(tmp_path))
    assert not machine.has_binary("tool")
    (tmp_path / "tool").touch(mode=0o755)
    assert not machine.has_binary("tool")
    assert _machine(str(tmp_path)).has_binary("tool"), "another look at the machine finds it"


def test_windows_programs_are_found_by_their_endings(tmp_path: Path) -> None:
    (tmp_path / "tool.EXE").touch(mode=0o755)
    assert _machine(str(tmp_path), platform="win32").has_binary("tool")
    assert not _machine(str(tmp_path)).has_binary("tool")


def test_a_variable_counts_when_it_is_set_here_or_for_the_skill() -> None:
    skill = _skill(env=("TOKEN", "OTHER"))
    assert _missing(skill, _machine(env={"TOKEN": "t", "OTHER": "o"})) == []
    assert _missing(skill, _machine(env={"TOKEN": "t", "OTHER": "  "})) == ["environment variable: OTHER"]
    entries = {"k": SkillEntry(api_key=True, env=frozenset({"OTHER"}))}
    assert _missing(skill, _machine(entries=entries)) == []
    assert _missing(skill, _machine(entries={"x": entries["k"]})) == [
        "environment variable: TOKEN",
        "environment variable: OTHER",
    ]
    only_key = {"k": SkillEntry(api_key=True)}
    assert _missing(skill, _machine(entries=only_key)) == ["environment variable: OTHER"]


@pytest.mark.parametrize(
    ("config", "path", "met"),
    [
        ({"a": {"b": True}}, "a.b", True),
        ({"a": {"b": {}}}, "a.b", True),
        ({"a": {"b": []}}, ".a..b.", True),
        ({"a": {"b": 0}}, "a.b", False),
        ({"a": {"b": " "}}, "a.b", False),
        ({"a": {"b": None}}, "a.b", False),
        ({"a": "text"}, "a.b", False),
        ({}, "browser.enabled", True),
        ({"browser": {"enabled": False}}, "browser.enabled", False),
        ({}, "a.b", False),
    ],
)
def test_a_dotted_path_must_lead_to_something(config: dict[str, Any], path: str, met: bool) -> None:
    assert (not _missing(_skill(config=(path,)), _machine(config=config))) is met


BREW = Installer(kind="brew", target="jq", binaries=("jq",))
APT = Installer(kind="apt", target="jq libjq", binaries=("jq",), os=("linux",))
GO = Installer(kind="go", target="example.com/yq")


def test_what_is_missing_carries_the_ways_to_get_it() -> None:
    other = Installer(kind="brew", target="other", binaries=("other",))
    (found,) = check(_skill((BREW, GO, other), binaries=("jq",)), _machine())
    assert found.install == (BREW, GO)
    (found,) = check(_skill((other,), binaries=("jq",)), _machine())
    assert found.install == (other,), "a wrong list of binaries is better than no hint"


def test_the_hint_begins_with_what_fits_the_platform() -> None:
    assert install_hint([BREW, GO, APT], "linux") == (
        "apt install jq libjq or brew install jq or go install example.com/yq@latest"
    )
    assert install_hint([APT, BREW], "darwin").startswith("brew install jq")
    missing = RequirementError(type="binary", name="jq", skill="x", install=(BREW,))
    assert install_hint(missing, "linux") == "brew install jq"
    assert install_hint([], "linux") == ""


@pytest.mark.parametrize(
    ("kind", "target", "line"),
    [
        ("node", "@a/b", "npm install -g @a/b"),
        ("npm", "a", "npm install -g a"),
        ("uv", "a", "uv tool install a"),
        ("pip", "a>=1", "pip install 'a>=1'"),
        ("download", "https://x.y/z", "download https://x.y/z"),
        ("shell", "curl x | sh", 'its author says: "curl x | sh"'),
        ("manual", "see the site", 'its author says: manual: "see the site"'),
        ("rm -rf ~;", "x", 'its author says: "x"'),
        ("apt", "jq=1.6 g++", "apt install jq=1.6 g++"),
        ("go", "a@v1", "go install a@v1"),
        ("brew", "", ""),
    ],
)
def test_each_kind_has_its_wording(kind: str, target: str, line: str) -> None:
    assert install_hint([Installer(kind=kind, target=target)], "linux") == line


def test_sup_14_a_hint_is_one_harmless_argument_on_one_visible_line() -> None:
    evil = Installer(kind="brew", target="jq; rm -rf ~\n\x1b[2K$(id)\u202e")
    hint = install_hint([evil], "linux")
    assert hint == "brew install 'jq; rm -rf ~ \\u{1b}[2K$(id)\\u{202e}'"
    assert hint.isprintable()


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        ("pip", "--index-url=https://evil.example x"),
        ("npm", "-g"),
        ("brew", "--eval=x"),
        ("download", "-o/etc/passwd"),
        ("apt", "jq -oAPT::Update::Pre-Invoke::=id"),
        ("apt", "sudo-"),
        ("apt", "./evil.deb"),
        ("apt", "jq; id"),
        ("uv", " \u00a0--with=x"),
    ],
)
def test_sup_14_an_option_or_a_removal_is_never_part_of_a_command(kind: str, target: str) -> None:
    hint = install_hint([Installer(kind=kind, target=target)], "linux")
    assert hint.startswith(f'its author says: {kind}: "')
    fine = install_hint([Installer(kind=kind, target=target), BREW], "linux")
    assert fine.startswith("brew install jq; its author says: "), "the commands come first and by themselves"


def test_sup_14_a_quotation_cannot_be_closed_by_what_it_quotes() -> None:
    forged = Installer(kind="shell", target='x" or brew install evil; its author says: "y\n\x1b[2K')
    hint = install_hint([forged, Installer(kind="other", label='see "docs"')], "linux")
    assert hint.count('"') == 4
    assert hint.startswith('its author says: "x')
    assert hint.isprintable()


def test_sup_14_a_label_is_a_quotation_and_not_a_command() -> None:
    assert install_hint([Installer(kind="brew", label="curl x | sh")], "linux") == (
        'its author says: brew: "curl x | sh"'
    )


def test_sup_14_a_hint_stays_short_and_no_target_is_cut() -> None:
    many = [Installer(kind="brew", target=f"p{n}") for n in range(1_000)]
    assert install_hint(many, "linux").endswith("or brew install p4 or …")
    long = install_hint([Installer(kind="brew", target="a" * 5_000)], "linux")
    assert long.startswith("its author says: ") and len(long) < 300


def test_a_program_that_the_operator_named_is_there_when_its_file_is_and_not_by_the_path(
    tmp_path: Path,
) -> None:
    (tmp_path / "query").touch(mode=0o755)
    file = tmp_path / "real"
    said = {"query": OperatorProgram(file=str(file))}
    assert not _machine(str(tmp_path), programs=said).has_binary("query"), "the path does not stand in for it"
    assert _machine(str(tmp_path)).has_binary("query"), "where he says nothing it does"
    file.touch(mode=0o755)
    assert _machine(str(tmp_path), programs=said).has_binary("query")


def test_who_lacks_the_calendar_is_told_how_to_get_it() -> None:
    skill = _skill(binaries=("ical-query",))
    [missing] = check(skill, _machine())
    assert install_hint(missing, "linux") == "pip install 'metier[calendar]'"
    said = {"ical-query": OperatorProgram(file="/nowhere")}
    [other] = check(skill, _machine(programs=said))
    assert install_hint(other, "linux") == "", "his own program is not ours to bring"
