"""`metier skills start`, `stop` and `living`: the skills that live, which a host runs (`metier host`).

`disable` takes away a skill's right to run at all; `stop` only ends its life, until it is started again.
"""

import click
import msgspec

from metier.doors.cli import ended, exits
from metier.doors.cli.opening import complete_skill, settings_of
from metier.doors.cli.reader import to_its_reader
from metier.doors.cli.working import work
from metier.model.digest import Json
from metier.model.outcome import Completed
from metier.model.text import one_line
from metier.runtime.as_owner import operate

_MARKS = {"loaded": "✓", "error": "✗", "disabled": "·"}


@click.command("start")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_skill)
@click.pass_context
def start_command(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Have each skill live: now, and whenever a host is started. It takes a running `metier host`.

    A name is that of the skill, or the id of its contract, such as @me/my-skill.
    """
    _each(ctx, "skills.enable", names)


@click.command("stop")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_skill)
@click.pass_context
def stop_command(ctx: click.Context, names: tuple[str, ...]) -> None:
    """End the life of each skill, and what it registered, until it is started again."""
    _each(ctx, "skills.disable", names)


@click.command("living")
@click.option("--json", "as_json", is_flag=True, help="Print the records as a JSON array.")
@click.pass_context
def living_command(ctx: click.Context, as_json: bool) -> None:
    """Show the skills that can live: whether each does, which modules it has, and what is wrong."""
    outcome = work(operate, settings_of(ctx), "skills.list", dict[str, Json]())
    if not isinstance(outcome, Completed):
        ended.show(outcome)
        ctx.exit(ended.STATUS[type(outcome)])
    records = _records(outcome.value)
    with to_its_reader():
        if as_json:
            click.echo(msgspec.json.encode(records).decode())
            return
        if not records:
            click.echo(
                "No skill here can live. docs/kernel.md says which can: packages named in [xbot] allow."
            )
        for each in records:
            click.echo(_line(each))


def _each(ctx: click.Context, operation: str, names: tuple[str, ...]) -> None:
    settings, status = settings_of(ctx), exits.OK
    for name in names:
        arguments: dict[str, Json] = {"skill_id": name}
        outcome = work(operate, settings, operation, arguments)
        if isinstance(outcome, Completed):
            records = _records([outcome.value])
            click.echo(_line(records[0]) if records else f"✓ {one_line(name, 80)}")
            if records and operation == "skills.enable" and records[0].get("status") != "loaded":
                status = exits.PROBLEM
        else:
            click.echo(f"✗ {one_line(name, 80)}", err=True)
            ended.show(outcome)
            status = ended.STATUS[type(outcome)]
    ctx.exit(status)


def _records(value: Json) -> list[dict[str, Json]]:
    listed = value.get("skills") if isinstance(value, dict) else value
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def _line(record: dict[str, Json]) -> str:
    status = str(record.get("status", ""))
    modules = record.get("modules_registered")
    brought = ", ".join(map(str, modules)) if isinstance(modules, list) and modules else ""
    said = {"loaded": "lives", "error": "does not live", "disabled": "is not started"}.get(status, status)
    line = f"{_MARKS.get(status, '?')} {one_line(str(record.get('id', '')), 80)} {said}"
    if brought:
        line += f"; modules: {one_line(brought, 200)}"
    if error := record.get("error"):
        line += f"\n    {one_line(str(error), 300)}"
    return line
