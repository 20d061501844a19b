"""How a call ended, for people: the value on standard output, everything else on standard error."""

import re
from typing import Final

import click
import msgspec

from metier.doors.cli import exits
from metier.errors import ConfigError
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
    "exec": "bin",
}
"""What would grant what was refused, by the kind of the refusal."""
_INSTEAD: Final = {"net": "context.http", "run": "context.exec"}
"""What a JavaScript engine never has by itself, and what code asks the host for instead."""
_HOST: Final = re.compile(r"grant the host '([\w.:/-]{1,160})'")
"""As egress says it."""
_PLAIN: Final = re.compile(r"[\w.:/@%+,=~-]{1,160}")
"""Nothing that a shell would read otherwise."""
_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,127}")


def show(outcome: Outcome) -> None:
    """The value, or why there is none."""
    match outcome:
        case Completed(value=str() as text):
            click.echo(visible(text))
        case Completed(value=value):
            click.echo(visible(msgspec.json.format(msgspec.json.encode(value), indent=1).decode("utf-8")))
        case Refused(code="confirmation_required", prompt=prompt):
            click.echo(f"The caller has to be asked first; nothing ran.\n  {visible(prompt)}", err=True)
        case Refused(code=code, reasons=reasons, remedy=remedy):
            said = "\n".join(f"  {visible(reason)}" for reason in reasons)
            click.echo(
                f"Refused ({code}); nothing ran.\n{said}" + (f"\n  → {visible(remedy)}" if remedy else ""),
                err=True,
            )
        case Failed(code=code, message=message):
            click.echo(f"Failed ({code}): {visible(message)}", err=True)
        case Pending(approval_id=approval, reasons=reasons):
            click.echo(f"Waiting for approval {approval}; nothing ran yet.", err=True)
            for reason in reasons:
                click.echo(f"  {visible(reason)}", err=True)
            click.echo(f"  → metier approvals show {approval}, then approve or deny it", err=True)
    earlier = outcome.earlier if isinstance(outcome, Completed | Failed) else None
    if earlier is not None:
        click.echo(f"  {one_line(earlier.text, 600)}", err=True)
    for each in outcome.artifacts if isinstance(outcome, Completed | Failed) else ():
        click.echo(
            f"  kept in the workspace: {one_line(each.path)} ({each.type}, {each.size:,} bytes)", err=True
        )


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
    ]
    if run.memory_bytes:  # a run may be over before anybody could look
        parts.append(f"{run.memory_bytes / 1_048_576:.0f} MB")
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
        if suggest and (advice := _advice(each)):
            lines.append(f"    {advice}")
    if len(attempts) > _MOST:
        lines.append(f"  … and {len(attempts) - _MOST} more")
    return lines


def _advice(attempt: Attempt) -> str:
    """What would make it work, where that is one thing that can be said."""
    if attempt.kind in _INSTEAD:
        grant = _host(attempt.detail) if attempt.kind == "net" else _program(attempt.detail)
        allowed = f", with --allow {grant}" if grant else ""
        return f"the engine itself never may: use {_INSTEAD[attempt.kind]}{allowed}"
    if attempt.kind == "socket":
        return "allow it with: --allow host=NAME" if attempt.detail.startswith("AF_INET") else ""
    grant = _grant(attempt)
    return f"allow it with: --allow {grant}" if grant else ""


def _grant(attempt: Attempt) -> str:
    """The `--allow` that would grant it, where the refusal names one thing that can be granted."""
    if named := _HOST.search(attempt.detail):
        return f"host={named[1]}"
    kind, thing = _GRANTS.get(attempt.kind), attempt.detail.strip()
    if kind is None or not _PLAIN.fullmatch(thing):
        return ""
    match kind:
        case "host":
            return _host(thing)
        case "env":
            return f"env={thing}" if _VARIABLE.fullmatch(thing) else ""
        case _:
            return "" if thing == "/" else f"{kind}={thing}"


def _host(thing: str) -> str:
    """The grant for a place on the network, if it is one that can be granted."""
    from metier.sandbox.grants import read_grants

    place = thing.removeprefix("https://").partition("/")[0].removesuffix(":443")
    try:
        read_grants(frozenset({place}))
    except ConfigError:
        return ""
    return f"host={place}" if _PLAIN.fullmatch(place) else ""


def _program(thing: str) -> str:
    return f"bin={thing}" if _PLAIN.fullmatch(thing) and "/" not in thing else ""
