"""`metier skills lint`."""

import click
import msgspec

from metier.catalog.discover import Noted
from metier.catalog.here import environment_here
from metier.catalog.lint import Linted, lint
from metier.doors.cli import exits, words
from metier.doors.cli.opening import settings_of
from metier.model.text import one_line


@click.command("lint")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array, one object for every manifest.")
@click.pass_context
def lint_command(ctx: click.Context, paths: tuple[str, ...], as_json: bool) -> None:
    """Check every manifest below each PATH, in whatever dialect, trusted or not. Nothing is run.

    Exit status 1 when one is broken.
    """
    results: list[Linted] = []
    notes: list[Noted] = []
    for each in lint(paths, environment_here(settings_of(ctx))):
        if isinstance(each, Noted):
            notes.append(each)
        else:
            results.append(each)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(results), indent=1).decode("utf-8"))
    else:
        for each in results:
            _show(each)
        states = [each.status for each in results]
        words_ = ", ".join(f"{states.count(state)} {state}" for state in ("usable", "unavailable", "broken"))
        click.echo(f"{len(results)} skills: {words_}." if results else "No skill found.", err=True)
    for note in notes:
        click.echo(f"! {one_line(note.folder, 300)}\n    {words.finding(note.problem)}", err=True)
    unsearched = any(note.problem.severity == "error" for note in notes)
    if unsearched or any(each.status == "broken" for each in results):
        ctx.exit(exits.PROBLEM)


def _show(each: Linted) -> None:
    mark = {"usable": "✓", "unavailable": "·", "broken": "✗"}[each.status]
    click.echo(f"{mark} {one_line(each.path)}: {each.status}")
    for missing in each.missing:
        click.echo(f"    {one_line(missing['message'])}")
    for found in each.diagnostics:
        if found.severity != "info":
            click.echo(f"    {words.finding(found)}")
