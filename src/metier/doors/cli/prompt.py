"""`metier prompt`."""

from typing import TYPE_CHECKING, Final

import click

from metier.doors.cli.opening import catalog_of
from metier.model.text import one_line, visible

if TYPE_CHECKING:
    from metier.catalog.catalog import Catalog
    from metier.config.settings import Settings
    from metier.hooks import Bootstrap

_NAMED: Final = 5
_WHY: Final = {
    "message": "because they do not fit the message",
    "limit": "because of the limit on their number",
    "room": "for lack of room",
    "taken": "because another skill is shown under the name",
    "unusable": "because their instructions may not be used (`metier skills check` says why)",
}


@click.command("prompt")
@click.option("--message", metavar="TEXT", help="Choose the skills that fit this message.")
@click.option("--full", is_flag=True, help="Put the instructions themselves into the prompt.")
@click.option("--system", metavar="TEXT", default="", help="System prompt to put before it.")
@click.option("--max", "most", type=click.IntRange(min=0), help="At most so many skills; 0 means no limit.")
@click.option("--budget", type=click.IntRange(min=0), help="At most so many characters; 0 means no limit.")
@click.option("--include-unavailable", is_flag=True, help="Also skills whose requirements are not met.")
@click.option("--bootstrap", is_flag=True, help="Put in what hooks of skills add when an agent starts.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def prompt_command(
    ctx: click.Context,
    message: str | None,
    full: bool,
    system: str,
    most: int | None,
    budget: int | None,
    include_unavailable: bool,
    bootstrap: bool,
    as_json: bool,
) -> None:
    """Print the text that tells a model which skills there are."""
    if full and budget is not None:
        raise click.UsageError(
            "--budget is for the list of skills; with --full instructions are never cut. Say --max instead."
        )
    settings, catalog = catalog_of(ctx)
    if bootstrap:
        system = _started(settings, catalog, system)
    from metier.disclosure.prompt import Wanted, prompt

    wanted = Wanted(
        message=message,
        full=full,
        system=system,
        most=most,
        budget=budget,
        include_unavailable=include_unavailable,
    )
    if full:
        from metier.runtime import bodies_here

        with bodies_here(settings) as body:
            made = prompt(catalog, settings, wanted, body=body)
    else:
        made = prompt(catalog, settings, wanted, body=None)
    if as_json:
        import json

        shown = {"text": made.text, "skills": made.names, "dropped": made.dropped, "left_out": made.left_out}
        click.echo(json.dumps(shown, ensure_ascii=False))
        return
    click.echo(visible(made.text))
    for reason, names in made.left_out.items():
        click.echo(f"Left out {_WHY[reason]}: {_some(names)}", err=True)


def _started(settings: "Settings", catalog: "Catalog", system: str) -> str:
    """`system`, and what hooks add to it when an agent starts. That runs them, on the record."""
    import anyio

    from metier.runtime import at_terminal

    async def fire() -> "Bootstrap":
        async with at_terminal(settings) as runtime:
            return await runtime.bootstrap()

    made = anyio.run(fire)
    for problem in made.problems:
        click.echo(f"metier: {one_line(problem, 400)}", err=True)
    return "\n\n".join(filter(None, (system, made.text(catalog.by_name))))


def _some(names: tuple[str, ...]) -> str:
    first = ", ".join(one_line(name, 80) for name in names[:_NAMED])
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{len(names)} ({first}{more})"
