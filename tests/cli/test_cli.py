"""The command line as people and scripts meet it."""

import json
import os
import re
import sqlite3
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from machine import BUNDLED, Machine, own_rows, write_skill

HEAVY = {
    "asyncio",
    "anyio",
    "rich",
    "pydantic",
    "sqlalchemy",
    "cel",
    "jsonschema_rs",
    "watchfiles",
    "re2",
    "logging",
}
GITHUB = (
    '{"openclaw": {"emoji": "🐙", "requires": {"bins": ["gh"]}, '
    '"install": [{"id": "brew", "kind": "brew", "formula": "gh", "bins": ["gh"]}, '
    '{"id": "apt", "kind": "apt", "package": "gh", "bins": ["gh"]}, '
    '{"id": "evil", "kind": "shell", "command": "touch PWNED"}]}}'
)


def test_list_shows_mark_emoji_name_and_description(machine: Machine) -> None:
    write_skill(machine.skills / "github", description="GitHub operations.", metadata=GITHUB)
    write_skill(machine.skills / "notes", description="Take notes.")
    done = machine.metier("skills", "list")
    assert own_rows(done.stdout) == ["✗ 🐙 github - GitHub operations.", "✓ notes - Take notes."]
    assert "metier skills check" in done.stderr
    machine.program("gh")
    assert own_rows(machine.metier("skills", "list").stdout)[0] == "✓ 🐙 github - GitHub operations."


def test_check_says_why_a_skill_is_missing_and_how_to_get_what_it_needs(machine: Machine) -> None:
    write_skill(machine.skills / "github", metadata=GITHUB)
    write_skill(machine.project / "skills/theirs")
    write_skill(machine.project / "skills/github")
    broken = machine.skills / "broken"
    broken.mkdir()
    (broken / "SKILL.md").write_text("---\nname: broken\n---\n", encoding="utf-8")
    done = machine.metier("skills", "check", check=1)
    assert 'skill "github" requires binary "gh"; get it with: apt install gh' in done.stdout
    assert "not trusted yet" in done.stdout
    assert "comes first and has the same name" in done.stdout
    assert "description" in done.stdout
    report = machine.json("skills", "check", "--json", check=1)
    assert {each["name"]: each["status"] for each in report["skills"] if each["name"] not in BUNDLED} == {
        "github": "shadowed",
        "broken": "broken",
        "theirs": "pending_approval",
    }


def test_sup_14_install_commands_are_shown_and_never_run(machine: Machine) -> None:
    write_skill(machine.skills / "github", metadata=GITHUB)
    for command in (
        ["skills", "list"],
        ["skills", "info", "github"],
        ["skills", "check"],
        ["prompt", "--full"],
    ):
        machine.metier(*command, check=None)
    machine.metier("skills", "trust", "github", "--yes")
    assert not list(machine.top.rglob("PWNED"))
    assert "touch PWNED" in machine.metier("skills", "info", "github", "--json").stdout


def test_sup_14_control_the_command_would_leave_its_mark_if_it_were_run(machine: Machine) -> None:
    subprocess.run("touch PWNED", shell=True, cwd=machine.project, check=True)  # noqa: S602
    assert list(machine.top.rglob("PWNED"))


def test_info_tells_everything_about_one_skill(machine: Machine) -> None:
    skill = write_skill(
        machine.skills / "github", metadata=GITHUB, allowed_tools="Bash(gh:*) Read", license="MIT"
    )
    (skill / "scripts").mkdir()
    (skill / "scripts/x.sh").write_text("true", encoding="utf-8")
    text = machine.metier("skills", "info", "github").stdout
    for part in ("unavailable", "MIT", "run gh", "no network", "Bash(gh:*), Read", "scripts", "sha256:"):
        assert part in text
    found = machine.json("skills", "info", "github", "--json")
    assert found["permissions"] == {"binaries": ["gh"], "reads": ["{baseDir}"]}
    assert found["digest"].startswith("sha256:")


