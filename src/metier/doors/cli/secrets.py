"""`metier secrets`: what is kept under a name, sealed. A value is typed or piped, and never shown again."""

import json
from typing import cast

import click

from metier.config.secret_references import NAME
from metier.config.settings import Settings
from metier.doors.cli import ended
from metier.doors.cli.opening import settings_of
from metier.doors.cli.typed_secret import typed_secret, wrapped
from metier.doors.cli.working import work
from metier.errors import MetierError
from metier.host.sealed import Sealed
from metier.model.digest import Json
from metier.model.outcome import Completed
from metier.model.text import one_line


def _complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from metier.config.load import load

    try:
        names = Sealed(load(config=ctx.find_root().params.get("config")).home).names()
    except MetierError:
        return []  # a line that is being typed is no place for an error
    return [name for name in names if name.startswith(incomplete)]


@click.group("secrets")
def secrets_command() -> None:
    """Keep secrets sealed, list their names, and forget them."""


@secrets_command.command("set")
@click.argument("name", shell_complete=_complete)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def set_command(ctx: click.Context, name: str, as_json: bool) -> None:
    """Keep a secret under NAME. It is asked for here, or read from standard input.

    Example: pass show github | metier secrets set GITHUB_TOKEN
    """
    if not NAME.fullmatch(name):
        message = "A secret's name has letters, digits, dots, hyphens and underscores, a letter first."
        raise click.UsageError(message)
    settings = settings_of(ctx)
    from metier.kernel.secrets import wrapped_for

    sealed = wrapped(settings, typed_secret(f"Value of {name}"), wrapped_for(name))
    answer = _operate(ctx, settings, "secrets.set", {"name": name, "sealed": sealed}, as_json=as_json)
    if answer is not None:
        done = "replaced: the new one counts from now on" if answer.get("replaced") is True else "kept"
        click.echo(f"✓ {name} is {done}.")
        if isinstance(note := answer.get("note"), str):
            click.echo(f"  {one_line(note, 200)}", err=True)


@secrets_command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def list_command(ctx: click.Context, as_json: bool) -> None:
    """Print the name of every secret, where it lies, and whether it can be used. Never a value."""
    from metier.host.secrets import Secrets

    settings = settings_of(ctx)
    answer = _operate(ctx, settings, "secrets.list", {}, as_json=as_json)
    if answer is None:
        return
    known = Secrets(settings.secrets, settings.home)
    for row in cast("list[dict[str, Json]]", answer.get("secrets") or []):
        name = str(row["name"])
        problem = known.problem(name)
        said = f"✗ {one_line(problem, 160)}" if problem else "✓"
        click.echo(f"{one_line(name, 60):28} {one_line(str(row['kind']), 20):10} {said}")


@secrets_command.command("rm")
@click.argument("name", shell_complete=_complete)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def rm_command(ctx: click.Context, name: str, as_json: bool) -> None:
    """Forget the secret NAME, at once and for good."""
    answer = _operate(ctx, settings_of(ctx), "secrets.remove", {"name": name}, as_json=as_json)
    if answer is not None:
        click.echo(f"✓ {one_line(name, 80)} is forgotten.")


@secrets_command.command("key")
@click.option(
    "--to", "place", type=click.Choice(["file", "keyring"]),
    help="Have it lie in the state folder, or in the keyring of the operating system.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def key_command(ctx: click.Context, place: str | None, as_json: bool) -> None:
    """Say where the key lies that opens the secrets, or move it. It is never shown."""
    arguments: dict[str, Json] = {} if place is None else {"place": place}
    answer = _operate(ctx, settings_of(ctx), "secrets.key", arguments, as_json=as_json)
    if answer is not None:
        said = {"file": "in the state folder: keys/secrets.age", "keyring": "in the keyring of the system"}
        click.echo(f"The key lies {said.get(str(answer.get('place')), 'nowhere yet: no secret was kept')}.")


def _operate(
    ctx: click.Context, settings: Settings, tool: str, arguments: dict[str, Json], *, as_json: bool
) -> dict[str, Json] | None:
    """What the operation answered, for people; None where there is nothing more to say. Ends the command where it failed."""
    from metier.runtime.as_owner import operate

    outcome = work(operate, settings, tool, arguments)
    if as_json:
        click.echo(json.dumps(outcome.value) if isinstance(outcome, Completed) else ended.ascii_json(outcome))
    elif not isinstance(outcome, Completed):
        ended.show(outcome)
    if not isinstance(outcome, Completed):
        ctx.exit(ended.STATUS[type(outcome)])
    return None if as_json or not isinstance(outcome.value, dict) else outcome.value
