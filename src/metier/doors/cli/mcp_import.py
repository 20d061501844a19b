"""`metier mcp import`: take over the servers of another client as skills that nobody trusts yet.

Each is shown with what it would be permitted before anything is written. A secret is moved into Metier's sealed store only after a yes
of its own, and is never printed. The client's configuration stays as it is. Nothing is fetched and nothing is run.
"""

import json
import os
from typing import Final

import click

from metier.config.settings import Settings
from metier.dialects.mcp_server import MANIFEST, waiting
from metier.doors.cli import exits, words
from metier.doors.cli.approvals import at_the_terminal
from metier.doors.cli.mcp_found import CLIENTS, Found, Unread, files_of, servers_of
from metier.doors.cli.mcp_ourselves import origins_here
from metier.doors.cli.mcp_proposal import Proposal, propose
from metier.doors.cli.opening import settings_of
from metier.doors.http.whereabouts import whereabouts
from metier.model.digest import Json
from metier.model.role import CREATE
from metier.model.text import one_line

_CLIENTS: Final = " | ".join(CLIENTS)


@click.command("import")
@click.argument("client", metavar=f"[{_CLIENTS} | FILE]")
@click.option("--only", "only", metavar="NAME", multiple=True, help="Take over this server and no other.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask whether to write; secrets stay where they are.")
@click.option("--secrets", "move", is_flag=True, help="With --yes: keep their secrets in Metier's store too.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array; needs --yes.")
@click.pass_context
def import_command(
    ctx: click.Context, client: str, only: tuple[str, ...], yes: bool, move: bool, as_json: bool
) -> None:
    """Take over the MCP servers that a client is configured with, as untrusted skills.

    Shows for each what its skill would be permitted, and what you have to install yourself. `metier skills trust` lets one run.
    """
    if as_json and not yes:
        raise click.UsageError("--json cannot ask, so it needs --yes.")
    me = at_the_terminal()
    if CREATE not in me.rights:
        click.echo(f"metier: {me.id!r} lacks the right {CREATE!r}, which it takes to write a skill", err=True)
        ctx.exit(exits.PROBLEM)
    settings, project = settings_of(ctx), os.getcwd()
    files = files_of(client, project)
    if not files:
        raise click.UsageError(
            f"{client} has no configuration here: {', '.join(CLIENTS[client])} is not there."
        )
    results: list[dict[str, object]] = []
    taken: set[str] = set()
    named: set[str] = set()
    for found in servers_of(files, project):
        if isinstance(found, Unread):
            click.echo(f"✗ {one_line(found.file)}: {one_line(found.why)}", err=True)
            results.append({"file": found.file, "problem": found.why})
            continue
        named.add(found.name)
        if not only or found.name in only:
            results.append(_one(ctx, found, settings, taken, yes=yes, move=move, quiet=as_json))
    missed = [name for name in only if name not in named]
    for name in missed:
        click.echo(f"✗ {one_line(name, 80)}: no server of this name is configured there", err=True)
        results.append({"name": name, "problem": "no server of this name is configured there"})
    if as_json:
        click.echo(json.dumps(results, ensure_ascii=False))
    elif not results:
        click.echo("No MCP server is configured there.")
    if any(result["problem"] for result in results):
        ctx.exit(exits.PROBLEM)


def _one(
    ctx: click.Context,
    found: Found,
    settings: Settings,
    taken: set[str],
    *,
    yes: bool,
    move: bool,
    quiet: bool,
) -> dict[str, object]:
    serve = settings.serve
    origins = origins_here(serve.address, serve.port, (*serve.origins, whereabouts(settings.home)))
    proposal = propose(found, path=os.environ.get("PATH", ""), state=settings.home, origins=origins)
    if proposal.ourselves:
        if not quiet:
            click.echo(f"- {one_line(found.name, 80)}: that is Metier itself, and is passed over")
        return {"name": found.name, "problem": "", "passed_over": "that is Metier itself"}
    folder = os.path.join(settings.home, "skills", proposal.name)
    problem = proposal.problem or _unreadable(proposal)
    if not problem and proposal.name in taken:
        problem = "another of this name came before it, and is nearer to this project; nothing was changed"
    if not problem and os.path.lexists(folder):
        problem = f"{folder} is there already; nothing was changed (remove it to take the server over anew)"
    taken.add(proposal.name)
    if not problem and not quiet:
        _show(proposal, folder)
    if not problem and proposal.missing:
        problem = _not_installed(proposal)
    if not problem and not yes and not click.confirm("    Write it, untrusted?", default=False):
        problem = "not taken over"
    if not problem:
        problem = _written(proposal, folder)
    moved: list[str] = []
    if not problem and proposal.secrets and _may_move(proposal, yes=yes, move=move):
        moved = _moved(settings, proposal)
    if problem and not quiet:
        click.echo(f"✗ {one_line(found.name, 80)}: {one_line(problem)}", err=True)
    elif not quiet:
        _say_next(proposal, folder, moved)
    return {
        "name": proposal.name,
        "folder": folder,
        "problem": problem,
        "commands": list(proposal.commands),
        "configuration": proposal.configuration,
        "secrets": sorted(proposal.secrets),
        "moved": moved,
    }