def test_info_shows_how_to_get_what_the_skill_needs(machine: Machine) -> None:
    write_skill(machine.skills / "github", metadata=GITHUB)
    write_skill(machine.skills / "notes")

    def rows(name: str) -> dict[str, str]:
        lines = machine.metier("skills", "info", name).stdout.splitlines()
        return {head.strip(): rest.strip() for head, _, rest in (line.partition(":") for line in lines)}

    found = rows("github")
    assert found["install"].startswith("apt install gh or brew install gh")
    assert any('requires binary "gh"' in head for head in found), "the line below the status"
    machine.program("gh")
    assert "apt install gh" in rows("github")["install"], "also when nothing is missing"
    assert "install" not in rows("notes")


def test_info_takes_exactly_one_name(machine: Machine) -> None:
    assert "NAME" in machine.metier("skills", "info", check=2).stderr
    machine.metier("skills", "info", "a", "b", check=2)


def test_a_name_that_does_not_exist_gets_a_suggestion(machine: Machine) -> None:
    write_skill(machine.skills / "meeting-notes")
    assert "Did you mean 'meeting-notes'?" in machine.metier("skills", "info", "meting-notes", check=2).stderr
    assert "Did you mean 'skills'?" in machine.metier("skils", check=2).stderr
    assert "Did you mean 'list'?" in machine.metier("skills", "lst", check=2).stderr
    assert "Did you mean 'read_skill'?" in machine.metier("call", "read_skil", check=3).stderr


def test_new_writes_a_skill_that_lints_clean_and_can_be_trusted_and_read(machine: Machine) -> None:
    machine.metier("skills", "new", "meeting-notes")
    linted = machine.json("skills", "lint", "skills", "--json")
    assert [(each["name"], each["status"], each["diagnostics"]) for each in linted] == [
        ("meeting-notes", "usable", [])
    ]
    assert "nothing was changed" in machine.metier("skills", "new", "meeting-notes", check=2).stderr
    assert machine.metier("call", "read_skill", '{"name": "meeting-notes"}', check=3).stderr.startswith(
        "Refused (not_trusted)"
    )
    machine.metier("skills", "trust", "meeting-notes", "--yes")
    assert "Meeting notes" in machine.metier("call", "read_skill", '{"name": "meeting-notes"}').stdout


@pytest.mark.parametrize("name", ["../x", "a/b", "Upper", "", "-x", "a--b", "x" * 65])
def test_new_refuses_a_bad_name_and_writes_nothing(machine: Machine, name: str) -> None:
    machine.metier("skills", "new", "--", name, check=2)
    assert list(machine.project.iterdir()) == []


def test_trust_asks_before_it_trusts_and_without_an_answer_nothing_changes(machine: Machine) -> None:
    write_skill(machine.project / "skills/theirs")
    assert "Trust exactly this?" in machine.metier("skills", "trust", "theirs", check=1, stdin="n\n").stdout
    machine.metier("skills", "trust", "theirs", check=130, stdin="")
    assert "theirs" not in {
        each["name"] for each in machine.json("skills", "list", "--json") if each["status"] == "usable"
    }
    machine.metier("skills", "trust", "theirs", stdin="y\n")
    assert own_rows(machine.metier("skills", "list").stdout)[0].startswith("✓ theirs")
    machine.metier("skills", "untrust", "theirs")
    assert own_rows(machine.metier("skills", "list").stdout)[0].startswith("✗ theirs")


def test_trust_shows_what_changed_since_last_time(machine: Machine) -> None:
    skill = write_skill(machine.project / "skills/theirs")
    machine.metier("skills", "trust", "theirs", "--yes")
    write_skill(skill, metadata='{"openclaw": {"requires": {"bins": ["curl"]}}}')
    machine.program("curl")
    text = machine.metier("skills", "info", "theirs").stdout
    assert "now also may:  run curl" in text
    assert "SKILL.md" in text
    assert "new since last time: run curl" in machine.metier("skills", "trust", "theirs", "--yes").stdout


