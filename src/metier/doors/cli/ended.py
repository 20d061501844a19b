"""How a call ended, for people: the value on standard output, everything else on standard error."""

import re
from typing import Final

import click
import msgspec

from metier.doors.cli import exits
from metier.model.outcome import Attempt, Completed, Failed, Outcome, Pending, Refused, Run
from metier.model.text import one_line, visible

STATUS: Final[dict[type[Outcome], int]] = {
    Completed: exits.OK,
    Failed: exits.PROBLEM,
    Refused: exits.REFUSED,
    Pending: exits.PENDING,
}
"""The exit status that goes with each end."""

_MOST: Final = 20
_GRANTS: Final = {
    "read": "read",
    "write": "write",
    "env": "env",
    "egress": "host",
    "connect": "host",
    "net": "host",
    "socket": "host",
    "exec": "bin",
    "run": "bin",
}
"""What would grant what was refused, by the kind of the refusal."""
_HOST: Final = re.compile(r"grant the host '([\w.:/-]{1,160})'")
"""As egress says it."""
_PLAIN: Final = re.compile(r"[\w.:/@%+,=~-]{1,160}")
"""Nothing that a shell would read otherwise."""


def show(outcome: Outcome) -> None:
    """The value, or why there is none."""
    match outcome:
        case Completed(value=str() as text):
            click.echo(visible(text))
        case Completed(value=value):
            click.echo(visible(msgspec.json.format(msgspec.json.encode(value), indent=1).decode("utf-8")))
        case Refused(code=code, reasons=reasons, remedy=remedy):
            said = "\n".join(f"  {visible(reason)}" for reason in reasons)
            click.echo(
                f"Refused ({code}); nothing ran.\n{said}" + (f"\n  → {visible(remedy)}" if remedy else ""),
                err=True,
            )
        case Failed(code=code, message=message):
            click.echo(f"Failed ({code}): {visible(message)}", err=True)
        case Pending(approval_id=approval, reasons=reasons):
            click.echo(f"Waiting for approval {approval}: {visible('; '.join(reasons))}", err=True)


def ascii_json(outcome: Outcome) -> str:
    """One object on one line; what is beyond ASCII is escaped, so that nothing in it can move a cursor."""
    import json

    return json.dumps(msgspec.to_builtins(outcome))


def summary(outcome: Completed | Failed, run: Run) -> list[str]:
    """What the sandbox saw of the run, and what would allow what it refused."""
    ended = "completed" if isinstance(outcome, Completed) else outcome.code.replace("_", " ")
    parts = [
        f"{run.seconds:.2f} s",
        f"{run.cpu_seconds:.2f} s of CPU",
        f"{run.memory_bytes / 1_048_576:.0f} MB",
    ]
    if run.fuel is not None:
        parts.append(f"{run.fuel:,} fuel")
    lines = [f"[{run.sandbox}] {ended}: {', '.join(parts)}"]
    if run.truncated:
        lines.append(f"  it made {run.output_bytes:,} bytes of output; the end was cut off")
    lines += _attempts("refused", run.denials, suggest=True)
    lines += _attempts("VIOLATION", run.violations, suggest=False)
    return lines


def _attempts(word: str, attempts: tuple[Attempt, ...], *, suggest: bool) -> list[str]:
    lines: list[str] = []
    for each in attempts[:_MOST]:
        times = f" (×{each.count})" if each.count > 1 else ""
        lines.append(f"  {word}: {one_line(each.kind, 40)} {one_line(each.detail, 160)}{times}")
        if suggest and (grant := _grant(each)):
            lines.append(f"    allow it with: --allow {grant}")
    if len(attempts) > _MOST:
        lines.append(f"  … and {len(attempts) - _MOST} more")
    return lines


def _grant(attempt: Attempt) -> str:
    """The `--allow` that would grant it, where the refusal names one thing that can be granted."""
    if named := _HOST.search(attempt.detail):
        return f"host={named[1]}"
    kind = _GRANTS.get(attempt.kind)
    if kind is None or attempt.kind == "socket":
        return f"{kind}=NAME" if kind else ""
    thing = attempt.detail.strip()
    return f"{kind}={thing.removeprefix('https://')}" if _PLAIN.fullmatch(thing) else ""
