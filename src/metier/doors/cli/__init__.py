"""The command line. Only what every command needs is imported here: `metier --help` must come at once."""

import errno
import sys
from typing import Any, Final, final

import click

from metier import __version__
from metier.doors.cli import exits
from metier.doors.cli.reader import to_its_reader
from metier.errors import MetierError
from metier.model.text import one_line, visible

_COMMANDS: Final = {
    "skills": ("metier.doors.cli.skills", "List, inspect, check, lint, write and trust skills."),
    "trust": ("metier.doors.cli.level", "Show or change how far agents act by themselves."),
    "prompt": ("metier.doors.cli.prompt", "Print the text that tells a model which skills there are."),
    "tools": ("metier.doors.cli.call", "Print the tools a model can call, in a provider's shape."),
    "call": ("metier.doors.cli.call", "Call a tool through the whole gate."),
    "run": ("metier.doors.cli.run", "Run a file in the sandbox, and say what it tried to touch."),
    "explain": (
        "metier.doors.cli.explain",
        "Say what every layer of the gate thinks of a call that is not made.",
    ),
    "calls": (
        "metier.doors.cli.calls",
        "List and cancel running calls; print what a skill wrote into the log of one.",
    ),
    "messages": ("metier.doors.cli.messages", "List what callers left for you and did not reach you."),
    "settings": ("metier.doors.cli.settings", "Read and write the settings of skills."),
    "secrets": ("metier.doors.cli.secrets", "Keep secrets sealed, list their names, and forget them."),
    "channels": ("metier.doors.cli.channels", "See where messages come in and go out."),
    "conversations": ("metier.doors.cli.conversations", "Read what was said there, and what did not arrive."),
    "triggers": ("metier.doors.cli.triggers", "Set up what happens by itself when something else does."),
    "schedules": ("metier.doors.cli.schedules", "Set up what is done at its time."),
    "hooks": ("metier.doors.cli.hooks", "See which hooks of skills are fired, and on what."),
    "host": ("metier.doors.cli.host", "Run skills that live, channels, triggers and schedules."),
    "serve": ("metier.doors.cli.serve", "Serve the HTTP API and MCP, and be the host."),
    "mcp": ("metier.doors.cli.mcp", "Be an MCP server for one client; set clients up; take servers over."),
    "operate": ("metier.doors.cli.operate", "Have an operation of a module done, as yourself."),
    "stop": ("metier.doors.cli.stop", "End every running call and refuse all others."),
    "resume": ("metier.doors.cli.stop", "Let things run again after `stop`."),
    "approvals": ("metier.doors.cli.approvals", "See what waits for your word, and decide it."),
    "grants": ("metier.doors.cli.grants", "List standing grants, and take them back."),
    "principals": ("metier.doors.cli.principals", "Say who may ask for what, and take it back."),
    "tokens": ("metier.doors.cli.tokens", "Make tokens for programs, and take them back."),
    "sign-in": ("metier.doors.cli.sign_in", "Print a link that signs you in to `metier serve`."),
    "policy": ("metier.doors.cli.policy", "Check the operator's rules."),
    "audit": ("metier.doors.cli.audit", "Read and verify the record of what happened."),
    "backup": ("metier.doors.cli.backup", "Copy the state while everything runs."),
    "restore": ("metier.doors.cli.backup", "Put a backup in place where there is no state."),
    "doctor": ("metier.doors.cli.doctor", "Say what each sandbox can promise on this machine."),
    "completion": ("metier.doors.cli.completion", "Print the completion script for a shell."),
}


@final
class LazyGroup(click.Group):
    """A group whose commands are imported when they are run, and that knows what was probably meant."""

    def __init__(
        self, *args: Any, commands_in: dict[str, tuple[str, str]] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = commands_in or {}

    def invoke(self, ctx: click.Context) -> Any:
        with to_its_reader():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazy:
            return super().get_command(ctx, cmd_name)
        from importlib import import_module

        return getattr(import_module(self._lazy[cmd_name][0]), f"{cmd_name.replace('-', '_')}_command")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self._lazy:
            super().format_commands(ctx, formatter)
            return
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in self._lazy.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.list_commands(ctx), n=1)
            if near:
                message = f"There is no command {one_line(args[0], 60)!r}. Did you mean {near[0]!r}?"
                raise click.UsageError(message, ctx) from error
            raise


@click.group(
    cls=LazyGroup,
    commands_in=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit status: 0 fine, 1 problem found, 2 usage, 3 refused, 4 waiting for approval, 5 set-up, 70 our fault.",
)
@click.option(
    "--config", metavar="FILE", help="The operator's configuration instead of ~/.metier/metier.toml."
)
@click.option(
    "--root", "roots", metavar="DIR", multiple=True, help="Look for skills here first. May be repeated."
)
@click.option(
    "-v", "--verbose", is_flag=True, help="Say on standard error what is done and how long it takes."
)
@click.option("--log-file", metavar="FILE", envvar="METIER_LOG_FILE", help="Append the same to a file.")
@click.version_option(__version__, prog_name="metier")
@click.pass_context
def metier(
    ctx: click.Context, config: str | None, roots: tuple[str, ...], verbose: bool, log_file: str | None
) -> None:
    """Run agent skills: see what there is, what each may do, and call them through one gate.

    Start with `metier skills list`. Metier reports to nobody: it reaches only what you
    set up or granted.
    """
    ctx.obj = {"config": config, "roots": roots, "log": bool(verbose or log_file)}
    if verbose or log_file:
        from metier.doors.cli.logs import start

        start(verbose=verbose, file=log_file)


def main() -> None:
    """Entry point of the `metier` command. No traceback reaches a user."""
    import os

    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    try:
        sys.exit(metier(standalone_mode=False) or exits.OK)
    except click.Abort:
        click.echo("Stopped.", err=True)
        sys.exit(130)
    except click.exceptions.NoArgsIsHelpError as help_wanted:
        click.echo(help_wanted.format_message())
        sys.exit(exits.USAGE)
    except click.ClickException as error:
        click.echo(f"metier: {visible(error.format_message())}", err=True)
        sys.exit(exits.USAGE)
    except MetierError as error:
        click.echo(f"metier: {visible(str(error))}", err=True)
        sys.exit(exits.SETUP)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        click.echo(f"metier: the output could not be written: {error.strerror}", err=True)
        sys.exit(exits.SETUP)
    except Exception as error:  # noqa: BLE001  the last line of defence of this door
        from metier.doors.cli.logs import fault

        where = fault()
        click.echo(
            f"metier: internal error ({type(error).__name__}: {one_line(str(error), 200)}). "
            f"This is a fault of Metier, not yours. Details: {where}",
            err=True,
        )
        sys.exit(exits.FAULT)