def test_trusting_all_takes_every_skill_that_waits(machine: Machine) -> None:
    for name in ("one", "two"):
        write_skill(machine.project / f"skills/{name}")
    assert machine.json("skills", "trust", "--all", "--yes", "--json") == [
        {"name": "one", "problem": ""},
        {"name": "two", "problem": ""},
    ]
    assert machine.metier("skills", "trust", "--all", "--yes").stdout == "No skill waits to be trusted.\n"


def test_lint_has_its_stable_fields_for_every_file_and_looks_at_no_trust(machine: Machine) -> None:
    write_skill(machine.top / "any/a", metadata=GITHUB)
    write_skill(machine.top / "any/a/nested/b")
    write_skill(machine.top / "any/.hidden/c")
    (machine.top / "any/d").mkdir()
    (machine.top / "any/d/Skill.MD").write_text("---\nname: d\n---\n", encoding="utf-8")
    linted = machine.json("skills", "lint", str(machine.top / "any"), "--json", check=1)
    fields = [
        "path",
        "name",
        "description",
        "dialect",
        "digest",
        "status",
        "diagnostics",
        "missing",
        "metadata",
    ]
    assert all(list(each) == fields for each in linted)
    by_name = {each["name"]: each for each in linted}
    assert {name: each["status"] for name, each in by_name.items()} == {
        "a": "unavailable",
        "b": "usable",
        "c": "usable",
        "d": "broken",
    }
    assert by_name["a"]["dialect"] == "openclaw"
    assert by_name["a"]["missing"][0]["name"] == "gh"
    assert by_name["a"]["metadata"]["requires"] == {"bins": ["gh"], "anyBins": [], "env": [], "config": []}
    assert by_name["b"]["metadata"] is None
    assert set(by_name["d"]["diagnostics"][0]) == {"code", "severity", "message", "line"}


def test_lint_takes_a_single_file_and_says_when_there_is_none(machine: Machine) -> None:
    skill = write_skill(machine.top / "one")
    assert machine.json("skills", "lint", str(skill / "SKILL.md"), "--json")[0]["status"] == "usable"


def test_lint_gives_the_digest_that_trust_binds(machine: Machine) -> None:
    write_skill(machine.project / "skills/theirs")
    digest = machine.json("skills", "lint", "skills", "--json")[0]["digest"]
    machine.metier("skills", "trust", "theirs", "--yes")
    trusted = next(each for each in machine.json("skills", "list", "--json") if each["name"] == "theirs")
    assert trusted["digest"] == digest


def test_prompt_shows_usable_skills_only_unless_asked(machine: Machine) -> None:
    write_skill(machine.skills / "github", metadata=GITHUB)
    write_skill(machine.skills / "notes", body="Write it down.")
    text = machine.metier("prompt").stdout
    assert "<name>\nnotes\n</name>" in text
    assert "github" not in text
    assert "github" in machine.metier("prompt", "--include-unavailable").stdout
    full = machine.metier("prompt", "--full", "--system", "You help.").stdout
    assert full.startswith("You help.\n\n# Available Skills\n\n## notes\n\nWrite it down.\n\n---\n\n")


def test_prompt_chooses_by_message_in_a_large_catalog(machine: Machine) -> None:
    for number in range(30):
        write_skill(machine.skills / f"filler-{number}", description=f"Number {number}.")
    write_skill(machine.skills / "spreadsheets", description="Work with spreadsheet tables.")
    there = _usable(machine)
    assert there > 31, "those that ship are there too"
    made = machine.json("prompt", "--message", "please open my spreadsheet", "--max", "3", "--json")
    assert made["skills"] == ["spreadsheets"]
    assert len(made["dropped"]) == len(made["left_out"]["message"]) == there - 1
    assert f"Listed: 1 of {there} skills." in made["text"]
    told = machine.metier("prompt", "--message", "please open my spreadsheet", "--max", "3").stderr
    assert f"Left out because they do not fit the message: {there - 1} (filler-0, " in told
    assert f" and {there - 6} more)" in told
    assert "room" not in told
    none = machine.metier("prompt", "--message", "zzzz qqqq")
    assert none.stdout.count("<skill>") == there
    assert none.stderr == ""


