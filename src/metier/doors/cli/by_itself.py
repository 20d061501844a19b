"""What `metier triggers` and `metier schedules` have in common: the owner asks for an operation, and is told how that ended."""

import sys
from collections.abc import Callable
from datetime import datetime
from typing import Final, TypeAlias

import click
import msgspec

from metier.doors.cli import ended
from metier.doors.cli.opening import settings_of
from metier.doors.cli.working import work
from metier.model import strictjson
from metier.model.digest import Json
from metier.model.outcome import Completed
from metier.model.text import one_line, visible

JSON: Final = click.option(
    "--json", "as_json", is_flag=True, help="Print how the call ended as one JSON object."
)
Line: TypeAlias = Callable[[dict[str, Json]], str]
"""One of them in one line."""
_MOST: Final = 200_000


def asked(
    ctx: click.Context, tool: str, arguments: dict[str, Json], *, as_json: bool
) -> dict[str, Json] | None:
    """What the operation gave, to be shown; None where it was printed as JSON. Ends the command where it was not done."""
    from metier.runtime.as_owner import operate

    outcome = work(operate, settings_of(ctx), tool, arguments)
    if as_json:
        import json

        # ASCII: what could move a cursor stands there as an escape.
        click.echo(json.dumps(outcome.value) if isinstance(outcome, Completed) else ended.ascii_json(outcome))
    elif not isinstance(outcome, Completed):
        ended.show(outcome)
    if not isinstance(outcome, Completed):
        ctx.exit(ended.STATUS[type(outcome)])
    return None if as_json or not isinstance(outcome.value, dict) else outcome.value


def rows(answer: dict[str, Json], key: str) -> list[dict[str, Json]]:
    """The objects of a list in an answer."""
    found = answer.get(key)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def definition(file: str) -> dict[str, Json]:
    """The object in a JSON file; `-` is standard input."""
    try:
        if file == "-":
            data = sys.stdin.buffer.read(_MOST + 1)
        else:
            with open(file, "rb") as opened:
                data = opened.read(_MOST + 1)
        value = strictjson.loads(data, most=_MOST)
    except OSError as error:
        raise click.UsageError(f"{one_line(file, 80)} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise click.UsageError(f"{one_line(file, 80)} is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise click.UsageError(f"{one_line(file, 80)} must hold one JSON object")
    return value


def given_arguments(text: str) -> dict[str, Json]:
    """The value of `--arguments`."""
    try:
        value = strictjson.loads(text)
    except ValueError as error:
        raise click.UsageError(f"--arguments is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise click.UsageError("--arguments must be a JSON object")
    return value


def text_of(row: dict[str, Json], key: str, most: int = 120) -> str:
    """A field for people."""
    value = row.get(key)
    return "" if value is None else one_line(str(value), most)


def local(value: Json) -> str:
    """A moment on this machine's clock: what was given in UTC, or in seconds."""
    if isinstance(value, str):
        return datetime.fromisoformat(value).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    if isinstance(value, int | float) and value:
        return datetime.fromtimestamp(value).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    return "never"


def show_all(ctx: click.Context, what: str, line: Line, *, as_json: bool) -> None:
    """Print every one of `what`, with what is wrong with it or what it last did."""
    answer = asked(ctx, f"{what}.list", {}, as_json=as_json)
    if answer is None:
        return
    found = rows(answer, what)
    for row in found:
        click.echo(line(row))
        if problem := text_of(row, "problem", 200) or text_of(row, "last_outcome", 200):
            click.echo(f"    {problem}")
    if not found:
        click.echo(f"There are no {what}. `metier {what} add --help` says how to set one up.", err=True)


def show_one(answer: dict[str, Json], line: Line) -> None:
    """Print one of them: whose it is, and all that it says."""
    skill = text_of(answer, "skill", 80)
    click.echo(line(answer))
    click.echo(
        f"  set up by {text_of(answer, 'owner')}" + (f", from the file of the skill {skill}" if skill else "")
    )
    if problem := text_of(answer, "problem", 300):
        click.echo(f"  broken: {problem}")
    show_definition(answer.get("definition"))


def show_definition(value: Json) -> None:
    """Print all that one of them says."""
    click.echo(visible(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()))


def show_done(answer: dict[str, Json] | None, done: str) -> None:
    """Print what became of one of them; nothing where that was printed already."""
    if answer is not None:
        click.echo(f"✓ {text_of(answer, 'name') or text_of(answer, 'id')} {done}")


def adopt(ctx: click.Context, what: str, skill: str, show: Line | None, *, yes: bool, as_json: bool) -> None:
    """Accept what the file of a skill declares, once the person at the terminal saw it and said yes.

    Args:
        show: a line above each, where there is more to say than its definition.
    """
    if as_json and not yes:
        raise click.UsageError("--json cannot ask, so it needs --yes.")
    arguments: dict[str, Json] = {"skill": skill}
    if not yes and (shown := asked(ctx, f"{what}.declared", arguments, as_json=False)) is not None:
        found = rows(shown, what)
        for row in found:
            if show is not None:
                click.echo(show(row))
            show_definition(row.get("definition"))
        if any(not row.get("wider") for row in found):
            click.confirm("Let these act on your behalf?", abort=True, err=True)
            arguments["digest"] = shown.get("digest")
    answer = asked(ctx, f"{what}.adopt", arguments, as_json=as_json)
    if answer is None:
        return
    for row in rows(answer, "adopted"):
        click.echo(f"✓ {text_of(row, 'name')} is set up ({text_of(row, 'id')}).")
    for row in rows(answer, "left"):
        click.echo(f"✗ {text_of(row, 'name')} is not set up: {text_of(row, 'why', 200)}")
