"""`metier mcp`: be the MCP server of one client; write a client's configuration; take over the servers it has."""

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import click

from metier.doors.cli.opening import reading_of
from metier.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from metier.config.settings import Settings
    from metier.model.call import Principal

_TOKEN: Final = "METIER_TOKEN"  # noqa: S105  the name of a variable


class _Group(click.Group):
    """A group whose commands are imported when they are run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return ["install", "import"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "install":
            from metier.doors.cli.mcp_install import install_command

            return install_command
        if cmd_name == "import":
            from metier.doors.cli.mcp_import import import_command

            return import_command
        return None


@click.group("mcp", cls=_Group, invoke_without_command=True)
@click.option("--as", "agent", metavar="ID", help="Act as this registered agent instead of agent:mcp.")
@click.pass_context
def mcp_command(ctx: click.Context, agent: str | None) -> None:
    """Be an MCP server on standard input and output: every tool and skill, behind the gate.

    A client starts this by itself; `metier mcp install` tells it how. It acts as agent:mcp, on your behalf. With a token in the
    variable METIER_TOKEN it acts as whom that belongs to, within its scopes.
    """
    if ctx.invoked_subcommand is not None:
        return
    if find_spec("mcp") is None:
        raise ConfigError("MCP takes the extra `serve`", remedy="Install it: pip install 'metier[serve]'")
    token = os.environ.pop(_TOKEN, "")  # nothing that is started here sees it
    if token and agent:
        raise click.UsageError(f"--as and {_TOKEN} both say who this is; leave one out.")
    from metier.doors.mcp.stdio import own_lines

    with own_lines() as (source, sink):
        from metier.doors.cli.working import work

        work(_serve, reading_of(ctx), agent or "", token, source, sink)


async def _serve(
    settings: "Callable[[], Settings]", agent: str, token: str, source: "BinaryIO", sink: "BinaryIO"
) -> None:
    from anyio import to_thread

    from metier.doors.mcp.peer import BUILT_IN
    from metier.doors.mcp.stdio import serve
    from metier.doors.mcp.stdio_principal import principal_of
    from metier.record.database import Database

    def find() -> "Principal":
        with Database.open(settings().database) as database:
            return principal_of(database, agent or BUILT_IN, token)

    await serve(settings, await to_thread.run_sync(find), source, sink)
