"""The deny floor: what no role, level, rule or grant lets a call do."""

from typing import Any

import pytest
from msgspec.structs import replace

from metier.gate.floor import OWN_RUN, floor
from metier.gate.situation import Situation
from metier.model.call import Call, Principal, ValidCall
from metier.model.entry import Command, Entry, Operation
from metier.model.ground import Ground
from metier.model.interpreters import is_interpreter
from metier.model.permission import PermissionSet
from metier.model.role import ROLES, Kind, Standing
from metier.model.skill import Skill, Tool
from metier.model.verdict import Decision

STATE = "/home/me/.metier"
GROUND = Ground(
    state=STATE,
    workspace=f"{STATE}/workspace",
    home="/home/me",
    trusted_roots=("/home/me/.agents/skills", "/srv/skills"),
    decides_by=("/etc/metier/own.toml", f"{STATE}/policy.toml", "/projects/tea/metier.toml"),
    secret_files=("/home/me/.keys/weather",),
    links={STATE: "/disk/metier", f"{STATE}/workspace": "/disk/metier/workspace"},
)
SKILL = Skill(name="tea", description="", dialect="agent_skills")
NOTHING = Operation(module="test", operation="nothing")


def judged(
    *,
    ground: Ground = GROUND,
    kind: Kind = "agent",
    entry: Entry = NOTHING,
    skill: Skill | None = SKILL,
    tool: dict[str, Any] | None = None,
    **permissions: set[str],
) -> tuple[str, ...]:
    """Why it is refused; nothing when the floor has no word against it."""
    needs = PermissionSet(**{name: frozenset(names) for name, names in permissions.items()})
    made = Tool(
        **{
            "name": "test",
            "description": "",
            "parameters": {},
            "entry": entry,
            "permissions": needs,
            **(tool or {}),
        }
    )
    call = Call(id="call_1", principal=Principal(id=f"{kind}:x", kind=kind), tool=made.name, arguments={})
    valid = ValidCall(call=call, tool=made, arguments={}, skill=skill, permissions=needs)
    everything = Standing(rights=frozenset[str]().union(*ROLES.values()))
    situation = Situation(ground=ground, granted=needs, standing=everything, level="adaptive_auto")
    verdict = floor(valid, situation)
    assert verdict.decision in (Decision.ABSTAIN, Decision.DENY)
    return verdict.reasons if verdict.decision is Decision.DENY else ()


OF_METIER = [
    STATE,
    f"{STATE}/state.db",
    f"{STATE}/keys",
    f"{STATE}/keys/signing.key",
    f"{STATE}/policy.toml",
    f"{STATE}/metier.toml",
    f"{STATE}/bundles/abc",
    f"{STATE}/workspace2",
    "/home/me",
    "/home",
    "/",
    "/home/me/.METIER/state.db",
    "/disk/metier",
    "/disk/metier/state.db",
    "/disk",
]


@pytest.mark.parametrize("path", OF_METIER)
def test_metiers_own_state_is_neither_written_nor_read(path: str) -> None:
    (said,) = judged(writes={path})
    assert "cannot be written" in said
    (said,) = judged(reads={path})
    assert "cannot be read" in said


@pytest.mark.parametrize(
    "path",
    [
        "{workspace}/notes",
        "{workspace}/notes/brain",
        f"{STATE}/workspace/a",
        "/disk/metier/workspace/a",
    ],
)
def test_the_workspace_is_the_skills_own(path: str) -> None:
    assert judged(writes={path}, reads={path}) == ()


@pytest.mark.parametrize("workspace", ["{workspace}", f"{STATE}/workspace", "/disk/metier/workspace"])
def test_fs_24_code_in_the_workspace_is_nobodys_and_who_the_agent_is_is_only_read(workspace: str) -> None:
    for name in ("brain", "brain/agents", "packages", "apps/a", "node_modules", "Brain/x"):
        (said,) = judged(writes={f"{workspace}/{name}"})
        assert "cannot be written: no skill gets" in said
        (said,) = judged(reads={f"{workspace}/{name}"})
        assert "cannot be read: no skill gets" in said
    for name in ("persona", "persona/x"):
        (said,) = judged(writes={f"{workspace}/{name}"})
        assert "only read" in said
        assert judged(reads={f"{workspace}/{name}"}) == ()
    assert judged(writes={workspace}), "as a whole it holds them"
    assert judged(reads={workspace}) == (), "all but the code is given"


@pytest.mark.parametrize(
    "path", ["/home/me/notes", "/home/me/.metier2", "/home/you/.metier", "/data", "/srv/data"]
)
def test_any_other_place_is_no_matter_of_the_floor(path: str) -> None:
    assert judged(writes={path}, reads={path}) == ()


@pytest.mark.parametrize(
    "path",
    [
        "/etc/metier/own.toml",
        "/etc/metier",
        "/projects/tea/metier.toml",
        "/projects/tea",
        "/projects",
        "/anywhere/metier.toml",
        "/anywhere/Metier.TOML",
        "/anywhere/metier.toml/below",
        "{workspace}/metier.toml",
        "{baseDir}",
        "{baseDir}/SKILL.md",
        "/srv/skills",
        "/srv/skills/tea/SKILL.md",
        "/srv",
        "/home/me/.keys/weather",
        "/home/me/.keys",
    ],
)
def test_what_metier_decides_by_and_the_bytes_it_trusts_are_not_written(path: str) -> None:
    (said,) = judged(writes={path})
    assert "cannot be written" in said


@pytest.mark.parametrize("path", ["/projects/tea", "/srv/skills", "{baseDir}", "/etc/metier/own.toml"])
def test_what_metier_decides_by_may_be_read_where_no_secret_lies(path: str) -> None:
    assert judged(reads={path}) == ()


