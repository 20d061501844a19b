"""A sandbox's report as the outcome of a call: one table of endings, and words that say what, why and what to do. Pure."""

from typing import Final

from metier.model.digest import Json
from metier.model.entry import Command, HttpRequest
from metier.model.job import Ending, Event, Job, Report
from metier.model.outcome import Attempt, Completed, Failed, FailureCode, Run
from metier.model.text import one_line

_LONGEST: Final = 2_000
_DENIED: Final = frozenset({"PermissionDenied", "PermissionError", "NotCapable"})
"""How the languages name an error that a refusal of ours raised in them."""

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


def outcome_of(job: Job, report: Report, *, sandbox: str) -> Completed | Failed:
    """How the call ended. A violation is a failure whatever came back besides it."""
    run = _run(report, sandbox)
    if report.violations:
        return Failed(call_id=job.call_id, code="violation", message=_violation(report.violations), run=run)
    if report.ending == "returned":
        return Completed(call_id=job.call_id, value=_value(job, report), run=run)
    return Failed(
        call_id=job.call_id,
        code=_code(job, report),
        message=one_line(_message(job, report), _LONGEST),
        run=run,
    )


def _value(job: Job, report: Report) -> Json:
    if not isinstance(job.entry, Command):
        return report.value
    return {
        "stdout": report.stdout,
        "stderr": report.stderr,
        "exit_code": report.exit_code or 0,
        "truncated": report.truncated,
    }


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
    limits, said = job.limits, f"{report.fault.name}: {report.fault.message}" if report.fault else ""
    match report.ending:
        case "raised":
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
            return f"it could not be started: {said or 'the sandbox gave no reason'}; `metier doctor` looks at the sandboxes"
        case "busy":
            return "too many runs are under way, so it did not begin; try again in a moment"
        case "returned":
            return ""


def _violation(violations: tuple[Event, ...]) -> str:
    tried = "; ".join(f"{each.kind} {one_line(each.detail, 200)}" for each in violations[:5])
    return f"it tried what no skill may ever do and was stopped: {tried}"


def _run(report: Report, sandbox: str) -> Run:
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
        denials=tuple(map(_attempt, report.denials)),
        violations=tuple(map(_attempt, report.violations)),
    )


def _attempt(event: Event) -> Attempt:
    return Attempt(kind=event.kind, detail=event.detail, count=event.count)
