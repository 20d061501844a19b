"""`metier tokens`: what programs show to be let in over HTTP and MCP. Whoever sits at the terminal is the owner."""

import time

import click

from metier.catalog.here import owner
from metier.doors.cli import exits
from metier.doors.cli.opening import settings_of, state_to_refuse
from metier.gate.principals import useless
from metier.model.text import one_line
from metier.record.database import Database, open_if_there
from metier.record.tokens import MOST_DAYS, RIGHTS, Made, Token, add_token, revoke_token, tokens_in


@click.group("tokens")
def tokens_command() -> None:
    """Make tokens for programs, list them, and revoke them."""


@tokens_command.command("add")
@click.argument("id", metavar="ID")
@click.option(
    "--scope", "scopes", multiple=True, required=True, type=click.Choice(sorted(RIGHTS)),
    help="What the token is good for at most. May be repeated.",
)  # fmt: skip
@click.option("--days", type=click.IntRange(1, MOST_DAYS), default=30, show_default=True, help="How long.")
@click.option("--name", default="", help="What you know it by; the id of whom it is for unless it is said.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def add_command(
    ctx: click.Context, id: str, scopes: tuple[str, ...], days: int, name: str, as_json: bool
) -> None:
    """Make a token for ID, which is registered, yourself, or one of Metier's own agents. It is shown this once, and recorded.

    Who has it acts as ID, with what ID may do and the scopes give. An agent's calls wait for approval as ever; a token of a
    person is as good as the person, and with skills:execute it runs at once what an agent would be asked about.
    """
    with Database.open(settings_of(ctx).database) as database:
        made = add_token(
            database,
            principal=id,
            name=name or id[:80],
            scopes=frozenset(scopes),
            expires_at=time.time() + days * 86_400,
            by=owner(),
            owner=owner(),
            unless=lambda registered: useless(id, frozenset(scopes), registered, owner()),
        )
    if not isinstance(made, Made):
        _refused(ctx, made, as_json=as_json)
        return
    if as_json:
        import json

        click.echo(json.dumps({**_plain(made.token), "text": made.text}))
        return
    token = made.token
    click.echo(
        f"✓ Token {token.id} for {one_line(token.principal, 80)}: {', '.join(sorted(token.scopes))}, until {_day(token)}."
    )
    click.echo("  Keep it where the program finds it; nobody can see it again:")
    click.echo(made.text)


@tokens_command.command("list")
@click.option("--all", "every", is_flag=True, help="Also those that are over.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@click.pass_context
def list_command(ctx: click.Context, every: bool, as_json: bool) -> None:
    """Print the tokens that let somebody in."""
    database = open_if_there(settings_of(ctx).database)  # looking makes no state
    found: list[Token] = []
    if database is not None:
        with database, database.reading() as connection:
            found = list(tokens_in(connection, all=True).values())
    found = [each for each in found if every or _state(each) == "usable"]
    found.sort(key=lambda each: each.added_at)
    if as_json:
        import json

        click.echo(json.dumps([_plain(each) for each in found], ensure_ascii=False))
        return
    if not found:
        click.echo("There are no tokens." if every else "There are no tokens that let anybody in.")
    for each in found:
        state = "" if _state(each) == "usable" else f"  {_state(each)}"
        named = f"  {one_line(each.name, 80)}" if each.name != each.principal else ""
        scopes = ", ".join(sorted(each.scopes))
        click.echo(f"{each.id}  {one_line(each.principal, 80)}  {scopes}  until {_day(each)}{named}{state}")


@tokens_command.command("revoke")
@click.argument("token", metavar="TOKEN")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def revoke_command(ctx: click.Context, token: str, as_json: bool) -> None:
    """Let nobody in by TOKEN any more, at once. It is named by its id, as `list` prints it. It is recorded."""
    if token.startswith("metier_"):
        # It stands in the shell's history now, which is one more reason; its id is all that is needed.
        token = token.split("_")[1]
    with state_to_refuse() as database:
        problem = revoke_token(database, token, by=owner())
    if problem:
        _refused(ctx, f"{problem}; `metier tokens list --all` shows those there are", as_json=as_json)
    elif as_json:
        import json

        click.echo(json.dumps({"id": token, "problem": ""}))
    else:
        click.echo(f"✓ Token {one_line(token, 80)} is revoked.")


def _refused(ctx: click.Context, problem: str, *, as_json: bool) -> None:
    if as_json:
        import json

        click.echo(json.dumps({"problem": problem}))
    else:
        click.echo(f"✗ {one_line(problem)}", err=True)
    ctx.exit(exits.PROBLEM)


def _plain(token: Token) -> dict[str, object]:
    return {
        "id": token.id,
        "principal": token.principal,
        "name": token.name,
        "scopes": sorted(token.scopes),
        "expires_at": token.expires_at,
        "added_at": token.added_at,
        "added_by": token.added_by,
        "state": _state(token),
    }


def _state(token: Token) -> str:
    return "revoked" if token.revoked else "expired" if token.is_over(time.time()) else "usable"


def _day(token: Token) -> str:
    try:
        return time.strftime("%Y-%m-%d", time.localtime(token.expires_at))
    except (OverflowError, ValueError, OSError):
        return "no day of this calendar"
