"""`metier trust`: how far agents may act by themselves. Trust in a skill's bytes is `metier skills trust`."""

from typing import cast

import click

from metier.catalog.here import owner
from metier.doors.cli.opening import settings_of
from metier.model.trust_level import LEVELS, MEANING, TrustLevel
from metier.record.database import Database, open_if_there
from metier.record.level import level, set_level


@click.group("trust")
def trust_command() -> None:
    """Show or change the trust level of agents, skills and triggers."""


@trust_command.command("show")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def show_command(ctx: click.Context, as_json: bool) -> None:
    """Print the level there is now, and what each level means."""
    from metier.model.trust_level import DEFAULT

    database = open_if_there(settings_of(ctx).database)
    now: TrustLevel = DEFAULT
    if database is not None:
        with database:
            now = level(database)
    if as_json:
        import json

        click.echo(json.dumps({"level": now, "levels": MEANING}))
        return
    for each in LEVELS:
        click.echo(f"{'→' if each == now else ' '} {each:16} {MEANING[each]}")


@trust_command.command("set")
@click.argument("new", metavar="LEVEL", type=click.Choice(LEVELS))
@click.pass_context
def set_command(ctx: click.Context, new: str) -> None:
    """Change the level, at once and for every process. It is recorded."""
    with Database.open(settings_of(ctx).database) as database:
        old = set_level(database, cast("TrustLevel", new), by=owner())
    said = (
        f"It was {new} already."
        if old == new
        else f"✓ {new} (it was {old}): {MEANING[cast('TrustLevel', new)]}."
    )
    click.echo(said)
