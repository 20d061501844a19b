"""`metier skills enable`: a person lifts what a violation disabled. What the configuration disables stays so."""

import click

from metier.catalog.here import owner
from metier.doors.cli import exits
from metier.doors.cli.opening import catalog_of, complete_skill, named
from metier.model.text import one_line
from metier.record.database import Database
from metier.record.disabling import enable


@click.command("enable")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_skill)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@click.pass_context
def enable_command(ctx: click.Context, names: tuple[str, ...], as_json: bool) -> None:
    """Let each skill be used again that was disabled after a violation."""
    settings, catalog = catalog_of(ctx)
    for name in names:  # all of them first: a misspelled one must not leave the work half done
        named(catalog, name)
    results: list[dict[str, str]] = []
    with Database.open(settings.database) as database:
        for name in names:
            lifted = enable(database, name, by=owner())
            problem = (
                "" if lifted else "it is not disabled after a violation; `metier skills check` says how it is"
            )
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