def _usable(machine: Machine) -> int:
    return sum(1 for each in machine.json("skills", "list", "--json") if each["status"] == "usable")


def test_every_option_of_prompt_counts_or_is_refused(machine: Machine) -> None:
    for number in range(5):
        write_skill(machine.skills / f"skill-{number}")
    done = machine.metier("prompt", "--max", "2", "--system", "You help.")
    assert done.stdout.startswith("You help.\n\nSkills hold")
    assert done.stdout.count("<skill>") == 2
    left_out = _usable(machine) - 2
    assert f"Left out because of the limit on their number: {left_out} (skill-2, " in done.stderr
    refused = machine.metier("prompt", "--full", "--budget", "500", check=2)
    assert "--budget is for the list" in refused.stderr
    assert refused.stdout == ""


def test_prompt_says_what_it_dropped_for_lack_of_room(machine: Machine) -> None:
    for number in range(40):
        write_skill(machine.skills / f"skill-{number:02}", description="words " * 100)
    done = machine.metier("prompt", "--budget", "2500")
    assert len(done.stdout) <= 2501
    assert "Left out for lack of room" in done.stderr


def test_a_call_is_recorded_and_the_record_verifies(machine: Machine) -> None:
    write_skill(machine.skills / "notes", body="Write it down.")
    outcome = machine.json("call", "read_skill", '{"name": "notes"}', "--json")
    assert outcome["outcome"] == "completed"
    records = [json.loads(line) for line in machine.metier("audit", "tail", "--json").stdout.splitlines()]
    assert [record["event"] for record in records] == [
        "skill_execution_started",
        "skill_pinned",
        "skill_executed",
    ]
    assert records[0]["principal"] == "agent:cli"
    assert "3 records, nothing changed" in machine.metier("audit", "verify").stdout


def test_a_changed_record_is_found_and_named(machine: Machine) -> None:
    machine.metier("call", "read_skill", '{"name": "writing-skills"}')
    head = machine.metier("audit", "verify").stdout.rsplit(" ", 1)[1].strip()
    machine.metier("audit", "verify", "--expect", head)
    with sqlite3.connect(machine.state / "state.db") as database:
        database.execute("UPDATE audit SET body = replace(body, 'agent:cli', 'agent:cl1') WHERE seq = 1")
    database.close()
    assert "record 1" in machine.metier("audit", "verify", check=1).stderr


def test_a_refused_call_says_what_why_and_what_to_do(machine: Machine) -> None:
    write_skill(machine.project / "skills/theirs")
    done = machine.metier("call", "read_skill", '{"name": "theirs"}', check=3)
    assert done.stdout == ""
    assert "Refused (not_trusted); nothing ran." in done.stderr
    assert "metier skills trust" in done.stderr


@pytest.mark.parametrize(
    "text", ["{", "[1", '{"a": NaN}', '{"name": "x", "name": "y"}', "not json", '{"a": 9007199254740993}']
)
def test_arguments_that_are_not_strict_json_are_a_refused_call_like_any_other(
    machine: Machine, text: str
) -> None:
    refused = machine.json("call", "read_skill", text, "--json", check=3)
    assert refused["code"] == "invalid_arguments"
    assert "not strict JSON" in refused["reasons"][0]
    assert "strict JSON object" in refused["remedy"]
    lines = [json.loads(line) for line in machine.metier("audit", "export").stdout.splitlines()]
    events = [each["event"] for each in lines if each.get("callId") == refused["call_id"]]
    assert events == ["skill_execution_blocked"]


def test_arguments_can_come_from_standard_input(machine: Machine) -> None:
    assert (
        "Writing skills"
        in machine.metier("call", "read_skill", "-", stdin='{"name": "writing-skills"}').stdout
    )


