"""`metier conversations …`: what was said on the channels, and what did not arrive."""

import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import click
import msgspec

import metier.kernel.conversation_rows as rows
from metier.config.settings import Settings
from metier.doors.cli import ended, exits
from metier.doors.cli.opening import settings_of
from metier.doors.cli.working import work
from metier.kernel.conversation_shown import message_shown, moment, thread_shown
from metier.kernel.delivery_rows import undelivered
from metier.kernel.store import FILE, Store
from metier.model.digest import Json
from metier.model.outcome import Completed
from metier.model.text import one_line, visible
from metier.record.redact import redact
from metier.record.secret_text import mask_text

_ID: Final = click.IntRange(1, 2**63 - 1)
_ARROWS: Final = {"in": "→", "out": "←", "note": "·"}
_MANY: Final = 10_000


@click.group("conversations")
def conversations_command() -> None:
    """Read what was said on the channels. What looks like a secret is shown as ••••••••."""


@conversations_command.command("list")
@click.option("--channel", default="", help="Only of this channel.")
@click.option(
    "-n", "limit", type=click.IntRange(1, _MANY), default=50, show_default=True, help="At most so many."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.pass_context
def list_command(ctx: click.Context, channel: str, limit: int, as_json: bool) -> None:
    """Print the conversations, the one with the newest message first."""
    with _kept(settings_of(ctx)) as store:
        found: list[tuple[rows.Thread, rows.Message | None]] = []
        if store is not None:
            with store.reading() as connection:
                threads = rows.threads_in(connection, channel=channel, limit=limit)
                found = [(each, rows.message_in(connection, each.last)) for each in threads]
    for thread, last in found:
        if as_json:
            click.echo(json.dumps(thread_shown(thread)))
            continue
        said = (
            f"{moment(last.at)} {one_line(mask_text(last.text), 80)}"
            if last is not None and not last.erased
            else ""
        )
        click.echo(f"{thread.id:6} {thread.channel:12} {one_line(thread.chat, 40):20} {said}")
    if not found and not as_json:
        click.echo("There are no conversations.", err=True)


@conversations_command.command("show")
@click.argument("thread", type=_ID)
@click.option(
    "-n", "limit", type=click.IntRange(1, _MANY), default=50, show_default=True, help="The newest so many."
)
@click.option(
    "--before", type=_ID, default=None, metavar="MESSAGE", help="Only what came before this message."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.pass_context
def show_command(ctx: click.Context, thread: int, limit: int, before: int | None, as_json: bool) -> None:
    """Print the newest messages of THREAD, oldest first."""
    found: list[rows.Message] = []
    with _kept(settings_of(ctx)) as store:
        known = None
        if store is not None:
            with store.reading() as connection:
                known = rows.thread_in(connection, thread)
                found = rows.messages_in(connection, thread, limit=limit, before=before or 0)
    if known is None:
        raise click.UsageError(
            f"There is no conversation {thread}. `metier conversations list` shows those there are."
        )
    for each in found:
        click.echo(_json(each) if as_json else _shown(each))


@conversations_command.command("undelivered")
@click.option("--channel", default="", help="Only of this channel.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.pass_context
def undelivered_command(ctx: click.Context, channel: str, as_json: bool) -> None:
    """Print what was to be sent and did not arrive, or not yet, with the reason. The status is 1 when there is any."""
    with _kept(settings_of(ctx)) as store:
        found: list[rows.Message] = []
        if store is not None:
            with store.reading() as connection:
                found = undelivered(connection, channel=channel, limit=_MANY)
    for each in found:
        click.echo(_json(each) if as_json else f"{each.channel} {one_line(each.chat, 40)}: {_shown(each)}")
    if found:
        if not as_json:
            click.echo("`metier conversations retry MESSAGE` tries one again.", err=True)
        ctx.exit(exits.PROBLEM)
    if not as_json:
        click.echo("Everything that was to be sent was sent.", err=True)


@conversations_command.command("send")
@click.argument("channel")
@click.argument("chat")
@click.argument("text")
@click.option("--key", help="The same key in the same chat is the same message: it is sent once.")
@click.pass_context
def send_command(ctx: click.Context, channel: str, chat: str, text: str, key: str | None) -> None:
    """Have the host send TEXT to CHAT on CHANNEL, as you; `-` reads the text from standard input."""
    said = sys.stdin.read() if text == "-" else text
    arguments: dict[str, Json] = {"channel": channel, "chat_id": chat, "text": said}
    answer = _operate(ctx, "channels.send_message", arguments if key is None else {**arguments, "key": key})
    if answer.get("duplicate"):
        click.echo(f"Message {answer.get('message_id')} was there already; it is {answer.get('state')}.")
        return
    click.echo(f"✓ Message {answer.get('message_id')} waits; the host (`metier host`) sends it.")


@conversations_command.command("retry")
@click.argument("message", type=_ID)
@click.pass_context
def retry_command(ctx: click.Context, message: int) -> None:
    """Have the host send MESSAGE again that failed, or that waits for its next try."""
    _operate(ctx, "conv.retry", {"message_id": message})
    click.echo(f"✓ Message {message} is sent as soon as the host (`metier host`) gets to it.")


@conversations_command.command("erase")
@click.argument("thread", type=_ID)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def erase_command(ctx: click.Context, thread: int, yes: bool) -> None:
    """Erase what was said in THREAD, here and with the records of it. Nobody can bring it back."""
    if not yes:
        click.confirm(
            f"Erase everything that was said in conversation {thread}, for good?", abort=True, err=True
        )
    answer = _operate(ctx, "conv.erase", {"thread_id": thread})
    click.echo(f"✓ Erased the words of {answer.get('messages')} messages. That there were messages stays.")
    if answer.get("calls") != answer.get("calls_erased"):
        click.echo(
            "metier: the records of some of them still hold what was said; `metier audit erase --call ID` erases that",
            err=True,
        )


def _operate(ctx: click.Context, tool: str, arguments: dict[str, Json]) -> dict[str, Json]:
    """What the operation answered. Ends the command where it failed."""
    from metier.runtime.as_owner import operate

    outcome = work(operate, settings_of(ctx), tool, arguments)
    if not isinstance(outcome, Completed):
        ended.show(outcome)
        ctx.exit(ended.STATUS[type(outcome)])
    return outcome.value if isinstance(outcome.value, dict) else {}


@contextmanager
def _kept(settings: Settings) -> Generator[Store | None]:
    """What is kept; None where nothing ever was."""
    if not os.path.exists(os.path.join(settings.home, FILE)):
        yield None
        return
    store = Store(settings.home)
    try:
        yield store
    finally:
        store.close()


def _json(message: rows.Message) -> str:
    """ASCII: what could move a cursor stands there as an escape."""
    return json.dumps(msgspec.to_builtins(redact(message_shown(message))))


def _shown(message: rows.Message) -> str:
    said = "(erased)" if message.erased else visible(mask_text(message.text)).replace("\n", "\n    ")
    state = "" if message.state in ("handled", "sent", "kept") else f" [{message.state}]"
    twice = " [may have arrived twice]" if message.doubtful else ""
    head = f"{message.id} {moment(message.at)} {_ARROWS.get(message.direction, '?')} {one_line(message.author, 60)}"
    tries = "1 attempt" if message.attempts == 1 else f"{message.attempts} attempts"
    why = f"\n    {tries}, {one_line(message.error, 300)}" if message.error else ""
    return f"{head}{state}{twice}: {said}{why}"
