"""`metier run`: a file of one's own runs with what was allowed while typing, and says what it tried to touch."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from boxes import EVERYTHING, Box
from machine import Machine
from metier.doors.cli import metier
from metier.model.entry import Entry, InlineCode, PythonHandler, ScriptHandler, WasmModule
from metier.model.guarantee import Guarantee
from metier.model.job import Event, Fault, Job, Report, Usage
from metier.record.audit import AuditLog
from metier.record.chain import Record
from metier.record.database import Database
from metier.runtime import sandboxes
from metier.runtime.run_folder import run_folder
from metier.sandbox.protocol import Missing

Start = Callable[..., Result]
SOURCE = "result = 1\n"


@pytest.fixture
def box() -> Box:
    return Box(report=Report(ending="returned", value={"tea": 1}))


@pytest.fixture
def start(machine: Machine, monkeypatch: pytest.MonkeyPatch, box: Box) -> Start:
    """Run the command in this process, with the test's own sandbox."""
    monkeypatch.setenv("HOME", str(machine.home))
    monkeypatch.setenv("TEA_TOKEN", "t0ken")
    monkeypatch.delenv("METIER_HOME", raising=False)
    monkeypatch.setattr(sandboxes, "make_sandboxes", lambda settings, tasks=None, watch=None: ((box,), ()))
    monkeypatch.chdir(machine.project)
    (machine.project / "main.py").write_text(SOURCE, encoding="utf-8")

    def run(*args: str, status: int = 0) -> Result:
        done = CliRunner().invoke(metier, ["run", *args])
        assert done.exit_code == status, (done.exit_code, done.output, done.exception)
        assert "Traceback" not in done.output
        return done

    return run


def reports(box: Box, report: Report) -> None:
    async def give(job: Job) -> Report:
        return report

    box._report = give


def records(machine: Machine) -> list[Record]:
    with Database.open(str(machine.state / "state.db")) as database:
        return AuditLog(database).tail(100)


def test_the_value_is_on_standard_output_and_the_summary_on_standard_error(start: Start, box: Box) -> None:
    usage = Usage(seconds=1.5, cpu_seconds=0.5, memory_bytes=7 << 20, fuel=1234)
    reports(box, Report(ending="returned", value={"tea": 1}, usage=usage))
    done = start("main.py")
    assert json.loads(done.stdout) == {"tea": 1}
    assert done.stderr == "[box] completed: 1.50 s, 0.50 s of CPU, 7 MB, 1,234 fuel\n"
    assert box.closed == 1


def test_the_code_is_given_to_the_sandbox_with_its_parameters_and_nothing_else(
    start: Start, box: Box
) -> None:
    start("main.py", "--args", '{"word": "pour"}')
    [job] = box.jobs
    assert job.entry == InlineCode(language="python", source=SOURCE)
    assert job.arguments == {"word": "pour"}
    assert (job.skill, job.places, job.environment, job.binaries, job.cwd) == ("", (), {}, {}, "")


@pytest.mark.parametrize(
    ("name", "language"),
    [("a.py", "python"), ("a.js", "javascript"), ("a.MJS", "javascript"), ("a.ts", "typescript")],
)
def test_the_language_is_known_by_the_ending(
    start: Start, box: Box, machine: Machine, name: str, language: str
) -> None:
    (machine.project / name).write_text("1", encoding="utf-8")
    start(name)
    assert getattr(box.jobs[0].entry, "language", "") == language


