"""`metier triggers`: what happens by itself when a message, an event or a tool call comes. Every change is a call of the owner's."""

from typing import Final

import click
import msgspec
from click.core import ParameterSource

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
from metier.model.text import one_line

_LONGEST_REST: Final = 31_536_000


@click.group("triggers")
def triggers_command() -> None:
    """Set up what happens by itself when a message, an event or a tool call comes. `metier host` must run."""


@triggers_command.command("list")
@JSON
@click.pass_context
def list_command(ctx: click.Context, as_json: bool) -> None:
    """Print every trigger: what sets it off, what it does, and why it does not fire."""
    show_all(ctx, "triggers", _line, as_json=as_json)


@triggers_command.command("add")
@click.argument("file", required=False)
@click.option("--name", help="What to call it.")
@click.option(
    "--message", "patterns", multiple=True, metavar="PATTERN", help="Fires on messages. May be repeated."
)
@click.option("--match", type=click.Choice(["exact", "contains", "regex", "startsWith"]), default="contains")
@click.option("--event", "events", multiple=True, metavar="NAME", help="Fires on events. May be repeated.")
@click.option(
    "--source", "sources", multiple=True, metavar="SKILL", help="Whose events; Metier's own unless said."
)
@click.option("--on-tool", "tools", multiple=True, metavar="TOOL", help="Fires on calls. May be repeated.")
@click.option("--timing", type=click.Choice(["before", "after", "instead"]), default="after")
@click.option("--tool", metavar="TOOL", help="What it calls.")
@click.option(
    "--arguments",
    default="{}",
    metavar="JSON",
    help="For the tool; {{message.text}} and the like are filled.",
)
@click.option("--reply", metavar="TEXT", help="What to send back; {{result}} is what the tool gave.")
@click.option(
    "--cooldown", type=float, default=0.0, metavar="SECONDS", help="How long it rests after each firing."
)
@JSON
@click.pass_context
def add_command(
    ctx: click.Context,
    file: str | None,
    name: str | None,
    patterns: tuple[str, ...],
    match: str,
    events: tuple[str, ...],
    sources: tuple[str, ...],
    tools: tuple[str, ...],
    timing: str,
    tool: str | None,
    arguments: str,
    reply: str | None,
    cooldown: float,
    as_json: bool,
) -> None:
    """Set up a trigger: from FILE (JSON; - is standard input), or by options. It acts on your behalf.

    Example: metier triggers add --name weather --message weather --tool forecast/today --reply '{{result}}'
    """
    trigger: dict[str, Json]
    if file is not None:
        if beside := _said_beside(ctx):
            raise click.UsageError(
                f"A FILE says everything there is to say, so {beside} cannot be added to it."
            )
        trigger = definition(file)
    else:
        if sum(map(bool, (patterns, events, tools))) != 1:
            raise click.UsageError("Say what sets it off: a FILE, or one of --message, --event, --on-tool")
        if not name:
            raise click.UsageError("Say what to call it: --name")
        if sources and not events:
            raise click.UsageError("--source says whose events, so it goes with --event.")
        if reply is not None and not patterns:
            raise click.UsageError(
                "Only a message has a chat to reply to, so --reply goes with --message; a FILE can say where else a text is sent (sendTo)."
            )
        if not 0 <= cooldown <= _LONGEST_REST:  # nor what is no number
            raise click.UsageError(f"--cooldown is a number of seconds, at most {_LONGEST_REST:,}.")
        trigger = {"name": name, "timing": timing, "arguments": given_arguments(arguments)}
        trigger["cooldownMs"] = round(cooldown * 1_000)
        if tool:
            trigger["tool"] = tool
        if reply is not None:
            trigger["contextTemplate"] = reply
        if patterns:
            trigger |= {"type": "message", "patterns": [*patterns], "matchMode": match}
        elif events:
            trigger |= {"type": "event", "events": [*events]}
            if sources:
                trigger["sources"] = [*sources]
        else:
            trigger |= {"type": "tool_use", "toolNames": [*tools]}
    answer = asked(ctx, "triggers.create", {"trigger": trigger}, as_json=as_json)
    if answer is not None:
        click.echo(f"✓ {text_of(answer, 'name')} is set up ({text_of(answer, 'id')}).")
        _note(answer)


@triggers_command.command("show")
@click.argument("id")
@JSON
@click.pass_context
def show_command(ctx: click.Context, id: str, as_json: bool) -> None:
    """Print the trigger ID (or its name) and what it last did."""
    answer = asked(ctx, "triggers.get", {"id": id}, as_json=as_json)
    if answer is None:
        return
    show_one(answer, _line)
    for row in rows(answer, "firings"):
        click.echo(f"  {local(row.get('at'))}  {text_of(row, 'outcome', 200)}  {text_of(row, 'call_id')}")


