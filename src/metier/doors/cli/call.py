"""`metier call` and `metier tools`."""

import sys
from typing import get_args

import anyio
import click
import msgspec
from msgspec.structs import replace

from metier.catalog.catalog import Catalog
from metier.config.settings import Settings
from metier.disclosure.read_skill import TOOL as READ_SKILL
from metier.disclosure.schemas import Shape
from metier.doors.cli import ended
from metier.doors.cli.opening import settings_of
from metier.doors.cli.reader import to_its_reader
from metier.doors.cli.working import work
from metier.model import strictjson
from metier.model.digest import Json
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.model.text import one_line
from metier.runtime import at_terminal
from metier.runtime.written import call_written


def _tools(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return [READ_SKILL.name] if READ_SKILL.name.startswith(incomplete) else []


@click.command("call")
@click.argument("tool", shell_complete=_tools)
@click.argument("arguments", default="{}", metavar="[JSON]")
@click.option("--json", "as_json", is_flag=True, help="Print the whole outcome as one JSON object.")
@click.option(
    "--wait",
    type=click.FloatRange(0, 86_400),
    default=0.0,
    metavar="SECONDS",
    help="Wait so long for an approval given elsewhere.",
)
@click.option("--unattended", is_flag=True, help="Nobody is there to be asked.")
@click.pass_context
def call_command(
    ctx: click.Context, tool: str, arguments: str, as_json: bool, wait: float, unattended: bool
) -> None:
    """Call TOOL with the JSON object JSON (`-` reads it from standard input), as an agent would.

    What needs an approval is asked here, if this is a terminal; else it waits: see `metier approvals`.

    Example: metier call read_skill '{"name": "writing-skills"}'
    """
    written = sys.stdin.buffer.read(strictjson.MAX_BYTES + 1) if arguments == "-" else arguments
    here = not unattended and not as_json and sys.stdin.isatty() and sys.stderr.isatty()
    outcome = work(_call, settings_of(ctx), tool, written, wait, unattended, here)
    with to_its_reader():
        if as_json:
            click.echo(ended.ascii_json(outcome))
        else:
            ended.show(outcome)
            if isinstance(outcome, Completed | Failed) and outcome.run is not None:
                click.echo("\n".join(ended.summary(outcome, outcome.run)), err=True)
    ctx.exit(ended.STATUS[type(outcome)])


async def _call(
    settings: Settings, tool: str, written: str | bytes, wait: float, unattended: bool, here: bool
) -> Outcome:
    async with at_terminal(settings) as runtime:
        outcome = await call_written(runtime, tool, written, unattended=unattended)
        if isinstance(outcome, Refused) and outcome.code == "unknown_tool":
            return _of_a_skill_that_is_there(outcome, tool, runtime.catalog)
        if not isinstance(outcome, Pending):
            return outcome
        if here:
            from metier.doors.cli.approver import ask_here

            answer = await ask_here(settings, outcome.approval_id)
            if answer != "later":
                return await runtime.wait_for(outcome, 0.0)
        return await runtime.wait_for(outcome, wait) if wait else outcome


def _of_a_skill_that_is_there(outcome: Refused, tool: str, catalog: Catalog) -> Refused:
    """Who sits here may know of skills that cannot be used, and is told why a tool of one is none. A model is not."""
    name = tool.partition("/")[0]
    found = catalog.get(name)
    if found is None or found.shown == "usable":
        return outcome
    state = found.shown.replace("_", " ")
    why = f"the skill {one_line(name, 80)!r} is there and {state}: {one_line(found.why, 300)}"
    return replace(
        outcome, reasons=(why,), remedy=f"`metier skills info {one_line(name, 80)}` says what to do"
    )


@click.command("tools")
@click.option("--as", "shape", type=click.Choice(list(get_args(Shape))), default="openai", show_default=True)
@click.option("--json", "_as_json", is_flag=True, help="It is JSON anyway.")
@click.pass_context
def tools_command(ctx: click.Context, shape: Shape, _as_json: bool) -> None:
    """Print the tools a model can call, as JSON in a provider's shape."""

    async def tools() -> list[dict[str, Json]]:
        async with at_terminal(settings_of(ctx)) as runtime:
            return runtime.tools(shape)

    click.echo(msgspec.json.format(msgspec.json.encode(anyio.run(tools)), indent=1).decode("utf-8"))
