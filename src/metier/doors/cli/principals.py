"""`metier principals`: who may ask for what. Whoever sits at the terminal is the owner."""

from typing import cast

import click

from metier.catalog.here import owner
from metier.doors.cli import exits
from metier.doors.cli.opening import settings_of, state_to_refuse
from metier.doors.cli.passwords import oidc_command, password_command, ways_command
from metier.model.role import ROLES, Kind, Registered
from metier.model.text import one_line
from metier.record.database import Database, open_if_there
from metier.record.everybody import everybody, principal_plain
from metier.record.principals import (
    acting_for,
    add_principal,
    registered_in,
    revoke_principal,
)


@click.group("principals")
def principals_command() -> None:
    """Register people and agents, list them, and revoke them."""


@principals_command.command("add")
@click.argument("id", metavar="ID")
@click.option(
    "--role", "roles", multiple=True, type=click.Choice(list(ROLES)),
    help="May be repeated. An agent is an agent unless it is said; of a human it must be said.",
)  # fmt: skip
@click.option(
    "--for", "behalf", metavar="HUMAN", help="On whose behalf an agent acts; on yours unless it is said."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def add_command(
    ctx: click.Context, id: str, roles: tuple[str, ...], behalf: str | None, as_json: bool
) -> None:
    """Register ID, which is human:NAME or agent:NAME. It is recorded.

    An agent never has more than the human it acts for.
    """
    kind = id.partition(":")[0]
    agent = kind == "agent"
    new = Registered(
        id=id,
        kind=cast("Kind", kind),
        on_behalf_of=behalf if behalf is not None else owner() if agent else "",
        roles=frozenset(roles or (["agent"] if agent else [])),
    )
    with Database.open(settings_of(ctx).database) as database:
        with database.reading() as connection:
            known = registered_in(connection)
        problem = add_principal(database, new, by=owner(), owner=owner())
    behalf = f", for {new.on_behalf_of}" if new.on_behalf_of else ""
    _answer(ctx, id, problem, f"is registered: {', '.join(sorted(new.roles))}{behalf}.", as_json=as_json)
    if not problem and id in known and not as_json:
        click.echo("  It was known before: what was approved or granted under this id then is over.")
        if agents := acting_for(id, known):
            click.echo(
                f"  So is who acted for it: {one_line(', '.join(agents))}. Add them again if they still do."
            )


@principals_command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@click.pass_context
def list_command(ctx: click.Context, as_json: bool) -> None:
    """Print everybody who is registered, and who needs no entry."""
    listed = _everybody(settings_of(ctx).database)
    if as_json:
        import json

        rows = [principal_plain(each) for each in listed]
        click.echo(json.dumps(rows, ensure_ascii=False))
        return
    for each in listed:
        said = "revoked" if each.revoked else ", ".join(sorted(each.roles))
        behalf = f"  for {one_line(each.on_behalf_of, 80)}" if each.on_behalf_of else ""
        click.echo(f"{one_line(each.id, 80):28} {one_line(said)}{behalf}")


@principals_command.command("revoke")
@click.argument("id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def revoke_command(ctx: click.Context, id: str, as_json: bool) -> None:
    """Let ID do nothing any more, at once, nor any agent that acts for it. It is recorded."""
    with state_to_refuse() as database:
        problem = revoke_principal(database, id, by=owner(), owner=owner())
    _answer(ctx, id, problem, "is revoked.", as_json=as_json)


for _command in (password_command, oidc_command, ways_command):
    principals_command.add_command(_command)


def _everybody(path: str) -> list[Registered]:
    database = open_if_there(path)
    if database is None:
        return everybody(None, owner())
    with database:
        return everybody(database, owner())


def _answer(ctx: click.Context, id: str, problem: str, done: str, *, as_json: bool) -> None:
    if as_json:
        import json

        click.echo(json.dumps({"id": id, "problem": problem}))
    elif problem:
        click.echo(f"✗ {one_line(problem)}", err=True)
    else:
        click.echo(f"✓ {one_line(id, 80)} {one_line(done)}")
    if problem:
        ctx.exit(exits.PROBLEM)
