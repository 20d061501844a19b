"""`metier grants`: what runs without anybody being asked, because somebody said so in advance."""

import click

from metier.catalog.here import owner
from metier.doors.cli import exits
from metier.doors.cli.opening import settings_of, state_to_refuse
from metier.gate.in_words import grant_lines
from metier.model.approval import StandingGrant
from metier.model.text import one_line
from metier.record.approval_clock import moment
from metier.record.database import open_if_there
from metier.record.grant_shown import grant_over, grant_plain
from metier.record.standing import grants_in, revoke


@click.group("grants")
def grants_command() -> None:
    """List standing grants, and take them back."""


@grants_command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@click.pass_context
def list_command(ctx: click.Context, as_json: bool) -> None:
    """Print every standing grant that was not revoked."""
    database = open_if_there(settings_of(ctx).database)
    found: tuple[StandingGrant, ...] = ()
    if database is not None:
        with database, database.reading() as connection:
            found = grants_in(connection)
    now = moment()
    if as_json:
        import json

        click.echo(json.dumps([grant_plain(each, now) for each in found]))
        return
    if not found:
        click.echo("There are no standing grants.", err=True)
    for each in found:
        over = grant_over(each, now)
        click.echo("\n".join([*grant_lines(each), *(["               (it is over)"] if over else []), ""]))


@grants_command.command("revoke")
@click.argument("grants", nargs=-1, required=True, metavar="ID...")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@click.pass_context
def revoke_command(ctx: click.Context, grants: tuple[str, ...], as_json: bool) -> None:
    """Take each grant back, at once: what it answered is asked again."""
    results: list[dict[str, str]] = []
    with state_to_refuse() as database:
        for each in grants:
            problem = (
                "" if revoke(database, each, by=owner()) else "there is no such grant that was not revoked"
            )
            results.append({"id": each, "problem": problem})
            if not as_json:
                mark = (
                    f"✗ {one_line(each, 80)}: {problem}" if problem else f"✓ {one_line(each, 80)} is revoked."
                )
                click.echo(mark, err=bool(problem))
    if as_json:
        import json

        click.echo(json.dumps(results))
    if any(result["problem"] for result in results):
        ctx.exit(exits.PROBLEM)
