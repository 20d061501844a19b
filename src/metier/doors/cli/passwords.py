"""How people sign in to `metier serve`: `metier principals password`, `oidc` and `ways`. The owner also has `metier sign-in`."""

from importlib.util import find_spec

import click

from metier.catalog.here import owner
from metier.doors.cli import exits
from metier.doors.cli.opening import settings_of, state_to_refuse
from metier.errors import ConfigError
from metier.model.text import one_line
from metier.record.credentials import Credential, credentials_in, oidc_name, revoke_credential, set_credential
from metier.record.database import Database, open_if_there


@click.command("password")
@click.argument("id", metavar="ID")
@click.option("--remove", is_flag=True, help="Take the password away instead.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def password_command(ctx: click.Context, id: str, remove: bool, as_json: bool) -> None:
    """Give ID, which is human:NAME, a password for `metier serve`: typed, or from standard input, never an argument.

    Whoever is signed in with the old one is signed out. It is recorded that there is a new one.
    """
    if remove:
        with state_to_refuse() as database:
            problem = revoke_credential(database, "password", name=id, by=owner())
        _answer(ctx, id, problem, f"{one_line(id, 80)} has no password any more.", as_json=as_json)
        return
    if find_spec("argon2") is None:
        raise ConfigError(
            "passwords take the extra `serve`", remedy="Install it: pip install 'metier[serve]'"
        )
    from metier.doors.cli.typed_secret import typed_secret
    from metier.doors.http.passwords import hashed, problem_of

    settings = settings_of(ctx)
    value = typed_secret(f"New password of {one_line(id, 80)}")
    problem = problem_of(value, id)
    if not problem:
        with Database.open(settings.database) as database:
            problem = set_credential(
                database, "password", name=id, principal=id, body=hashed(value), by=owner(), owner=owner()
            )
    _answer(ctx, id, problem, f"{one_line(id, 80)} can sign in with this password.", as_json=as_json)


@click.command("oidc")
@click.argument("id", metavar="ID")
@click.option("--subject", required=True, help="Who that is there: `sub`, never a name or an address.")
@click.option("--issuer", default="", help="The provider; the one of [serve.oidc] unless it is said.")
@click.option("--remove", is_flag=True, help="Take the account away instead.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def oidc_command(ctx: click.Context, id: str, subject: str, issuer: str, remove: bool, as_json: bool) -> None:
    """Say that an account at the identity provider is ID, which is human:NAME. It is recorded."""
    settings = settings_of(ctx)
    issuer = issuer or settings.serve.oidc.issuer
    if not issuer:
        raise click.UsageError("No provider is configured ([serve.oidc] issuer); say which with --issuer.")
    if not subject.isascii() or not subject.isprintable() or not 0 < len(subject) <= 255 or " " in issuer:
        raise click.UsageError("A subject is plain text of at most 255 characters, and an issuer an address.")
    name = oidc_name(issuer, subject)
    if remove:
        with state_to_refuse() as database:
            problem = revoke_credential(database, "oidc", name=name, by=owner())
        _answer(
            ctx,
            id,
            problem,
            f"{one_line(subject, 80)} at {one_line(issuer, 200)} is nobody here any more.",
            as_json=as_json,
        )
        return
    with Database.open(settings.database) as database:
        problem = set_credential(
            database, "oidc", name=name, principal=id, body=b"", by=owner(), owner=owner()
        )
    _answer(
        ctx,
        id,
        problem,
        f"{one_line(subject, 80)} at {one_line(issuer, 200)} is {one_line(id, 80)}.",
        as_json=as_json,
    )


@click.command("ways")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@click.pass_context
def ways_command(ctx: click.Context, as_json: bool) -> None:
    """Print who can sign in, and by what."""
    found: list[Credential] = []
    database = open_if_there(settings_of(ctx).database)  # looking makes no state
    if database is not None:
        with database, database.reading() as connection:
            found = credentials_in(connection)
    ways = [(owner(), "link", "")] + [
        (each.principal, each.kind, "" if each.kind == "password" else each.name) for each in found
    ]
    if as_json:
        import json

        click.echo(json.dumps([{"id": id, "by": by, "account": name} for id, by, name in ways]))
        return
    for id, by, name in ways:
        issuer, _, subject = name.partition(" ")
        said = {"link": "a link from `metier sign-in`", "password": "a password"}
        account = f"{one_line(subject, 80)} at {one_line(issuer, 200)}"
        click.echo(f"{one_line(id, 80)}  by {said.get(by, account)}")


def _answer(ctx: click.Context, id: str, problem: str, done: str, *, as_json: bool) -> None:
    if as_json:
        import json

        click.echo(json.dumps({"id": id, "problem": problem}))
    elif problem:
        click.echo(f"✗ {one_line(problem)}", err=True)
    else:
        click.echo(f"✓ {done}")
    if problem:
        ctx.exit(exits.PROBLEM)
