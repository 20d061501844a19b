"""What `metier triggers` and `metier schedules` have in common: the owner asks for an operation, and is told how that ended."""

import sys
from datetime import datetime
from typing import Final

import click

from metier.doors.cli import ended
from metier.doors.cli.opening import settings_of
from metier.doors.cli.working import work
from metier.model import strictjson
from metier.model.digest import Json
from metier.model.outcome import Completed
from metier.model.text import one_line

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
