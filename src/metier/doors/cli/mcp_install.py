"""`metier mcp install`: tell a client how to start us. The change is shown first, and what was there is kept beside it."""

import difflib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from metier.doors.cli import exits
from metier.doors.cli.mcp_client_file import TABLES, Changed, as_text, can_be_written, entry, with_server
from metier.doors.cli.mcp_found import CLIENTS
from metier.doors.cli.mcp_replace import Replaced, only_one, read, replace
from metier.doors.cli.opening import reading_of
from metier.errors import ConfigError, StateError
from metier.model.text import visible

_TRIES: Final = 5
"""How often somebody else may write the file between our look and our writing."""


@click.command("install")
@click.argument("client", type=click.Choice(sorted(TABLES)))
@click.option("--as", "agent", metavar="ID", help="Let it act as this registered agent instead of agent:mcp.")
@click.option("--name", default="metier", show_default=True, help="What the client calls this server.")
@click.option("--file", metavar="FILE", help="The client's configuration, where it lies elsewhere.")
@click.option("--show", is_flag=True, help="Show the change, and change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def install_command(
    ctx: click.Context, client: str, agent: str | None, name: str, file: str | None, show: bool, yes: bool
) -> None:
    """Write this server into the configuration of an MCP client.

    Everything else in that file keeps its value, and the file as it was stays beside it.
    """
    if not name or not name.isprintable() or len(name) > 64:
        raise click.UsageError("--name takes a word of at most 64 characters.")
    path = os.path.realpath(file or os.path.expanduser(CLIENTS[client][0]))
    if agent is not None:
        _require_agent(ctx, agent)
    server = entry(client, *_command(ctx, agent), _environment())
    if not can_be_written(as_text(client, name, server)):
        raise ConfigError(
            "Metier or its state lies in a folder whose name is not UTF-8, which no client's file can hold",
            remedy="Give that folder another name",
        )
    text = read(path)
    changed = _change(client, path, text, name, server)
    if changed is None:
        click.echo(f"✓ {path} has it already; nothing was changed.")
        return
    click.echo("\n".join(_shown(path, name, changed, new=text is None)))
    if show:
        return
    if not yes and not click.confirm("Write it?", default=False, err=True):
        click.echo("Nothing was changed.", err=True)
        ctx.exit(exits.PROBLEM)
    done = _written(path, text, changed, lambda now: _change(client, path, now, name, server))
    click.echo(f"✓ Written to {path}." + (f" As it was: {done.kept}" if done.kept else ""))
    click.echo(f"  Restart {client}, so that it reads it. What it does then: metier audit tail")


def _change(client: str, path: str, text: str | None, name: str, server: dict[str, Any]) -> Changed | None:
    """What would be written; None where nothing has to be."""
    try:
        return with_server(client, text or "", name, server)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}", remedy=error.remedy) from None


def _written(
    path: str, text: str | None, shown: Changed, change: Callable[[str | None], Changed | None]
) -> Replaced:
    """Write the change that was shown, into the file as it is by then: others write to it too.

    Raises:
        ConfigError: when that cannot be done without losing something.
        StateError: when it would be another change than the one that was shown, or it cannot be written.
    """
    with only_one(path):
        for _ in range(_TRIES):
            now = read(path)
            changed = shown if now == text else change(now)
            if changed is None or not _is_same(changed, shown):
                break
            if (done := replace(path, changed.text, now)) is not None:
                return done
    raise StateError(
        f"{path} was changed meanwhile; nothing was written", remedy="Look at the change once more: try again"
    )


def _is_same(changed: Changed, shown: Changed) -> bool:
    """Whether it is what somebody said yes to. Of the rest of the file he was shown nothing."""
    return (changed.before, changed.after) == (shown.before, shown.after) and (
        shown.laid_out_anew or not changed.laid_out_anew
    )


def _require_agent(ctx: click.Context, agent: str) -> None:
    """Somebody whom `metier mcp` would not serve as is not written down: the client would hide why it fails.

    Raises:
        ConfigError: when there is no such agent, or it may do nothing.
        StateError: when the state cannot be read.
    """
    from metier.doors.mcp.stdio_principal import principal_of
    from metier.record.database import Database

    with Database.open(reading_of(ctx)().database) as database:
        principal_of(database, agent, "")


def _command(ctx: click.Context, agent: str | None) -> tuple[str, list[str]]:
    """How we are started, whatever the client's path has; with the configuration that this command line names."""
    given: dict[str, Any] = ctx.find_root().obj
    program = Path(sys.executable).with_name("metier")
    first = [str(program)] if program.is_file() else [sys.executable, "-m", "metier"]
    args = [*first[1:]]
    if given["config"]:
        args += ["--config", os.path.abspath(given["config"])]
    for root in given["roots"]:
        args += ["--root", os.path.abspath(root)]
    return first[0], [*args, "mcp", *(["--as", agent] if agent else [])]


def _environment() -> dict[str, str]:
    """Clients with a window do not get what a shell sets."""
    home = os.environ.get("METIER_HOME")
    return {"METIER_HOME": os.path.abspath(home)} if home else {}


def _shown(path: str, name: str, changed: Changed, *, new: bool) -> list[str]:
    """The change. Of the rest nothing is printed: other servers may have secrets in it."""
    said = [f"{'A new file' if new else 'Change of'} {path}:", f"  server {name!r}"]
    lines = difflib.unified_diff(changed.before.splitlines(), changed.after.splitlines(), lineterm="", n=99)
    said += [f"  {visible(line)}" for line in lines if not line.startswith(("---", "+++", "@@"))]
    if changed.laid_out_anew:
        said.append("  The rest of the file is laid out anew; it says the same as before.")
    return said
