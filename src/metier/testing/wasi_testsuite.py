"""Runs the preview 1 tests of a WebAssembly/wasi-testsuite checkout in the WASM sandbox.

    python -m metier.testing.wasi_testsuite DIR

A test is a `.wasm` file, perhaps with a `.json` file of the same name beside it: `args`, `env`, `dirs` to open, and
the `exit_code`, `stdout` and `stderr` to expect. Folders are copied first, so a checkout stays as it is. Tests for
other versions of WASI are told by their folder (`wasm32-wasip2`, `wasm32-wasip3`) or their kind, and left out.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, final

import anyio
import msgspec
from anyio import to_thread
from msgspec import Struct

from metier.model.job import Place, Report
from metier.sandbox.wasm import WasmSandbox
from metier.sandbox.wasm_run import Work

_MODULE: Final = b"\0asm\1\0\0\0"
_SECONDS: Final = 30.0


@final
class Expected(Struct, frozen=True, kw_only=True):
    """What a test's `.json` file says; what it leaves out is as in an empty one."""

    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    dirs: tuple[str, ...] = ()
    exit_code: int = 0
    stdout: str | None = None
    stderr: str | None = None


@final
class Verdict(Struct, frozen=True):
    """How one test went; `why` is empty when it passed."""

    test: str
    why: str


async def run_suite(folder: Path, sandbox: WasmSandbox) -> list[Verdict]:
    """Run every test below `folder`, one after the other."""
    tests = await to_thread.run_sync(lambda: sorted(_tests(folder)))
    return [Verdict(str(test.relative_to(folder)), await _judge(test, sandbox)) for test in tests]


def _tests(folder: Path) -> Iterator[Path]:
    waiting = [str(folder)]  # and no recursion: there is no telling how deep it goes
    while waiting:
        top = waiting.pop()
        try:
            with os.scandir(top) as entries:
                found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except OSError:
            continue  # not ours to read, or deeper than a path can say
        for name, is_folder in found:
            path = Path(top, name)
            if is_folder:
                waiting.append(str(path))
            elif path.suffix == ".wasm" and _is_for_preview_1(path):
                yield path


def _is_for_preview_1(path: Path) -> bool:
    if any(part.startswith("wasm32-wasip") and not part.endswith("1") for part in path.parts):
        return False
    with path.open("rb") as file:
        return file.read(8) == _MODULE


async def _judge(test: Path, sandbox: WasmSandbox) -> str:
    with tempfile.TemporaryDirectory(prefix="metier-wasi-") as scratch:
        try:
            expected = await to_thread.run_sync(_read, test)
            places = await to_thread.run_sync(_copies, test, expected, scratch)
        except (OSError, msgspec.MsgspecError) as error:
            return f"cannot be prepared: {error}"
        report = await sandbox.run_work(
            Work(
                form="program",
                bundle=str(test.parent.resolve()),
                path=test.name,
                argv=(test.name, *expected.args),
                environment=expected.env,
                places=tuple(Place(path=place, writable=True) for place, _ in places),
                names=dict(places),
                show_bundle=False,
                own_folder=False,
                seconds=_SECONDS,
                memory_bytes=1 << 30,
                output_bytes=1 << 20,
            )
        )
        return _compare(report, expected)


def _read(test: Path) -> Expected:
    file = test.with_suffix(".json")
    return msgspec.json.decode(file.read_bytes(), type=Expected) if file.exists() else Expected()


def _copies(test: Path, expected: Expected, scratch: str) -> list[tuple[str, str]]:
    """Each folder's copy, and the name that the test knows it by."""
    scratch = os.path.realpath(scratch)
    copies: list[tuple[str, str]] = []
    for number, name in enumerate(expected.dirs):
        copy = os.path.join(scratch, str(number))
        shutil.copytree(test.parent / name, copy, symlinks=True)
        copies.append((copy, name))
    return copies


def _compare(report: Report, expected: Expected) -> str:
    if report.ending not in ("returned", "exited"):
        said = f": {report.fault.message}" if report.fault else ""
        return f"ended as {report.ending}{said} {report.stderr[-300:]}".strip()
    if report.exit_code != expected.exit_code:
        return f"exit code {report.exit_code} instead of {expected.exit_code} {report.stderr[-300:]}".strip()
    for name, said, wanted in (
        ("stdout", report.stdout, expected.stdout),
        ("stderr", report.stderr, expected.stderr),
    ):
        if wanted is not None and said != wanted:
            return f"{name} is {said[:200]!r} instead of {wanted[:200]!r}"
    return ""


async def _main(folder: Path) -> int:
    with tempfile.TemporaryDirectory(prefix="metier-wasi-cache-") as cache:
        sandbox = WasmSandbox(os.path.join(cache, "cache"))
        verdicts = await run_suite(folder, sandbox)
        await sandbox.aclose()
    for verdict in verdicts:
        print(f"{'failed' if verdict.why else 'passed'}  {verdict.test}  {verdict.why}".rstrip())  # noqa: T201
    if not verdicts:
        print(f"There is no test in {folder}: a test is a .wasm file with, or without, a .json beside it")  # noqa: T201
    failed = sum(1 for verdict in verdicts if verdict.why)
    print(f"{len(verdicts) - failed} passed, {failed} failed")  # noqa: T201  this is a program for people
    return 1 if failed or not verdicts else 0


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1]:
        sys.exit("Say where a checkout of WebAssembly/wasi-testsuite lies: make wasi-testsuite DIR=…")
    if not Path(sys.argv[1]).is_dir():
        sys.exit(
            f"{sys.argv[1]} is not a folder; make wasi-testsuite DIR=… takes a checkout of wasi-testsuite"
        )
    sys.exit(anyio.run(_main, Path(sys.argv[1])))
