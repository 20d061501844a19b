"""`exec`: running code has one of its declared programs run, in a sandbox of its own with the same places.

The program is one of the names the call was granted, a spelling of it that the operator accepts, or the very file it stands
for: never what merely ends like it. What the operator gives to a program (`job_operator_programs`) that run has, and not the code
that asked for it. Nothing is handed to a shell. It resolves with what the program printed, and anything but exit
status 0 is an error with what it printed as errors; with `whole` it resolves with exit status and both streams. Another
program is a violation, unless the call was told its name from outside: then it was the caller's wish, and is only denied.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias, final

import msgspec
from msgspec.structs import replace

from metier.model.digest import Json
from metier.model.job import Job, Report
from metier.model.outcome import Attempt
from metier.model.permission import PermissionSet
from metier.model.ports import Answered, NotAnswered
from metier.sandbox.given import given_to
from metier.sandbox.job_operator_programs import meant, started
from metier.sandbox.job_places import inside

Run: TypeAlias = Callable[[Job], Awaitable[Report]]

MOST_ARGUMENTS: Final = 1_024
MOST_BYTES: Final = 131_072
"""Of all arguments together."""
_LONGEST_MESSAGE: Final = 8_192
_LONGEST_STREAM: Final = 450_000
"""In JSON."""


@final
class Exec:
    """Programs for one call, within what is left of its time."""

    def __init__(self, job: Job, run: Run) -> None:
        """`job` is the call's own; made when it starts, for its time counts from here."""
        self._job = job
        self._run = run
        self._deadline = time.monotonic() + job.limits.timeout

    def allowed(self, permissions: PermissionSet) -> bool:
        return bool(permissions.binaries)

    async def answer(self, params: dict[str, Json]) -> Answered | NotAnswered:
        read = _read(params)
        if isinstance(read, NotAnswered):
            return read
        argv, seconds, cwd, whole = read
        name = meant(argv[0], self._job)
        if name is None and argv[0] in self._job.permissions.binaries:
            message = f"{argv[0][:100]!r} is granted, but it is not installed where only root and the operator can write"
            return NotAnswered(name="NotFound", message=message)
        if name is None:
            return NotAnswered(
                name="PermissionDenied",
                message=f"{argv[0][:100]!r} is not one of the programs this skill declared",
                kind="denied" if given_to(self._job).says(argv[0]) else "violation",
            )
        left = self._deadline - time.monotonic()
        if left <= 0:
            return NotAnswered(name="TimedOut", message="The time of the call is used up")
        nested = self._nested(name, argv[1:], min(seconds or left, left))
        if cwd is not None:
            # Also where a link leads there: by another name it is another folder.
            if inside(cwd, self._job.places) != cwd:
                return _invalid("`cwd` is a folder among those the call may use, without any link on the way")
            nested = replace(nested, cwd=cwd)
        report = await self._run(nested)
        return _whole(report) if whole else _answer(report)

    async def aclose(self) -> None:
        """Nothing is held."""

    def _nested(self, name: str, words: list[str], seconds: float) -> Job:
        """A run of the program. What it leaves behind is not the call's."""
        limits = replace(self._job.limits, timeout=seconds)
        return replace(started(self._job, name, words), limits=limits, files={}, keep="")


def _read(params: dict[str, Json]) -> tuple[list[str], float | None, str | None, bool] | NotAnswered:
    """The line, how many seconds it may take, where it starts, and whether all of its end is wanted."""
    argv, timeout = params.get("argv"), params.get("timeout_ms")
    cwd, whole = params.get("cwd"), params.get("whole", False)
    if not set(params) <= {"argv", "timeout_ms", "cwd", "whole"}:
        return _invalid("it takes `argv`, `timeout_ms`, `cwd` and `whole`")
    if not isinstance(cwd, str | None) or (cwd is not None and (not cwd.startswith("/") or "\0" in cwd)):
        return _invalid("`cwd` is the path of a folder, from the root")
    if not isinstance(whole, bool):
        return _invalid("`whole` is true or false")
    if not isinstance(argv, list) or not argv:
        return _invalid("`argv` is a list of texts, the program first; a shell line is not taken")
    texts = [each for each in argv if isinstance(each, str)]
    if len(texts) != len(argv) or any("\0" in each for each in texts) or not texts[0]:
        return _invalid("every part of `argv` is a text without NUL, the first one not empty")
    if len(texts) > MOST_ARGUMENTS or sum(len(each.encode()) for each in texts) > MOST_BYTES:
        return _invalid(f"`argv` has at most {MOST_ARGUMENTS:,} parts and {MOST_BYTES:,} bytes")
    if timeout is None:
        return texts, None, cwd, whole
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        return _invalid("`timeout_ms` is a number above zero")
    return texts, timeout / 1000, cwd, whole


def _answer(report: Report) -> Answered | NotAnswered:
    refused = tuple(Attempt(kind=each.kind, detail=each.detail, count=each.count) for each in report.denials)
    return replace(_told(report), refused=refused)


def _whole(report: Report) -> Answered | NotAnswered:
    """Exit status and both streams, whatever the status is; what did not come to its own end is an error as ever."""
    answer = _answer(report)
    if report.violations or report.ending not in ("returned", "exited"):
        return answer
    out, err = _fitting(report.stdout), _fitting(report.stderr)
    value: dict[str, Json] = {
        "stdout": out,
        "stderr": err,
        "exit_code": report.exit_code,
        "truncated": report.truncated or (out, err) != (report.stdout, report.stderr),
    }
    return Answered(value=value, refused=answer.refused)


def _fitting(text: str) -> str:
    """As much of the beginning as an answer can hold, two of them together."""
    while (size := len(msgspec.json.encode(text))) > _LONGEST_STREAM:
        text = text[: len(text) * _LONGEST_STREAM // size - 1]
    return text


def _told(report: Report) -> Answered | NotAnswered:
    if report.violations:
        first = report.violations[0]
        return NotAnswered(
            name="PermissionDenied",
            message=f"the program tried {first.kind}: {first.detail}",
            kind="violation",
        )
    match report.ending:
        case "returned":
            return Answered(value=report.stdout)
        case "exited":
            said = report.stderr.strip() or f"It ended with exit status {report.exit_code}"
            refused = any(each.kind == "egress" for each in report.denials)
            return replace(_failed(said), kind="denied") if refused else _failed(said)
        case "signalled":
            return _failed(f"It was ended by signal {report.signal}")
        case "timed_out":
            return NotAnswered(name="TimedOut", message="The program took too long and was ended")
        case "out_of_memory":
            return NotAnswered(name="OutOfMemory", message="The program used too much memory and was ended")
        case "busy":
            return NotAnswered(name="Busy", message="Too many programs run at once; try again")
        case ending:
            fault = report.fault.message if report.fault else ending.replace("_", " ")
            return _failed(f"It could not be run to its end: {fault}")


def _failed(message: str) -> NotAnswered:
    return NotAnswered(name="CommandFailed", message=message[:_LONGEST_MESSAGE])


def _invalid(why: str) -> NotAnswered:
    return NotAnswered(name="InvalidRequest", message=f"exec is refused: {why}")