def test_reading_a_file_of_a_skill_stays_inside_the_skill(machine: Machine) -> None:
    skill = write_skill(machine.skills / "notes")
    (skill / "references").mkdir()
    (skill / "references/more.md").write_text("More.", encoding="utf-8")
    (machine.skills / "secret").write_text("secret", encoding="utf-8")
    arguments = json.dumps({"name": "notes", "path": "references/more.md"})
    assert machine.metier("call", "read_skill", arguments).stdout.splitlines()[1] == "More."
    for path in (
        "../secret",
        "/etc/hostname",
        "references/../../secret",
        "references/more.md/",
        "",
        "\\..\\secret",
    ):
        done = machine.metier("call", "read_skill", json.dumps({"name": "notes", "path": path}), check=None)
        assert done.returncode in (1, 3)
        assert "secret\n" not in done.stdout


def test_inj_09_no_escape_sequence_of_a_skill_reaches_the_terminal(machine: Machine) -> None:
    evil = "\x1b[2J\x1b]52;c;ZXZpbA==\x07\x1b]8;;http://x\x1b\\click\x1bP+q\x1b\\\x9b31m\b\b"
    write_skill(
        machine.skills / "evil",
        description=f"Nice {evil} words",
        homepage=json.dumps(f"http://{evil}"),
        body=evil,
    )
    (machine.skills / f"odd{evil.replace('/', '')}").mkdir()
    write_skill(machine.skills / f"odd{evil.replace('/', '')}", "odd-folder")
    for command in (
        ["skills", "list"],
        ["skills", "check"],
        ["skills", "info", "evil"],
        ["skills", "lint", str(machine.skills)],
        ["prompt"],
        ["prompt", "--full"],
        ["prompt", "--full", "--json"],
        ["call", "read_skill", '{"name": "evil"}'],
        ["skills", "trust", "evil", "--yes"],
        ["audit", "tail"],
    ):
        done = machine.metier(*command, check=None)
        assert not set(done.stdout + done.stderr) & set("\x1b\x07\x08\x9b"), command
    assert "\\u{1b}" in machine.metier("skills", "list").stdout


def test_inj_10_no_line_trick_of_a_skill_makes_a_second_row(machine: Machine) -> None:
    tricks = "\r✓ forged - row\u2028✓ forged - row\x85✓ forged - row\x0b✓ forged - row\n✓ forged - row"
    write_skill(machine.skills / "evil", description=f"Nice{tricks}")
    lines = machine.metier("skills", "list").stdout.splitlines()
    assert len(lines) == len(BUNDLED - {"xpell-agent-skill-telegram"}) + 1, (
        "one that was never started is no row"
    )
    assert not [line for line in lines if line.startswith("✓ forged")]


def test_inj_10_control_printed_as_it_is_the_description_forges_rows() -> None:
    tricks = "Nice\r✓ forged - row\u2028✓ forged - row"
    assert [line for line in f"✓ evil - {tricks}".splitlines() if line.startswith("✓ forged")]


def modules_after(machine: Machine, *args: str) -> set[str]:
    """The modules a command imported, as Python itself saw it."""
    code = (
        "import sys; sys.argv = ['metier', *sys.argv[1:]]\n"
        "from metier.doors.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('\\n' + ' '.join(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *args],
        env=machine.environ,
        cwd=machine.project,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.rstrip().rsplit("\n", 1)[1].split())


def test_help_and_list_import_nothing_heavy(machine: Machine) -> None:
    for number in range(60):
        write_skill(machine.skills / f"skill-{number}")
    assert not modules_after(machine, "--help") & HEAVY
    assert not modules_after(machine, "skills", "list") & HEAVY
    assert "click" in modules_after(machine, "--help")  # the measure sees what is imported


def test_looking_at_skills_creates_no_state_but_the_cache(machine: Machine) -> None:
    write_skill(machine.project / "skills/one")
    for command in (
        ["skills", "list"],
        ["skills", "check"],
        ["prompt"],
        ["skills", "info", "one"],
        ["audit", "tail"],
    ):
        machine.metier(*command, check=None)
    assert {path.name for path in machine.state.iterdir()} <= {"cache"}


