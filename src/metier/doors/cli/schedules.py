"""`metier schedules`: what is done at its time. Every change is a call of the owner's."""

import re
from typing import Final

import click
import msgspec

from metier.doors.cli.by_itself import (
    JSON,
    adopt,
    asked,
    definition,
    given_arguments,
    local,
    rows,
    show_all,
    show_done,
    show_one,
    text_of,
)
from metier.model.digest import Json
from metier.model.text import one_line, visible

_EVERY: Final = re.compile(r"([1-9][0-9]{0,8})([smhd])", re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


@click.group("schedules")
def schedules_command() -> None:
    """Set up what is done at its time. `metier host` must run; what was due while it did not is listed as missed."""


@schedules_command.command("list")
@JSON
@click.pass_context
def list_command(ctx: click.Context, as_json: bool) -> None:
    """Print every schedule: when it is due, what it last did, and what it missed."""
    show_all(ctx, "schedules", _line, as_json=as_json)


@schedules_command.command("add")
@click.argument("file", required=False)
@click.option("--name", help="What to call it.")
@click.option("--cron", metavar="EXPRESSION", help="Five fields: '0 9 * * 1-5'.")
@click.option("--zone", metavar="ZONE", default="UTC", help="Time zone of --cron, for example Europe/Berlin.")
@click.option("--every", metavar="TIME", help="For example 30s, 15m, 6h or 1d.")
@click.option("--at", metavar="MOMENT", help="Once, for example 2030-01-31T08:00:00+01:00.")
@click.option("--tool", metavar="TOOL", help="What it calls.")
@click.option("--arguments", default="{}", metavar="JSON", help="For the tool.")
@JSON
@click.pass_context
def add_command(
    ctx: click.Context,
    file: str | None,
    name: str | None,
    cron: str | None,
    zone: str,
    every: str | None,
    at: str | None,
    tool: str | None,
    arguments: str,
    as_json: bool,
) -> None:
    """Set up a schedule: from FILE (JSON; - is standard input), or by options. It acts on your behalf.

    Example: metier schedules add --name brief --cron '0 7 * * 1-5' --zone Europe/Berlin --tool news/brief
    """
    schedule: dict[str, Json]
    if file is not None:
        schedule = definition(file)
    else:
        if sum(each is not None for each in (cron, every, at)) != 1:
            raise click.UsageError("Say when: a FILE, or one of --cron, --every, --at")
        if not name or not tool:
            raise click.UsageError("Say what to call it and what it calls: --name, --tool")
        schedule = {"name": name, "tool": tool, "arguments": given_arguments(arguments)}
        if cron is not None:
            schedule |= {"type": "cron", "expression": cron, "timezone": zone}
        elif every is not None:
            schedule |= {"type": "interval", "intervalMs": _milliseconds(every)}
        else:
            schedule |= {"type": "once", "timestamp": at}
    answer = asked(ctx, "schedules.create", {"schedule": schedule}, as_json=as_json)
    if answer is not None:
        when = f"first due {local(answer.get('next_due'))}" if answer.get("enabled") else "disabled"
        click.echo(f"✓ {text_of(answer, 'name')} is set up ({text_of(answer, 'id')}), {when}.")


@schedules_command.command("show")
@click.argument("id")
@JSON
@click.pass_context
def show_command(ctx: click.Context, id: str, as_json: bool) -> None:
    """Print the schedule ID (or its name) and its last firings."""
    answer = asked(ctx, "schedules.get", {"id": id}, as_json=as_json)
    if answer is None:
        return
    show_one(answer, _line)
    for row in rows(answer, "firings"):
        again = f" (attempt {text_of(row, 'attempt')})" if row.get("attempt") not in (0, 1) else ""
        click.echo(
            f"  {local(row.get('due'))}{again}  {text_of(row, 'outcome', 200)}  {text_of(row, 'call_id')}"
        )


@schedules_command.command("enable")
@click.argument("id")
@JSON
@click.pass_context
def enable_command(ctx: click.Context, id: str, as_json: bool) -> None:
    """Let the schedule ID be due again, from now on."""
    answer = asked(ctx, "schedules.enable", {"id": id}, as_json=as_json)
    if answer is not None:
        show_done(answer, f"is due again, first {local(answer.get('next_due'))}.")


@schedules_command.command("disable")
@click.argument("id")
@JSON
@click.pass_context
def disable_command(ctx: click.Context, id: str, as_json: bool) -> None:
    """Keep the schedule ID from being due."""
    show_done(asked(ctx, "schedules.disable", {"id": id}, as_json=as_json), "is not due any more.")


@schedules_command.command("rm")
@click.argument("id")
@JSON
@click.pass_context
def remove_command(ctx: click.Context, id: str, as_json: bool) -> None:
    """Remove the schedule ID."""
    show_done(asked(ctx, "schedules.remove", {"id": id}, as_json=as_json), "is removed.")


@schedules_command.command("run")
@click.argument("id")
@JSON
@click.pass_context
def run_command(ctx: click.Context, id: str, as_json: bool) -> None:
    """Do what the schedule ID does, now and whatever its conditions say."""
    answer = asked(ctx, "schedules.run_now", {"id": id}, as_json=as_json)
    if answer is None:
        return
    done = text_of(answer, "outcome", 300)
    good = done == "completed"
    click.echo(f"{'✓' if good else '✗'} {text_of(answer, 'name')}: {done}", err=not good)
    if answer.get("value") is not None:
        click.echo(visible(msgspec.json.format(msgspec.json.encode(answer["value"]), indent=1).decode()))
    if not good:
        ctx.exit(1)


@schedules_command.command("missed")
@JSON
@click.pass_context
def missed_command(ctx: click.Context, as_json: bool) -> None:
    """Print what was due and not done: no host ran, or the machine slept. None of it is made up for."""
    answer = asked(ctx, "schedules.missed", {}, as_json=as_json)
    if answer is None:
        return
    found = rows(answer, "missed")
    for row in found:
        why = f" ({text_of(row, 'why', 120)})" if row.get("why") else ""
        click.echo(
            f"{text_of(row, 'id'):22} {text_of(row, 'name', 60):24} missed {text_of(row, 'missed')}{why}"
        )
        latest = row.get("latest")
        for each in latest if isinstance(latest, list) else []:
            click.echo(f"    {local(each)}")
    if not found:
        click.echo("Nothing was missed.")


@schedules_command.command("adopt")
@click.argument("skill")
@click.option("--yes", is_flag=True, help="Do not ask.")
@JSON
@click.pass_context
def adopt_command(ctx: click.Context, skill: str, yes: bool, as_json: bool) -> None:
    """Accept the schedules that the file of SKILL declares. Until then they do nothing; then they act on your behalf.

    What they do is shown first.
    """
    adopt(ctx, "schedules", skill, None, yes=yes, as_json=as_json)


def _milliseconds(every: str) -> int:
    found = _EVERY.fullmatch(every.strip())
    if found is None:
        raise click.UsageError(f"--every {one_line(every, 40)!r} is no time; write 30s, 15m, 6h or 1d")
    return int(found[1]) * _SECONDS[found[2]] * 1_000


def _line(row: dict[str, Json]) -> str:
    about = row.get("definition")
    when, does = "", ""
    if isinstance(about, dict):
        match about.get("type"):
            case "cron":
                when = f"cron {about.get('expression')} ({about.get('timezone', 'UTC')})"
            case "interval":
                interval = about.get("intervalMs")
                when = f"every {interval / 1_000:g} s" if isinstance(interval, int | float) else ""
            case _:
                when = "once"
        does = str(about.get("tool") or about.get("actionId"))
    due = f"due {local(row.get('next_due'))}" if row.get("next_due") else "not due"
    missed = f", missed {text_of(row, 'missed')}" if row.get("missed") else ""
    head = f"{text_of(row, 'id'):22} {text_of(row, 'status'):9} {text_of(row, 'name', 60):24}"
    return f"{head} {one_line(when, 60)}: calls {one_line(does, 80)}; {due}{missed}"
