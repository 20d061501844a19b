"""`metier skills enable` and `disable`. What the configuration disables stays so."""

import click

from metier.catalog.here import owner, trusts_here
from metier.dialects.names import name_problem
from metier.doors.cli import exits
from metier.doors.cli.opening import catalog_of, complete_skill, named, state_to_refuse
from metier.errors import MetierError, RecordError
from metier.model.text import one_line
from metier.record.database import Database
from metier.record.disabling import disable, enable


@click.command("enable")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_skill)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@click.pass_context
def enable_command(ctx: click.Context, names: tuple[str, ...], as_json: bool) -> None:
    """Let each skill be used again that was disabled, by a person or after a violation."""
    settings, catalog = catalog_of(ctx)
    disabled = trusts_here(settings).disabled
    for name in names:  # all of them first: a misspelled one must not leave the work half done
        if name not in disabled:  # what is disabled need not be there any more under that name
            named(catalog, name)
    results: list[dict[str, str]] = []
    with Database.open(settings.database) as database:
        for name in names:
            lifted = enable(database, name, by=owner())
            problem = "" if lifted else "nobody disabled it here; `metier skills check` says how it is"
            results.append({"name": name, "problem": problem})
            if not as_json:
                said = (
                    f"✗ {one_line(name, 80)}: {problem}"
                    if problem
                    else f"✓ {one_line(name, 80)} is enabled again."
                )
                click.echo(said, err=bool(problem))
    if as_json:
        import json

        click.echo(json.dumps(results, ensure_ascii=False))
    if any(result["problem"] for result in results):
        ctx.exit(exits.PROBLEM)


@click.command("disable")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_skill)
@click.option("--why", default="", help="A word for whoever meets it. It is kept for good.")
@click.pass_context
def disable_command(ctx: click.Context, names: tuple[str, ...], why: str) -> None:
    """Let each skill be used no more: running calls of it are ended, waiting ones refused.

    What is disabled is the name, in every folder: also one that has no skill here.
    """
    unknown = _unknown(ctx, names)
    unrecorded = ""
    with state_to_refuse() as database:
        for name in names:
            try:
                disable(database, name, why=why or "an operator disabled it", by=owner())
            except RecordError as error:
                unrecorded = str(error)
            click.echo(f"✓ {one_line(name, 80)} is disabled; `metier skills enable` lifts it.")
            if name in unknown:
                click.echo(f"! In this folder it disables nothing. {unknown[name]}", err=True)
    if unrecorded:
        click.echo(f"metier: {unrecorded}", err=True)
        ctx.exit(exits.PROBLEM)


def _unknown(ctx: click.Context, names: tuple[str, ...]) -> dict[str, str]:
    """The names that nothing is called here, and what to say of each. Where nobody can tell, nothing is said."""
    unknown: dict[str, str] = {}
    try:
        _, catalog = catalog_of(ctx)
    except MetierError:
        return unknown
    for name in names:
        try:
            named(catalog, name)
        except click.UsageError as error:
            if name_problem(name):
                raise
            unknown[name] = error.message
    return unknown