def test_a_cache_or_store_that_cannot_be_written_does_not_keep_anyone_from_looking(machine: Machine) -> None:
    write_skill(machine.project / "skills/one")
    machine.state.mkdir(mode=0o700)
    for name in ("cache", "bundles"):
        (machine.state / name).write_text("a file where a folder should be", encoding="utf-8")
    assert "one" in machine.metier("skills", "list").stdout
    done = machine.metier("call", "read_skill", '{"name": "writing-skills"}', check=3)
    assert "bundles" in done.stderr


def test_configuration_mistakes_are_named_with_a_way_out(machine: Machine) -> None:
    machine.state.mkdir()
    config = machine.state / "metier.toml"
    config.write_text('[skills]\nalow = ["x"]\n', encoding="utf-8")
    assert "unknown key 'alow' (did you mean 'allow'?)" in machine.metier("skills", "list", check=5).stderr
    config.write_text("[skills\n", encoding="utf-8")
    assert "line 1" in machine.metier("skills", "list", check=5).stderr
    config.write_text("", encoding="utf-8")
    config.chmod(0o666)
    assert "chmod go-w" in machine.metier("skills", "list", check=5).stderr


def test_a_broken_pipe_is_no_error(machine: Machine) -> None:
    for number in range(300):
        write_skill(machine.skills / f"skill-{number}", description="words " * 100)
    done = machine.shell(
        "bash -c 'set -o pipefail; metier skills list 2>errors | head -1; echo $?'; cat errors"
    )
    assert done.stdout.splitlines()[1:] == ["0"]


def test_an_interrupt_while_the_command_is_being_loaded_is_no_traceback(machine: Machine) -> None:
    code = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'metier.doors.cli': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from metier.__main__ import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], env=machine.environ, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "")
    [command] = [each for each in entry_points(group="console_scripts") if each.name == "metier"]
    assert command.value == "metier.__main__:main"


def test_verbose_and_log_file_say_what_is_done(machine: Machine) -> None:
    write_skill(machine.skills / "one")
    write_skill(machine.skills / "github", metadata=GITHUB)
    done = machine.metier("--verbose", "--log-file", "log.txt", "skills", "list")
    assert "skill loaded: one" in done.stderr
    assert (
        'WARNING metier.catalog: skill unavailable: github: skill "github" requires binary "gh"'
        in done.stderr
    )
    assert "roots in" in (machine.project / "log.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(machine: Machine, shell: str) -> None:
    assert "_METIER_COMPLETE" in machine.metier("completion", shell).stdout


def test_on_a_terminal_the_list_is_a_table_that_shows_mark_and_whole_names(machine: Machine) -> None:
    write_skill(machine.skills / "github", description="words " * 80, metadata=GITHUB)
    write_skill(machine.skills / "a-rather-long-name", description="words " * 80)
    metier = Path(sys.executable).with_name("metier")
    done = subprocess.run(
        ["script", "-qc", f"stty cols 100; {metier} skills list", "/dev/null"],
        env={**machine.environ, "PATH": f"{machine.bin}:/usr/bin:/bin", "TERM": "xterm"},
        cwd=machine.project,
        capture_output=True,
        text=True,
    )
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in done.stdout.splitlines()]
    first, second = (line for line in lines if "a-rather-long-name" in line or "github" in line)
    assert first.startswith("✓")
    assert "a-rather-long-name words words" in first
    assert second.startswith("✗ 🐙 github")
    assert 'requires binary "gh"' in second
    assert max(map(len, lines)) <= 100


def test_what_ships_and_was_never_started_is_no_row_of_the_list_and_no_problem(machine: Machine) -> None:
    write_skill(machine.skills / "tea")
    shown = machine.metier("skills", "list")
    assert "tea" in shown.stdout
    assert "telegram" not in shown.stdout
    assert "disabled" not in shown.stderr
    assert "`metier skills start`: xpell-agent-skill-telegram" in shown.stderr
    checked = machine.metier("skills", "check", check=0)
    assert "· xpell-agent-skill-telegram: disabled" in checked.stdout
    assert "`metier skills start xpell-agent-skill-telegram` lets it live" in checked.stdout
    assert checked.stderr == "Every skill is usable.\n"
    # The positive control: what the operator himself switched off is shown as that.
    (machine.state / "metier.toml").write_text('[skills]\ndisabled = ["calendar"]\n', encoding="utf-8")
    shown = machine.metier("skills", "list")
    assert "✗ calendar" in shown.stdout
    assert "1 disabled" in shown.stderr


