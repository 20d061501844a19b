"""`metier policy check`, and the rules where they count: in front of a call."""

import json
from pathlib import Path

import pytest

from machine import Machine, write_skill
from metier import Completed, Refused, SyncRuntime

GOOD = """\
[[rule]]
decision = "deny"
because = "the notes are mine"
tool = "read_skill"
when = "args.name == 'diary'"
match = [{ tool = "read_skill", args = { name = "diary" } }]
not_match = [{ tool = "read_skill", args = { name = "github" } }]

[[rule]]
decision = "ask"
because = "to be sure"
effect = "act"
"""


def write(machine: Machine, text: str) -> Path:
    machine.state.mkdir(mode=0o700, exist_ok=True)
    file = machine.state / "policy.toml"
    file.write_text(text)
    file.chmod(0o600)
    return file


def test_where_there_are_no_rules_it_says_so(machine: Machine) -> None:
    assert "no rules" in machine.metier("policy", "check").stdout
    said = machine.json("policy", "check", "--json")
    assert (said["ok"], said["there"], said["rules"]) == (True, False, 0)


def test_good_rules_are_counted(machine: Machine) -> None:
    write(machine, GOOD)
    said = machine.metier("policy", "check").stdout
    assert "2 rules (0 allow, 1 ask, 1 deny), 2 examples hold" in said
    report = machine.json("policy", "check", "--json")
    assert report["ok"] and report["conditions"] == 1 and report["digest"].startswith("sha256:")


def test_everything_that_is_wrong_is_said_with_its_line_and_the_way_out(machine: Machine) -> None:
    write(machine, GOOD + 'efect = "act"\n[[rule]]\ndecision = "allow"\n')
    done = machine.metier("policy", "check", check=1)
    assert "line 13, rule 2: unknown key 'efect' (did you mean 'effect'?)" in done.stdout
    assert "line 14, rule 3: it has no 'because'" in done.stdout
    assert "docs/policy.md" in done.stdout
    assert "everything is denied" in done.stderr
    report = machine.json("policy", "check", "--json", check=1)
    assert not report["ok"]
    assert [(each["line"], each["rule"]) for each in report["problems"]] == [(13, 2), (14, 3)]


def test_another_file_can_be_checked_before_it_counts(machine: Machine) -> None:
    (machine.project / "new.toml").write_text(GOOD.replace("'diary'", "'dairy'"))
    done = machine.metier("policy", "check", "new.toml", check=1)
    assert "line 6, rule 1: example 1 of `match`: the rule does not match it" in done.stdout
    assert "no rules" in machine.metier("policy", "check").stdout
    assert "no such file" in machine.metier("policy", "check", "old.toml", check=1).stdout


def test_a_rule_that_nothing_matches_today_is_a_warning(machine: Machine) -> None:
    write_skill(machine.skills / "diary")
    rule = '[[rule]]\ndecision = "deny"\nbecause = "so"\n'
    about = ['tool = "read_skil"', 'tool = "mail/*"', 'skill = "dairy"', 'tool = "read_skill"\nrisk = "high"']
    fine = ['tool = "read_skill"', 'skill = "diary"', 'tool = "operator.*"', 'principal = "agent:*"']
    write(machine, "".join(f"{rule}{each}\n" for each in [*about, *fine]))
    report = machine.json("policy", "check", "--json")
    assert report["ok"]
    assert [each["rule"] for each in report["warnings"]] == [1, 2, 3, 4]
    assert "did you mean 'read_skill'" in report["warnings"][0]["message"]
    assert "did you mean 'diary'" in report["warnings"][2]["message"]


def test_hostile_text_in_the_file_moves_no_cursor(machine: Machine) -> None:
    write(machine, '[[rule]]\ndecision = "deny"\nbecause = "x"\n"a\\u001b[2J" = 1\n')
    assert "\x1b" not in machine.metier("policy", "check", check=1).stdout


@pytest.mark.parametrize("name", ["diary", "recipes"])
def test_a_rule_stands_in_front_of_a_call(machine: Machine, name: str) -> None:
    write_skill(machine.skills / name, body="Dear diary.")
    asked = json.dumps({"name": name})
    machine.metier("call", "read_skill", asked)
    write(machine, GOOD)
    done = machine.metier("call", "read_skill", asked, check=3 if name == "diary" else 0)
    assert ("rule 1: the notes are mine" in done.stdout + done.stderr) is (name == "diary")


