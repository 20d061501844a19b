"""`metier channels …`: where messages come in and go out."""

import json
import os

import click
import msgspec

from metier.doors.cli import ended
from metier.doors.cli.opening import settings_of
from metier.doors.cli.working import work
from metier.kernel.channel_rows import channels_in
from metier.kernel.channel_rules import Channel
from metier.kernel.store import FILE, Store
from metier.model.digest import Json
from metier.model.outcome import Completed
from metier.model.text import one_line
from metier.record.redact import redact


@click.group("channels")
def channels_command() -> None:
    """See the channels that skills have."""


@channels_command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.pass_context
def list_command(ctx: click.Context, as_json: bool) -> None:
    """Print every channel: whose it is, who sends for it, and why it cannot be used."""
    settings = settings_of(ctx)
    if not os.path.exists(os.path.join(settings.home, FILE)):
        click.echo("No skill has a channel yet.", err=True)
        return
    store = Store(settings.home)
    try:
        with store.reading() as connection:
            found = channels_in(connection)
    finally:
        store.close()
    for each in found:
        # ASCII: what could move a cursor stands there as an escape.
        click.echo(json.dumps(_plain(each)) if as_json else _line(each))


@channels_command.command("remove")
@click.argument("channel")
@click.pass_context
def remove_command(ctx: click.Context, channel: str) -> None:
    """Forget CHANNEL, so that another skill may have its name. What was said there stays, and nobody else is told of it."""
    from metier.runtime.as_owner import operate

    arguments: dict[str, Json] = {"channel": channel}
    outcome = work(operate, settings_of(ctx), "channels.remove", arguments)
    if not isinstance(outcome, Completed):
        ended.show(outcome)
        ctx.exit(ended.STATUS[type(outcome)])
    click.echo(f"✓ The channel {one_line(channel, 80)} is forgotten.")


def _plain(channel: Channel) -> dict[str, object]:
    return {
        "channel": channel.name,
        "skill": channel.skill,
        "connector_module": channel.connector,
        "door": channel.ours,
        "off": channel.is_off,
        "config": redact(channel.config),
        "problem": channel.problem,
    }


def _line(channel: Channel) -> str:
    who = f"skill {one_line(channel.skill, 80)}" if channel.skill else "not registered by any skill"
    how = "Metier's own door" if channel.ours else f"sends by {one_line(channel.connector, 60)}.send"
    if channel.is_off:
        how = "which is not started and keeps the name"
    shown = msgspec.json.encode(redact(channel.config)).decode()
    config = f", {one_line(shown, 200)}" if channel.config else ""
    problem = f"\n    cannot be used: {channel.problem}" if channel.problem else ""
    return f"{channel.name:20} {who}, {how}{config}{problem}"
