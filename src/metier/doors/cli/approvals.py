"""`metier approvals`: what waits for your word. Whoever sits at the terminal is the owner, and decides as he."""

import os
import time
from typing import Literal

import click
import msgspec

from metier.catalog.here import owner
from metier.config.settings import Settings
from metier.doors.cli import ended, exits
from metier.doors.cli.opening import settings_of, state_to_refuse
from metier.doors.cli.working import work
from metier.errors import ConfigError
from metier.gate.in_words import grant_lines, lines, when
from metier.model.approval import Approval, Scope, StandingGrant
from metier.model.role import ROLES
from metier.model.text import one_line
from metier.record.approvals import approvals_in, find
from metier.record.database import Database, open_if_there
from metier.record.deciding import Decider, Undecided, decide, expire_due, revoke_approval
from metier.record.standing import proposed_grant


@click.group("approvals")
def approvals_command() -> None:
    """See what waits for your word, and decide it."""


@approvals_command.command("list")
@click.option("--all", "everything", is_flag=True, help="Also those that are over.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@click.pass_context
def list_command(ctx: click.Context, everything: bool, as_json: bool) -> None:
    """Print what waits for a decision, and what was approved and has not run, oldest first."""
    database = open_if_there(settings_of(ctx).database)
    found: list[Approval] = []
    if database is not None:
        with database, database.reading() as connection:
            found = approvals_in(connection, over=everything)
    if as_json:
        click.echo(_json(found))
        return
    if not found:
        click.echo("Nothing waits for a decision.", err=True)
    for each in found:
        click.echo(_line(each))


def _line(each: Approval) -> str:
    behalf = f" for {each.on_behalf_of}" if each.on_behalf_of else ""
    what = f"{each.shown.tool} ({each.shown.effect}, {each.shown.risk} risk)" if each.shown else "-"
    return one_line(f"{each.id} {each.state:8} {when(each, time.time())}  {what} by {each.principal}{behalf}")


@approvals_command.command("show")
@click.argument("approval", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def show_command(ctx: click.Context, approval: str, as_json: bool) -> None:
    """Print everything about one request: who, what exactly, with which rights, and why it is asked."""
    found = _found(settings_of(ctx), approval)
    if found is None:
        _unknown(ctx, approval)
    elif as_json:
        click.echo(_json(found))
    else:
        click.echo("\n".join(lines(found, time.time())))


@approvals_command.command("approve")
@click.argument("approval", metavar="ID")
@click.option("--session", "scope", flag_value="session", help="And what is like it, for this session.")
@click.option("--always", "scope", flag_value="always", help="And what is like it, until you revoke it.")
@click.option("--any-arguments", is_flag=True, help="With --session or --always: whatever the arguments are.")
@click.option("--uses", type=click.IntRange(1), help="With --session or --always: so many times.")
@click.option("--days", type=click.FloatRange(0, min_open=True), help="With --session or --always: so long.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before a standing grant is given.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; a standing grant needs --yes.")
@click.pass_context
def approve_command(
    ctx: click.Context,
    approval: str,
    scope: Literal["session", "always"] | None,
    any_arguments: bool,
    uses: int | None,
    days: float | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Let exactly this act run, once; then run it, unless whoever asked is waiting and runs it himself.

    It runs in the project it was asked in. What was approved before and has not run is taken up.

    Look at it first: metier approvals show ID
    """
    if scope is None and (any_arguments or uses is not None or days is not None):
        raise click.UsageError("--any-arguments, --uses and --days go with --session or --always.")
    if as_json and scope is not None and not yes:
        raise click.UsageError("--json cannot ask, so a standing grant needs --yes.")
    settings = settings_of(ctx)
    found = _found(settings, approval)
    shown = found.shown if found is not None else None
    there = settings if shown is None else _where_it_was_asked(ctx, settings, approval, shown.project)
    grant: StandingGrant | None = None
    if scope is not None:
        if shown is None:
            _unknown(ctx, approval)
            return
        proposed = proposed_grant(
            shown,
            scope,
            approval=approval,
            by=owner(),
            any_arguments=any_arguments,
            uses=uses,
            days=days,
        )
        if isinstance(proposed, str):
            raise click.UsageError(f"That cannot be granted: {proposed}.")
        grant = proposed
        if not as_json:
            click.echo("\n".join(["This standing grant will be given:", *grant_lines(grant)]), err=True)
        if not yes and not click.confirm("Give it?", default=False, err=True):
            click.echo("Nothing was decided.", err=True)
            ctx.exit(exits.PROBLEM)
    elif found is not None and found.state == "approved" and shown is not None and not shown.file:
        if not as_json:
            click.echo(one_line(f"{approval} was approved by {found.decided_by}; it is taken up."), err=True)
        _take_up(ctx, there, approval, as_json=as_json)
        return
    four_eyes = settings.approvals.four_eyes or there.approvals.four_eyes
    _decide(ctx, there, approval, scope or "once", grant, four_eyes=four_eyes, as_json=as_json)


def _where_it_was_asked(ctx: click.Context, here: Settings, approval: str, project: str) -> Settings:
    """The configuration of the project a request comes from, which restricts it wherever somebody decides.

    Raises:
        ConfigError: when that cannot be had; then nothing is decided.
    """
    if not project or project == here.project:
        return here
    if not os.path.isdir(project):
        raise ConfigError(
            f"{approval} was asked in the project {one_line(project, 200)}, and that folder is gone. Nothing was decided",
            remedy=f"Put it back, or call again elsewhere; say no with `metier approvals deny {approval}`",
        )
    return settings_of(ctx, project=project)


def _decide(
    ctx: click.Context,
    settings: Settings,
    approval: str,
    scope: Scope,
    grant: StandingGrant | None,
    *,
    four_eyes: bool,
    as_json: bool,
) -> None:
    with Database.open(settings.database) as database:
        made = decide(
            database,
            approval,
            by=at_the_terminal(settings),
            decision="approve",
            scope=scope,
            grant=grant,
            four_eyes=four_eyes,
        )
        expire_due(database)  # who decides sweeps the desk
    if isinstance(made, Undecided):
        _undecided(ctx, approval, made, as_json=as_json)
        return
    if not as_json:
        what = f": {made.shown.tool} for {made.principal}" if made.shown else ""
        click.echo(one_line(f"✓ {approval} is approved{what}."), err=True)
    _take_up(ctx, settings, approval, as_json=as_json)


def _take_up(ctx: click.Context, settings: Settings, approval: str, *, as_json: bool) -> None:
    from metier.runtime.resume import resume

    outcome = work(resume, settings, approval)
    if isinstance(outcome, Approval):
        click.echo(
            _json(outcome) if as_json else "Whoever asked was waiting, and runs it himself.", err=not as_json
        )
        return
    if as_json:
        click.echo(ended.ascii_json(outcome))
    else:
        ended.show(outcome)
    ctx.exit(ended.STATUS[type(outcome)])


@approvals_command.command("deny")
@click.argument("approval", metavar="ID")
@click.option("--word", default="", metavar="TEXT", help="What whoever asked is told.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def deny_command(ctx: click.Context, approval: str, word: str, as_json: bool) -> None:
    """Say no. It never runs."""
    settings = settings_of(ctx)
    with state_to_refuse() as database:
        made = decide(
            database,
            approval,
            by=at_the_terminal(),
            decision="deny",
            word=word,
            payloads=settings.audit.payloads,
        )
        expire_due(database)
    _ended(ctx, approval, made, "is denied", as_json=as_json)


@approvals_command.command("revoke")
@click.argument("approval", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def revoke_command(ctx: click.Context, approval: str, as_json: bool) -> None:
    """Take back what was approved and has not run. A standing grant given with it stays: see `metier grants`."""
    with state_to_refuse() as database:
        made = revoke_approval(database, approval, by=at_the_terminal())
    _ended(ctx, approval, made, "is taken back", as_json=as_json)


def at_the_terminal(settings: Settings | None = None) -> Decider:
    """Who decides here. What he may do is looked up again where it counts. `settings` say which chats are his, for a yes."""
    chats = settings.telegram.chats_of(owner()) if settings is not None else frozenset[str]()
    return Decider(id=owner(), kind="human", rights=ROLES["owner"], chats=chats)


def _found(settings: Settings, approval: str) -> Approval | None:
    database = open_if_there(settings.database)
    if database is None:
        return None
    with database:
        return find(database, approval)


def _ended(
    ctx: click.Context, approval: str, made: Approval | Undecided, said: str, *, as_json: bool
) -> None:
    if isinstance(made, Undecided):
        _undecided(ctx, approval, made, as_json=as_json)
        return
    click.echo(_json(made) if as_json else f"✓ {approval} {said}.")


def _undecided(ctx: click.Context, approval: str, why: Undecided, *, as_json: bool) -> None:
    if as_json:
        click.echo(_json(why))
    else:
        click.echo(f"✗ {one_line(approval, 80)}: {one_line(why.reason)}. Nothing was changed.", err=True)
    ctx.exit(exits.PROBLEM)


def _unknown(ctx: click.Context, approval: str) -> None:
    click.echo(
        f"✗ {one_line(approval, 80)}: there is no such request that is open. `metier approvals list` shows all.",
        err=True,
    )
    ctx.exit(exits.PROBLEM)


def _json(value: object) -> str:
    """What is beyond ASCII is escaped, so that nothing in it can move a cursor."""
    import json

    return json.dumps(msgspec.to_builtins(value))
