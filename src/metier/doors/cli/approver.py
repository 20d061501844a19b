"""The approver at the terminal: what waits is shown in full, and whoever sits there decides it as the owner."""

import time
from typing import Final, Literal, TypeAlias

import click

from metier.catalog.here import owner
from metier.config.settings import Settings
from metier.doors.cli.approvals import at_the_terminal
from metier.doors.cli.request import grant_lines, lines
from metier.model.approval import Scope, StandingGrant
from metier.model.text import one_line
from metier.record.approvals import find
from metier.record.database import Database
from metier.record.deciding import Undecided, decide
from metier.record.standing import proposed_grant

Answer: TypeAlias = Literal["approved", "decided", "later"]
"""`decided`: it will not run, or somebody else was quicker."""

_SCOPES: Final[dict[str, Scope]] = {"o": "once", "s": "session", "a": "always"}


def ask_here(settings: Settings, approval_id: str) -> Answer:
    """Show the request and take the answer. Nothing typed, or Ctrl-D, leaves it waiting."""
    with Database.open(settings.database) as database:
        found = find(database, approval_id)
        if found is None or found.shown is None or found.state != "pending":
            return "decided"
        click.echo("\n".join(lines(found, time.time())), err=True)
        offered: dict[Scope, StandingGrant] = {}
        scopes: tuple[Scope, ...] = ("session", "always")
        for scope in scopes:
            grant = proposed_grant(found.shown, scope, approval=approval_id, by=owner())
            if isinstance(grant, StandingGrant):
                offered[scope] = grant
        while True:
            key = _typed(offered)
            if key == "l":
                return "later"
            if key == "d":
                word = click.prompt("A word for whoever asked", default="", show_default=False, err=True)
                made = decide(
                    database,
                    approval_id,
                    by=at_the_terminal(),
                    decision="deny",
                    word=word,
                    payloads=settings.audit.payloads,
                )
                return _told(made, "decided")
            scope = _SCOPES[key]
            grant = offered.get(scope)
            if grant is not None:
                click.echo("\n".join(["This standing grant will be given:", *grant_lines(grant)]), err=True)
                if not click.confirm("Give it?", default=False, err=True):
                    continue
            made = decide(
                database,
                approval_id,
                by=at_the_terminal(),
                decision="approve",
                scope=scope,
                grant=grant,
                four_eyes=settings.approvals.four_eyes,
            )
            return _told(made, "approved")


def _typed(offered: dict[Scope, StandingGrant]) -> str:
    keys = [
        "o",
        *("s" for scope in offered if scope == "session"),
        *("a" for scope in offered if scope == "always"),
    ]
    keys += ["d", "l"]
    words = {"o": "[o]nce", "s": "for this [s]ession", "a": "[a]lways", "d": "[d]eny", "l": "[l]ater"}
    said = " · ".join(words[key] for key in keys)
    try:
        return click.prompt(said, type=click.Choice(keys), default="l", show_choices=False, err=True)
    except click.Abort:
        return "l"


def _told(made: object, answer: Answer) -> Answer:
    if isinstance(made, Undecided):
        click.echo(f"✗ {one_line(made.reason)}. Nothing was changed.", err=True)
        return "decided"
    return answer
