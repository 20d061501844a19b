"""`metier host`: the one process that runs skills that live, channels, triggers and schedules, in the foreground."""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import click
from anyio.abc import TaskStatus

from metier.config.load import state_folder
from metier.config.settings import Settings
from metier.doors.cli import exits
from metier.doors.cli.opening import reading_of, settings_of
from metier.errors import NoHost, StateError
from metier.kernel.host_role import Holder, holder
from metier.model.text import one_line, visible

if TYPE_CHECKING:
    from metier.doors.telegram.door import Telegram
    from metier.kernel.host_about import About
    from metier.kernel.host_line_words import HostStatus
    from metier.runtime.hosting import Hosting
    from metier.runtime.kernel_parts import Parts

END_SECONDS: Final = 10.0
"""So long what runs may take to end before the process ends without it."""
_STOP_SECONDS: Final = 15.0
_STATUS_SECONDS: Final = 3.0
_SIGNALS: Final = ("SIGTERM", "SIGINT", "SIGHUP")
_TAKEN: Final = "`metier host status` says what it runs, `metier host stop` ends it"


@click.group("host", invoke_without_command=True)
@click.pass_context
def host_command(ctx: click.Context) -> None:
    """Run skills that live, channels, triggers and schedules, until Ctrl-C or `metier host stop`.

    One process of a state folder does this. What is switched on stays so when it ends, and runs again with the next one.
    """
    if ctx.invoked_subcommand is not None:
        return
    settings = settings_of(ctx)
    if (other := holder(settings.home)) is not None:
        raise _taken(other)
    if not ctx.find_root().obj["log"]:
        tell_what_goes_wrong()
    anyio.run(_run, reading_of(ctx), settings.home)


@host_command.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def status_command(ctx: click.Context, as_json: bool) -> None:
    """Say whether there is a host, and what it runs. Exit status 1 where there is none, or something does not run."""
    from metier.kernel.host_about import About, about
    from metier.kernel.host_line import HostLine
    from metier.kernel.operation import OperationError

    home = state_folder(os.environ)  # it needs no configuration, nor anything else that may be broken
    other, said, unread = holder(home), None, ""
    problem = "" if other is not None else "nothing runs as the host"
    try:
        found = about(home)
    except StateError as error:  # whether there is a host can be told all the same
        found, unread = About(), str(error)
    if other is not None:
        try:
            said = anyio.run(partial(HostLine(home).status, seconds=_STATUS_SECONDS))
        except (NoHost, OperationError) as error:
            why = str(error).removeprefix(f"{other} holds the host role, and ")
            problem = f"{other} is the host, and does not answer: {why}"
    if as_json:
        import json

        import msgspec

        plain = {
            "running": other is not None,
            "answers": said is not None,
            "problem": problem or unread,
            "host": msgspec.to_builtins(said),
            "about": msgspec.to_builtins(found),
        }
        click.echo(json.dumps(plain))
    else:
        for line in _told(other, said, found, problem):
            click.echo(line)
        if unread:
            click.echo(f"✗ {one_line(unread, 500)}")
    well = said is not None and not unread and all(each.state != "waiting" for each in said.background)
    if not well:
        ctx.exit(exits.PROBLEM)


@host_command.command("stop")
@click.pass_context
def stop_command(ctx: click.Context) -> None:
    """End the host. What is switched on stays so; `metier stop` is for ending every call."""
    from metier.kernel.host_line import HostLine
    from metier.kernel.operation import OperationError

    home = state_folder(os.environ)
    other = holder(home)
    if other is None:
        click.echo("Nothing runs as the host.")
        return
    try:
        anyio.run(HostLine(home).end)
    except (NoHost, OperationError) as error:
        why = error.message.removeprefix(f"{other} holds the host role, and ")
        raise StateError(
            f"{other} is the host, and does not answer: {why}", remedy="End that process by its number"
        ) from error
    deadline = time.monotonic() + _STOP_SECONDS
    while (now := holder(home)) is not None and now.pid in (0, other.pid):
        if time.monotonic() >= deadline:
            click.echo(f"metier: {other} was told to end, and has not ended yet.", err=True)
            ctx.exit(exits.PROBLEM)
        time.sleep(0.1)
    click.echo(f"✓ The host has ended{f'; {now} took its place' if now is not None else ''}.")


async def _run(settings: Callable[[], Settings], home: str) -> None:
    from metier.runtime import hosting_here
    from metier.runtime.as_raised import the_one

    try:
        async with anyio.create_task_group() as tasks:
            await tasks.start(_until_told, tasks.cancel_scope)
            async with hosting_here(settings, (telegram,), say) as hosting:
                if hosting is None:  # somebody was faster
                    raise _taken(holder(home) or Holder())
                await _show(home, hosting)
                await hosting.ended.wait()
                _not_for_ever()
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise the_one(group) from None
    say("The host has ended. What is switched on runs again with the next one.")


