"""Shell completion scripts."""

import click
from click.shell_completion import get_completion_class

from metier.doors.cli import metier


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the completion script for SHELL. For bash: eval "$(metier completion bash)"."""
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"No completion for {shell}")
    click.echo(kind(metier, {}, "metier", "_METIER_COMPLETE").source())
