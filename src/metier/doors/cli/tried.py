"""`metier skills test`."""

import os

import click
import msgspec

from metier.catalog.listed import Listed
from metier.config.settings import Settings
from metier.doors.cli import cases, exits
from metier.doors.cli.opening import catalog_of, complete_skill, named
from metier.doors.cli.working import work
from metier.errors import ConfigError
from metier.model import strictjson
from metier.model.diagnostic import Diagnostic
from metier.model.digest import Json
from metier.model.skill import Skill, Tool
from metier.model.text import one_line
from metier.openfile import read_small


@click.command("test")
@click.argument("name", shell_complete=complete_skill)
@click.option("-y", "--yes", is_flag=True, help="Do not ask before cases that act.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array, one object for every case.")
@click.pass_context
def test_command(ctx: click.Context, name: str, yes: bool, as_json: bool) -> None:
    """Run the cases in tests.json beside the skill NAME: each a call of yours, through the whole gate and in the sandbox.

    A case calls only tools of this skill. What acts is named first, and runs when you say so; where the skill shares its
    folder with others, every call is. Exit status 1 when one is not as it should be.
    """
    settings, catalog = catalog_of(ctx, thorough=True)
    each = named(catalog, name)
    if each.skill is None or each.shown != "usable":
        click.echo(f"✗ {one_line(each.name, 80)} cannot be tried: {one_line(each.why)}", err=True)
        ctx.exit(exits.PROBLEM)
    wanted = _cases(each)
    calls = [cases.meant(case, each.skill) if case.tool else None for case in wanted]
    acting = sorted({call[0].name for call in calls if call is not None and call[0].effect == "act"})
    if os.path.isdir(each.folder):
        shown = [f"These act, as you: {one_line(', '.join(acting), 400)}"] if acting else []
    else:
        shown = _unvouched(calls)
    if shown and not yes and not _agreed(shown, as_json=as_json):
        raise click.UsageError("It was not agreed to, so nothing ran. --yes agrees.")
    results = work(_run, settings, each.skill, wanted)
    if as_json:
        import json

        click.echo(json.dumps(results))
    else:
        for result in results:
            click.echo(f"{'✗' if result['problem'] else '✓'} {one_line(result['about'], 200)}")
            if result["problem"]:
                click.echo(f"    {result['problem']}")
        failed = sum(1 for result in results if result["problem"])
        click.echo(f"{len(results)} cases: {len(results) - failed} hold, {failed} do not.", err=True)
    if any(result["problem"] for result in results):
        ctx.exit(exits.PROBLEM)


def _cases(each: Listed) -> tuple[cases.Case, ...]:
    """The cases that lie beside the manifest.

    Raises:
        ConfigError: when there are none that can be used.
    """
    folder = each.folder if os.path.isdir(each.folder) else os.path.dirname(each.folder)
    found = read_small(os.path.join(folder, cases.FILE), most=strictjson.MAX_BYTES)
    if isinstance(found, Diagnostic):
        raise ConfigError(
            f"{one_line(each.name, 80)} has no cases to try: {found.message}",
            remedy=f"Write {cases.FILE} beside its manifest; docs/cli.md says how",
        )
    return cases.read_cases(found[0])


def _unvouched(calls: list[tuple[Tool, dict[str, Json]] | None]) -> list[str]:
    """Every call, with its words: the file is no part of the bytes that were trusted, for it belongs to nobody alone."""
    made = [f"    {tool.name} {msgspec.json.encode(given).decode()}" for tool, given in filter(None, calls)]
    told = f"{cases.FILE} is not among the files of this skill, so nobody trusted it. It calls, as you:"
    return [told, *(one_line(each, 300) for each in made)] if made else []


def _agreed(shown: list[str], *, as_json: bool) -> bool:
    """Whether the owner lets them run. What acts can change things outside, and a file of somebody else says with which words."""
    for line in shown:
        click.echo(line, err=True)
    return not as_json and click.confirm("Run them?", default=False, err=True)


async def _run(settings: Settings, skill: Skill, wanted: tuple[cases.Case, ...]) -> list[dict[str, str]]:
    from metier.runtime import at_terminal  # slow to import
    from metier.runtime.as_owner import call_as_owner

    results: list[dict[str, str]] = []
    async with at_terminal(settings) as runtime:
        for case in wanted:
            if case.tool:
                tool, arguments = cases.meant(case, skill)
                given: dict[str, Json] = arguments
                problem = cases.not_as_expected(case, await call_as_owner(runtime, tool.name, given))
            else:
                problem = cases.not_said(case, skill)
            results.append({"about": case.about, "problem": problem})
    return results
