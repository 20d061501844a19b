"""`metier sign-in`: another link for the owner, where the one that `metier serve` printed is used up or over."""

import re

import click

from metier.catalog.here import owner
from metier.doors.cli.opening import settings_of
from metier.record.database import Database


@click.command("sign-in")
@click.option(
    "--at",
    "origin",
    metavar="ORIGIN",
    help="Where the server is reached, if not where the one that runs says.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def sign_in_command(ctx: click.Context, origin: str | None, as_json: bool) -> None:
    """Print a link that signs you in to `metier serve`, once and within five minutes."""
    settings = settings_of(ctx)
    serve = settings.serve
    from metier.doors.http.whereabouts import whereabouts

    nobody = ""
    if origin is None and not (origin := whereabouts(settings.home)):
        nobody = "No server of this state runs here; this is where [serve] of metier.toml has it. `metier serve` starts one."
        if not serve.origins and not serve.port:
            raise click.UsageError(
                "No server of this state runs here, and [serve] has it take any free port; start it with `metier serve`."
            )
        host = f"[{serve.address}]" if ":" in serve.address else serve.address
        origin = next(iter(serve.origins), f"http://{host}:{serve.port}")
    if not re.fullmatch(r"https?://[^\s/?#@\\]+", origin):
        raise click.UsageError("ORIGIN is an address such as http://127.0.0.1:8765, without a path.")
    from metier.doors.http.links import SECONDS, make_link
    from metier.record.doors_db import DoorsDb

    with Database.open(settings.database):  # there is nothing to sign in to without a state
        doors = DoorsDb(settings.home)
    try:
        link = make_link(doors, owner(), origin)
    finally:
        doors.close()
    if as_json:
        import json

        click.echo(json.dumps({"link": link, "seconds": SECONDS, "running": not nobody}))
    else:
        click.echo(link)
        if nobody:
            click.echo(nobody, err=True)
