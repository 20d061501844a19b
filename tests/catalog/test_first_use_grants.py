"""What nobody looked at: a skill in a root of the operator's gets little at its first use, and the rest on his word."""

import json
import time
from pathlib import Path

import pytest

from machine import Machine, approve_all, write_skill
from metier.catalog.bundle import BundleStore
from metier.catalog.hold import Held, hold
from metier.model.permission import PermissionSet
from metier.record.database import Database
from metier.record.trust import TrustStore

WANTS = {
    "binaries": ["git"],
    "reads": ["{workspace}/docs", "/srv/papers"],
    "writes": ["{workspace}/out", "/srv/out"],
    "hosts": ["api.example"],
    "env": ["TOKEN"],
    "secrets": ["KEY"],
    "operations": ["memory.search", "gateway.post"],
    "channels": ["operator"],
}
ALL = PermissionSet(
    **{kind: frozenset(names) for kind, names in WANTS.items() if kind != "reads"},
    reads=frozenset(["{baseDir}", *WANTS["reads"]]),
)
LITTLE = PermissionSet(
    binaries=frozenset(["git"]),
    reads=frozenset(["{baseDir}", "{workspace}/docs"]),
    writes=frozenset(["{workspace}/out"]),
    operations=frozenset(["memory.search"]),
)
GET = {"id": "get", "type": "http", "method": "GET", "url": "https://a.example/c", "headers": {"X-A": "$GH"}}
ROOTS = [".metier/skills", ".agents/skills", ".openclaw/skills", ".claude/skills", ".codex/skills"]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    made.program("git")
    monkeypatch.setenv("HOME", str(made.home))
    return made


def wanting(root: Path, name: str = "wants") -> None:
    tool = {
        "name": "go",
        "description": "Goes.",
        "parameters": {"type": "object", "properties": {}},
        "entry": {"kind": "python", "path": "go.py"},
        "permissions": WANTS,
    }
    folder = write_skill(root / name, metadata=json.dumps({"metier": {"tools": [tool]}}))
    (folder / "go.py").write_text("def main(params, context):\n    return 1\n", encoding="utf-8")


def free(root: Path) -> None:
    """One request, which carries a secret that the operator named for something else."""
    (root / "free").mkdir(parents=True)
    skill = {"id": "free", "description": "Asks.", "actions": [GET]}
    (root / "free" / "skill.json").write_text(json.dumps(skill), encoding="utf-8")


def held(machine: Machine, name: str = "wants") -> Held:
    settings, listed = machine.settings(), machine.catalog().get(name)
    assert listed is not None
    with Database.open(settings.database) as database:
        bundles = BundleStore(settings.bundles)
        found = hold(listed, trust=TrustStore(database), bundles=bundles, now_ns=time.time_ns() + 10**10)
    assert not found.refusal + found.broken
    return found


@pytest.mark.parametrize("root", ROOTS)
def test_a_first_use_gives_what_stays_here_and_is_not_the_operators_own(machine: Machine, root: str) -> None:
    wanting(machine.home / root)
    found = held(machine)
    assert found.bytes is not None
    assert found.bytes.first_use
    assert found.granted == LITTLE
    machine.metier("skills", "trust", "wants", "--yes")
    assert held(machine).granted == ALL, "on his word it has all it declares"


def test_a_skill_that_the_roots_own_list_names_has_all_it_declares(machine: Machine) -> None:
    wanting(machine.skills)
    wanting(machine.skills / "group", "inside")
    names = {"approvedSkills": ["wants", "group"]}
    (machine.skills / "SKILL_MANIFEST.json").write_text(json.dumps(names), encoding="utf-8")
    assert held(machine).granted == ALL
    assert held(machine, "inside").granted == LITTLE, (
        "the list names the folder it lies in, and not the skill"
    )


def test_a_list_that_is_gone_by_the_first_use_gives_nothing(machine: Machine) -> None:
    wanting(machine.skills)
    file = machine.skills / "SKILL_MANIFEST.json"
    file.write_text('{"approvedSkills": ["wants"]}', encoding="utf-8")
    listed = machine.catalog().get("wants")
    assert listed is not None
    file.unlink()
    settings = machine.settings()
    with Database.open(settings.database) as database:
        bundles = BundleStore(settings.bundles)
        found = hold(listed, trust=TrustStore(database), bundles=bundles, now_ns=time.time_ns() + 10**10)
    assert found.granted == LITTLE


def test_what_was_bound_at_its_first_use_has_no_more_afterwards(machine: Machine) -> None:
    wanting(machine.skills)
    machine.metier("call", "read_skill", '{"name": "wants"}')
    found = held(machine)
    assert found.bytes is not None
    assert not found.bytes.first_use
    assert found.granted == LITTLE
    (record,) = [
        json.loads(line)
        for line in machine.metier("audit", "export").stdout.splitlines()
        if "skill_pinned" in line
    ]
    assert "gateway.post" not in json.dumps(record)


