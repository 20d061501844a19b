"""`metier skills …`: the group; each command lives in a file of its own and is imported when it is run."""

from typing import Final

import click

from metier.doors.cli import LazyGroup

_COMMANDS: Final = {
    "list": ("metier.doors.cli.listing", "Show all skills: usable or not, emoji, name, description."),
    "info": ("metier.doors.cli.info", "Show everything about one skill."),
    "check": ("metier.doors.cli.check", "Say for every skill why it is missing, and what to do."),
    "lint": ("metier.doors.cli.lint", "Check skill files anywhere, trusted or not."),
    "new": ("metier.doors.cli.new", "Write a new skill that works, in any dialect."),
    "test": ("metier.doors.cli.tried", "Try a skill with the cases in its tests.json."),
    "trust": ("metier.doors.cli.trust", "Look at a skill and trust it as it is now."),
    "untrust": ("metier.doors.cli.trust", "Take back the trust in a skill."),
    "enable": ("metier.doors.cli.enable", "Let a skill be used again that was disabled."),
    "disable": ("metier.doors.cli.enable", "Let a skill be used no more, at once and everywhere."),
    "start": ("metier.doors.cli.living", "Have a skill live that can, now and with every host."),
    "stop": ("metier.doors.cli.living", "End the life of a skill until it is started again."),
    "living": ("metier.doors.cli.living", "Show the skills that can live, and whether they do."),
}


@click.group("skills", cls=LazyGroup, commands_in=_COMMANDS)
def skills_command() -> None:
    """List, inspect, check, lint, write, test and trust skills."""