@pytest.mark.parametrize(
    ("name", "source", "entry"),
    [
        ("a.py", "async def main(params, context):\n    return 1\n", PythonHandler(path="a.py")),
        ("a.py", "import os\ndef main(\n    params, context): return 1\n", PythonHandler(path="a.py")),
        (
            "a.js",
            "module.exports = async (params) => 1;\n",
            ScriptHandler(path="a.js", language="javascript"),
        ),
        (
            "a.ts",
            "const x = 1;\nexport default () => x;\n",
            ScriptHandler(path="a.ts", language="typescript"),
        ),
        (
            "a.mjs",
            'import a from "node:path"; export default () => a.sep',
            ScriptHandler(path="a.mjs", language="javascript"),
        ),
        (
            "a.mjs",
            "const main = () => 1; export { main as default }",
            ScriptHandler(path="a.mjs", language="javascript"),
        ),
        (
            "a.js",
            "const main = () => 1;\nexport { main as default };",
            ScriptHandler(path="a.js", language="javascript"),
        ),
        ("a.cjs", "exports.handler = () => 1", ScriptHandler(path="a.cjs", language="javascript")),
        ("a.js", "exports.handler = () => 1", ScriptHandler(path="a.js", language="javascript")),
    ],
)
def test_a_file_that_brings_a_handler_is_asked_for_it(
    start: Start, box: Box, machine: Machine, name: str, source: str, entry: Entry
) -> None:
    (machine.project / name).write_text(source, encoding="utf-8")
    start(name)
    [job] = box.jobs
    assert job.entry == entry


@pytest.mark.parametrize(
    "source", ["def main():\n    pass\nmain()\n", "x = 'def main(a)'\n", "  def main(a): 1\n"]
)
def test_any_other_file_runs_as_it_is(start: Start, box: Box, machine: Machine, source: str) -> None:
    (machine.project / "a.py").write_text(source, encoding="utf-8")
    start("a.py")
    assert box.jobs[0].entry == InlineCode(language="python", source=source)


@pytest.mark.parametrize(
    ("name", "source"),
    [("a.js", "return 'x; export default 1'\n"), ("a.mjs", "return 1\n"), ("a.js", "important = 1\n")],
)
def test_a_script_without_a_handler_runs_as_it_is(
    start: Start, box: Box, machine: Machine, name: str, source: str
) -> None:
    (machine.project / name).write_text(source, encoding="utf-8")
    start(name)
    assert box.jobs[0].entry == InlineCode(language="javascript", source=source)


def test_a_language_that_is_said_counts(start: Start, box: Box, machine: Machine) -> None:
    (machine.project / "script").write_text("1", encoding="utf-8")
    start("script", "--lang", "typescript")
    assert box.jobs[0].entry == InlineCode(language="typescript", source="1")


def test_a_module_is_found_where_the_sandbox_looks_for_it_and_nothing_is_left(
    start: Start, box: Box, machine: Machine
) -> None:
    module = b"\0asm\1\0\0\0"
    (machine.project / "a.wasm").write_bytes(module)
    seen: list[bytes] = []

    async def give(job: Job) -> Report:
        seen.append((Path(job.bundle) / "a.wasm").read_bytes())
        return Report(ending="returned")

    box._report = give
    start("a.wasm")
    [job] = box.jobs
    assert job.entry == WasmModule(path="a.wasm")
    assert seen == [module]
    assert not Path(job.bundle).exists()


def test_what_is_allowed_is_what_it_gets(start: Start, box: Box, machine: Machine) -> None:
    (machine.project / "data").mkdir()
    (machine.project / "out").mkdir()
    (machine.project / "link").symlink_to("data")
    start(
        *("main.py", "--allow", "read=link", "--allow", "write=./out", "--allow", "env=TEA_TOKEN"),
        *("--allow", "host=tea.example", "--timeout", "7", "--memory", "99"),
    )
    [job] = box.jobs
    project = machine.project
    assert {place.path: place.writable for place in job.places} == {
        str(project / "data"): False,
        str(project / "out"): True,
    }
    assert job.environment == {"TEA_TOKEN": "t0ken"}
    assert job.permissions.hosts == {"tea.example"}
    assert (job.limits.timeout, job.limits.memory_mb) == (7, 99)
    assert Guarantee.NETWORK_BY_GRANT in job.needs


def test_a_working_folder_that_is_allowed_is_where_it_starts(
    start: Start, box: Box, machine: Machine
) -> None:
    start("main.py", "--allow", "read=.")
    assert box.jobs[0].cwd == str(machine.project)


def test_res_02_more_time_than_there_is_becomes_the_most_there_is(start: Start, box: Box) -> None:
    start("main.py", "--timeout", "600")
    assert box.jobs[0].limits.timeout == 300


