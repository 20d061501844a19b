"""`metier calls …`."""

import json
from typing import Final

import click
import msgspec

from metier.doors.cli.opening import settings_of, state_to_refuse
from metier.host.call_log import Line, read_log
from metier.model.text import one_line

_LONGEST: Final = 2_000


@click.group("calls")
def calls_command() -> None:
    """Look at single calls."""


@calls_command.command("log")
@click.argument("call_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.pass_context
def log_command(ctx: click.Context, call_id: str, as_json: bool) -> None:
    """Print what the skill wrote into the log of the call ID. These are its own words, not the record."""
    log = read_log(settings_of(ctx).home, call_id)
    if log is None:
        raise click.UsageError(
            f"There is no log of a call {one_line(call_id, 80)!r}. `metier audit tail` shows the ids of calls; "
            "a call has a log only if its skill wrote one."
        )
    for line in log.lines:
        # ASCII: what could move a cursor stands there as an escape.
        click.echo(json.dumps(msgspec.to_builtins(line)) if as_json else _shown(line))
    if log.cut:
        click.echo("The last line was cut off while it was written, and is left out.", err=True)


@calls_command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.pass_context
def list_command(ctx: click.Context, as_json: bool) -> None:
    """Print the calls under way, and those that were cut off."""
    from metier.record.calls import calls_under_way
    from metier.record.database import open_if_there

    database = open_if_there(settings_of(ctx).database)
    found = []
    if database is not None:
        with database:
            found = calls_under_way(database)
    for each in found:
        if as_json:
            click.echo(json.dumps(msgspec.to_builtins(each)))
            continue
        state = f"process {each.process}" if each.process is not None else "cut off: its process is gone"
        ending = f", being ended for {each.cancelled_by}" if each.cancelled_by else ""
        subject = " ".join(part for part in (each.tool, each.skill) if part)
        click.echo(
            one_line(f"{each.call_id} {each.began_at} {subject} by {each.principal} ({state}{ending})", 400)
        )
    if not found and not as_json:
        click.echo("Nothing is running.", err=True)


@calls_command.command("cancel")
@click.argument("call_id", metavar="ID")
@click.pass_context
def cancel_command(ctx: click.Context, call_id: str) -> None:
    """End the call ID, whichever process runs it."""
    from metier.catalog.here import owner
    from metier.record.calls import calls_under_way, cancel

    with state_to_refuse() as database:
        cancelled = cancel(database, call_id, by=owner())
        found = next((each for each in calls_under_way(database) if each.call_id == call_id), None)
        if not cancelled:
            raise click.UsageError(
                f"No call {one_line(call_id, 80)!r} is running. `metier calls list` shows those that are."
            )
    if found is not None and found.process is None:
        click.echo(f"{one_line(call_id, 80)} was cut off before: its process is gone.")
    else:
        click.echo(f"✓ {one_line(call_id, 80)} is being ended.")


def _shown(line: Line) -> str:
    match line.entry:
        case {"level": str(level), "message": str(message), **more} if set(more) <= {"meta"}:
            meta = f" {_plain(more['meta'])}" if more else ""
            said = f"{level}: {message}{meta}"
        case str():
            said = line.entry
        case _:
            said = _plain(line.entry)
    return one_line(f"{line.at} {line.skill}: {said}", _LONGEST)


def _plain(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