def test_what_is_shown_before_the_question_is_what_is_trusted(machine: Machine) -> None:
    write_skill(machine.project / "skills/aaa")
    second = write_skill(machine.project / "skills/bbb")
    metier = Path(sys.executable).with_name("metier")
    process = subprocess.Popen(
        [str(metier), "skills", "trust", "aaa", "bbb"],
        cwd=machine.project,
        env=machine.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    assert process.stdin is not None
    assert process.stdout is not None
    shown = ""
    while "Trust exactly this?" not in shown:
        shown += process.stdout.read(1)
    write_skill(second, metadata='{"openclaw": {"requires": {"bins": ["bash"], "env": ["AWS_SECRET"]}}}')
    process.stdin.write("y\ny\n")
    process.stdin.close()
    rest = process.stdout.read()
    process.stdout.close()
    assert process.wait(timeout=30) == 0
    assert "run bash" in rest
    assert "see the variables AWS_SECRET" in rest


@pytest.mark.parametrize("umask", [0o002, 0o022, 0o000])
def test_sec_08_the_state_folder_is_private_from_the_first_look_on(machine: Machine, umask: int) -> None:
    write_skill(machine.project / "skills/one")
    machine.metier("skills", "list", umask=umask)
    machine.metier("call", "read_skill", '{"name": "writing-skills"}', umask=umask)
    for path in (machine.state, machine.state / "cache", machine.state / "bundles"):
        assert path.stat().st_mode & 0o777 == 0o700, path


def test_trusting_all_does_not_give_back_what_a_person_took(machine: Machine) -> None:
    write_skill(machine.project / "skills/evil")
    machine.metier("skills", "trust", "evil", "--yes")
    machine.metier("skills", "untrust", "evil")
    assert machine.metier("skills", "trust", "--all", "--yes").stdout == "No skill waits to be trusted.\n"
    machine.metier("skills", "trust", "evil", "--yes")


def test_trust_can_be_taken_from_a_skill_whose_folder_is_gone_and_a_misspelled_name_changes_nothing(
    machine: Machine,
) -> None:
    for name in ("one", "two"):
        write_skill(machine.project / f"skills/{name}")
    machine.metier("skills", "trust", "--all", "--yes")
    (machine.project / "skills/one").rename(machine.top / "gone")
    machine.metier("skills", "untrust", "two", "twoo", check=2)
    assert "✓ two" in machine.metier("skills", "list").stdout
    machine.metier("skills", "untrust", "one")
    (machine.top / "gone").rename(machine.project / "skills/one")
    assert "✗ one" in machine.metier("skills", "list").stdout


def test_check_looks_at_every_file_and_agrees_with_the_gate(machine: Machine) -> None:
    os.mkfifo(write_skill(machine.skills / "odd") / "pipe")
    bound = write_skill(machine.skills / "bound")
    machine.metier("call", "read_skill", '{"name": "bound"}')
    (bound / "run.sh").write_text("true", encoding="utf-8")
    report = machine.json("skills", "check", "--json", check=1)
    assert {each["name"]: each["status"] for each in report["skills"] if each["name"] not in BUNDLED} == {
        "bound": "pending_approval",
        "odd": "broken",
    }
    for name, code in (("odd", "skill_broken"), ("bound", "not_trusted")):
        assert (
            machine.json("call", "read_skill", json.dumps({"name": name}), "--json", check=3)["code"] == code
        )


def test_a_working_directory_that_is_gone_is_said(machine: Machine) -> None:
    done = machine.shell("mkdir gone; cd gone; rmdir ../gone; metier skills list")
    assert done.returncode == 5
    assert "the working directory is gone" in done.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_streams_are_no_fault(machine: Machine, closed: str) -> None:
    for command in ("skills list", "call read_skill -"):
        done = machine.shell(f"metier {command} {closed}")
        assert done.returncode in (0, 3), (command, done)
        assert "internal error" not in done.stderr


def test_output_that_cannot_be_written_is_said(machine: Machine) -> None:
    done = machine.shell("metier skills list > /dev/full")
    assert done.returncode == 5
    assert "could not be written" in done.stderr


def test_a_skill_switched_off_or_broken_elsewhere_is_refused_with_its_code(machine: Machine) -> None:
    write_skill(machine.skills / "off")
    (machine.state / "metier.toml").write_text('[skills]\ndisabled = ["off"]\n', encoding="utf-8")
    outcome = machine.json("call", "read_skill", '{"name": "off"}', "--json", check=3)
    assert outcome["code"] == "skill_disabled"
    assert outcome["remedy"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read_skill", '{"name": "CANARY-7f3a"}'),
        ("read_skill", '{"name": "x", "CANARY-7f3a": 1}'),
        ("read_skill", '{"name": "writing-skills", "path": "CANARY-7f3a"}'),
        ("CANARY-7f3a", "{}"),
    ],
)
def test_aud_16_with_hashes_nothing_a_caller_sent_is_on_the_disk(
    machine: Machine, tool: str, arguments: str
) -> None:
    machine.state.mkdir(mode=0o700)
    (machine.state / "metier.toml").write_text('[audit]\npayloads = "hashes"\n', encoding="utf-8")
    machine.metier("call", tool, arguments, check=None)
    assert (
        "1 records" in machine.metier("audit", "verify").stdout
        or "2 records" in machine.metier("audit", "verify").stdout
    )
    written = b"".join(path.read_bytes() for path in machine.state.rglob("*") if path.is_file())
    assert b"CANARY-7f3a" not in written


