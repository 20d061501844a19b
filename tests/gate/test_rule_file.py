"""`policy.toml`: what it may say, what is wrong with it and where, and that a wrong one denies everything."""

import os
import re
from pathlib import Path

import pytest

from machine import Machine
from metier.gate.rule_file import Examined, examine, load_rules, policy_file
from metier.model.call import Call, Principal, ValidCall
from metier.model.entry import Operation
from metier.model.permission import PermissionSet
from metier.model.skill import Tool
from metier.model.verdict import Decision

GOOD = """\
# The first line is a comment.
[[rule]]
name = "no-etc"
decision = "deny"
because = "etc belongs to the machine"
tool = ["fs_write", "fs.*"]
when = "args.path.startsWith('/etc/')"
match = [{ tool = "fs_write", args = { path = "/etc/passwd" } }, { tool = "fs.append", args = { path = "/etc/x" } }]
not_match = [{ tool = "fs_write", args = { path = "/srv/x" } }, { tool = "fsx", args = { path = "/etc/x" } }]

[[rule]]
decision = "allow"
because = "reading is fine"
tool = "fs_read"
"""


def read(tmp_path: Path, text: str | bytes, mode: int = 0o600) -> Examined:
    file = tmp_path / "policy.toml"
    file.write_bytes(text.encode("utf-8") if isinstance(text, str) else text)
    file.chmod(mode)
    return examine(str(file))


def asked(found: Examined, tool: str = "fs_read", **arguments: str) -> Decision:
    made = Tool(name=tool, description="", parameters={}, entry=Operation(module="m", operation="o"))
    call = Call(id="1", principal=Principal(id="agent:a", kind="agent"), tool=tool, arguments={**arguments})
    valid = ValidCall(call=call, tool=made, arguments={**arguments}, skill=None, permissions=PermissionSet())
    return found.rules.judge(valid).decision


def test_a_good_file_says_what_is_written(tmp_path: Path) -> None:
    found = read(tmp_path, GOOD)
    assert found.problems == () and found.rules.problem == ""
    assert found.examples == 4
    assert found.rules.digest.startswith("sha256:")
    assert [rule.line for rule in found.rules.rules] == [2, 11]
    assert asked(found, "fs_write", path="/etc/hosts") is Decision.DENY
    assert asked(found, "fs_write", path="/srv/hosts") is Decision.ABSTAIN
    assert asked(found) is Decision.ALLOW


def test_a_file_with_a_second_name_denies_everything_until_it_has_one_again(tmp_path: Path) -> None:
    assert read(tmp_path, GOOD).problems == ()
    other = tmp_path / "granted.txt"
    os.link(tmp_path / "policy.toml", other)
    found = examine(str(tmp_path / "policy.toml"))
    (problem,) = found.problems
    assert "second name" in problem.message
    assert "cp -p" in problem.remedy
    assert asked(found) is Decision.DENY
    other.unlink()
    assert asked(examine(str(tmp_path / "policy.toml"))) is Decision.ALLOW


