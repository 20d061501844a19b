"""However the code of a run ends, it ends as something that can be told apart."""

import anyio
import pytest

from jobs import ending, python, shell
from metier.model.job import Job, Report
from metier.model.skill import Limits
from metier.sandbox.bubblewrap import Bubblewrap
from metier.sandbox.cgroup import find
from metier.sandbox.landlock import Landlock
from metier.sandbox.native import NativeSandbox
from metier.sandbox.python import PythonSandbox

SMALL = Limits(timeout=10.0, memory_mb=64)
WAYS = {
    "memory": (python("x = bytearray(1 << 30)", limits=SMALL), "out_of_memory"),
    "crash": (python("import ctypes; ctypes.string_at(0)"), "signalled"),
    "signal": (python("import os; os.kill(os.getpid(), 9)"), "signalled"),
    "silence": (python("import os; os._exit(0)"), "no_result"),
    "time": (python("while True: pass", limits=Limits(timeout=0.5)), "timed_out"),
    "an error": (python("raise ValueError('mine')"), "raised"),
    "nonsense": (python("result = object()"), "bad_result"),
    "a value": (python("result = 1"), "returned"),
    "an exit code": (shell("exit 3"), "exited"),
    "a shell's signal": (shell("kill -SEGV $$"), "signalled"),
}


@pytest.mark.parametrize("kind", [Bubblewrap, Landlock])
def test_rel_16_memory_crash_signal_and_silence_are_told_apart(
    kind: type[Bubblewrap] | type[Landlock],
) -> None:
    async def go() -> dict[str, Report]:
        wall = kind(groups=find())
        native, code = NativeSandbox(wall), PythonSandbox(wall)
        found: dict[str, Report] = {}

        async def one(name: str, job: Job) -> None:
            found[name] = await (native if native.takes(job) else code).run(job)

        try:
            for name, (job, _) in WAYS.items():
                await one(name, job)
        finally:
            await wall.aclose()
        return found

    reports = anyio.run(go)
    for name, (_, expected) in WAYS.items():
        assert reports[name].ending == expected, (name, ending(reports[name]))
    assert reports["signal"].signal == 9
    assert reports["a shell's signal"].signal == 11
    assert reports["an exit code"].exit_code == 3


TOO_LARGE = "the result is larger than the limit of 1048576 bytes"


@pytest.mark.parametrize(
    ("source", "ended", "said"),
    [
        ("result = 'x' * (1_048_576 - 2)", "returned", ""),
        ("result = 'x' * (1_048_576 - 1)", "bad_result", TOO_LARGE),
        ("result = list(range(1_000_000))", "bad_result", TOO_LARGE),
        ("result = 'x' * 100_000_000", "bad_result", TOO_LARGE),
        ("result = 'x' * 180_000_000", "bad_result", "there is not enough memory to send the result"),
    ],
    ids=["as large as it may be", "a byte more", "many parts", "100 MB", "more than the memory holds twice"],
)
def test_a_result_that_is_too_large_is_said_to_be_that_and_not_to_be_missing(
    source: str, ended: str, said: str
) -> None:
    report = alone(python(source, limits=Limits(timeout=20.0)))
    assert report.ending == ended, ending(report)
    assert said in (report.fault.message if report.fault else "")


def test_a_request_that_is_too_large_is_an_error_the_code_can_catch() -> None:
    source = """
try:
    context.call_log.write("x" * 1_048_576).wait()
except HostError as error:
    small = context.call_log.write("x").wait()
    result = [error.name, str(error), small["method"]]
"""
    report = alone(python(source))
    said = "call_log.write: the arguments are larger than a message may be"
    assert report.value == ["TooLarge", said, "call_log.write"], ending(report)


def alone(job: Job) -> Report:
    async def go() -> Report:
        wall = Landlock(groups=find())
        try:
            return await PythonSandbox(wall).run(job)
        finally:
            await wall.aclose()

    return anyio.run(go)
