"""`metier serve`: the HTTP API and MCP for other programs, with everything that `metier host` does, in one process in the foreground."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import anyio
import click
from anyio.abc import TaskStatus

from metier.catalog.here import owner
from metier.config.settings import Settings
from metier.doors.cli.host import say, telegram, tell_what_goes_wrong
from metier.doors.cli.opening import reading_of, settings_of
from metier.errors import ConfigError

if TYPE_CHECKING:
    from metier.doors.http.opening import Opened

END_SECONDS: Final = 20.0
"""So long everything may take to end before the process ends without it."""
_SIGNALS: Final = ("SIGTERM", "SIGINT", "SIGHUP")
_NEEDS: Final = ("starlette", "uvicorn", "argon2", "jinja2", "joserfc", "mcp")


@click.command("serve")
@click.option("--address", metavar="NUMBER", help="Listen here instead of at [serve] address (127.0.0.1).")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    help="Listen here instead of at [serve] port (8765); 0 takes a free one.",
)
@click.option("--no-mcp", is_flag=True, help="Leave out /mcp.")
@click.option(
    "--no-host", is_flag=True, help="Leave skills that live, channels and schedules to `metier host`."
)
@click.option("--no-link", is_flag=True, help="Print no sign-in link.")
@click.pass_context
def serve_command(
    ctx: click.Context, address: str | None, port: int | None, no_mcp: bool, no_host: bool, no_link: bool
) -> None:
    """Serve the API (/api/v1) and MCP (/mcp) until Ctrl-C. Prints the address, and a link that signs you in once.

    It is also the host of this state, as `metier host` is; where another process is that already, once that one has ended.
    """
    _require_installed()
    from metier.doors.http.opening import require_a_name
    from metier.runtime.as_raised import as_raised

    written = settings_of(ctx).serve
    require_a_name(written.address if address is None else address, written.origins)
    if not ctx.find_root().obj["log"]:
        tell_what_goes_wrong()
    with as_raised():
        anyio.run(_run, reading_of(ctx), address, port, not no_mcp, not no_host, not no_link)


def _require_installed() -> None:
    from importlib.util import find_spec

    if missing := [name for name in _NEEDS if find_spec(name) is None]:
        raise ConfigError(
            f"serving needs what is not installed here: {', '.join(missing)}",
            remedy="Run: pip install 'metier[serve]'",
        )


async def _run(
    settings: Callable[[], Settings], address: str | None, port: int | None, mcp: bool, host: bool, link: bool
) -> None:
    from metier.doors.http.opening import open_door
    from metier.runtime.engine import opened
    from metier.runtime.standing_by import StandingBy

    told = anyio.Event()
    async with anyio.create_task_group() as tasks:
        await tasks.start(_until_told, told)
        async with opened(settings, watch=True) as engine:
            home = engine.seen.settings.home
            role = StandingBy(engine.kernel, home, doors=(telegram,), say=say, takes=host)
            await role.begin()
            async with open_door(engine, address=address, port=port, mcp=mcp) as door:
                say(f"Metier serves {door.url}" + (f", MCP at {door.url}/mcp" if mcp else ""))
                await role.tell()
                if link:
                    await _show_link(door)
                async with anyio.create_task_group() as meanwhile:
                    meanwhile.start_soon(role.run)
                    await told.wait()
                    meanwhile.cancel_scope.cancel()
        tasks.cancel_scope.cancel()
    say("The server has ended.")


async def _show_link(door: "Opened") -> None:
    from metier.doors.http.links import make_link

    made = await anyio.to_thread.run_sync(make_link, door.doors, owner(), door.url)
    say(f"  Sign in within five minutes, once: {made}")


async def _until_told(told: anyio.Event, *, task_status: TaskStatus[None]) -> None:
    """A signal ends it: what runs has its grace, and without it when that takes too long or it is said again."""
    signals = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
    with anyio.open_signal_receiver(*signals) as received:
        task_status.started()
        async for _ in received:
            if told.is_set():
                _end_at_once()
            say("Ending; once more ends it at once.")
            last = threading.Timer(END_SECONDS, _end_at_once)
            last.daemon = True
            last.start()
            told.set()


def _end_at_once() -> None:
    """What was under way has no outcome then, and `metier calls list` says so. Sandboxes end with us."""
    say("metier: what ran did not end in time, and was cut off; `metier calls list` shows it")
    sys.stdout.flush()
    os._exit(1)
