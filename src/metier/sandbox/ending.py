"""A sandbox's report as the outcome of a call: one table of endings, and words that say what, why and what to do. Pure."""

from typing import Final, final

from msgspec import Struct
from msgspec.structs import replace

from metier.model.digest import Json
from metier.model.entry import Command, HttpRequest, Program
from metier.model.job import Ending, Event, Job, Report
from metier.model.outcome import Artifact, Attempt, Completed, Failed, FailureCode, Request, Run
from metier.model.text import one_line
from metier.sandbox.given_secrets import mask_of, without_secrets
from metier.sandbox.secret import Mask

_MOST_TOLD: Final = 64
_LONGEST: Final = 2_000
_DENIED: Final = frozenset({"PermissionDenied", "PermissionError", "NotCapable"})
"""How the languages name an error that a refusal of ours raised in them."""
_OURS: Final = frozenset({"ServerError", "ToolError", "PermissionDenied"})
"""What we ourselves call what went wrong, for programs. Any other error of a skill's code has the name its author gave it, which
says as much as the text: of a missing key Python tells nothing but the key."""
_HELD_BACK: Final = "ToolHeldBack"

_CODES: Final[dict[Ending, FailureCode]] = {
    "raised": "raised",
    "exited": "command_failed",
    "signalled": "crashed",
    "no_result": "no_result",
    "bad_result": "bad_result",
    "timed_out": "timed_out",
    "out_of_memory": "out_of_memory",
    "out_of_fuel": "out_of_fuel",
    "out_of_disk": "out_of_disk",
    "stopped": "violation",
    "not_started": "not_started",
    "busy": "busy",
}


@final
class Asked(Struct, frozen=True, kw_only=True):
    """What a run asked of the host."""

    requests: tuple[Request, ...] = ()
    unlisted: int = 0
    """How many further ones there were."""
    refused: tuple[Attempt, ...] = ()
    """What was refused to programs that ran for it."""


