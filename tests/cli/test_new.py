"""`metier skills new` in every dialect, and `metier skills test` of what it writes."""

import json
from pathlib import Path
from typing import get_args

import pytest

from machine import Machine, write_skill
from metier.model.skill import Dialect

DIALECTS = tuple(
    each for each in get_args(Dialect) if each != "mcp_server"
)  # servers are imported, not written
MANIFESTS = {
    "metier": "SKILL.md",
    "agent_skills": "SKILL.md",
    "openclaw": "SKILL.md",
    "amber": "SKILL.md",
    "friday": "skill.yaml",
    "metahuman": "tea-words.json",
    "xbot": "package.json",
}


def _new(machine: Machine, dialect: str) -> Path:
    machine.program("ls")
    written = machine.json("skills", "new", "tea-words", "--dialect", dialect, "--json")
    assert written["dialect"] == dialect
    assert all(Path(file).is_file() for file in written["files"])
    return Path(written["path"])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_can_be_written_and_nothing_is_left_to_fill_in(machine: Machine, dialect: str) -> None:
    path = _new(machine, dialect)
    assert path.name == MANIFESTS[dialect]
    for file in path.parent.iterdir():
        assert "__" not in file.name + file.read_text(encoding="utf-8").replace("__init__", "")


@pytest.mark.parametrize("dialect", sorted({*DIALECTS} - {"xbot"}))
def test_what_is_written_lints_clean_in_its_own_dialect(machine: Machine, dialect: str) -> None:
    _new(machine, dialect)
    [linted] = machine.json("skills", "lint", "skills", "--json")
    assert (linted["name"], linted["dialect"], linted["status"]) == ("tea-words", dialect, "usable")
    assert [found for found in linted["diagnostics"] if found["severity"] != "info"] == []


@pytest.mark.slow
@pytest.mark.parametrize("dialect", sorted({*DIALECTS} - {"xbot"}))
def test_the_cases_that_are_written_hold(machine: Machine, dialect: str) -> None:
    _new(machine, dialect)
    machine.metier("skills", "trust", "tea-words", "--yes")
    done = machine.metier("skills", "test", "tea-words", "--yes")
    assert done.stdout.count("✓") == len(done.stdout.splitlines()) >= 1
    assert "0 do not" in done.stderr


@pytest.mark.slow
def test_an_xbot_package_that_is_written_is_read_once_it_is_named_and_trusted(machine: Machine) -> None:
    _new(machine, "xbot")
    (machine.state).mkdir(exist_ok=True)
    (machine.state / "metier.toml").write_text(
        '[xbot]\nallow = ["tea-words"]\nenabled = ["tea-words"]\n'
        '[xbot.resolve]\nlocal_paths = ["skills/tea-words"]\n',
        encoding="utf-8",
    )
    machine.metier("skills", "trust", "tea-words", "--yes")
    done = machine.metier("skills", "test", "tea-words")
    assert done.stdout == "✓ Its contract is read as it is meant\n"


@pytest.mark.slow
def test_the_written_cases_can_fail(machine: Machine) -> None:
    path = _new(machine, "metier")
    code = path.with_name("count.py")
    code.write_text(code.read_text(encoding="utf-8").replace("len(text.split())", "0"), encoding="utf-8")
    machine.metier("skills", "trust", "tea-words", "--yes")
    done = machine.metier("skills", "test", "tea-words", check=1)
    first, why, *rest = done.stdout.splitlines()
    assert first == "✗ Words and lines are counted"
    assert '"words":3' in why and '"words":0' in why
    assert [row[0] for row in rest] == ["✓", "✓"]


@pytest.mark.parametrize("there", ["SKILL.md", "tests.json", "count.py"])
def test_nothing_is_written_where_one_of_the_files_is_there_already(machine: Machine, there: str) -> None:
    place = machine.project / "skills/tea-words"
    place.mkdir(parents=True)
    (place / there).write_text("mine", encoding="utf-8")
    assert "nothing was changed" in machine.metier("skills", "new", "tea-words", check=2).stderr
    assert [(file.name, file.read_text(encoding="utf-8")) for file in place.iterdir()] == [(there, "mine")]