def test_where_there_is_no_file_there_are_no_rules(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    settings = machine.settings()
    rules = load_rules(settings)
    assert (rules.digest, rules.problem, rules.rules) == ("", "", ())
    machine.state.mkdir()
    Path(policy_file(settings)).write_text(GOOD)
    assert len(load_rules(settings).rules) == 2


def test_the_file_of_a_project_counts_for_nothing(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    (machine.project / "policy.toml").write_text(GOOD)
    assert load_rules(machine.settings()).rules == ()


RULE = '[[rule]]\ndecision = "deny"\nbecause = "so"\n'
BROKEN: dict[str, tuple[str | bytes, int, int, str]] = {
    # what is written: line, rule, what is said
    "unknown key": (GOOD + 'effects = "read"\n', 15, 2, "did you mean 'effect'"),
    "unknown key in an example": (RULE + 'match = [{ tol = "x" }]\n', 4, 1, "did you mean 'tool'"),
    "unknown table": (GOOD + "[defaults]\nx = 1\n", 0, 0, "'defaults'"),
    "wrong type": (RULE + "tool = 3\n", 4, 1, "tool"),
    "wrong type in a list": (RULE + "tool = ['a', 3]\n", 4, 1, "tool"),
    "wrong type of when": (RULE + "when = true\n", 4, 1, "when"),
    "rule is no table": ("rule = [1]\n", 0, 1, ""),
    "rule is one table": ('[rule]\ndecision = "deny"\nbecause = "so"\n', 0, 0, "[[rule]]"),
    "no such decision": ('[[rule]]\ndecision = "permit"\nbecause = "so"\n', 2, 1, "permit"),
    "no decision": ('[[rule]]\nbecause = "so"\n', 1, 1, "no 'decision'"),
    "no reason": ('[[rule]]\ndecision = "deny"\n', 1, 1, "no 'because'"),
    "empty reason": ('[[rule]]\ndecision = "deny"\nbecause = "  "\n', 3, 1, "empty"),
    "no such risk": (RULE + 'risk = "extreme"\n', 4, 1, "extreme"),
    "no such effect": (RULE + 'effect = ["read", "write"]\n', 4, 1, "write"),
    "no such cost": (RULE + 'cost = ""\n', 4, 1, "cost"),
    "empty list": (RULE + "tool = []\n", 4, 1, "empty list"),
    "empty name": (RULE + 'tool = ""\n', 4, 1, "tool"),
    "name with a blank": (RULE + 'tool = "fs_write "\n', 4, 1, "tool"),
    "star alone": (RULE + 'tool = "*"\n', 4, 1, "after /, . or :"),
    "star without a boundary": (RULE + 'tool = "fs*"\n', 4, 1, "after /, . or :"),
    "star in the middle": (RULE + 'tool = "fs.*.x"\n', 4, 1, "* is not taken"),
    "two stars": (RULE + 'principal = "agent:**"\n', 4, 1, "* is not taken"),
    "star in a channel": (RULE + 'channel = "chat:*"\n', 4, 1, "* is not taken"),
    "key given twice": (RULE + 'because = "again"\n', 4, 0, "TOML"),
    "half a line": (RULE + 'tool = "fs_', 4, 0, "TOML"),
    "not UTF-8": (RULE.encode() + b'name = "\xff"\n', 4, 0, "UTF-8"),
    "a key of very many parts": (RULE + "tool" + ".a" * 6_000 + " = 1\n", 4, 0, "more than 32 parts"),
    "a number that nobody can write": (RULE + "tool = " + "1" * 5_000 + "\n", 4, 0, "1,000 characters"),
    "no rule at all": ("", 0, 0, "[[rule]]"),
    "only a comment": ("# later\n", 0, 0, "[[rule]]"),
    "empty list of rules": ("rule = []\n", 0, 0, "[[rule]]"),
    "name given twice": (RULE + 'name = "a"\n' + RULE + 'name = "a"\n', 5, 2, "rule 1"),
    "odd name": (RULE + 'name = "A b"\n', 4, 1, "name"),
    "condition without an example": (RULE + "when = \"tool == 'x'\"\n", 4, 1, "match"),
    "condition that is none": (RULE + 'when = "tool =="\nmatch = [{ tool = "x" }]\n', 4, 1, "column"),
    "condition with map": (
        RULE + 'tool = "x"\nwhen = "args.l.map(x, x) == []"\nmatch = [{ tool = "x" }]\n', 5, 1, "map",
    ),
    "example that does not match": (RULE + 'tool = "x"\nmatch = [{ tool = "y" }]\n', 5, 1, "does not match it"),
    "example that matches": (
        RULE + 'tool = "x"\nmatch = [{ tool = "x" }]\nnot_match = [{ tool = "y" }, { tool = "x" }]\n', 6, 1, "example 2",
    ),
    "example that leaves out what counts": (RULE + 'tool = "x"\nmatch = [{ args = {} }]\n', 5, 1, "'tool'"),
    "example that cannot be decided": (
        RULE + "when = \"args.a == 1\"\nmatch = [{ args = { a = 1 } }]\nnot_match = [{}]\n", 6, 1, "'a'",
    ),
    "example that is no JSON": (
        RULE + 'tool = "x"\nmatch = [{ tool = "x", args = { at = 2026-01-01 } }]\n', 5, 1, "no arguments",
    ),
    "allow of everything": ('[[rule]]\ndecision = "allow"\nbecause = "so"\n', 2, 1, "tool, skill or principal"),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_cap_15_a_file_with_anything_wrong_denies_everything_and_says_where(
    tmp_path: Path, what: str
) -> None:
    text, line, number, said = BROKEN[what]
    assert asked(read(tmp_path, GOOD)) is Decision.ALLOW
    found = read(tmp_path, text)
    assert asked(found) is Decision.DENY
    assert asked(found, "anything") is Decision.DENY
    problem = found.problems[0]
    assert (problem.line, problem.rule) == (line, number), problem
    assert said in problem.message
    assert problem.remedy
    assert f"line {line}" in found.rules.problem or not line
    assert found.rules.digest


@pytest.mark.parametrize("mode", [0o622, 0o602, 0o620, 0o666, 0o777])
def test_cap_15_a_file_that_others_can_change_denies_everything(tmp_path: Path, mode: int) -> None:
    assert asked(read(tmp_path, GOOD, 0o644)) is Decision.ALLOW
    found = read(tmp_path, GOOD, mode)
    assert asked(found) is Decision.DENY
    assert "chmod" in found.problems[0].remedy


def test_cap_15_a_folder_that_others_can_change_denies_everything(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    assert asked(read(folder, GOOD)) is Decision.ALLOW
    folder.chmod(0o777)
    assert asked(read(folder, GOOD)) is Decision.DENY
    folder.chmod(0o1777)  # as /tmp is: nobody can put another file there in its place
    assert asked(read(folder, GOOD)) is Decision.ALLOW


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_cap_15_a_file_of_another_user_denies_everything(tmp_path: Path) -> None:
    assert asked(read(tmp_path, GOOD)) is Decision.ALLOW
    os.chown(tmp_path / "policy.toml", 12_345, 12_345)
    found = examine(str(tmp_path / "policy.toml"))
    assert asked(found) is Decision.DENY
    assert "12345" in found.problems[0].message


def test_cap_15_what_is_there_and_cannot_be_read_denies_everything(tmp_path: Path) -> None:
    places = {name: tmp_path / name for name in ("folder", "pipe", "nowhere", "circle", "large")}
    places["folder"].mkdir()
    os.mkfifo(places["pipe"])
    places["nowhere"].symlink_to(tmp_path / "gone")
    places["circle"].symlink_to(places["circle"])
    places["large"].write_text(GOOD + "#" * 1_048_576)
    for name, place in places.items():
        found = examine(str(place))
        assert asked(found) is Decision.DENY, name
        assert found.problems[0].remedy, name
    (tmp_path / "gone").write_text(GOOD)
    assert asked(examine(str(places["nowhere"]))) is Decision.ALLOW


def test_cap_15_a_half_written_file_never_lets_through_what_the_whole_one_denies(tmp_path: Path) -> None:
    whole = GOOD[: GOOD.index('\n[[rule]]\ndecision = "allow"')]
    assert asked(read(tmp_path, whole), "fs_write", path="/etc/passwd") is Decision.DENY
    for length in range(len(whole)):
        found = read(tmp_path, whole[:length])
        assert asked(found, "fs_write", path="/etc/passwd") is Decision.DENY, whole[:length]


def test_every_rule_that_is_wrong_is_named(tmp_path: Path) -> None:
    found = read(tmp_path, f"{RULE}tool = 3\n{GOOD}{RULE}risk = 'none'\n")
    assert [(each.rule, each.line) for each in found.problems] == [(1, 4), (4, 22)]
    assert "and 1 more" in found.rules.problem


def test_a_line_is_only_named_when_it_is_known(tmp_path: Path) -> None:
    listed = 'rule = [{ decision = "deny", because = "so" }, { decision = "deny" }]\n'
    assert [(each.rule, each.line) for each in read(tmp_path, listed).problems] == [(2, 0)]
    quoted = RULE.replace('"so"', '"""\n[[rule]]\n"""') + "tool = 3\n"
    assert [(each.rule, each.line) for each in read(tmp_path, quoted).problems] == [(1, 0)]


def test_the_same_bytes_are_compiled_once(tmp_path: Path) -> None:
    first = read(tmp_path, GOOD).rules
    assert read(tmp_path, GOOD).rules is first
    assert read(tmp_path, GOOD + "\n").rules.digest != first.digest


def test_examples_are_read_as_arguments_are(tmp_path: Path) -> None:
    text = RULE + 'tool = "x"\nwhen = "args.n == 1"\nmatch = [{ tool = "x", args = { n = 1.0 } }]\n'
    assert read(tmp_path, text).problems == ()


def test_every_rule_in_the_documentation_is_a_good_one(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs/policy.md").read_text(encoding="utf-8")
    shown = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert len(shown) >= 3
    for block in shown:
        assert read(tmp_path, block).problems == (), block


@pytest.mark.parametrize(
    "spelled", ["skill://notes/references/a.md", "./references/a.md", "references/./a.md"]
)
def test_a_rule_about_a_file_is_written_in_the_name_that_rules_are_asked_about(
    tmp_path: Path, spelled: str
) -> None:
    def written(path: str) -> Examined:
        return read(
            tmp_path,
            f"""
[[rule]]
decision = "deny"
because = "private"
tool = "read_skill"
when = 'has(args.path) && args.path == "{path}"'
match = [{{ tool = "read_skill", args = {{ name = "notes", path = "{path}" }} }}]
""",
        )

    [problem] = written(spelled).problems
    assert "'references/a.md'" in problem.message, "the name to write instead"
    assert not written("references/a.md").problems