def _not_installed(proposal: Proposal) -> str:
    """What to do first. Which files it has to read can be told only of a program that is there."""
    return (
        f"nothing was written yet, for its program {proposal.missing} is not on your path: install it yourself with "
        f"`{' && '.join(proposal.commands)}`, then run this import again (if its program is called otherwise, name that as its command "
        "in a copy of the file)"
    )


def _text(proposal: Proposal) -> str:
    about = {"description": f"The MCP server {proposal.name}.", **proposal.manifest}
    return json.dumps(about, indent=2, ensure_ascii=False) + "\n"


def _unreadable(proposal: Proposal) -> str:
    """Why what would be written is no skill; empty when it is one."""
    compiled = waiting(
        _text(proposal).encode(), folder=proposal.name, manifest=MANIFEST, location="", source="user"
    )
    return next((note.message for note in compiled.diagnostics if note.severity == "error"), "")


def _show(proposal: Proposal, folder: str) -> None:
    compiled = waiting(
        _text(proposal).encode(), folder=proposal.name, manifest=MANIFEST, location="", source="user"
    )
    click.echo(f"{proposal.name}  (from {one_line(proposal.origin)})")
    if compiled.skill is not None:
        click.echo(f"    may: {words.permissions(compiled.skill.permissions)}")
    for line in _text(proposal).splitlines():
        click.echo(f"    | {_kept(line)}")
    for note in proposal.notes:
        click.echo(f"    note: {one_line(note)}")
    click.echo(f"    into: {one_line(folder)}")


def _kept(line: str) -> str:
    """A line with its blanks before it, and nothing in it that cannot be seen."""
    return " " * (len(line) - len(line.lstrip())) + one_line(line)


def _written(proposal: Proposal, folder: str) -> str:
    path = os.path.join(folder, MANIFEST)
    try:
        os.makedirs(folder, mode=0o700)
        with open(path, "x", encoding="utf-8") as file:
            file.write(_text(proposal))
    except OSError as error:
        return f"cannot write {path}: {error.strerror}"
    return ""


def _may_move(proposal: Proposal, *, yes: bool, move: bool) -> bool:
    if yes:
        return move
    names = ", ".join(sorted(proposal.secrets))
    return click.confirm(f"    Keep its secrets in Metier's sealed store, as {names}?", default=False)


def _moved(settings: Settings, proposal: Proposal) -> list[str]:
    """Have each secret kept, as `metier secrets set` does; the names of those that were."""
    from metier.doors.cli.typed_secret import wrapped
    from metier.doors.cli.working import work
    from metier.kernel.secrets import wrapped_for
    from metier.model.outcome import Completed
    from metier.runtime.as_owner import operate

    moved: list[str] = []
    for name, value in sorted(proposal.secrets.items()):
        arguments: dict[str, Json] = {"name": name, "sealed": wrapped(settings, value, wrapped_for(name))}
        outcome = work(operate, settings, "secrets.set", arguments)
        if isinstance(outcome, Completed):
            moved.append(name)
        else:
            click.echo(f"✗ the secret {name} could not be kept", err=True)
    return moved


def _say_next(proposal: Proposal, folder: str, moved: list[str]) -> None:
    click.echo(f"✓ {proposal.name} is written to {one_line(folder)}; nobody trusts it yet.")
    if proposal.configuration:
        click.echo("    put into your metier.toml:")
        for line in proposal.configuration.splitlines():
            click.echo(f"      {one_line(line)}")
    for name in sorted(_places(proposal) - set(moved)):
        click.echo(f"    set its secret: metier secrets set {name}")
    click.echo(f"    then: metier skills trust {proposal.name}")


def _places(proposal: Proposal) -> set[str]:
    """The secrets that its file names."""
    compiled = waiting(
        _text(proposal).encode(), folder=proposal.name, manifest=MANIFEST, location="", source="user"
    )
    return set(compiled.skill.permissions.secrets) if compiled.skill is not None else set()
