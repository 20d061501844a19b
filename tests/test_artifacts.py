"""Files that a run leaves in its `out` folder are kept below the workspace, by name and digest; nothing else is."""

import hashlib
import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from jobs import command, job, python, shell
from metier.gate.outputs import held_to_its_word
from metier.model.entry import Command, Entry, InlineCode, Program, PythonHandler, ScriptHandler
from metier.model.job import Job, Report
from metier.model.outcome import Artifact, Completed, Failed
from metier.model.skill import Limits, Tool
from metier.sandbox import artifacts as module
from metier.sandbox.artifacts import Artifacts, media_type, unfit_name
from metier.sandbox.bubblewrap import Bubblewrap
from metier.sandbox.deno import DenoSandbox
from metier.sandbox.ending import outcome_of
from metier.sandbox.landlock import Landlock
from metier.sandbox.native import NativeSandbox
from metier.sandbox.python import PythonSandbox
from other_user import run_as_user
from wasm_guests import Bench, open_step, program, write_step

WALLS = (Bubblewrap, Landlock)
walls = pytest.mark.parametrize("kind", WALLS)
JS = """module.exports = async (params, context) => {
  Deno.mkdirSync(`${context.out}/inner`);
  Deno.writeTextFileSync(`${context.out}/inner/tea.csv`, "a,b");
  if (params.throws) throw new Error("spilled");
  return Deno.readDirSync(context.out).toArray().length;
};
"""
HANDLER = """import os
def main(params, context):
    os.mkdir(f"{context.out}/inner")
    with open(f"{context.out}/inner/tea.csv", "w") as file:
        file.write("a,b")
    return len(os.listdir(os.environ["METIER_OUT"]))
"""
LEAVES = 'mkdir "$METIER_OUT/inner" && printf a,b > "$METIER_OUT/inner/tea.csv"'