def test_a_dialect_that_there_is_not_is_refused_with_those_there_are(machine: Machine) -> None:
    said = machine.metier("skills", "new", "tea-words", "--dialect", "latin", check=2).stderr
    assert all(dialect in said for dialect in DIALECTS)
    assert list(machine.project.iterdir()) == []


def test_what_is_not_trusted_is_not_tried(machine: Machine) -> None:
    _new(machine, "metier")
    done = machine.metier("skills", "test", "tea-words", check=1)
    assert done.stdout == ""
    assert "not trusted yet" in done.stderr


def test_what_acts_is_named_and_runs_only_when_the_owner_says_so(machine: Machine) -> None:
    _new(machine, "friday")
    machine.metier("skills", "trust", "tea-words", "--yes")
    before = machine.metier("audit", "export").stdout
    for answer, status in (("n\n", 2), ("", 130)):
        done = machine.metier("skills", "test", "tea-words", stdin=answer, check=status)
        assert "These act, as you: tea-words/count" in done.stderr
        assert done.stdout == ""
    machine.metier("skills", "test", "tea-words", "--json", check=2)
    assert machine.metier("audit", "export").stdout == before, "nothing was called"


def test_a_case_is_a_call_of_the_owner_and_on_the_record(machine: Machine) -> None:
    _new(machine, "agent_skills")
    machine.metier("skills", "trust", "tea-words", "--yes")
    assert machine.json("skills", "test", "tea-words", "--json") == [
        {"about": "A model is given the instructions", "problem": ""}
    ]
    records = [json.loads(line) for line in machine.metier("audit", "tail", "--json").stdout.splitlines()]
    assert records[-1]["event"] == "skill_executed"
    assert records[-1]["principal"].startswith("human:")


def test_a_rule_of_the_operators_holds_for_cases_too(machine: Machine) -> None:
    _new(machine, "agent_skills")
    machine.metier("skills", "trust", "tea-words", "--yes")
    (machine.state / "policy.toml").write_text(
        '[[rule]]\ndecision = "deny"\ntool = "read_skill"\nbecause = "not today"\n', encoding="utf-8"
    )
    assert "not today" in machine.metier("skills", "test", "tea-words", check=1).stdout


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{}", "Expected `array`"),
        ("[]", "0 cases"),
        ("[", "cannot be read"),
        ('[{"about": "x"}]', "either `tool` or `says`"),
        ('[{"about": "x", "tool": "read_skill", "says": {"name": "x"}}]', "either `tool` or `says`"),
        ('[{"about": "x", "tool": "read_skill", "outcom": "refused"}]', "outcom"),
        ('[{"about": "x", "tool": "writing-skills/x"}]', "this skill has"),
        ('[{"about": "x", "tool": "fs_write/execute"}]', "this skill has"),
    ],
)
def test_a_case_that_cannot_be_meant_is_said_and_nothing_runs(
    machine: Machine, written: str, said: str
) -> None:
    path = _new(machine, "agent_skills")
    path.with_name("tests.json").write_text(written, encoding="utf-8")
    machine.metier("skills", "trust", "tea-words", "--yes")
    done = machine.metier("skills", "test", "tea-words", check=5)
    assert said in done.stderr
    assert done.stdout == ""


def test_a_skill_without_cases_is_said(machine: Machine) -> None:
    path = _new(machine, "agent_skills")
    path.with_name("tests.json").unlink()
    machine.metier("skills", "trust", "tea-words", "--yes")
    assert "there is no tests.json" in machine.metier("skills", "test", "tea-words", check=5).stderr


def test_a_case_reads_no_other_skill_whatever_name_it_gives(machine: Machine) -> None:
    path = _new(machine, "agent_skills")
    case = {
        "about": "x",
        "tool": "read_skill",
        "arguments": {"name": "writing-skills"},
        "contains": "# Tea words",
    }
    path.with_name("tests.json").write_text(json.dumps([case]), encoding="utf-8")
    machine.metier("skills", "trust", "tea-words", "--yes")
    machine.metier("skills", "test", "tea-words")


def test_info_and_trust_show_the_tools_a_skill_brings(machine: Machine) -> None:
    _new(machine, "metier")
    shown = machine.metier("skills", "info", "tea-words").stdout
    asked = machine.metier("skills", "trust", "tea-words", stdin="n\n", check=1).stdout
    for part in (
        "tea-words/count (reads, low risk): How many words and lines a text has.",
        "runs: count.py",
        "may: read its own folder; no network",
        "at most: 5 s, 256 MB, 64 processes; it is free",
        "called: from trust level observe",
    ):
        assert part in shown
        assert part in asked
    assert asked.index("tea-words/count") < asked.index("Trust exactly this?")


