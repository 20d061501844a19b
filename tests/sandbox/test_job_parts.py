"""What a run gets is what was granted, as real things of this machine, and never what is protected."""

import math
import os
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

import metier
from machine import Machine
from metier.config.ground import ground_of as runtime_ground
from metier.model.permission import PermissionSet
from metier.model.skill import Limits
from metier.sandbox import job_mounts
from metier.sandbox.job_argv import filled
from metier.sandbox.job_binaries import keeps_to_itself, real_programs
from metier.sandbox.job_environment import granted_variables
from metier.sandbox.job_limits import CAPS, bounded
from metier.sandbox.job_places import NoPlace, inside, make_workspace, places
from metier.sandbox.job_protected import PROTECTED_NAMES, Ground

# --- limits


@pytest.mark.parametrize("name", ["timeout", "memory_mb", "output_bytes", "processes", "fuel"])
@pytest.mark.parametrize("value", [-1, 0, True, "1e9", math.nan, math.inf, -math.inf, [], -(2**63), 0.0])
def test_res_21_a_limit_that_is_no_amount_is_refused(name: str, value: Any) -> None:
    limits = bounded(Limits(**{name: value}))
    assert isinstance(limits, str)
    assert name in limits


@pytest.mark.parametrize("name", ["timeout", "memory_mb", "output_bytes", "processes", "fuel"])
@pytest.mark.parametrize("value", [2**63, 2**63 - 1, 2**64, 10**30])
def test_res_21_too_much_becomes_the_most_there_is_and_does_not_wrap(name: str, value: int) -> None:
    limits = bounded(Limits(**{name: value}))
    assert isinstance(limits, Limits)
    assert getattr(limits, name) == getattr(CAPS, name)


def test_res_02_ten_minutes_become_five() -> None:
    limits = bounded(Limits(timeout=600))
    assert isinstance(limits, Limits)
    assert limits.timeout == 300


def test_what_is_within_the_caps_stays_as_it_was_asked() -> None:
    asked = Limits(timeout=0.5, memory_mb=64, fuel=7, output_bytes=10, processes=1)
    assert bounded(asked) == asked
    assert bounded(Limits()) == Limits()


def test_the_operator_can_allow_less() -> None:
    limits = bounded(Limits(), Limits(timeout=5, memory_mb=32, processes=2))
    assert isinstance(limits, Limits)
    assert (limits.timeout, limits.memory_mb, limits.processes) == (5, 32, 2)


# --- variables


def test_only_granted_variables_are_given_with_the_operators_values() -> None:
    operators = {"TOKEN": "t", "OTHER": "o", "HOME": "/root"}
    assert granted_variables({"TOKEN", "ABSENT"}, operators) == {"TOKEN": "t"}
    assert granted_variables({"HOME"}, operators) == {}, "the sandbox sets that itself"
    assert granted_variables((), operators) == {}


@pytest.mark.parametrize(
    "name",
    [
        "LD_PRELOAD",
        "ld_audit",
        "GIT_SSH_COMMAND",
        "PYTHONPATH",
        "NODE_OPTIONS",
        "BASH_ENV",
        "ENV",
        "IFS",
        "HTTPS_PROXY",
        "https_proxy",
        "PAGER",
        "GLIBC_TUNABLES",
        "PERL5OPT",
        "JAVA_TOOL_OPTIONS",
        "SSL_CERT_FILE",
        "SHELLOPTS",
        "METIER_HOME",
        "LESSOPEN",
        "TAR_OPTIONS",
        "MAKEFLAGS",
        "RSYNC_RSH",
        "KUBECONFIG",
        "GH_PAGER",
        "DOTNET_STARTUP_HOOKS",
        "RIPGREP_CONFIG_PATH",
    ],
)
def test_env_01_a_variable_that_steers_programs_is_never_given(name: str) -> None:
    said = granted_variables({name}, {name: "x"})
    assert isinstance(said, str)
    assert name in said


@pytest.mark.parametrize("name", ["A=B", "A\nB", "A B", "", "BASH_FUNC_x%%", "é", "1A", "A\0"])
def test_env_09_what_is_no_name_of_a_variable_is_refused(name: str) -> None:
    assert isinstance(granted_variables({name}, {name: "x"}), str)
    assert granted_variables({"A_B"}, {"A_B": "x"}) == {"A_B": "x"}


