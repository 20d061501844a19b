"""`metier stop` and `metier resume`: the stop button."""

import click

from metier.catalog.here import owner
from metier.doors.cli import exits
from metier.doors.cli.opening import settings_of, state_to_refuse
from metier.errors import MetierError, RecordError
from metier.record.calls import UnderWay, calls_under_way
from metier.record.database import Database
from metier.record.stop import resume, stop


@click.command("stop")
@click.option("--why", default="", help="A word for whoever meets it. It is kept for good.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def stop_command(ctx: click.Context, why: str, as_json: bool) -> None:
    """End every running call and refuse all others, in every process and after every restart."""
    unrecorded = ""
    with state_to_refuse() as database:
        try:
            stop(database, by=owner(), why=why)
        except RecordError as error:
            unrecorded = str(error)
        running = _running(database)
    if as_json:
        import json

        click.echo(json.dumps({"stopped": True, "ending": [each.call_id for each in running]}))
    else:
        calls = "1 running call is" if len(running) == 1 else f"{len(running)} running calls are"
        click.echo(f"■ Everything is stopped; {calls} being ended.")
        click.echo("  `metier resume` lets things run again.")
    if unrecorded:
        click.echo(f"metier: {unrecorded}", err=True)
        ctx.exit(exits.PROBLEM)


def _running(database: Database) -> list[UnderWay]:
    """The calls that are being ended; that they cannot be listed does not undo the stop."""
    try:
        return [each for each in calls_under_way(database) if each.process is not None]
    except MetierError as error:
        click.echo(f"metier: the running calls cannot be listed: {error}", err=True)
        return []


@click.command("resume")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def resume_command(ctx: click.Context, as_json: bool) -> None:
    """Let things run again after `metier stop`. What was ended stays so."""
    with Database.open(settings_of(ctx).database) as database:
        resumed = resume(database, by=owner())
    if as_json:
        import json

        click.echo(json.dumps({"resumed": resumed}))
    else:
        click.echo("▶ Calls are taken again." if resumed else "Nothing was stopped.")
