"""The approver at the terminal: what waits is shown in full, and whoever sits there decides it as the owner."""

import time
from functools import partial
from typing import Final, Literal, TypeAlias, final

import click
from anyio import to_thread
from msgspec import Struct

from metier.catalog.here import owner
from metier.config.settings import Settings
from metier.doors.cli.approvals import at_the_terminal
from metier.doors.cli.typed import Typed
from metier.gate.in_words import grant_lines, lines
from metier.model.approval import Scope, StandingGrant
from metier.model.text import one_line
from metier.record.approvals import find
from metier.record.database import Database
from metier.record.deciding import Undecided, decide
from metier.record.standing import proposed_grant

Answer: TypeAlias = Literal["approved", "decided", "later"]
"""`decided`: it will not run, or somebody else was quicker."""

_SCOPES: Final[dict[str, Scope]] = {"o": "once", "s": "session", "a": "always"}


async def ask_here(settings: Settings, approval_id: str) -> Answer:
    """Show the request and take the answer. Nothing typed, or Ctrl-D, leaves it waiting; whoever is stopped while it is asked
    has decided nothing, whatever is typed then."""
    database = await to_thread.run_sync(Database.open, settings.database)
    with database:
        found = await to_thread.run_sync(find, database, approval_id)
        if found is None or found.shown is None or found.state != "pending":
            return "decided"
        click.echo("\n".join(lines(found, time.time())), err=True)
        offered: dict[Scope, StandingGrant] = {}
        scopes: tuple[Scope, ...] = ("session", "always")
        for scope in scopes:
            grant = proposed_grant(found.shown, scope, approval=approval_id, by=owner())
            if isinstance(grant, StandingGrant):
                offered[scope] = grant
        said = await _said(Typed(), offered)
        if said is None:
            return "later"
        made = await to_thread.run_sync(
            partial(
                decide,
                database,
                approval_id,
                by=at_the_terminal(settings),
                decision="deny" if said.scope is None else "approve",
                scope=said.scope or "once",
                word=said.word,
                grant=offered.get(said.scope) if said.scope else None,
                four_eyes=settings.approvals.four_eyes,
                in_its_process=True,
                payloads=settings.audit.payloads,
            )
        )
        return _told(made, "decided" if said.scope is None else "approved")


@final
class _Said(Struct, frozen=True):
    scope: Scope | None
    """None for a no."""
    word: str = ""


async def _said(typed: Typed, offered: dict[Scope, StandingGrant]) -> _Said | None:
    """The answer, once it is one; None for none."""
    while True:
        key = await _key(typed, offered)
        if key == "l":
            return None
        if key == "d":
            word = await typed.line("A word for whoever asked: ")
            return None if word is None else _Said(None, word)
        scope = _SCOPES[key]
        grant = offered.get(scope)
        if grant is None:
            return _Said(scope)
        click.echo("\n".join(["This standing grant will be given:", *grant_lines(grant)]), err=True)
        sure = await typed.line("Give it? [y/N]: ")
        if sure is None:
            return None
        if sure.lower() in ("y", "yes"):
            return _Said(scope)


async def _key(typed: Typed, offered: dict[Scope, StandingGrant]) -> str:
    words = {"o": "[o]nce", "s": "for this [s]ession", "a": "[a]lways", "d": "[d]eny", "l": "[l]ater"}
    keys = [key for key in words if key not in ("s", "a") or _SCOPES[key] in offered]
    while True:
        key = await typed.line(" · ".join(words[each] for each in keys) + " [l]: ")
        if not key:
            return "l"
        if key in keys:
            return key
        click.echo(f"That is none of {', '.join(keys)}.", err=True)


def _told(made: object, answer: Answer) -> Answer:
    if isinstance(made, Undecided):
        click.echo(f"✗ {one_line(made.reason)}. Nothing was changed.", err=True)
        return "decided"
    return answer