def test_cap_15_a_call_is_refused_while_the_rules_cannot_be_used(machine: Machine) -> None:
    write_skill(machine.skills / "recipes")
    asked = json.dumps({"name": "recipes"})
    write(machine, GOOD)
    machine.metier("call", "read_skill", asked)
    write(machine, GOOD.replace('"ask"', '"perhaps"'))
    done = machine.metier("call", "read_skill", asked, check=3)
    assert "line 10" in done.stdout + done.stderr
    assert "→ The operator corrects policy.toml" in done.stderr
    assert "perhaps" in machine.metier("audit", "tail").stdout
    write(machine, GOOD)
    machine.metier("call", "read_skill", asked)


def test_a_changed_file_counts_from_the_next_call_on(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(machine.home))
    monkeypatch.delenv("METIER_HOME", raising=False)
    write_skill(machine.skills / "diary")
    with SyncRuntime.open(project=str(machine.project), watch=False) as runtime:
        assert isinstance(runtime.call("read_skill", {"name": "diary"}), Completed)
        write(machine, GOOD)
        refused = runtime.call("read_skill", {"name": "diary"})
        assert isinstance(refused, Refused)
        assert refused.reasons == ("rule 1: the notes are mine",)
        write(machine, GOOD.replace("diary", "letters"))
        assert isinstance(runtime.call("read_skill", {"name": "diary"}), Completed)


def test_cap_15_a_file_that_is_gone_denies_everything_until_somebody_says_that_there_are_no_rules(
    machine: Machine,
) -> None:
    write_skill(machine.skills / "recipes")
    asked = json.dumps({"name": "recipes"})
    assert "There were none" in machine.metier("policy", "forget").stdout
    file = write(machine, GOOD)
    machine.metier("call", "read_skill", asked)
    refused = machine.metier("policy", "forget", check=2)
    assert "is there" in refused.stderr
    file.unlink()
    done = machine.metier("call", "read_skill", asked, check=3)
    assert "metier policy forget" in done.stdout + done.stderr
    assert "everything is denied" in machine.metier("policy", "check", check=1).stderr
    report = machine.json("policy", "check", "--json", check=1)
    assert (report["ok"], report["there"]) == (False, False)
    assert "There are no rules now" in machine.metier("policy", "forget").stdout
    machine.metier("call", "read_skill", asked)
    assert "no rules" in machine.metier("policy", "check").stdout


def test_rules_stand_in_front_of_the_owners_own_runs_too(machine: Machine) -> None:
    (machine.project / "hello.py").write_text("print('hello')\n")
    rule = '[[rule]]\ndecision = "deny"\nbecause = "not today"\ntool = "{}"\n'
    write(machine, rule.format("operator.other"))
    assert machine.metier("run", "hello.py").stdout == "hello\n"
    write(machine, rule.format("operator.run"))
    assert "not today" in machine.metier("run", "hello.py", check=3).stderr


@pytest.mark.parametrize("name", ["fs_write", "fs_write/execute"])
def test_cap_15_the_rule_in_the_documentation_denies_what_it_says(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Its tool has a name that models are told and a whole one. A call is denied by whichever it comes, and there is nothing to warn of."""
    text = (Path(__file__).parents[2] / "docs/policy.md").read_text(encoding="utf-8")
    rule = text.partition("```toml\n")[2].partition("\n\n")[0]
    assert 'tool = ["fs_write", ' in rule
    write(machine, rule.replace("/etc/", "memory/"))
    assert machine.json("policy", "check", "--json")["warnings"] == []
    monkeypatch.setenv("HOME", str(machine.home))
    monkeypatch.delenv("METIER_HOME", raising=False)
    with SyncRuntime.open(project=str(machine.project), watch=False) as metier:
        for path in ("memory/tea.md", "notes/tea.md"):
            outcome = metier.call(name, {"path": path, "content": "tea"})
            denied = isinstance(outcome, Refused) and any("no-etc" in each for each in outcome.reasons)
            assert denied is path.startswith("memory/"), outcome


def test_an_allow_that_gives_no_whole_name_is_a_warning_that_says_it(machine: Machine) -> None:
    write(machine, '[[rule]]\ndecision = "allow"\nbecause = "so"\ntool = "fs_read"\n')
    (said,) = machine.json("policy", "check", "--json")["warnings"]
    assert "did you mean 'fs_read/execute'" in said["message"]