def test_env_09_a_shell_takes_a_function_from_such_a_name() -> None:
    given = {"BASH_FUNC_x%%": "() { echo defined; }"}
    done = subprocess.run(["/bin/bash", "-c", "x"], env=given, capture_output=True, text=True, check=True)
    assert done.stdout == "defined\n"
    assert isinstance(granted_variables(given.keys(), given), str)


# --- the line of a command


def test_cmd_33_an_argument_is_one_element_whatever_it_holds() -> None:
    text = "a b; rm -rf / && $(id) `id` | > ~ {a,b} 'x' \"y\" *\n"
    assert filled(("echo", "{{text}}", "end"), {"text": text}) == ("echo", text, "end")


def test_what_an_argument_holds_is_not_expanded_again() -> None:
    assert filled(("echo", "{{a}}"), {"a": "{{b}}", "b": "secret"}) == ("echo", "{{b}}")


def test_an_argument_may_stand_inside_an_element_and_be_a_number() -> None:
    line = filled(
        ("head", "-n", "{{ count }}", "--name={{name}}", "{{yes}}"), {"count": -3, "name": "-x", "yes": True}
    )
    assert line == ("head", "-n", "-3", "--name=-x", "true")


@pytest.mark.parametrize(
    "value", ["-rf", "--output=/etc/passwd", "-", "-oProxyCommand=x", "-1", "-9", "-0", "-1.5", "-１"]
)
def test_cmd_28_an_argument_that_would_be_an_option_is_refused(value: str) -> None:
    said = filled(("ls", "{{file}}"), {"file": value})
    assert isinstance(said, str)
    assert "'file'" in said
    assert filled(("ls", "--", "{{file}}"), {"file": value}) == ("ls", "--", value)


def test_cmd_28_only_a_number_alone_may_be_negative() -> None:
    for value in (-1, -9, -1.5):
        assert filled(("seq", "{{n}}"), {"n": value}) == ("seq", str(value))
        assert isinstance(filled(("seq", "{{n}}{{more}}"), {"n": value, "more": "x"}), str)


def test_an_argument_cannot_end_the_options_for_another() -> None:
    assert isinstance(filled(("ls", "x{{a}}", "{{b}}"), {"a": "--", "b": "-l"}), str)
    assert isinstance(filled(("ls", "{{a}}", "{{b}}"), {"a": "--", "b": "-l"}), str)


@pytest.mark.parametrize("arguments", [{}, {"file": None}, {"file": ["a"]}, {"file": {"a": 1}}])
def test_an_argument_that_is_not_there_or_no_text_is_refused(arguments: dict[str, Any]) -> None:
    assert isinstance(filled(("ls", "{{file}}"), arguments), str)


@pytest.mark.parametrize("template", [(), ("{{program}}",), ("/bin/{{program}}", "x")])
def test_no_argument_chooses_the_program(template: tuple[str, ...]) -> None:
    assert isinstance(filled(template, {"program": "ls"}), str)


def test_cmd_43_a_line_that_is_too_long_is_refused() -> None:
    assert isinstance(filled(("ls", "{{a}}"), {"a": "x" * 200_000}), str)
    assert isinstance(filled(("ls", *["{{a}}"] * 12), {"a": "x" * 100_000}), str)
    assert filled(("ls", *["{{a}}"] * 8), {"a": "x" * 100_000}) == ("ls", *["x" * 100_000] * 8)


# --- programs


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir(mode=0o755)
    program(folder / "jq")
    return folder


def program(path: Path, mode: int = 0o755) -> None:
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(mode)


def test_a_declared_name_is_the_one_real_file(bin_folder: Path) -> None:
    real = bin_folder.parent / "opt"
    real.mkdir(mode=0o755)
    program(real / "jq-1.7")
    (bin_folder / "query").symlink_to(real / "jq-1.7")
    found = real_programs(["jq", "query", "absent"], f"{bin_folder}")
    assert found == {"jq": str(bin_folder / "jq"), "query": str(real / "jq-1.7")}


@pytest.mark.parametrize("name", ["./jq", "../bin/jq", "", ".", "jq\0", "/bin/sh", "jq ", "JQ"])
def test_cmd_37_only_a_plain_name_is_looked_for(bin_folder: Path, name: str) -> None:
    assert real_programs([name], f"{bin_folder}") == {}


