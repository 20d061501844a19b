"""A machine that lacks something: each missing piece is named with the command that adds it, the rest works, and
nothing runs without its walls. Each is hidden for real, in a mount namespace of the test's own."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from metier.sandbox.bwrap_line import WHERE

CODE = "import os\nresult = [os.getuid(), os.path.exists('/etc/shadow')]\n"
NETWORK = "result = 1\n"
SCRIPT = "export default () => 42\n"
WITHOUT_LANDLOCK = """
import ctypes, os, struct, sys
code = struct.pack("HBBI" * 4, 0x20, 0, 0, 0, 0x15, 0, 1, 444, 0x06, 0, 0, 0x00050026, 0x06, 0, 0, 0x7FFF0000)
kept = ctypes.create_string_buffer(code, len(code))
libc = ctypes.CDLL(None)
libc.prctl(38, 1, 0, 0, 0)
assert libc.syscall(317, 1, 0, struct.pack("HxxxxxxQ", 4, ctypes.addressof(kept))) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can hide a program from itself"),
]


class Machine:
    """`metier` on a machine without something."""

    def __init__(self, home: Path, prefix: Sequence[str]) -> None:
        self._home = home
        self._prefix = prefix

    def metier(self, *words: str, **more: str) -> "subprocess.CompletedProcess[str]":
        command = [*self._prefix, sys.executable, "-c", "from metier.doors.cli import main; main()", *words]
        environment = {**os.environ, "HOME": str(self._home), "NO_COLOR": "1", **more}
        return subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=self._home, timeout=50, check=False
        )

    def doctor(self) -> Any:
        return json.loads(self.metier("doctor", "--json").stdout)

    def file(self, name: str, text: str) -> str:
        (self._home / name).write_text(text)
        return name


def hiding(tmp_path: Path, *programs: str, package: str = "", landlock: bool = False) -> Machine:
    for name in ("home", "upper", "work"):
        (tmp_path / name).mkdir()
    home = tmp_path / "home"
    steps = [f"mount --bind /dev/null {program}" for program in programs]
    if package:
        spec = find_spec(package)
        assert spec and spec.origin, f"{package} is not installed"
        folder = Path(spec.origin).parents[1]
        # What is removed in an overlay is removed for who looks through it only.
        layers = f"lowerdir={folder},upperdir={tmp_path}/upper,workdir={tmp_path}/work"
        steps += [f"mount -t overlay overlay -o {layers} {folder}", f"rm -rf {folder}/{package}*"]
    script = "\n".join(["set -e", *steps, 'exec "$@"'])
    prefix = ["unshare", "--mount", "bash", "-c", script, "hide"]
    if landlock:
        prefix += [sys.executable, "-c", WITHOUT_LANDLOCK]
    return Machine(home, prefix)


def bwraps() -> list[str]:
    return [path for path in dict.fromkeys(map(os.path.realpath, WHERE)) if os.path.exists(path)]


def test_with_everything_there_each_kind_runs(tmp_path: Path) -> None:
    machine = hiding(tmp_path)
    assert machine.metier("doctor").returncode == 0
    assert json.loads(machine.metier("run", machine.file("a.py", CODE)).stdout) == [1000, False]
    assert machine.metier("run", machine.file("a.mjs", SCRIPT)).stdout.strip() == "42"


def test_without_bubblewrap_code_runs_behind_landlock_and_what_needs_namespaces_is_refused(
    tmp_path: Path,
) -> None:
    machine = hiding(tmp_path, *bwraps())
    ran = machine.metier("run", machine.file("a.py", CODE))
    assert ran.returncode == 0, ran.stderr
    assert "landlock" in ran.stderr
    refused = machine.metier("run", machine.file("n.py", NETWORK), "--allow", "host=api.example.org")
    assert refused.returncode != 0
    assert refused.stdout == ""
    assert "sandbox_unavailable" in refused.stderr
    assert "apt install bubblewrap" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_without_any_wall_no_code_runs_and_what_needs_none_does(tmp_path: Path) -> None:
    machine = hiding(tmp_path, *bwraps(), landlock=True)
    for name, text in (("a.py", CODE), ("a.mjs", SCRIPT)):
        refused = machine.metier("run", machine.file(name, text))
        assert refused.returncode != 0
        assert refused.stdout == ""
        assert "sandbox_unavailable" in refused.stderr
        assert "apt install bubblewrap" in refused.stderr
    told = machine.doctor()
    kinds = {kind["name"]: bool(kind.get("sandbox")) for kind in told["kinds"]}
    assert kinds["wasm"] and kinds["http"]
    assert not kinds["python"] and not kinds["command"] and not kinds["javascript"]
    assert machine.metier("doctor").returncode == 1