@pytest.mark.parametrize("path", ["/home/me/.keys/weather", "/home/me/.keys", "/home/me/.keys/weather/x"])
def test_a_file_that_holds_a_secret_is_not_read(path: str) -> None:
    (said,) = judged(reads={path})
    assert "a secret lies there" in said
    assert judged(reads={"/home/me/.keys2"}) == ()


@pytest.mark.parametrize("kind", ["human", "agent", "skill", "trigger"])
def test_it_holds_for_everybody_at_every_level_whatever_was_granted(kind: Kind) -> None:
    own: dict[str, Any] = {"name": OWN_RUN, "audience": "operator"}
    assert judged(kind=kind, writes={f"{STATE}/state.db"})
    assert judged(kind=kind, skill=None, tool=own, writes={f"{STATE}/state.db"})
    assert judged(kind=kind, skill=None, tool=own, reads={f"{STATE}/keys"})


def test_every_reason_is_given_at_once() -> None:
    said = judged(writes={STATE, "/data", "/srv"}, reads={f"{STATE}/keys"}, binaries={"bash", "ls"})
    assert len(said) == 4


SHELLS = [
    *("sh", "bash", "zsh", "dash", "fish", "ksh", "ksh93", "mksh-static", "busybox", "busybox-static", "BASH", "bash.exe"),
    *("python", "python3", "python3.12", "python3.13t", "python3-dbg", "pypy3", "perl", "perl5.36.0", "ruby", "ruby2.7"),
    *("node", "node20", "nodejs", "deno", "bun", "php", "php8.2", "lua", "lua5.4", "luajit-2.1", "awk", "gawk", "mawk"),
    *("tclsh8.6", "guile-3.0", "R", "Rscript", "perl5.36-x86_64-linux-gnu", "java", "gdb"),
    *("env", "xargs", "ssh", "sudo", "su", "doas", "timeout", "nohup", "npx", "uvx", "docker"),
    *("/bin/sh", "/usr/bin/python3.12", "../bash", "bin\\bash", "/usr/bin/env/", " bash "),
    *("ld-linux-x86-64.so.2", "ld-musl-x86_64.so.1", "original-awk", "php-cgi8.2"),
    *("prlimit", "choom", "setarch", "x86_64", "i386", "uname26", "linux32", "ssh-agent", "sg", "newgrp", "runcon"),
    *("valgrind", "numactl", "tini", "catchsegv", "swipl", "tcc", "qemu-x86_64", "qemu-arm-static", "qemu-system-x86_64"),
    *("bash.bin", "sh.distrib", "sh.exe", "pwsh-preview", ".python3-wrapped", "/usr/bin/dash.real"),
]  # fmt: skip
PROGRAMS = [
    *("ls", "cat", "grep", "find", "git", "pnpm", "jq", "curl", "gh", "rg", "sha256sum", "shasum", "ical-query"),
    *("shellcheck", "envsubst", "nodeenv", "node_exporter", "pythonize", "bashate", "sqlite3", "r2", "timew", "suspend"),
    *("perltidy", "rubocop", "phpstan", "timetrap", "watchman", "scriptreplay", "", "/", "-", "3"),
    *("qemu-img", "qemu-nbd", "sgdisk", "sg_inq", "x86_64-linux-gnu-objdump", "i686-w64-mingw32-nm", "mipsdump", ".", "-bin"),
]  # fmt: skip


@pytest.mark.parametrize("name", SHELLS)
def test_a_shell_or_interpreter_is_known_by_its_name_in_any_version_or_folder(name: str) -> None:
    assert is_interpreter(name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_is_only_called_alike_is_none(name: str) -> None:
    assert not is_interpreter(name)


@pytest.mark.parametrize("kind", ["human", "agent", "skill", "trigger"])
def test_an_interpreter_is_refused_whoever_was_granted_it(kind: Kind) -> None:
    for name in ("bash", "python3", "/usr/bin/python3"):
        (said,) = judged(kind=kind, binaries={name})
        assert repr(name) in said
        assert "[binaries] interpreters" in said
        assert judged(kind=kind, entry=Command(argv=(name, "-c", "1")))
    assert judged(kind=kind, binaries={"ls", "jq"}, entry=Command(argv=("ls",))) == ()


def test_the_one_that_the_operator_named_is_let_through_and_no_other_version_of_it() -> None:
    named = replace(GROUND, interpreters=frozenset({"python3"}))
    assert judged(ground=named, binaries={"python3"}, entry=Command(argv=("python3", "x.py"))) == ()
    for other in ("python", "python3.12", "/usr/bin/python3", "Python3", "bash"):
        assert judged(ground=named, binaries={other})


def test_what_the_owner_types_in_for_his_own_run_he_has_named() -> None:
    own: dict[str, Any] = {"name": OWN_RUN, "audience": "operator"}
    assert judged(kind="human", skill=None, tool=own, binaries={"bash", "python3"}) == ()
    assert judged(kind="agent", skill=None, tool=own, binaries={"bash"})
    assert judged(kind="human", skill=SKILL, tool=own, binaries={"bash"})
    assert judged(kind="human", skill=None, tool={"name": OWN_RUN}, binaries={"bash"})
    assert judged(kind="human", skill=None, tool={"name": "other", "audience": "operator"}, binaries={"bash"})


def test_a_ground_that_nobody_filled_in_still_knows_names() -> None:
    empty = Ground()
    assert judged(ground=empty, binaries={"sh"})
    assert judged(ground=empty, writes={"/anywhere/metier.toml"})
    assert judged(ground=empty, writes={"/anywhere", "{workspace}/a"}, reads={"/"}) == ()