def test_confirmation_and_approval_are_shown_before_trust(machine: Machine) -> None:
    examples = Path(__file__).parents[2] / "examples"
    for name, part in (
        (
            "amber-weather-note",
            "the caller is asked first: Shall I pass on what you told me about the weather?",
        ),
        ("friday-reading-list", "somebody has to approve every call"),
        ("metahuman-word-count", "path must pass isWithinAllowedDirectory"),
    ):
        shown = machine.metier("--root", str(examples / name), "skills", "list", "--json").stdout
        [skill] = [each["name"] for each in json.loads(shown) if str(examples) in each["folder"]]
        assert part in machine.metier("--root", str(examples / name), "skills", "info", skill).stdout


@pytest.mark.parametrize("name", ["0x10", "1e3", "true", "123"])
@pytest.mark.parametrize("dialect", sorted({*DIALECTS} - {"xbot", "metahuman"}))
def test_a_name_that_could_be_read_as_a_number_stays_the_name(
    machine: Machine, dialect: str, name: str
) -> None:
    machine.program("ls")
    machine.json("skills", "new", name, "--dialect", dialect, "--json")
    [linted] = machine.json("skills", "lint", "skills", "--json")
    assert (linted["name"], linted["status"]) == (name, "usable")


@pytest.mark.parametrize(
    ("name", "dialect"),
    [
        *(("skill", "metahuman"), ("package", "metahuman")),
        *(("café", "amber"), ("café", "metahuman"), ("café", "xbot")),
    ],
)
def test_a_name_that_a_dialect_would_not_read_is_refused_and_nothing_is_written(
    machine: Machine, name: str, dialect: str
) -> None:
    said = machine.metier("skills", "new", name, "--dialect", dialect, check=2).stderr
    assert "no good name" in said
    assert not (machine.project / "skills").exists()


def test_cases_that_nobody_trusted_are_shown_with_their_words_and_run_only_when_the_owner_says_so(
    machine: Machine,
) -> None:
    path = _new(machine, "metahuman")
    shared = machine.skills
    shared.mkdir(parents=True, exist_ok=True)
    for ending in (".json", ".py"):
        path.with_suffix(ending).rename(shared / f"tea-words{ending}")
    cases = shared / "tests.json"
    cases.write_text(json.dumps([{"about": "counts", "tool": "execute", "arguments": {"text": "one"}}]))
    machine.metier("skills", "trust", "tea-words", "--yes")
    cases.write_text(json.dumps([{"about": "counts", "tool": "execute", "arguments": {"text": "another"}}]))
    before = machine.metier("audit", "export").stdout
    done = machine.metier("skills", "test", "tea-words", stdin="n\n", check=2)
    assert 'tea-words/execute {"text":"another"}' in done.stderr
    assert "nobody trusted it" in done.stderr
    machine.metier("skills", "test", "tea-words", "--json", check=2)
    assert machine.metier("audit", "export").stdout == before, "nothing was called"
    assert "✓ counts" in machine.metier("skills", "test", "tea-words", stdin="y\n").stdout


def test_trust_shows_that_a_skill_asks_for_the_network_and_who_names_the_hosts(machine: Machine) -> None:
    tool = {
        "name": "go",
        "description": "Goes.",
        "effect": "act",
        "entry": {"kind": "python", "path": "go.py"},
    }
    metadata = json.dumps({"metier": {"asks_network": True, "tools": [tool]}})
    folder = write_skill(machine.skills / "tea", metadata=metadata)
    (folder / "go.py").write_text("def main(params): ...\n")
    shown = machine.metier("skills", "trust", "tea", stdin="n\n", check=1).stdout
    assert "asks for the network: none until you name its hosts under [skills.entries.tea]" in shown
    (machine.state / "metier.toml").write_text('[skills.entries.tea]\nhosts = ["api.example.com"]\n')
    shown = machine.metier("skills", "trust", "tea", stdin="n\n", check=1).stdout
    assert "asks for the network: api.example.com" in shown