@pytest.mark.parametrize("root", ROOTS)
def test_a_dropped_request_takes_no_secret_along_until_somebody_trusted_it(
    machine: Machine, root: str
) -> None:
    (machine.state).mkdir(mode=0o700, exist_ok=True)
    (machine.state / "metier.toml").write_text('[secrets]\nGH = "env://GHT"\n', encoding="utf-8")
    free(machine.home / root)
    said = machine.metier("explain", "free/get", "{}", check=None).stdout
    assert "It would be refused" in said
    assert "not granted: hosts a.example; secrets GH; who runs `metier skills trust free`" in said
    assert "use the secrets GH" in machine.metier("skills", "info", "free").stdout.split("not granted:")[1]
    machine.metier("skills", "trust", "free", "--yes")
    assert "not granted" not in machine.metier("skills", "info", "free").stdout
    assert "not granted" not in machine.metier("explain", "free/get", "{}", check=None).stdout


def test_reading_a_skill_takes_none_of_it(machine: Machine) -> None:
    metadata = '{"openclaw": {"requires": {"env": ["HOME"]}, "primaryEnv": "HOME"}}'
    write_skill(machine.home / ".claude/skills/notes", body="Take notes.", metadata=metadata)
    assert "Take notes." in machine.metier("call", "read_skill", '{"name": "notes"}').stdout


def test_a_list_in_a_root_that_other_programs_fill_is_not_the_operators_word(machine: Machine) -> None:
    for root in (".claude/skills", ".metier/skills"):
        wanting(machine.home / root, name=f"wants-{root[1]}")
        approve_all(machine.home / root)
    assert held(machine, "wants-c").granted == LITTLE
    assert held(machine, "wants-m").granted == ALL, "the control: in Metier's own root it is"


def test_a_list_that_names_a_folder_names_no_skill_of_another_name(machine: Machine) -> None:
    free(machine.skills)
    (machine.skills / "free").rename(machine.skills / "weather")
    approve_all(machine.skills)
    assert held(machine, "free").granted.secrets == frozenset()


@pytest.mark.parametrize(
    ("given", "carries"),
    [
        ("", False),
        ('reads = ["{workspace}/docs"]\n', False),
        ('writes = ["{workspace}/out"]\n', False),
        ('reads = ["/srv/private"]\n', True),
        ('writes = ["/srv/private"]\n', True),
        ('env = ["BANKTOK"]\n', True),
        ('environment = { ACCOUNT = "7" }\n', True),
        ('hosts = ["api.example"]\n', True),
    ],
)
def test_a_first_use_gives_no_program_that_holds_what_takes_the_operators_word(
    machine: Machine, given: str, carries: bool
) -> None:
    machine.state.mkdir(mode=0o700, exist_ok=True)
    program = f'[binaries.programs.git]\nfile = "{machine.bin / "git"}"\n{given}'
    (machine.state / "metier.toml").write_text(program, encoding="utf-8")
    wanting(machine.home / ".claude/skills")
    assert held(machine).granted.binaries == (frozenset() if carries else {"git"})
    said = machine.metier("skills", "info", "wants").stdout.split("not granted:")[1]
    assert ("git" in said) is carries
    machine.metier("skills", "trust", "wants", "--yes")
    assert held(machine).granted == ALL, "on his word it has it"


def test_to_read_a_skill_binds_it_without_such_a_program(machine: Machine) -> None:
    machine.state.mkdir(mode=0o700, exist_ok=True)
    program = f'[binaries.programs.git]\nfile = "{machine.bin / "git"}"\nenv = ["BANKTOK"]\n'
    (machine.state / "metier.toml").write_text(program, encoding="utf-8")
    wanting(machine.skills)
    machine.metier("call", "read_skill", '{"name": "wants"}')
    found = held(machine)
    assert found.bytes is not None
    assert not found.bytes.first_use
    assert not found.granted.binaries


def test_where_other_programs_put_skills_a_first_use_reads_no_memories(machine: Machine) -> None:
    reads = ["{workspace}/memory", "{workspace}/persona/core.json", "{workspace}/docs/a"]
    for root in (".claude/skills", ".metier/skills"):
        tool = {
            "name": "look",
            "description": "Looks.",
            "parameters": {"type": "object", "properties": {}},
            "entry": {"kind": "code", "language": "python", "source": "result = 1"},
            "permissions": {"reads": reads},
        }
        write_skill(
            machine.home / root / f"looks-{root[1]}", metadata=json.dumps({"metier": {"tools": [tool]}})
        )
    own = {"{baseDir}"}
    assert held(machine, "looks-c").granted.reads == own | {"{workspace}/docs/a"}
    assert held(machine, "looks-m").granted.reads == own | {*reads}, "the control: Metier's own root"


def test_what_is_withheld_is_said_where_people_look(machine: Machine) -> None:
    free(machine.skills)
    for words in (("skills", "check", "free"), ("skills", "info", "free")):
        said = machine.metier(*words).stdout
        assert "not granted" in said
        assert "`metier skills trust free` grants it" in said
    machine.metier("skills", "trust", "free", "--yes")
    assert "not granted" not in machine.metier("skills", "check", "free").stdout