class Kitchen:
    """Sandboxes behind one wall, and a workspace."""

    def __init__(self, top: Path, kind: type[Any]) -> None:
        self.top, self.kind = Path(os.path.realpath(top)), kind
        self.workspace = self.top / "workspace"
        self.bundle = self.top / "bundle"
        self.bundle.mkdir(exist_ok=True)
        for name, text in {"h.js": JS, "h.py": HANDLER, "s.sh": LEAVES + "\n"}.items():
            (self.bundle / name).write_text(text)

    def using(self, act: Callable[[Callable[[Job], Awaitable[Report]]], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            wall = self.kind()
            engine = DenoSandbox(wall, cache=str(self.top / "cache"))
            every = (NativeSandbox(wall), PythonSandbox(wall), engine)
            numbers = iter(range(1_000))

            async def run(each: Job) -> Report:
                sandbox = next(sandbox for sandbox in every if sandbox.takes(each))
                return await sandbox.run(
                    replace(
                        each,
                        call_id=f"call_{next(numbers)}",
                        keep=str(self.workspace),
                        bundle=str(self.bundle),
                    )
                )

            try:
                return await act(run)
            finally:
                await engine.aclose()
                await wall.aclose()

        return anyio.run(main)

    def one(self, each: Job) -> Report:
        return self.using(lambda run: run(each))

    def kept(self) -> list[str]:
        top = self.workspace / "out"
        return sorted(
            os.path.relpath(os.path.join(at, name), top) for at, _, names in os.walk(top) for name in names
        )


ENTRIES: dict[str, Callable[[], Job]] = {
    "command": lambda: shell(LEAVES),
    "script": lambda: job(Program(path="s.sh", language="sh")),
    "python": lambda: job(PythonHandler(path="h.py")),
    "javascript": lambda: job(ScriptHandler(path="h.js", language="javascript")),
}


@walls
@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_what_lies_in_out_is_kept_with_type_size_and_digest(tmp_path: Path, kind: Any, name: str) -> None:
    kitchen = Kitchen(tmp_path, kind)
    report = kitchen.one(ENTRIES[name]())
    assert report.ending == "returned", report
    digest = hashlib.sha256(b"a,b").hexdigest()
    assert report.artifacts == (
        Artifact(path="out/call_0/inner/tea.csv", type="text/csv", size=3, sha256=digest),
    )
    file = kitchen.workspace / "out" / "call_0" / "inner" / "tea.csv"
    assert file.read_text() == "a,b"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for folder in (file.parent, file.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert file.stat().st_uid == os.geteuid()
    for each in (Completed, Failed):
        assert "artifacts" in each.__struct_fields__
    assert outcome_of(job(InlineCode(language="python", source="")), report, sandbox="x").artifacts


@pytest.mark.parametrize("name", ["data.bin", "deep/data.bin"])
def test_what_a_wasm_module_leaves_is_kept(tmp_path: Path, name: str) -> None:
    bench, workspace = Bench(tmp_path), tmp_path / "workspace"
    made = f"out/{name}".encode()
    folder = [("path_create_directory", 5, b"out/deep")] if "/" in name else []
    module_ = program(*folder, open_step(5, made, 1, 64), write_step(3))
    report = bench.run(module_, keep=str(workspace))
    assert [(each.path, each.size) for each in report.artifacts] == [(f"out/call/{name}", 3)], report
    assert (workspace / "out" / "call" / name).stat().st_size == 3


def test_a_wasm_module_that_leaves_nothing_makes_no_folder_and_the_next_finds_none(tmp_path: Path) -> None:
    bench, workspace = Bench(tmp_path), tmp_path / "workspace"
    leaves = bench.job(program(open_step(5, b"out/x", 1, 64)), keep=str(workspace))
    bench.write(program(open_step(5, b"out/x", 0, 2)), "looks.wasm")
    looks = bench.job("looks.wasm", keep=str(workspace))

    async def act(sandbox: Any) -> Any:
        return [
            await sandbox.run(replace(each, call_id=f"c{number}"))
            for number, each in enumerate((looks, leaves, looks))
        ]

    before, left, after = bench.using(act)
    assert (before.artifacts, len(left.artifacts), after.artifacts) == ((), 1, ())
    assert (before.stdout, after.stdout) == (",", ","), "no such file"
    assert os.listdir(workspace / "out") == ["c1"]


@walls
def test_a_run_that_leaves_nothing_makes_no_folder(tmp_path: Path, kind: Any) -> None:
    kitchen = Kitchen(tmp_path, kind)
    for each in (shell("true"), python("result = context.out"), command("true")):
        assert kitchen.one(each).artifacts == ()
    assert not kitchen.workspace.exists()


@walls
@pytest.mark.parametrize("inner", ["", "/deep"])
@pytest.mark.parametrize("names", ["HEAD objects/x refs/x", "HEAD commondir", "head Objects/x refs/x"])
def test_fs_25_git_takes_nothing_that_is_kept_for_a_repository(
    tmp_path: Path, kind: Any, inner: str, names: str
) -> None:
    kitchen = Kitchen(tmp_path, kind)
    top = f"$METIER_OUT{inner}"
    files = [f"{top}/{name}" for name in (*names.split(), "config")]
    folders = [file.rpartition("/")[0] for file in files]
    report = kitchen.one(shell(f"mkdir -p {' '.join(folders)} && touch {' '.join(files)}"))
    head, *rest = names.split()
    assert kitchen.kept() == sorted(f"call_0{inner}/{name}" for name in (*rest, "config"))
    (denial,) = (each for each in report.denials if each.kind == "artifact")
    assert denial.detail.startswith(f"{inner[1:]}/{head}: " if inner else f"{head}: ")
    (tmp_path / "other").mkdir()
    alone = Kitchen(tmp_path / "other", kind).one(shell('touch "$METIER_OUT/HEAD" "$METIER_OUT/objects"'))
    assert len(alone.artifacts) == 2, "what makes no repository is kept"


@walls
def test_the_next_run_in_the_same_place_finds_out_empty_and_as_new(tmp_path: Path, kind: Any) -> None:
    kitchen = Kitchen(tmp_path, kind)
    look = (
        "found = os.stat(context.out)\nresult = [os.listdir(context.out), oct(found.st_mode), found.st_mtime]"
    )

    async def act(run: Callable[[Job], Awaitable[Report]]) -> list[Report]:
        spoil = "import os\nopen(context.out + '/x', 'w').close()\nos.chmod(context.out, 0o555)\nresult = 1"
        replaced = "import os\nos.rmdir(context.out)\nos.symlink('/etc', context.out)\nresult = 1"
        return [
            await run(python(each))
            for each in (f"import os\n{look}", spoil, f"import os\n{look}", replaced, f"import os\n{look}")
        ]

    first, left, second, gone, third = kitchen.using(act)
    assert first.value[0] == []
    assert first.value == second.value == third.value
    assert len(left.artifacts) == 1
    assert gone.artifacts == (), "a link leads nowhere"
    assert kitchen.kept() == ["call_1/x"]


ODD = """import os, socket
out = context.out
os.symlink("/etc/passwd", out + "/link.txt")
os.mkfifo(out + "/fifo")
open(out + "/one", "w").close()
os.link(out + "/one", out + "/two")
for name in (".bashrc", "AGENTS.md", "-rf", "a\\nb", "right\\u202etxt", "CLAUDE.md"):
    open(f"{out}/{name}", "w").close()
open(out.encode() + b"/\\xff", "w").close()
os.symlink("/etc", out + "/folder")
deep = out + "/d" * 12
os.makedirs(deep)
open(deep + "/far", "w").close()
open(out + "/shut", "w").close()
open(out + "/good.txt", "w").write("kept")
result = 1
"""


@walls
def test_only_plain_files_with_plain_names_are_kept_and_the_others_are_told(
    tmp_path: Path, kind: Any
) -> None:
    kitchen = Kitchen(tmp_path, kind)
    report = kitchen.one(python(ODD))
    assert report.ending == "returned", report
    assert kitchen.kept() == ["call_0/good.txt", "call_0/shut"]
    told = {each.detail.partition(":")[0] for each in report.denials if each.kind == "artifact"}
    assert {"link.txt", "fifo", "one", "two", ".bashrc", "AGENTS.md", "CLAUDE.md", "-rf", "folder"} <= told
    assert not report.violations


@walls
def test_of_a_run_that_was_ended_by_force_nothing_is_kept(tmp_path: Path, kind: Any) -> None:
    kitchen = Kitchen(tmp_path, kind)
    source = "open(context.out + '/half', 'w').write('x')\nimport time\ntime.sleep(60)"
    report = kitchen.one(python(source, limits=Limits(timeout=1.0)))
    assert (report.ending, report.artifacts) == ("timed_out", ())
    assert not kitchen.workspace.exists()


@walls
def test_of_a_run_that_tried_what_none_may_nothing_is_kept(tmp_path: Path, kind: Any) -> None:
    kitchen = Kitchen(tmp_path, kind)
    tried = "import ctypes\nctypes.CDLL(None).mount(b'none', b'/tmp', b'tmpfs', 0, None)\nresult = 1"
    report = kitchen.one(python(f"open(context.out + '/half', 'w').write('x')\n{tried}"))
    assert report.violations
    assert report.artifacts == ()
    assert not kitchen.workspace.exists()


@walls
def test_a_handler_that_throws_keeps_what_it_made_before(tmp_path: Path, kind: Any) -> None:
    kitchen = Kitchen(tmp_path, kind)
    thrown = job(ScriptHandler(path="h.js", language="javascript"), arguments={"throws": True})
    raised = python("open(context.out + '/x', 'w').close()\n1 / 0")

    async def act(run: Callable[[Job], Awaitable[Report]]) -> list[Report]:
        return [await run(each) for each in (thrown, raised, shell(f"{LEAVES}; exit 3"))]

    for report, entry in zip(kitchen.using(act), ("raised", "raised", "exited"), strict=True):
        assert report.ending == entry
        assert len(report.artifacts) == 1
        outcome = outcome_of(thrown, report, sandbox="x")
        assert isinstance(outcome, Failed)
        assert outcome.artifacts == report.artifacts


ANYBODY = """import anyio, os
from metier.model.entry import InlineCode, Program
from metier.model.job import Job
from metier.model.permission import PermissionSet
from metier.model.skill import Limits
from metier.sandbox.bubblewrap import Bubblewrap
from metier.sandbox.deno import DenoSandbox
from metier.sandbox.native import NativeSandbox
from metier.sandbox.python import PythonSandbox
async def main():
    wall = Bubblewrap()
    top = os.path.realpath(".")
    os.mkdir("b")
    open("b/s.sh", "w").write("echo x > $METIER_OUT/x")
    engine = DenoSandbox(wall, cache="cache")
    code = "Deno.writeTextFileSync(context.out + '/x', 'x')"
    for number, (sandbox, entry) in enumerate((
        (engine, InlineCode(language="javascript", source=code)),
        (PythonSandbox(wall), InlineCode(language="python", source="open(context.out + '/x', 'w').write('x')")),
        (NativeSandbox(wall), Program(path="s.sh")),
    )):
        report = await sandbox.run(Job(call_id=f"c{number}", entry=entry, arguments={}, bundle=top + "/b",
            keep=top + "/w", permissions=PermissionSet(), limits=Limits(), needs=frozenset()))
        print(report.ending, [each.path for each in report.artifacts])
    await engine.aclose()
    await wall.aclose()
anyio.run(main)
"""


def test_an_ordinary_user_keeps_what_his_runs_leave() -> None:
    assert run_as_user(ANYBODY).splitlines() == [f"returned ['out/c{number}/x']" for number in range(3)], (
        "for JavaScript, Python and a script"
    )


def test_a_small_program_that_writes_is_looked_after_too(tmp_path: Path) -> None:
    kitchen = Kitchen(tmp_path, Bubblewrap)
    assert len(kitchen.one(command("touch", "out/x")).artifacts) == 1


# --- the copying itself


def left(tmp_path: Path) -> Path:
    folder = tmp_path / "left"
    folder.mkdir()
    return folder


def taken(tmp_path: Path, folder: Path, call_id: str = "call_1", entry: Entry | None = None) -> Artifacts:
    made = Artifacts(job(entry or Command(argv=("x",)), call_id=call_id, keep=str(tmp_path / "workspace")))
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        made.take(descriptor)
    finally:
        os.close(descriptor)
    return made


def test_more_files_than_are_kept_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FILES", 3)
    folder = left(tmp_path)
    for number in range(5):
        (folder / f"f{number}").write_text("x")
    made = taken(tmp_path, folder)
    assert [each.path for each in made.found] == [f"out/call_1/f{number}" for number in range(3)]
    assert "only 3 files" in made.refused[0].detail


def test_more_bytes_than_are_kept_are_told_and_leave_no_half_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 10)
    folder = left(tmp_path)
    (folder / "a").write_text("x" * 6)
    (folder / "b").write_text("x" * 6)
    (folder / "c").write_text("x" * 4)
    with open(folder / "sparse", "wb") as file:
        file.truncate(1 << 40)
    made = taken(tmp_path, folder)
    assert [each.path for each in made.found] == ["out/call_1/a", "out/call_1/c"]
    assert sorted(os.listdir(tmp_path / "workspace" / "out" / "call_1")) == ["a", "c"]
    assert {each.detail.partition(":")[0] for each in made.refused} == {"b", "sparse"}


def test_more_names_than_anybody_reads_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_NAMES", 5)
    folder = left(tmp_path)
    for number in range(9):
        (folder / f".f{number}").write_text("x")
    made = taken(tmp_path, folder)
    assert not made.found
    assert any("only the first 5 names" in each.detail for each in made.refused)


@pytest.mark.parametrize("planted", ["workspace/out", "workspace/out/call_1"])
def test_a_link_in_the_workspace_leads_nothing_out_of_it(tmp_path: Path, planted: str) -> None:
    folder, outside = left(tmp_path), tmp_path / "outside"
    (folder / "x").write_text("x")
    outside.mkdir()
    link = tmp_path / planted
    link.parent.mkdir(parents=True, mode=0o700)
    (tmp_path / "workspace").chmod(0o700)
    link.symlink_to(outside)
    made = taken(tmp_path, folder)
    assert not made.found
    assert "nothing is kept" in made.refused[0].detail
    assert os.listdir(outside) == []
    link.unlink()  # the control
    assert len(taken(tmp_path, folder).found) == 1


def test_what_is_there_already_is_not_written_over(tmp_path: Path) -> None:
    folder = left(tmp_path)
    (folder / "x").write_text("new")
    old = tmp_path / "workspace" / "out" / "call_1"
    old.mkdir(parents=True)
    (tmp_path / "workspace").chmod(0o700)
    (old / "x").write_text("old")
    made = taken(tmp_path, folder)
    assert not made.found
    assert (old / "x").read_text() == "old"


def test_a_folder_of_the_call_that_is_there_already_is_somebody_elses(tmp_path: Path) -> None:
    folder = left(tmp_path)
    (folder / "x").write_text("new")
    (tmp_path / "workspace" / "out" / "call_1").mkdir(parents=True)
    (tmp_path / "workspace").chmod(0o700)
    made = taken(tmp_path, folder)
    assert not made.found
    assert "cannot be made" in made.refused[0].detail
    assert os.listdir(tmp_path / "workspace" / "out" / "call_1") == []


@pytest.mark.parametrize("call_id", ["..", "../elsewhere", "", "a/b", ".hidden", "x" * 300])
def test_a_call_whose_id_is_no_name_keeps_nothing(tmp_path: Path, call_id: str) -> None:
    folder = left(tmp_path)
    (folder / "x").write_text("x")
    made = taken(tmp_path, folder, call_id)
    assert not made.found
    assert "the call's id" in made.refused[0].detail
    assert not (tmp_path / "workspace").exists()


def test_a_file_that_is_longer_than_it_said_is_not_kept_and_no_half_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that grows while it is copied: what the system tells of itself has no size before it is read."""
    monkeypatch.setattr(module, "MOST_BYTES", 10)
    workspace = tmp_path / "workspace"
    source = os.open("/proc/self/status", os.O_RDONLY)
    made = Artifacts(job(Command(argv=("x",)), call_id="call_1", keep=str(workspace)))
    try:
        assert os.fstat(source).st_size == 0
        with pytest.raises(module._NotKeptError, match="together"):
            made._copy(source, ("status",))
        assert not made.found
        assert os.listdir(workspace / "out" / "call_1") == []
        monkeypatch.setattr(module, "MOST_BYTES", 1 << 20)  # the control
        os.lseek(source, 0, os.SEEK_SET)
        other = Artifacts(job(Command(argv=("x",)), call_id="call_2", keep=str(workspace)))
        try:
            other._copy(source, ("status",))
        finally:
            os.close(other._target)
        assert [each.path for each in other.found] == ["out/call_2/status"]
    finally:
        os.close(source)
        os.close(made._target)


def test_without_a_workspace_nothing_is_kept(tmp_path: Path) -> None:
    folder = left(tmp_path)
    (folder / "x").write_text("x")
    made = Artifacts(job(Command(argv=("x",))))
    descriptor = os.open(folder, os.O_RDONLY)
    made.take(descriptor)
    os.close(descriptor)
    assert (made.found, made.refused) == ((), ())
    assert sorted(os.listdir(tmp_path)) == ["left"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.csv", "text/csv"),
        ("A.JSON", "application/json"),
        ("a.tar.gz", "application/gzip"),
        ("a.md", "text/markdown"),
        ("noending", "application/octet-stream"),
        ("a.exe", "application/octet-stream"),
    ],
)
def test_the_type_goes_by_the_ending(name: str, expected: str) -> None:
    assert media_type(name) == expected


@pytest.mark.parametrize("name", ["report.pdf", "Übersicht 2026.txt", "日本.md", "a" * 200])
def test_an_ordinary_name_is_fit(name: str) -> None:
    assert not unfit_name(name)


@pytest.mark.parametrize(
    "name", ["a" * 201, "a\\b", "c:x", " a", "e\u0301", "a\u200b", ".hidden", "Skill.MD"]
)
def test_a_name_that_could_mislead_is_not_fit(name: str) -> None:
    assert unfit_name(name)


@pytest.mark.parametrize("answer", ["metahuman", "amber"])
@pytest.mark.parametrize("value", [{"success": True, "n": 1}, {"success": False, "error": "no"}, "misshapen"])
def test_the_shapes_of_dialects_keep_what_was_left(answer: Any, value: Any) -> None:
    some = (Artifact(path="out/c/x", type="text/plain", size=1, sha256="0" * 64),)
    tool = Tool(name="t", description="", parameters={}, answer=answer, entry=PythonHandler(path="t.py"))
    for each in (tool, replace(tool, returns={"type": "string"})):
        made = held_to_its_word(Completed(call_id="c", value=value, artifacts=some), each)
        assert made.artifacts == some
