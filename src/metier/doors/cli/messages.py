"""`metier messages …`: what callers left for the operator."""

import json

import click
import msgspec

from metier.doors.cli import exits
from metier.doors.cli.opening import settings_of
from metier.errors import MetierError
from metier.host.undelivered import Undelivered, undelivered
from metier.model.text import one_line


@click.group("messages")
def messages_command() -> None:
    """See what callers left for you."""


@messages_command.command("undelivered")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.pass_context
def undelivered_command(ctx: click.Context, as_json: bool) -> None:
    """Print the messages that were noted and did not reach you, oldest first. The status is 1 when there are any."""
    settings = settings_of(ctx)
    found = undelivered(settings.home, without=_left_out(settings.database))
    for each in found.messages:
        # ASCII: what could move a cursor stands there as an escape.
        click.echo(json.dumps(msgspec.to_builtins(each)) if as_json else _shown(each))
    for problem in found.unreadable:
        click.echo(f"metier: {one_line(problem, 400)}; what is noted there is not listed", err=True)
    if settings.audit.payloads == "hashes":
        click.echo(
            'metier: [audit] payloads is "hashes", so what skills note is not kept and cannot be listed here',
            err=True,
        )
    if found.messages and not as_json:
        click.echo("`metier messages done CALL` takes the messages of a call off this list.", err=True)
    if found.messages or found.unreadable:
        ctx.exit(exits.PROBLEM)
    if not as_json:
        click.echo("Every message that was noted was delivered.", err=True)


@messages_command.command("done")
@click.argument("call_id", metavar="CALL")
@click.pass_context
def done_command(ctx: click.Context, call_id: str) -> None:
    """Take the messages of the call CALL off the list of undelivered ones, because you have them. That is recorded."""
    from metier.catalog.here import owner
    from metier.record.database import Database
    from metier.record.messages import message_done

    settings = settings_of(ctx)
    found = undelivered(settings.home, without=_left_out(settings.database))
    many = sum(each.call_id == call_id for each in found.messages)
    if not many:
        raise click.UsageError(
            f"No message of a call {one_line(call_id, 80)!r} is undelivered. `metier messages undelivered` shows those that are."
        )
    with Database.open(settings.database) as database:
        message_done(database, call_id, by=owner())
    click.echo(f"✓ {many} {'message is' if many == 1 else 'messages are'} no longer listed.")


def _left_out(path: str) -> frozenset[str]:
    """Ids of the calls under way and of those whose messages are done, as far as that can be found out: a lost database is no reason
    to hide what callers said."""
    from metier.record.calls import calls_under_way
    from metier.record.database import open_if_there
    from metier.record.messages import calls_done

    try:
        database = open_if_there(path)
        if database is None:
            return frozenset()
        with database:
            running = {each.call_id for each in calls_under_way(database) if each.process is not None}
            return calls_done(database) | running
    except MetierError:
        return frozenset()


def _shown(each: Undelivered) -> str:
    who = one_line(each.caller_name, 100) or "Unknown"
    number = f" ({one_line(each.callback_number, 60)})" if each.callback_number else ""
    urgent = "URGENT " if each.urgency == "urgent" else ""
    why = "not delivered" if each.state == "failed" else "not known to be delivered"
    if each.error:
        why += f": {one_line(each.error, 300)}"
    head = f"{urgent}{each.at} {who}{number}: {one_line(each.message, 2_000)}"
    return f"{head}\n    {why} ({one_line(each.skill, 80)}, `metier calls log {each.call_id}`)"