def test_a_temporary_folder_that_is_closed_to_others_is_no_hindrance(tmp_path: Path) -> None:
    machine = hiding(tmp_path)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    ran = machine.metier("run", machine.file("a.py", CODE), TMPDIR=str(closed))
    assert ran.stdout and json.loads(ran.stdout) == [1000, False], ran.stderr


def test_without_landlock_bubblewrap_alone_is_wall_enough(tmp_path: Path) -> None:
    machine = hiding(tmp_path, landlock=True)
    ran = machine.metier("run", machine.file("a.py", CODE))
    assert json.loads(ran.stdout) == [1000, False], ran.stderr
    assert "bubblewrap" in ran.stderr


@pytest.mark.parametrize(
    ("module", "file", "extra"), [("deno", "a.mjs", "javascript"), ("wasmtime", "a.wasm", "wasm")]
)
def test_without_an_engine_its_language_is_refused_and_the_others_run(
    tmp_path: Path, module: str, file: str, extra: str
) -> None:
    machine = hiding(tmp_path, package=module)
    refused = machine.metier("run", machine.file(file, SCRIPT))
    assert refused.returncode != 0
    assert "sandbox_unavailable" in refused.stderr
    assert f"metier[{extra}]" in refused.stderr
    ran = machine.metier("run", machine.file("a.py", CODE))
    assert ran.stdout and json.loads(ran.stdout) == [1000, False], ran.stderr


def test_without_root_everything_runs_but_for_the_exact_memory_limit(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    python = "/usr/bin/python3"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if not os.path.exists(python) or not os.path.realpath(python).endswith(version):
        pytest.skip(f"there is no {python} of version {version} that an ordinary user could run")
    home = Path("/var/tmp") / f"metier-nobody-{os.getpid()}"  # pytest's own lies where nobody can go
    home.mkdir()
    try:
        os.chown(home, 65534, 65534)
        (home / "a.py").write_text(CODE)
        source = Path(__file__).parents[2] / "src"
        packages = next(path for path in sys.path if path.endswith("site-packages"))
        prefix = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "env", "-i"]
        settings = [f"HOME={home}", "PATH=/usr/bin:/bin", f"PYTHONPATH={source}:{packages}", "NO_COLOR=1"]
        start = "from metier.doors.cli import main; main()"
        command = [*prefix, *settings, python, "-c", start]
        ran = subprocess.run(
            [*command, "run", "a.py"], capture_output=True, text=True, cwd=home, timeout=50, check=False
        )
        assert json.loads(ran.stdout) == [1000, False], ran.stderr
        told = subprocess.run(
            [*command, "doctor", "--json"], capture_output=True, text=True, cwd=home, timeout=50, check=False
        )
        behind = next(each for each in json.loads(told.stdout)["sandboxes"] if "bubblewrap" in each["name"])
        assert not behind["guarantees"]["memory_exact"]
        assert all(kept for name, kept in behind["guarantees"].items() if name != "memory_exact")
    finally:
        shutil.rmtree(home)


def test_nobody_is_asked_about_a_call_that_nothing_here_could_run(tmp_path: Path) -> None:
    words = ("call", "send-message/send_message", '{"message": "hello", "confirmed": true}')
    for name, hidden in (("there", ""), ("gone", "deno")):
        (tmp_path / name).mkdir()
        machine = hiding(tmp_path / name, package=hidden)
        said = machine.metier(*words).stderr
        waiting = machine.metier("approvals", "list").stdout
        assert ("sandbox_unavailable" in said, "javascript" in said, bool(waiting.strip())) == (
            bool(hidden),
            bool(hidden),
            not hidden,
        ), (said, waiting)


def test_nobody_is_asked_about_a_program_whose_hosts_nothing_here_could_let_through(tmp_path: Path) -> None:
    tool = {
        "name": "go",
        "description": "Goes.",
        "parameters": {"type": "object", "properties": {}},
        "entry": {"kind": "command", "argv": ["poster"]},
        "permissions": {"binaries": ["poster"]},
    }
    block = json.dumps({"metier": {"tools": [tool]}})
    for name, hidden in (("there", []), ("gone", bwraps())):
        (tmp_path / name).mkdir()
        machine = hiding(tmp_path / name, *hidden)
        state = tmp_path / name / "home" / ".metier"
        (state / "skills" / "post").mkdir(parents=True)
        (state / "skills" / "post" / "SKILL.md").write_text(
            f"---\nname: post\ndescription: Posts.\nmetadata: {block}\n---\n\nGo.\n"
        )
        (state / "metier.toml").write_text(
            '[binaries.programs.poster]\nfile = "/bin/echo"\nhosts = ["api.example"]\n'
        )
        state.chmod(0o700)
        assert machine.metier("skills", "trust", "post", "--yes").returncode == 0
        said = machine.metier("call", "post/go", "{}").stderr
        waiting = machine.metier("approvals", "list").stdout
        assert ("sandbox_unavailable" in said, bool(waiting.strip())) == (bool(hidden), not hidden), said
