"""`metier operate`: an operation of a module, done as yourself."""

import sys

import click

from metier.doors.cli import ended
from metier.doors.cli.opening import settings_of
from metier.doors.cli.reader import to_its_reader
from metier.doors.cli.working import work
from metier.model import strictjson
from metier.model.digest import Json
from metier.model.text import one_line
from metier.runtime.as_owner import operate


@click.command("operate")
@click.argument("operation", metavar="MODULE.OP")
@click.argument("arguments", default="{}", metavar="[JSON]")
@click.option("--json", "as_json", is_flag=True, help="Print the whole outcome as one JSON object.")
@click.pass_context
def operate_command(ctx: click.Context, operation: str, arguments: str, as_json: bool) -> None:
    """Have an operation of a module done, as yourself: of ours, or of a skill that lives.

    JSON is an object (`-` reads it from standard input). `metier call` asks for the same as an agent would.

    Example: metier operate telegram.status
    """
    if "." not in operation or "/" in operation:
        raise click.UsageError(
            f"{one_line(operation, 60)!r} is no operation, which is written MODULE.OP; `metier call` calls tools",
            ctx,
        )
    written = sys.stdin.buffer.read(strictjson.MAX_BYTES + 1) if arguments == "-" else arguments
    try:
        given = strictjson.loads(written)
    except ValueError as error:
        raise click.UsageError(f"the arguments are not strict JSON: {error}", ctx) from error
    if not isinstance(given, dict):
        raise click.UsageError("the arguments are a JSON object, such as {}", ctx)
    asked: dict[str, Json] = given
    outcome = work(operate, settings_of(ctx), operation, asked)
    with to_its_reader():
        if as_json:
            click.echo(ended.ascii_json(outcome))
        else:
            ended.show(outcome)
    ctx.exit(ended.STATUS[type(outcome)])
