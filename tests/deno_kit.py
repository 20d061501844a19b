"""What the tests of JavaScript runs share: jobs, hosts, a wall that is none, and a way to run a few jobs."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from metier.model.digest import Json
from metier.model.entry import InlineCode, ScriptHandler
from metier.model.guarantee import Guarantee, needed
from metier.model.job import Job, Report
from metier.model.permission import PermissionSet
from metier.model.ports import Answered, NotAnswered
from metier.model.skill import Limits
from metier.sandbox.bubblewrap import Bubblewrap
from metier.sandbox.deno import DenoSandbox
from metier.sandbox.deno_where import Engine, find_engine
from metier.sandbox.landlock import Landlock
from metier.sandbox.protocol import Missing
from metier.sandbox.wall import Code, Ended, Look, Policy, Program, Running, Wall


class Plain:
    """A program started without any wall: the positive control, and the quickest way to a process."""

    def __init__(self, process: "subprocess.Popen[bytes]", folder: str) -> None:
        self.process = process
        self._folder = folder
        self.shared_folders: list[str] = []
        self.proxy = None

    def left(self) -> int:
        return -1

    def strike(self) -> Ended | None:
        return None

    def look(self) -> Look:
        return Look()

    async def wait(self) -> Ended:
        code = await to_thread.run_sync(self.process.wait, abandon_on_cancel=True)
        return self._ended(code, "exited")

    async def kill(self) -> Ended:
        self.process.kill()
        return self._ended(self.process.wait(), "killed")

    def _ended(self, code: int, why: Any) -> Ended:
        shutil.rmtree(self._folder, ignore_errors=True)
        return Ended(exit_code=None if code < 0 else code, signal=-code if code < 0 else None, why=why)


class NoWall:
    """Lets everything through, and remembers what it was asked for."""

    name = "none"

    def __init__(self) -> None:
        self.started: list[Plain] = []
        self.programs: list[Program] = []
        self.policies: list[Policy] = []

    def guarantees(self) -> frozenset[Guarantee]:
        return frozenset({Guarantee.NO_NETWORK})

    def missing(self) -> tuple[Missing, ...]:
        return ()

    async def start(self, policy: Policy, program: Program) -> Running:
        folder = tempfile.mkdtemp(prefix="nowall-")
        process = subprocess.Popen(  # noqa: ASYNC220  as quick as any other way
            program.argv,
            stdin=program.stdin,
            stdout=program.stdout,
            stderr=program.stderr,
            env=program.environment,
            cwd=program.cwd or folder,
        )
        self.started.append(Plain(process, folder))
        self.programs.append(program)
        self.policies.append(policy)
        return self.started[-1]

    async def fork(self, policy: Policy, code: Code) -> Running:
        raise NotImplementedError

    async def aclose(self) -> None:
        return None

    @property
    def alive(self) -> int:
        return sum(plain.process.poll() is None for plain in self.started)


class Asked:
    """A host that answers everything and remembers it."""

    def __init__(self, answer: Callable[[str, dict[str, Json]], Json | NotAnswered] | None = None) -> None:
        self.calls: list[tuple[str, dict[str, Json]]] = []
        self._answer = answer

    async def ask(self, method: str, params: dict[str, Json]) -> Answered | NotAnswered:
        self.calls.append((method, params))
        value = self._answer(method, params) if self._answer else f"{method} done"
        return value if isinstance(value, NotAnswered) else Answered(value=value)


WALLS: tuple[Callable[[], Wall], ...] = (Bubblewrap, Landlock)


def the_wall() -> Wall:
    """A wall as runs get it."""
    return Bubblewrap()


def script(path: str = "handler.js", export: str = "default") -> ScriptHandler:
    language = "typescript" if path.endswith("ts") else "javascript"
    return ScriptHandler(path=path, language=language, export=export)


def inline(source: str, language: Any = "javascript") -> InlineCode:
    return InlineCode(language=language, source=source)


def job(entry: ScriptHandler | InlineCode, *, bundle: Path | None = None, **more: Any) -> Job:
    given: dict[str, Any] = {
        "call_id": "call-1",
        "arguments": {},
        "permissions": PermissionSet(),
        "limits": Limits(timeout=10.0),
        "needs": needed(entry, network=False),
        **more,
    }
    return Job(entry=entry, bundle=str(bundle) if bundle else "", **given)


def skill(folder: Path, **files: str) -> Path:
    """A skill's folder; `handler_js="…"` becomes handler.js, and `__` a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        *folders, last = name.split("__")
        path = folder.joinpath(*folders, ".".join(last.rsplit("_", 1)))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Path(os.path.realpath(folder))


def engines_with(word: str) -> int:
    """How many engine processes of this machine have `word` on their command line."""
    count = 0
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = line.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        count += words[0].endswith("/deno") and any(word in each for each in words)
    return count


def engine() -> str:
    """The engine itself, for what it does without us."""
    found = find_engine()
    assert isinstance(found, Engine)
    return found.path


def bare(
    tmp_path: Path, source: str, *flags: str, name: str = "bare.mjs", env: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """What the engine does with this code when nobody stands between: the positive control."""
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(source, encoding="utf-8")
    home = tmp_path / "bare-home"
    home.mkdir(exist_ok=True)
    return subprocess.run(
        [engine(), "run", "--quiet", *flags, str(file)],
        env={"HOME": str(home), "DENO_DIR": str(home / "deno"), "NO_COLOR": "1", **(env or {})},
        cwd=file.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
    )


def in_sandbox(
    wall: Wall, cache: Path, work: Callable[[DenoSandbox], Coroutine[Any, Any, Any]], **given: Any
) -> Any:
    """Run `work` with a sandbox that is closed afterwards, and its wall with it."""

    async def main() -> Any:
        sandbox = DenoSandbox(wall, cache=str(cache), **given)
        try:
            return await work(sandbox)
        finally:
            await sandbox.aclose()
            await wall.aclose()

    return anyio.run(main)


def run(wall: Wall, cache: Path, *jobs: Job) -> Report:
    """The report of the last of these jobs, run one after the other in one sandbox."""

    async def work(sandbox: DenoSandbox) -> Report:
        reports = [await sandbox.run(each) for each in jobs]
        return reports[-1]

    return in_sandbox(wall, cache, work)