@pytest.mark.parametrize(
    "limit", [("--timeout", "0"), ("--timeout", "nan"), ("--timeout", "-1"), ("--memory", "0")]
)
def test_res_21_a_limit_that_is_none_is_refused(start: Start, box: Box, limit: tuple[str, str]) -> None:
    done = start("main.py", *limit, status=2)
    assert f"{limit[0]} is {limit[1]}; it must be more than nothing" in done.stderr
    assert box.jobs == []


@pytest.mark.parametrize("name", ["not-there", "../ls"])
def test_a_program_that_is_not_there_is_said_to_grant_nothing(start: Start, name: str) -> None:
    assert f"bin={name} grants nothing" in start("main.py", "--allow", f"bin={name}").stderr
    assert "grants nothing" not in start("main.py", "--allow", "bin=ls").stderr


def test_a_variable_that_is_not_set_is_said_to_grant_nothing(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEA_IS_SET", "1")
    monkeypatch.delenv("TEA_NOT_SET", raising=False)
    assert "env=TEA_NOT_SET grants nothing" in start("main.py", "--allow", "env=TEA_NOT_SET").stderr
    assert "grants nothing" not in start("main.py", "--allow", "env=TEA_IS_SET").stderr


def test_where_the_code_starts_is_said_when_it_is_not_here(start: Start, machine: Machine) -> None:
    (machine.project / "data").mkdir()
    said = start("main.py", "--allow", "read=data").stderr
    assert f"full paths ({machine.project.resolve() / 'data'})" in said
    for here in ("read=.", "write=."):
        assert "full paths" not in start("main.py", "--allow", here).stderr


@pytest.mark.parametrize(("name", "words"), [("nowhere", "there is no nowhere"), (".", "not a regular file")])
def test_what_is_no_file_is_called_that_and_not_an_unknown_language(
    start: Start, name: str, words: str
) -> None:
    said = start(name, status=2).stderr
    assert words in said
    assert "--lang" not in said


def test_the_run_is_recorded_like_every_call_as_the_owners_own(start: Start, machine: Machine) -> None:
    start("main.py", "--allow", "env=TEA_TOKEN")
    started, ended = records(machine)
    assert (started.event, ended.event) == ("skill_execution_started", "skill_executed")
    assert started.principal.startswith("human:")
    assert started.tool == "operator.run"
    assert started.reasons == ("the owner does it himself",)
    assert started.skill_digest.startswith("sha256:")
    assert set(started.payloads) == {"arguments", "permissions", "cwd"}


def test_what_it_printed_comes_first_and_cannot_move_the_cursor(start: Start, box: Box) -> None:
    reports(box, Report(ending="returned", value=None, stdout="one\n\x1b[2Jtwo", stderr="hm\x07"))
    done = start("main.py")
    assert done.stdout == "one\n\\u{1b}[2Jtwo\n"
    assert done.stderr.startswith("hm\\u{7}\n[box] completed")


def test_what_it_tried_and_was_refused_is_said_with_what_would_allow_it(start: Start, box: Box) -> None:
    denials = (
        Event(kind="read", detail="/srv/tea.txt", count=2),
        Event(kind="egress", detail="https://tea.example"),
        Event(
            kind="egress",
            detail="x is not granted; grant the host 'a.example:8443' if the skill should reach it",
        ),
        Event(kind="socket", detail="AF_INET"),
        Event(kind="read", detail="/srv/a b; rm"),
        Event(kind="odd\x1b", detail="thing"),
        Event(kind="net", detail="example.com:443"),
        Event(kind="net", detail="example.com/x"),
        Event(kind="net", detail="0.0.0.0:0"),
        Event(kind="run", detail="ls"),
        Event(kind="env", detail="all"),
        Event(kind="env", detail="TEA"),
        Event(kind="socket", detail="AF_UNIX"),
        Event(kind="read", detail="/"),
        Event(kind="egress", detail="127.0.0.1"),
    )
    reports(box, Report(ending="returned", value=1, denials=denials))
    done = start("main.py")
    assert done.stderr.splitlines()[1:] == [
        "  refused: read /srv/tea.txt (×2)",
        "    allow it with: --allow read=/srv/tea.txt",
        "  refused: egress https://tea.example",
        "    allow it with: --allow host=tea.example",
        "  refused: egress x is not granted; grant the host 'a.example:8443' if the skill should reach it",
        "    allow it with: --allow host=a.example:8443",
        "  refused: socket AF_INET",
        "    allow it with: --allow host=NAME",
        "  refused: read /srv/a b; rm",
        "  refused: odd\\u{1b} thing",
        "  refused: net example.com:443",
        "    the engine itself never may: use context.http, with --allow host=example.com",
        "  refused: net example.com/x",
        "    the engine itself never may: use context.http, with --allow host=example.com",
        "  refused: net 0.0.0.0:0",
        "    the engine itself never may: use context.http",
        "  refused: run ls",
        "    the engine itself never may: use context.exec, with --allow bin=ls",
        "  refused: env all",
        "  refused: env TEA",
        "    allow it with: --allow env=TEA",
        "  refused: socket AF_UNIX",
        "  refused: read /",
        "  refused: egress 127.0.0.1",
    ]


def test_a_violation_is_a_failure_and_nothing_is_offered_for_it(start: Start, box: Box) -> None:
    reports(box, Report(ending="stopped", violations=(Event(kind="syscall", detail="mount"),)))
    done = start("main.py", status=1)
    assert done.stdout == ""
    assert "Failed (violation)" in done.stderr
    assert "VIOLATION: syscall mount" in done.stderr
    assert "--allow" not in done.stderr


def test_an_error_of_the_code_is_a_failure_with_its_words(start: Start, box: Box) -> None:
    reports(box, Report(ending="raised", fault=Fault(name="ValueError", message="no tea"), stdout="so far\n"))
    done = start("main.py", status=1)
    assert done.stdout == "so far\n"
    assert "Failed (raised): ValueError: no tea" in done.stderr


def test_output_that_was_cut_off_is_said_so(start: Start, box: Box) -> None:
    reports(box, Report(ending="returned", truncated=True, usage=Usage(output_bytes=5_000_000), stdout="x"))
    assert "5,000,000 bytes of output" in start("main.py").stderr


def test_as_json_there_is_one_object_and_nothing_else(start: Start, box: Box) -> None:
    reports(
        box, Report(ending="returned", value=[1], stdout="hi", denials=(Event(kind="read", detail="/x"),))
    )
    done = start("main.py", "--json")
    said: dict[str, Any] = json.loads(done.stdout)
    assert (said["outcome"], said["value"]) == ("completed", [1])
    assert said["run"]["stdout"] == "hi"
    assert said["run"]["denials"] == [{"kind": "read", "detail": "/x"}]
    assert done.stderr == ""


def test_lnx_02_without_a_sandbox_that_keeps_its_promises_nothing_runs(
    start: Start, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = frozenset({Guarantee.CONTENTS})
    why = Missing(what="bubblewrap", why="not found", remedy="apt install bubblewrap", costs=lost)
    weak = Box("weak", promises=EVERYTHING - lost, lacks=(why,))
    monkeypatch.setattr(sandboxes, "make_sandboxes", lambda settings, tasks=None, watch=None: ((weak,), ()))
    done = start("main.py", status=3)
    assert "Refused (sandbox_unavailable); nothing ran." in done.stderr
    assert "files outside the grants" in done.stderr
    assert "→ apt install bubblewrap" in done.stderr
    assert weak.jobs == []
    assert [each.event for each in records(machine)] == ["skill_execution_blocked"]


@pytest.mark.parametrize("path", ["write=/etc", "read=/proc", "env=LD_PRELOAD"])
def test_what_is_never_granted_is_refused_to_the_owner_too(start: Start, box: Box, path: str) -> None:
    assert "Refused (forbidden)" in start("main.py", "--allow", path, status=3).stderr
    assert box.jobs == []


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["absent.py"], "there is no absent.py"),
        ([".", "--lang", "python"], "not a regular file"),
        (["main.txt"], "Say --lang"),
        (["main.py", "--lang", "cobol"], "cobol"),
        (["main.py", "--allow", "read"], "cannot be understood"),
        (["main.py", "--allow", "red=/x"], "cannot be understood"),
        (["main.py", "--allow", "read="], "cannot be understood"),
        (["main.py", "--allow", "read=/no/such/place"], "cannot be used"),
        (["main.py", "--allow", "host=*"], "not a permission"),
        (["main.py", "--allow", "host=127.0.0.1"], "127.0.0.1"),
        (["main.py", "--allow", "host=tea.example/path"], "more than a host"),
        (["main.py", "--args", "[1]"], "one JSON object"),
        (["main.py", "--args", "{"], "not strict JSON"),
        (["main.py", "--timeout", "soon"], "soon"),
        (["latin.py"], "not UTF-8"),
    ],
)
def test_a_line_that_cannot_be_understood_says_why_and_nothing_runs(
    start: Start, box: Box, machine: Machine, args: list[str], said: str
) -> None:
    (machine.project / "latin.py").write_bytes(b"x = '\xe9'")
    (machine.project / "main.txt").write_text(SOURCE)
    done = start(*args, status=2)
    assert said in done.stderr
    assert box.jobs == []
    assert not (machine.state / "state.db").exists()