@final
class Violations:
    """What was violated, as it became known while a run was under way."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}

    def add(self, event: Event) -> None:
        what = (event.kind, event.detail)
        if what in self._counts or len(self._counts) < _MOST_TOLD:
            self._counts[what] = self._counts.get(what, 0) + event.count

    @property
    def seen(self) -> tuple[Event, ...]:
        return tuple(Event(kind=kind, detail=detail, count=n) for (kind, detail), n in self._counts.items())


NOTHING_ASKED: Final = Asked()


def outcome_of(job: Job, report: Report, *, sandbox: str, asked: Asked = NOTHING_ASKED) -> Completed | Failed:
    """How the call ended. A violation is a failure whatever came back besides it. Secrets that the run was given as variables are
    masked in what came back, and in what it asked for."""
    mask = mask_of(job)
    report = without_secrets(report, mask)
    run = _run(report, sandbox, _without_secrets(asked, mask) if mask else asked)
    if report.violations:
        said = _violation(report.violations)
        return Failed(
            call_id=job.call_id, code="violation", message=said, run=run, artifacts=report.artifacts
        )
    if report.ending == "returned":
        return Completed(call_id=job.call_id, value=_value(job, report), run=run, artifacts=report.artifacts)
    return Failed(
        call_id=job.call_id,
        code=_code(job, report),
        message=one_line(_message(job, report), _LONGEST),
        run=run,
        artifacts=report.artifacts,
    )


def violated(outcome: Completed | Failed, seen: tuple[Event, ...], job: Job | None) -> Completed | Failed:
    """The outcome of a run of which violations are known that its report may not have: it was cancelled, or they were
    those of a program that ran for it and was cancelled with it."""
    if not seen or (outcome.run is not None and outcome.run.violations):
        return outcome
    mask = Mask() if job is None else mask_of(job)
    seen = tuple(replace(each, detail=mask.text(each.detail)) for each in seen)
    run = replace(outcome.run or Run(sandbox=""), violations=tuple(map(_attempt, seen)))
    return Failed(
        call_id=outcome.call_id,
        code="violation",
        message=_violation(seen),
        run=run,
        artifacts=outcome.artifacts,
    )


def _value(job: Job, report: Report) -> Json:
    if not isinstance(job.entry, Command | Program):
        return report.value
    told: dict[str, Json] = {
        "stdout": report.stdout,
        "stderr": report.stderr,
        "exit_code": report.exit_code or 0,
        "truncated": report.truncated,
    }
    if report.artifacts:
        told["artifacts"] = told_artifacts(report.artifacts)
    return told


def told_artifacts(artifacts: tuple[Artifact, ...]) -> list[Json]:
    """The files that a program left, for whoever called it."""
    return [{"path": each.path, "type": each.type, "size": each.size} for each in artifacts]


def _code(job: Job, report: Report) -> FailureCode:
    if (
        report.ending == "raised"
        and report.denials
        and (report.fault is None or report.fault.name in _DENIED)
    ):
        return "permission_denied"
    if report.ending in ("raised", "exited") and isinstance(job.entry, HttpRequest):
        return "permission_denied" if report.denials else "http_error"
    return _CODES.get(report.ending, "internal")


def _message(job: Job, report: Report) -> str:
    limits, said = job.limits, report.fault.message if report.fault else ""
    match report.ending:
        case "raised":
            if report.fault is not None and not (said and report.fault.name in _OURS):
                said = f"{report.fault.name}: {said}"
            denied = "; ".join(f"{each.kind} {each.detail}" for each in report.denials[:5])
            return f"{said or 'it failed and said nothing'}" + (f" (refused: {denied})" if denied else "")
        case "exited":
            told = report.stderr.strip() or report.stdout.strip()
            return f"it ended with exit code {report.exit_code}" + (f": {told[-_LONGEST:]}" if told else "")
        case "signalled":
            return f"it crashed (signal {report.signal})" + (
                f": {report.stderr.strip()[-500:]}" if report.stderr else ""
            )
        case "no_result":
            return said or "it ended without a result; it has to return one"
        case "bad_result":
            return said or "what it returned is not plain JSON"
        case "timed_out" | "out_of_fuel" if job.life is not None and report.fault is not None:
            return f"{report.fault.message}; it was ended"
        case "timed_out":
            return f"it took longer than {limits.timeout:g} s and was ended; ask for less, or raise its time limit"
        case "out_of_memory":
            return f"it needed more than {limits.memory_mb} MB and was ended; ask for less, or raise its memory limit"
        case "out_of_fuel":
            return "it used up its fuel and was ended; ask for less, or raise its fuel limit"
        case "out_of_disk":
            return f"it wrote more than it may and was ended{f': {said}' if said else ''}"
        case "stopped":
            return f"it was stopped{f': {said}' if said else ''}"
        case "not_started":
            if report.fault is not None and report.fault.name == _HELD_BACK:
                return f"it was not run: {said}"
            if report.fault is not None and report.fault.name != "NotStarted":
                return f"it could not be started: {said}"
            return f"it could not be started: {said or 'the sandbox gave no reason'}; `metier doctor` looks at the sandboxes"
        case "busy":
            why = (
                report.fault.message if report.fault else "too many runs are under way; try again in a moment"
            )
            return f"it did not begin: {why}"
        case "returned":
            return ""


def _violation(violations: tuple[Event, ...]) -> str:
    tried = "; ".join(f"{each.kind} {one_line(each.detail, 200)}" for each in violations[:5])
    return f"it tried what no skill may ever do and was stopped: {tried}"


def _run(report: Report, sandbox: str, asked: Asked) -> Run:
    usage = report.usage
    return Run(
        sandbox=sandbox,
        seconds=usage.seconds,
        cpu_seconds=usage.cpu_seconds,
        memory_bytes=usage.memory_bytes,
        output_bytes=usage.output_bytes,
        fuel=usage.fuel,
        stdout=report.stdout,
        stderr=report.stderr,
        truncated=report.truncated,
        denials=(*map(_attempt, report.denials), *asked.refused),
        violations=tuple(map(_attempt, report.violations)),
        requests=asked.requests,
        requests_unlisted=asked.unlisted,
    )


def _without_secrets(asked: Asked, mask: Mask) -> Asked:
    return replace(
        asked,
        requests=tuple(replace(each, detail=mask.text(each.detail)) for each in asked.requests),
        refused=tuple(replace(each, detail=mask.text(each.detail)) for each in asked.refused),
    )


def _attempt(event: Event) -> Attempt:
    return Attempt(kind=event.kind, detail=event.detail, count=event.count)