@triggers_command.command("enable")
@click.argument("id")
@JSON
@click.pass_context
def enable_command(ctx: click.Context, id: str, as_json: bool) -> None:
    """Let the trigger ID fire."""
    show_done(asked(ctx, "triggers.enable", {"id": id}, as_json=as_json), "fires again.")


@triggers_command.command("disable")
@click.argument("id")
@JSON
@click.pass_context
def disable_command(ctx: click.Context, id: str, as_json: bool) -> None:
    """Keep the trigger ID from firing."""
    show_done(asked(ctx, "triggers.disable", {"id": id}, as_json=as_json), "does not fire any more.")


@triggers_command.command("rm")
@click.argument("id")
@JSON
@click.pass_context
def remove_command(ctx: click.Context, id: str, as_json: bool) -> None:
    """Remove the trigger ID."""
    show_done(asked(ctx, "triggers.remove", {"id": id}, as_json=as_json), "is removed.")


@triggers_command.command("adopt")
@click.argument("skill")
@click.option("--yes", is_flag=True, help="Do not ask.")
@JSON
@click.pass_context
def adopt_command(ctx: click.Context, skill: str, yes: bool, as_json: bool) -> None:
    """Accept the triggers that the file of SKILL declares. Until then they fire nothing; then they act on your behalf.

    What they do is shown first. One that reaches further than the skill itself is not accepted this way.
    """
    adopt(ctx, "triggers", skill, _shown, yes=yes, as_json=as_json)


@triggers_command.command("test")
@click.option("--text", help="As if this message came.")
@click.option("--channel", metavar="NAME", help="Over this channel.")
@click.option("--event", metavar="NAME", help="As if this happened.")
@click.option("--source", metavar="SKILL", help="Whose event it is; Metier's own unless said.")
@click.option("--on-tool", "tool", metavar="TOOL", help="As if this tool were called.")
@click.option("--timing", type=click.Choice(["before", "after", "instead"]), default="after")
@JSON
@click.pass_context
def test_command(
    ctx: click.Context,
    text: str | None,
    channel: str | None,
    event: str | None,
    source: str | None,
    tool: str | None,
    timing: str,
    as_json: bool,
) -> None:
    """Say which triggers would fire, in which order. Nothing is fired."""
    said = {"text": text, "channel": channel, "event": event, "source": source, "tool": tool}
    arguments: dict[str, Json] = {key: value for key, value in said.items() if value is not None}
    if tool is not None:
        arguments["phase"] = timing
    answer = asked(ctx, "triggers.test", arguments, as_json=as_json)
    if answer is None:
        return
    found = rows(answer, "would_fire")
    for row in found:
        filled = one_line(msgspec.json.encode(row.get("arguments")).decode(), 200)
        click.echo(f"{_line(row)}\n    with {filled}")
    if not found:
        click.echo("Nothing would fire.")
    _note(answer)


def _said_beside(ctx: click.Context) -> str:
    """An option of `add` that somebody wrote beside a file."""
    alone = {"file", "as_json"}
    said = (
        each.opts[0]
        for each in ctx.command.params
        if each.name not in alone and ctx.get_parameter_source(each.name) is ParameterSource.COMMANDLINE
    )
    return next(said, "")


def _note(answer: dict[str, Json]) -> None:
    """What should be known though nothing is wrong."""
    if note := text_of(answer, "note", 200):
        click.echo(f"Mind: {note}.", err=True)


def _shown(row: dict[str, Json]) -> str:
    """What stands above one that a skill declares."""
    about = row.get("definition")
    name = text_of(about, "name") if isinstance(about, dict) else ""
    if wider := text_of(row, "wider", 200):
        return f"{name}: left out, for {wider}. `metier triggers add` takes it, if you want it all the same:"
    return f"{name}:"


def _line(row: dict[str, Json]) -> str:
    about = row.get("definition")
    kind, does = "", ""
    if isinstance(about, dict):
        kind = str(about.get("type"))
        called = about.get("tool") or about.get("actionId")
        does = f"calls {one_line(str(called), 80)}" if called else "sends a text"
        does = f"{about.get('timing', 'after')}: {does}"
    fired = f"fired {text_of(row, 'fired')} times, last {local(row.get('last_fired'))}"
    return f"{text_of(row, 'id'):22} {text_of(row, 'status'):9} {text_of(row, 'name', 60):24} {kind:10} {does}; {fired}"