def test_a_working_folder_that_is_gone_is_said_so(machine: Machine) -> None:
    gone = machine.project / "gone"
    gone.mkdir()
    (machine.project / "main.py").write_text(SOURCE, encoding="utf-8")
    program = Path(sys.executable).with_name("metier")
    line = f"cd '{gone}' && /bin/rmdir '{gone}' && exec '{program}' run '{machine.project}/main.py'"
    done = subprocess.run(["/bin/sh", "-c", line], env=machine.environ, capture_output=True, text=True)
    assert (done.returncode, "the working directory is gone" in done.stderr) == (5, True), done.stderr


BACKENDS = ("http", "wasm", "native", "python", "deno", "bubblewrap", "landlock", "process", "egress")


@pytest.mark.parametrize("args", [["skills", "list"], ["call", "read_skill", '{"name": "writing-skills"}']])
def test_what_needs_no_sandbox_loads_none(machine: Machine, args: list[str]) -> None:
    code = (
        f"import sys; sys.argv = ['metier', *{args!r}]\n"
        "from metier.doors.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "print('\\n' + ' '.join(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=machine.environ, cwd=machine.project, capture_output=True, text=True
    )
    loaded = done.stdout.strip().rsplit("\n", 1)[1].split()
    assert "metier.doors.cli" in loaded, done.stderr
    assert [name for name in BACKENDS if f"metier.sandbox.{name}" in loaded] == []


# --- in the sandboxes of this machine

PROGRAMS = {
    "a.py": "print('hi')\nresult = params['x'] + 1\n",
    "b.py": "async def main(params, context):\n    return params['x'] + 1\n",
    "a.js": "console.log('hi'); return params.x + 1\n",
    "a.ts": "const y: number = params.x; return y + 1\n",
    "b.mjs": "export default async (params, context) => params.x + 1\n",
}


def really(machine: Machine, *args: str, check: int = 0) -> subprocess.CompletedProcess[str]:
    done = machine.metier("run", *args, check=None)
    if "sandbox_unavailable" in done.stderr:
        pytest.skip(f"this machine cannot: {done.stderr}")
    assert done.returncode == check, done
    return done


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_in_a_sandbox_of_this_machine(machine: Machine, name: str) -> None:
    (machine.project / name).write_text(PROGRAMS[name], encoding="utf-8")
    done = really(machine, name, "--args", '{"x": 1}')
    assert done.stdout.splitlines()[-1] == "2"
    assert "completed" in done.stderr


def test_a_module_runs_in_a_sandbox_of_this_machine(machine: Machine) -> None:
    wasmtime = pytest.importorskip("wasmtime")
    text = """(module
      (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
      (memory (export "memory") 1)
      (data (i32.const 8) "{\\22tea\\22: 1}")
      (func (export "_start")
        (i32.store (i32.const 0) (i32.const 8)) (i32.store (i32.const 4) (i32.const 10))
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 60)))))"""
    (machine.project / "a.wasm").write_bytes(wasmtime.wat2wasm(text))
    assert json.loads(really(machine, "a.wasm").stdout) == {"tea": 1}


def test_a_program_reads_what_was_allowed_and_nothing_else(machine: Machine) -> None:
    data = machine.project / "data"
    data.mkdir()
    (data / "tea.txt").write_text("green", encoding="utf-8")
    source = f"""
try:
    result = open({str(data / "tea.txt")!r}).read()
except OSError:
    result = "no"
"""
    (machine.project / "a.py").write_text(source, encoding="utf-8")
    assert really(machine, "a.py").stdout == "no\n"
    assert really(machine, "a.py", "--allow", "read=data").stdout == "green\n"


def test_a_program_that_does_not_end_is_ended(machine: Machine) -> None:
    (machine.project / "a.py").write_text("while True: pass\n", encoding="utf-8")
    assert "Failed (timed_out)" in really(machine, "a.py", "--timeout", "0.5", check=1).stderr


ENDLESS = {
    "a.py": b"while True: pass\n",
    "a.mjs": b"export default () => { for (;;) {} }\n",
    "a.wasm": b'(module (memory (export "memory") 1) (func (export "_start") (loop (br 0))))',
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENDLESS)
def test_res_01_that_a_run_was_ended_by_its_limit_is_on_the_record(machine: Machine, name: str) -> None:
    text = ENDLESS[name]
    if name.endswith(".wasm"):
        text = bytes(pytest.importorskip("wasmtime").wat2wasm(text))
    (machine.project / name).write_bytes(text)
    (machine.project / "quick.py").write_text("result = 1\n", encoding="utf-8")
    really(machine, "quick.py")
    really(machine, name, "--timeout", "0.5", check=1)
    lines = machine.metier("audit", "tail", "--json").stdout.splitlines()
    _, quick, started, ended = (json.loads(line) for line in lines)
    assert (quick["event"], quick.get("code")) == ("skill_executed", None)
    assert (started["event"], ended["event"]) == ("skill_execution_started", "skill_execution_error")
    assert (ended["code"], ended["about"], ended["call_id"]) == (
        "timed_out",
        started["seq"],
        started["call_id"],
    )
    assert ended["duration_ms"] >= 500


DEEP = {
    "a.py": "x = 1\nfor _ in range(params['levels']): x = [x]\nresult = x\n",
    "a.mjs": "export default ({ levels }) => { let x = 1; while (levels--) x = [x]; return x }\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DEEP)
def test_res_14_a_value_nested_without_end_is_a_failure_and_breaks_nothing(
    machine: Machine, name: str
) -> None:
    (machine.project / name).write_text(DEEP[name], encoding="utf-8")
    assert json.loads(really(machine, name, "--args", '{"levels": 20}').stdout) == nested(20)
    for levels in (40, 100_000):
        done = really(machine, name, "--args", json.dumps({"levels": levels}), check=1)
        assert "Failed (bad_result)" in done.stderr
        assert "Traceback" not in done.stderr


def nested(levels: int) -> Any:
    return [nested(levels - 1)] if levels else 1


@pytest.mark.slow
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_res_14_arguments_nested_without_end_are_refused_before_anything_runs(
    machine: Machine, opening: str
) -> None:
    (machine.project / "a.py").write_text("result = 1\n", encoding="utf-8")
    assert really(machine, "a.py", "--args", '{"a": [[1]]}').stdout == "1\n"
    before = machine.metier("audit", "tail", "--json").stdout
    # A word of a command line has 131,071 bytes at most.
    done = really(machine, "a.py", "--args", opening * (130_000 // len(opening)), check=2)
    assert "more than 32 levels deep" in done.stderr
    assert "Traceback" not in done.stderr
    assert machine.metier("audit", "tail", "--json").stdout == before


def test_lnx_19_a_forbidden_system_call_is_told_as_a_violation(machine: Machine) -> None:
    source = "import ctypes\nctypes.CDLL(None).ptrace(0, 0, 0, 0)\nresult = 1\n"
    (machine.project / "a.py").write_text(source, encoding="utf-8")
    done = really(machine, "a.py", check=1)
    assert "Failed (violation)" in done.stderr
    assert "ptrace" in done.stderr


RAW = b"\x1b[2J\x1b]0;owned\x07"
SPOKEN = {
    "errors": (2, RAW),
    "output that is no value": (1, RAW),
    "a value": (1, b'"' + RAW.replace(b"\x1b", rb"\u001b").replace(b"\x07", rb"\u0007") + b'"'),
    "a name in a value": (1, rb'{"\u001b[2J\u009b31m owned": "\u0007"}'),
}


@pytest.mark.parametrize("words", [(), ("--json",)], ids=["for people", "for programs"])
@pytest.mark.parametrize("way", SPOKEN)
def test_wasm_17_escape_sequences_of_a_guest_do_not_reach_the_terminal(
    machine: Machine, way: str, words: tuple[str, ...]
) -> None:
    descriptor, said = SPOKEN[way]
    text = "".join(f"\\{byte:02x}" for byte in said)
    guest = f"""(module
      (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
      (memory (export "memory") 1)
      (data (i32.const 16) "{text}")
      (func (export "_start")
        (i32.store (i32.const 0) (i32.const 16)) (i32.store (i32.const 4) (i32.const {len(said)}))
        (drop (call $write (i32.const {descriptor}) (i32.const 0) (i32.const 1) (i32.const 8)))))"""
    wasmtime = pytest.importorskip("wasmtime")
    (machine.project / "loud.wasm").write_bytes(bytes(wasmtime.wat2wasm(guest)))
    done = machine.metier("run", "loud.wasm", *words, check=None)
    shown = done.stdout + done.stderr
    assert "owned" in shown, "the guest said nothing, so this proves nothing"
    assert not {"\x1b", "\x07", "\x9b"} & set(shown)


def test_no_value_can_move_the_cursor_whatever_its_form(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    (machine.project / "sly.py").write_text("result = {'k\\u009b2J': '\\u009b31m \\u202e evil'}\n")
    for words in ((), ("--json",)):
        said = machine.metier("run", "sly.py", *words).stdout
        assert "evil" in said
        assert not {"\u009b", "\u202e"} & set(said), words


def _listening() -> None:
    for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(each, signal.SIG_DFL)


@contextmanager
def under_way(machine: Machine) -> "Iterator[subprocess.Popen[bytes]]":
    """A run that sleeps, once it has said on the record that it began."""
    (machine.project / "sleep.py").write_text("import time\ntime.sleep(60)\n", encoding="utf-8")
    program = str(Path(sys.executable).with_name("metier"))
    with subprocess.Popen(
        [program, "run", "sleep.py"],
        cwd=machine.project,
        env=machine.environ,
        stderr=subprocess.DEVNULL,
        preexec_fn=_listening,
    ) as started:
        try:
            give_up = time.monotonic() + 20
            while not ((machine.state / "state.db").exists() and records(machine)):
                assert started.poll() is None
                assert time.monotonic() < give_up, "it did not begin"
                time.sleep(0.05)
            yield started
        finally:
            started.kill()


@pytest.mark.slow
@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_run_that_is_told_to_go_leaves_its_outcome_and_nothing_else(
    machine: Machine, told: signal.Signals
) -> None:
    with under_way(machine) as started:
        started.send_signal(told)
        assert started.wait(20) == 128 + told
    assert [each.event for each in records(machine)] == ["skill_execution_started", "skill_execution_error"]
    assert list((machine.state / "cache" / "runs").iterdir()) == []


@pytest.mark.slow
def test_what_a_killed_run_left_is_removed_by_the_next(machine: Machine) -> None:
    with under_way(machine) as started:
        started.kill()
        started.wait(20)
    runs = machine.state / "cache" / "runs"
    (left,) = runs.iterdir()
    with run_folder(str(runs)) as mine, run_folder(str(runs)) as other:
        assert not left.exists()
        assert {Path(mine), Path(other)} == set(runs.iterdir()), "those that are in use stay"
    assert list(runs.iterdir()) == []