@pytest.mark.parametrize("path", ["", ".", ":", "bin", "./bin:"])
def test_cmd_37_a_folder_that_is_not_absolute_is_not_searched(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.chdir(bin_folder.parent if "bin" in path else bin_folder)
    assert real_programs(["jq"], path) == {}


def test_a_folder_or_file_that_others_can_write_to_does_not_count(bin_folder: Path) -> None:
    bin_folder.chmod(0o777)
    assert real_programs(["jq"], f"{bin_folder}") == {}
    bin_folder.chmod(0o755)
    (bin_folder / "jq").chmod(0o757)
    assert real_programs(["jq"], f"{bin_folder}") == {}
    (bin_folder / "jq").chmod(0o644)
    assert real_programs(["jq"], f"{bin_folder}") == {}
    (bin_folder / "jq").chmod(0o755)
    assert set(real_programs(["jq"], f"{bin_folder}")) == {"jq"}


def test_a_link_in_a_folder_that_others_can_write_to_does_not_count(bin_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    (folder / "cat").symlink_to(bin_folder / "jq")
    assert set(real_programs(["cat"], str(folder))) == {"cat"}
    for mode, group in ((0o757, os.getgid()), (0o775, 12_345 if os.getuid() == 0 else os.getgid())):
        os.chown(folder, -1, group)
        folder.chmod(mode)
        expected = {"cat"} if mode == 0o775 and group == 0 else set[str]()
        assert set(real_programs(["cat"], str(folder))) == expected
    if os.getuid() == 0:
        os.chown(folder, -1, 0)
        assert set(real_programs(["cat"], str(folder))) == {"cat"}, "root's own group is root"


def test_the_first_of_its_name_is_meant_or_none(bin_folder: Path, tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.mkdir(mode=0o755)
    program(first / "jq", 0o757)
    assert real_programs(["jq"], f"{first}:{bin_folder}") == {}


STARTS_OTHERS = (
    "sh bash env xargs find git tar sed sort awk python3.11 ssh rsync vim sqlite3 make diff file busybox"
)


@pytest.mark.parametrize("name", STARTS_OTHERS.split())
def test_a_program_that_may_start_others_is_not_taken_for_a_plain_one(name: str) -> None:
    assert not keeps_to_itself(f"/usr/bin/{name}")


@pytest.mark.parametrize("name", ["ls", "cat", "true", "jq", "sha256sum"])
def test_a_few_programs_of_the_system_are_known_to_start_no_other(name: str) -> None:
    assert keeps_to_itself(f"/usr/bin/{name}")
    assert not keeps_to_itself(f"/home/somebody/bin/{name}"), "whatever that is"


# --- places


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    state = tmp_path / "user" / ".metier"
    state.mkdir(parents=True, mode=0o700)
    return Ground(state=str(state), workspace=str(state / "workspace"), home=str(tmp_path / "user"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def granted(*, reads: tuple[str, ...] = (), writes: tuple[str, ...] = ()) -> PermissionSet:
    return PermissionSet(reads=frozenset(reads), writes=frozenset(writes))


def refusal(found: object) -> NoPlace:
    assert isinstance(found, NoPlace)
    assert found.reason
    return found


@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize("granted_as", ["file", "folder", "another folder"])
@pytest.mark.parametrize(
    "file",
    ["policy.toml", "metier.toml", "state.db", "state.db-wal", "keys/signing.key", "secret", "own.toml"],
)
def test_while_a_file_of_metiers_has_a_second_name_nothing_is_granted(
    data: Path, ground: Ground, tmp_path: Path, file: str, granted_as: str, writable: bool
) -> None:
    inside = file not in ("secret", "own.toml")
    own = Path(ground.state) / file if inside else tmp_path / "elsewhere" / file
    own.parent.mkdir(exist_ok=True, mode=0o700, parents=True)
    own.write_text("x")
    known = structs.replace(
        ground,
        secret_files=(str(tmp_path / "elsewhere" / "secret"), str(tmp_path / "gone")),
        decides_by=(str(tmp_path / "elsewhere" / "own.toml"),),
    )
    (tmp_path / "other").mkdir()
    os.link(own, data / "notes.txt")
    (data / "mine").write_text("x")
    os.link(data / "mine", data / "also-mine")
    place = {"file": data / "notes.txt", "folder": data, "another folder": tmp_path / "other"}[granted_as]
    paths = (str(place),)

    def found(known: Ground) -> object:
        return places(granted(writes=paths) if writable else granted(reads=paths), known, bundle="")

    reason = refusal(found(known)).reason
    assert "has a second name" in reason
    assert str(own) in reason
    assert isinstance(found(Ground()), tuple), "the control: nobody keeps that file"
    if granted_as != "file":
        (data / "notes.txt").unlink()
        assert isinstance(found(known), tuple), "second names of other files are nobody's business"


def test_a_folder_that_shows_the_state_by_another_mount_is_not_granted(
    data: Path, ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the kernel's table says of a home that is mounted twice, once inside of a granted folder."""
    home = Path(ground.state).parent
    for folder in (data / "inner", data / "plain", tmp_path / "again"):
        folder.mkdir()
    table = tmp_path / "mountinfo"
    table.write_text(
        f"1 0 8:1 / / rw - ext4 /dev/a rw\n"
        f"2 1 8:1 {home} {tmp_path}/again rw - ext4 /dev/a rw\n"
        f"3 1 8:1 {ground.state} {data}/inner rw - ext4 /dev/a rw\n"
        f"4 1 8:2 {ground.state} {data}/plain rw - ext4 /dev/b rw\n"
    )

    def refused(path: Path) -> bool:
        return all(
            isinstance(places(granted(**{kind: (str(path),)}), ground, bundle=""), NoPlace)
            for kind in ("reads", "writes")
        )

    assert not refused(data)
    monkeypatch.setattr(job_mounts, "_TABLE", str(table))
    assert refused(tmp_path / "again")
    assert refused(data), "a mount inside of it"
    assert refused(data / "inner")
    assert not refused(data / "plain"), "another disk, where the same way leads elsewhere"
    assert isinstance(places(granted(writes=("{workspace}/out",)), ground, bundle=""), tuple)


def test_fs_24_code_of_the_workspace_is_not_granted_by_another_mount_either(
    data: Path, ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_workspace(ground.workspace)
    table = tmp_path / "mountinfo"
    monkeypatch.setattr(job_mounts, "_TABLE", str(table))

    def given(inner: str, kind: str) -> bool:
        again = f"2 1 8:1 {ground.workspace}{inner} {data} rw - ext4 /dev/a rw\n"
        table.write_text(f"1 0 8:1 / / rw - ext4 /dev/a rw\n{again}")
        return isinstance(places(granted(**{kind: (str(data),)}), ground, bundle=""), tuple)

    assert [given(inner, "reads") for inner in ("/docs", "/persona", "/brain", "")] == [
        True,
        True,
        False,
        False,
    ]
    assert [given(inner, "writes") for inner in ("/docs", "/persona", "/brain", "")] == [
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize("kind", ["reads", "writes"])
def test_fs_24_what_holds_the_source_of_a_mounted_workspace_is_not_granted(
    data: Path, ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    make_workspace(ground.workspace)
    table = tmp_path / "mountinfo"
    monkeypatch.setattr(job_mounts, "_TABLE", str(table))

    def given(point: str, root: str, path: str = str(data)) -> bool:
        again = f"2 1 8:1 {root} {point} rw - ext4 /dev/a rw\n"
        table.write_text(f"1 0 8:1 / / rw - ext4 /dev/a rw\n{again}")
        return isinstance(places(granted(**{kind: (path,)}), ground, bundle=""), tuple)

    workspace, reads = ground.workspace, kind == "reads"
    assert not given(workspace, f"{data}/ws"), "the folder above the workspace's own source"
    for root in (str(data), f"{data}/brain"):
        assert not given(f"{workspace}/brain", root)
        assert not given(f"{workspace}/brain/agents", root)
    assert given(f"{workspace}/persona", f"{data}/persona") == reads
    assert given(f"{workspace}/docs", f"{data}/docs"), "which skills may be given anyway"
    assert given(f"{workspace}/brain", "/elsewhere")
    for inner in ("brain", "docs"):
        assert given(f"{workspace}/{inner}", f"{data}/{inner}", "{workspace}/docs")
        assert given(f"{workspace}/{inner}", f"{data}/{inner}", "{workspace}") == reads, "all but the code"


@pytest.mark.parametrize("kind", ["reads", "writes"])
def test_fs_24_what_holds_a_workspace_that_a_link_leads_to_is_not_granted(
    data: Path, ground: Ground, kind: str
) -> None:
    asked = granted(**{kind: (str(data),)})
    assert isinstance(places(asked, ground, bundle=""), tuple)
    (data / "ws").mkdir(mode=0o700)
    os.makedirs(os.path.dirname(ground.workspace), mode=0o700, exist_ok=True)
    os.symlink(data / "ws", ground.workspace)
    found = places(asked, ground, bundle="")
    assert isinstance(found, NoPlace)
    assert "holds the workspace" in found.reason


def test_a_real_second_mount_of_the_state_is_seen(ground: Ground, data: Path) -> None:
    script = (
        "import sys\n"
        "from metier.model.ground import Ground\n"
        "from metier.model.permission import PermissionSet\n"
        "from metier.sandbox.job_places import places\n"
        "found = places(PermissionSet(reads=frozenset({sys.argv[2]})), Ground(state=sys.argv[1]), bundle='')\n"
        "print(type(found).__name__)\n"
    )
    Path(ground.state).mkdir(exist_ok=True, mode=0o700, parents=True)

    def asked(mount: str) -> str:
        line = f'{mount} && exec "$@"'
        return in_mounts_of_its_own(line, sys.executable, "-c", script, ground.state, str(data))

    assert asked("true") == "tuple"
    assert asked(f"mount --bind {ground.state} {data}") == "NoPlace"


def in_mounts_of_its_own(*words: str) -> str:
    """What a program prints where it alone sees what is mounted."""
    line = ["unshare", "--map-root-user", "--mount", "sh", "-c", words[0], "sh", *words[1:]]
    done = subprocess.run(line, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode:
        pytest.skip(f"this machine lets nobody mount anything: {done.stderr.strip()[-200:]}")
    return done.stdout.strip()


def test_a_granted_folder_is_the_real_one_with_its_number(data: Path, ground: Ground) -> None:
    found = places(granted(reads=(str(data),)), ground, bundle="")
    assert isinstance(found, tuple)
    [place] = found
    status = data.stat()
    assert (place.path, place.writable, place.device, place.inode) == (
        str(data),
        False,
        status.st_dev,
        status.st_ino,
    )


def test_a_folder_that_may_be_written_is_one_place(data: Path, ground: Ground) -> None:
    (data / "below").mkdir()
    found = places(granted(reads=(str(data), str(data / "below")), writes=(str(data),)), ground, bundle="")
    assert isinstance(found, tuple)
    assert [(place.path, place.writable) for place in found] == [(str(data), True)]


def test_lnx_16_a_granted_path_that_leads_elsewhere_is_refused_and_says_where(
    data: Path, ground: Ground
) -> None:
    link = data.parent / "link"
    link.symlink_to(data)
    said = refusal(places(granted(reads=(str(link),)), ground, bundle=""))
    assert said.code == "not_runnable"
    assert str(data) in said.reason
    (data / "below").mkdir()
    assert isinstance(places(granted(writes=(f"{link}/below",)), ground, bundle=""), NoPlace)
    assert isinstance(places(granted(reads=(f"{data}/below",)), ground, bundle=""), tuple)


def test_what_is_not_there_is_refused(data: Path, ground: Ground) -> None:
    assert "not there" in refusal(places(granted(reads=(f"{data}/x",)), ground, bundle="")).reason


def test_lnx_11_a_socket_or_a_pipe_is_no_place(data: Path, ground: Ground) -> None:
    os.mkfifo(data / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(data / "socket"))
        for name in ("pipe", "socket"):
            said = refusal(places(granted(reads=(str(data / name),)), ground, bundle=""))
            assert "neither a file nor a folder" in said.reason


def test_the_workspace_is_made_for_its_owner_alone(ground: Ground) -> None:
    found = places(granted(writes=("{workspace}/out",)), ground, bundle="")
    assert isinstance(found, tuple)
    assert [(place.path, place.writable) for place in found] == [(f"{ground.workspace}/out", True)]
    assert os.stat(ground.workspace).st_mode & 0o777 == 0o700


@pytest.mark.parametrize("spelled", ["{workspace}", ""])
def test_fs_24_no_grant_reaches_code_in_the_workspace_or_writes_who_the_agent_is(
    ground: Ground, spelled: str
) -> None:
    make_workspace(ground.workspace)
    top = spelled or os.path.realpath(ground.workspace)
    for name in ("brain/agents", "packages", "apps", "node_modules", "Brain", "docs/deep"):
        os.makedirs(os.path.join(ground.workspace, name))
    for name in ("brain", "brain/agents", "packages", "apps", "node_modules", "Brain"):
        for kind in ("reads", "writes"):
            said = refusal(places(granted(**{kind: (f"{top}/{name}",)}), ground, bundle=""))
            assert (said.code, "no skill gets" in said.reason) == ("forbidden", True), name
    assert "only read" in refusal(places(granted(writes=(f"{top}/persona",)), ground, bundle="")).reason
    assert "as a whole" in refusal(places(granted(writes=(top,)), ground, bundle="")).reason
    for kind, name in (("reads", "persona"), ("reads", "docs/deep"), ("writes", "docs/deep")):
        assert isinstance(places(granted(**{kind: (f"{top}/{name}",)}), ground, bundle=""), tuple)


def test_fs_24_who_reads_the_workspace_as_a_whole_is_given_all_but_the_code(ground: Ground) -> None:
    make_workspace(ground.workspace)
    (Path(ground.workspace) / "SOUL.md").write_text("I am")
    (Path(ground.workspace) / "link").symlink_to("brain")
    found = places(granted(reads=("{workspace}",)), ground, bundle="")
    assert isinstance(found, tuple)
    names = ["SOUL.md", "docs", "etc", "logs", "memory", "out", "persona"]
    assert [os.path.relpath(place.path, ground.workspace) for place in found] == names
    assert all(place.inode == os.stat(place.path).st_ino and not place.writable for place in found)


def test_a_folder_may_hold_any_number_of_folders(data: Path, ground: Ground) -> None:
    for number in range(2_001):
        (data / str(number)).mkdir()
    assert isinstance(places(granted(writes=(str(data),)), ground, bundle=""), tuple)
    (data / "2000" / ".git").mkdir()
    assert "repository" in refusal(places(granted(writes=(str(data),)), ground, bundle="")).reason


def test_fs_25_a_repository_without_a_name_for_one_is_not_writable(data: Path, ground: Ground) -> None:
    inner = data / "a" / "hooks"
    inner.mkdir(parents=True)
    for name in ("HEAD", "objects", "refs"):
        assert all(
            isinstance(places(granted(writes=(str(each),)), ground, bundle=""), tuple)
            for each in (data, inner.parent, inner)
        )
        (inner.parent / name).mkdir()
    for each in (data, inner.parent, inner):
        assert "repository" in refusal(places(granted(writes=(str(each),)), ground, bundle="")).reason


def test_the_own_folder_is_the_snapshot_and_needs_no_place_of_its_own(data: Path, ground: Ground) -> None:
    assert places(granted(reads=("{baseDir}",)), ground, bundle=str(data)) == ()
    assert isinstance(places(granted(reads=("{baseDir}",)), ground, bundle=""), NoPlace)


@pytest.mark.parametrize("path", ["{baseDir}", "{baseDir}/sub"])
def test_lnx_13_a_skill_cannot_write_its_own_folder(data: Path, ground: Ground, path: str) -> None:
    (data / "sub").mkdir()
    said = refusal(places(granted(writes=(path,)), ground, bundle=str(data)))
    assert (said.code, "own folder" in said.reason) == ("forbidden", True)
    own = data.parent / "skills" / "tea"
    own.mkdir(parents=True)
    for covers in (own, own.parent):
        assert isinstance(
            places(granted(writes=(str(covers),)), ground, bundle=str(data), own=str(own)), NoPlace
        )


@pytest.mark.parametrize("name", sorted(PROTECTED_NAMES))
def test_lnx_13_a_write_grant_that_covers_a_protected_name_is_refused(
    data: Path, ground: Ground, name: str
) -> None:
    assert isinstance(places(granted(writes=(str(data),)), ground, bundle=""), tuple), (
        "without it the grant is fine"
    )
    (data / name / "hooks").mkdir(parents=True)
    for path in (data, data / name, data / name / "hooks"):
        said = refusal(places(granted(writes=(str(path),)), ground, bundle=""))
        assert (said.code, name in said.reason) == ("forbidden", True)
    assert isinstance(places(granted(reads=(str(data),)), ground, bundle=""), tuple), (
        "reading it may be granted"
    )


@pytest.mark.parametrize("name", [".GIT", "Skill.md", ".Config", "agents.MD"])
def test_lnx_13_a_protected_name_counts_however_it_is_cased(data: Path, ground: Ground, name: str) -> None:
    (data / name).mkdir()
    for path in (data, data / name):
        assert name in refusal(places(granted(writes=(str(path),)), ground, bundle="")).reason


def test_lnx_13_metiers_own_program_is_not_writable(ground: Ground) -> None:
    package = os.path.dirname(metier.__file__)
    for path in (
        package,
        os.path.dirname(package),
        f"{package}/sandbox",
        sys.prefix,
        sysconfig.get_paths()["purelib"],
    ):
        said = refusal(places(granted(writes=(os.path.realpath(path),)), ground, bundle=""))
        assert said.code == "forbidden"
    said = refusal(places(granted(writes=(os.path.realpath(package),)), ground, bundle=""))
    assert "Metier's own program" in said.reason


@pytest.mark.parametrize("kind", ["started_from", "trusted_roots"])
def test_lnx_13_folders_of_programs_and_trusted_skills_are_not_writable(
    data: Path, ground: Ground, kind: str
) -> None:
    special = data / "special"
    (special / "deep").mkdir(parents=True)
    (data / "beside").mkdir()
    known = structs.replace(
        ground, **{kind: (str(special), "relative", "/", str(data / "beside" / "not-there"))}
    )
    for path in (data, special, special / "deep"):
        assert isinstance(places(granted(writes=(str(path),)), ground, bundle=""), tuple), "control"
        assert "special" in refusal(places(granted(writes=(str(path),)), known, bundle="")).reason
    assert isinstance(places(granted(writes=(str(data / "beside"),)), known, bundle=""), tuple)
    assert isinstance(places(granted(reads=(str(special),)), known, bundle=""), tuple)


def test_the_runtime_knows_where_programs_and_skills_come_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path)
    monkeypatch.setenv("PATH", f"{machine.bin}{os.pathsep}/usr/bin")
    found = runtime_ground(machine.settings())
    assert found.started_from == (str(machine.bin), "/usr/bin")
    assert str(machine.skills) in found.trusted_roots


def test_lnx_13_a_folder_of_repositories_is_not_writable(data: Path, ground: Ground) -> None:
    (data / "project" / ".git").mkdir(parents=True)
    assert "repository" in refusal(places(granted(writes=(str(data),)), ground, bundle="")).reason


@pytest.mark.parametrize("path", ["/", "/etc", "/etc/cron.d", "/usr", "/usr/local", "/var", "/proc", "/dev"])
def test_lnx_13_the_system_is_not_writable(ground: Ground, path: str) -> None:
    if not os.path.isdir(path) or os.path.realpath(path) != path:
        pytest.skip(f"{path} is not a folder here")
    assert refusal(places(granted(writes=(path,)), ground, bundle="")).code == "forbidden"


@pytest.mark.parametrize("path", ["/", "/proc", "/sys", "/dev", "/proc/self"])
def test_lnx_10_what_shows_the_machine_is_not_readable(ground: Ground, path: str) -> None:
    assert isinstance(places(granted(reads=(path,)), ground, bundle=""), NoPlace)


def test_the_state_is_neither_written_nor_read_but_for_the_workspace(ground: Ground) -> None:
    keys = Path(ground.state) / "keys"
    keys.mkdir()
    for path in (ground.state, str(keys), ground.home):
        assert isinstance(places(granted(writes=(path,)), ground, bundle=""), NoPlace), path
        assert isinstance(places(granted(reads=(path,)), ground, bundle=""), NoPlace), path
    assert isinstance(places(granted(reads=("{workspace}",)), ground, bundle=""), tuple)


def test_the_home_as_a_whole_is_not_writable_and_a_folder_in_it_is(ground: Ground) -> None:
    documents = Path(ground.home) / "documents"
    documents.mkdir()
    assert isinstance(places(granted(writes=(ground.home,)), ground, bundle=""), NoPlace)
    assert isinstance(places(granted(writes=(str(documents),)), ground, bundle=""), tuple)


def test_the_working_folder_counts_only_inside_a_granted_place(data: Path, ground: Ground) -> None:
    (data / "below").mkdir()
    (data / "out").symlink_to("/")
    found = places(granted(reads=(str(data),)), ground, bundle="")
    assert isinstance(found, tuple)
    assert inside(str(data / "below"), found) == str(data / "below")
    assert inside(str(data.parent), found) == ""
    assert inside(f"{data}-more", found) == ""
    assert inside(str(data / "out"), found) == ""
    assert inside(None, found) == ""


def test_a_tool_that_says_nothing_gets_thirty_seconds_and_a_quarter_of_a_gigabyte() -> None:
    assert bounded(Limits()) == Limits(timeout=30.0, memory_mb=256, output_bytes=1 << 20, processes=64)
