"""`exec`: running code has one of its declared programs run, in a sandbox of its own with the same places.

The program is one of the names the call was granted, or the very file such a name stands for: never what merely
ends like it. Nothing is handed to a shell. It resolves with what the program printed, and anything but exit
status 0 is an error with what it printed as errors. Another program is a violation, unless the call was told its name from
outside: then it was the caller's wish, and is only denied.
"""

import os
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias, final

from msgspec.structs import replace

from metier.model.digest import Json
from metier.model.entry import Command
from metier.model.guarantee import Guarantee, needed
from metier.model.job import Job, Report
from metier.model.outcome import Attempt
from metier.model.permission import PermissionSet
from metier.model.ports import Answered, NotAnswered
from metier.sandbox.given import given_to
from metier.sandbox.job_binaries import keeps_to_itself

Run: TypeAlias = Callable[[Job], Awaitable[Report]]

MOST_ARGUMENTS: Final = 1_024
MOST_BYTES: Final = 131_072
"""Of all arguments together."""
_LONGEST_MESSAGE: Final = 8_192


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
        argv, seconds = read
        name = self._declared(argv[0])
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
        return _answer(await self._run(self._nested(name, argv, min(seconds or left, left))))

    async def aclose(self) -> None:
        """Nothing is held."""

    def _declared(self, program: str) -> str | None:
        """The declared name that is meant, by the name itself or by the file it stands for."""
        granted = {
            name: file for name, file in self._job.binaries.items() if name in self._job.permissions.binaries
        }
        if program in granted:
            return program
        # By another name of the very same file, as `/bin/ls` is where `/bin` is a link; never by how a name ends.
        plain = program.startswith("/") and os.path.normpath(program) == program
        file = os.path.realpath(program) if plain else None
        return next((name for name, real in granted.items() if real == file), None)

    def _nested(self, name: str, argv: list[str], seconds: float) -> Job:
        """The call's job with another entry. A program asks nothing of the host and holds no further right. Arguments and
        context are not shown to a program; they tell who named an address that it tries to reach."""
        job = self._job
        entry = Command(argv=(name, *argv[1:]))
        own = job.permissions
        network = bool(own.hosts)
        # What its tool asked for beyond its kind is asked for here too.
        needs = needed(entry, network=network) | (job.needs - needed(job.entry, network=network))
        if not keeps_to_itself(job.binaries[name]):
            needs |= {Guarantee.VIOLATIONS_SEEN}  # it may run what the skill tells it to
        return replace(
            job,
            entry=entry,
            packages=(),
            binaries={name: job.binaries[name]},
            permissions=PermissionSet(
                binaries=frozenset({name}), reads=own.reads, writes=own.writes, hosts=own.hosts, env=own.env
            ),
            limits=replace(job.limits, timeout=seconds),
            needs=needs,
            host=None,
        )


def _read(params: dict[str, Json]) -> tuple[list[str], float | None] | NotAnswered:
    argv, timeout = params.get("argv"), params.get("timeout_ms")
    if not set(params) <= {"argv", "timeout_ms"}:
        return _invalid("it takes `argv` and `timeout_ms`")
    if not isinstance(argv, list) or not argv:
        return _invalid("`argv` is a list of texts, the program first; a shell line is not taken")
    texts = [each for each in argv if isinstance(each, str)]
    if len(texts) != len(argv) or any("\0" in each for each in texts) or not texts[0]:
        return _invalid("every part of `argv` is a text without NUL, the first one not empty")
    if len(texts) > MOST_ARGUMENTS or sum(len(each.encode()) for each in texts) > MOST_BYTES:
        return _invalid(f"`argv` has at most {MOST_ARGUMENTS:,} parts and {MOST_BYTES:,} bytes")
    if timeout is None:
        return texts, None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        return _invalid("`timeout_ms` is a number above zero")
    return texts, timeout / 1000


def _answer(report: Report) -> Answered | NotAnswered:
    refused = tuple(Attempt(kind=each.kind, detail=each.detail, count=each.count) for each in report.denials)
    return replace(_told(report), refused=refused)


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