def test_aud_16_control_with_full_payloads_it_is(machine: Machine) -> None:
    machine.state.mkdir(mode=0o700)
    (machine.state / "metier.toml").write_text('[audit]\npayloads = "full"\n', encoding="utf-8")
    machine.metier("call", "read_skill", '{"name": "CANARY-7f3a"}', check=3)
    written = b"".join(path.read_bytes() for path in machine.state.rglob("*") if path.is_file())
    assert b"CANARY-7f3a" in written


def test_a_missing_folder_is_said_and_the_other_skills_load(machine: Machine) -> None:
    write_skill(machine.top / "there/one")
    done = machine.metier("--root", "nowhere", "--root", str(machine.top / "there"), "skills", "list")
    assert "there is no folder nowhere" in done.stderr
    assert "✓ one" in done.stdout
    machine.state.mkdir(mode=0o700, exist_ok=True)
    (machine.state / "metier.toml").write_text('[skills]\nroots = ["/not/there"]\n', encoding="utf-8")
    assert "there is no folder /not/there" in machine.metier("skills", "list").stderr
    done = machine.metier("skills", "lint", "nowhere", str(machine.top / "there"), "--json", check=1)
    assert [each["name"] for each in json.loads(done.stdout)] == ["one"]
    assert "nowhere" in done.stderr


def test_one_body_never_breaks_the_prompt_of_all(machine: Machine) -> None:
    write_skill(machine.skills / "good", body="Fine.")
    write_skill(machine.skills / "odd", body="x &#" + "1" * 5_000 + "; y\n# " + "\ufdfa" * 100_000)
    assert "## good" in machine.metier("prompt", "--full").stdout


def test_a_tool_of_a_skill_that_waits_for_trust_is_refused_with_that_and_what_to_do(machine: Machine) -> None:
    write_skill(machine.project / "skills/notes")
    said = machine.metier("call", "notes/write", check=3).stderr
    assert (
        "'notes' is there and pending approval: not trusted yet" in said
        and "metier skills info notes" in said
    )
    assert "there is no tool" in machine.metier("call", "nothing/write", check=3).stderr