async def _until_told(scope: anyio.CancelScope, *, task_status: TaskStatus[None]) -> None:
    """End what runs when a signal says so; without it when that takes too long, or it is said again."""
    told = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
    with anyio.open_signal_receiver(*told) as received:
        task_status.started()
        first = True
        async for _ in received:
            if not first:
                _end_at_once()
            first = False
            say("Ending; once more ends it at once.")
            _not_for_ever()
            scope.cancel()


def _not_for_ever() -> None:
    last = threading.Timer(END_SECONDS, _end_at_once)
    last.daemon = True
    last.start()


def _end_at_once() -> None:
    """What was under way has no outcome then, and `metier calls list` says so. Sandboxes end with us."""
    say("metier: what ran did not end in time, and was cut off; `metier calls list` shows it")
    sys.stdout.flush()
    os._exit(1)


async def _show(home: str, hosting: "Hosting") -> None:
    from metier.kernel.host_about import about

    found = await anyio.to_thread.run_sync(about, home)
    for line in _told(None, hosting.status(), found, ""):
        say(line)


def _told(other: Holder | None, said: "HostStatus | None", found: "About", problem: str) -> Iterator[str]:
    from metier.kernel.skill_record import STARTING

    if said is not None:
        yield f"{f'Metier {said.version}'.strip()} is the host: process {said.pid}, since {_moment(said.since)}."
    elif problem:
        yield f"✗ {problem[0].upper()}{problem[1:]}." + ("" if other else " `metier host` starts it.")
    on = [each for each in found.skills if each.enabled]
    yield f"  {_living([each.skill for each in on if each.status == 'loaded'] if said else [], len(on))}"
    for each in on:
        if each.error == STARTING:
            yield f"  {one_line(each.skill, 80)}: {STARTING}; `metier skills living` says how that goes"
        elif each.error:
            yield f"! {one_line(each.skill, 80)}: {one_line(each.status, 40)}: {one_line(each.error, 300)}"
    yield f"  {_counted(len(found.channels), 'channel', 'channels')}" + _named(list(found.channels))
    yield f"  {_counted(found.triggers, 'trigger', 'triggers')}"
    due = (
        ""
        if found.next_due is None
        else f", next {one_line(found.next_schedule, 80)} {_moment(found.next_due)}"
    )
    yield f"  {_counted(found.schedules, 'schedule', 'schedules')}{due}"
    if found.to_handle or found.to_send:
        yield f"  {found.to_handle} messages wait to be handled, {found.to_send} to be sent"
    if found.not_sent:
        yield f"! {_counted(found.not_sent, 'message was', 'messages were')} not sent: `metier conversations undelivered`"
    for task in said.background if said is not None else ():
        if task.state == "waiting" or (task.error and task.state == "running"):
            again = "is begun again soon" if task.state == "waiting" else "runs again"
            yield f"! {task.name} failed ({_counted(task.failures, 'time', 'times')}) and {again}: {one_line(task.error, 300)}"


def _living(names: list[str], shall: int) -> str:
    if not shall:
        return "no skills that live"
    return f"{len(names)} of {_counted(shall, 'skill', 'skills')} that shall live{_named(names)}"


def _counted(number: int, one: str, many: str) -> str:
    return f"{number or 'no'} {one if number == 1 else many}"


def _named(names: list[str]) -> str:
    shown = ", ".join(one_line(each, 80) for each in names[:20])
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return f": {shown}{more}" if names else ""


def _moment(at: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    except (OverflowError, ValueError, OSError):
        return "at no moment of this calendar"


def _taken(other: Holder) -> StateError:
    since = f" since {_moment(other.since)}" if other.since else ""
    return StateError(f"{other} is the host{since}, and there is only one", remedy=_TAKEN)


def say(line: str) -> None:
    """One line worth knowing. That nobody reads it any more ends nothing."""
    try:
        click.echo(visible(line))
        sys.stdout.flush()
    except OSError:
        pass


def tell_what_goes_wrong() -> None:
    """On standard error, a line each and no insides; `--verbose` or `--log-file` has all of it."""
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine())
    handler.addFilter(lambda record: record.name != "metier.catalog")  # `metier skills list` says that
    logger = logging.getLogger("metier")
    logger.addHandler(handler)
    logger.propagate = False


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        said = one_line(record.getMessage(), 500)
        return f"{self.formatTime(record)} {record.levelname.lower()} {said}"


def telegram(parts: "Parts") -> "Telegram":
    from metier.doors.telegram.door import Telegram

    given = parts.given
    return Telegram(
        store=parts.store,
        events=parts.events,
        calls=given.calls,
        settings=given.settings,
        catalog=given.catalog,
        owner=given.owner,
        values=parts.settings.current,
        reveal=parts.settings.revealed,
        take_up=given.take_up,
        wake=parts.deliveries.wake,
    )
