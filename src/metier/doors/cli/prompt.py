"""`metier prompt`."""

import click

from metier.doors.cli.opening import catalog_of


@click.command("prompt")
@click.option("--message", metavar="TEXT", help="Choose the skills that fit this message.")
@click.option("--full", is_flag=True, help="Put the instructions themselves into the prompt.")
@click.option("--system", metavar="TEXT", default="", help="System prompt to put before it, with --full.")
@click.option("--max", "most", type=click.IntRange(min=0), help="At most so many skills; 0 means no limit.")
@click.option("--budget", type=click.IntRange(min=0), help="At most so many characters; 0 means no limit.")
@click.option("--include-unavailable", is_flag=True, help="Also skills whose requirements are not met.")
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
    as_json: bool,
) -> None:
    """Print the text that tells a model which skills there are."""
    settings, catalog = catalog_of(ctx)
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

        click.echo(
            json.dumps({"text": made.text, "skills": made.names, "dropped": made.dropped}, ensure_ascii=False)
        )
        return
    click.echo(made.text)
    if made.dropped:
        click.echo(f"Left out for lack of room: {', '.join(made.dropped)}", err=True)
