"""`metier skills trust` and `untrust`: the operator's word, given at a terminal and recorded."""

import os
import sys

import click

from metier.catalog.acting_programs import with_programs
from metier.catalog.bundle import Snapshot
from metier.catalog.catalog import Catalog
from metier.catalog.entrust import entrust
from metier.catalog.function_names import name_problems
from metier.catalog.here import catalog_here, owner, trusts_here
from metier.catalog.listed import Listed
from metier.catalog.network import hosts_for
from metier.catalog.review import Review, compare
from metier.catalog.trusting import give, meant, take, unread
from metier.config.roots import BUNDLED
from metier.config.settings import Settings
from metier.dialects.mcp_tools import CHANGED as TOOLS_CHANGED
from metier.doors.cli import exits, tool_lines, words
from metier.doors.cli.approvals import at_the_terminal
from metier.doors.cli.opening import catalog_of, complete_skill, named
from metier.doors.cli.trust_server import Look
from metier.doors.cli.working import work
from metier.model.call import Bytes
from metier.model.skill import Skill
from metier.model.text import one_line
from metier.record.database import Database
from metier.record.trust import TrustStore


@click.command("trust")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_skill)
@click.option("--all", "everything", is_flag=True, help="Every skill that waits for it.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array; needs --yes.")
@click.pass_context
def trust_command(
    ctx: click.Context, names: tuple[str, ...], everything: bool, yes: bool, as_json: bool
) -> None:
    """Show what each skill may do and what changed, then trust it exactly as it is now.

    From then on other bytes hold it back until you trust it again.
    """
    settings, catalog = catalog_of(ctx)
    if bool(names) == everything:
        raise click.UsageError("Name the skills to trust, or say --all.")
    if as_json and not yes:
        raise click.UsageError("--json cannot ask, so it needs --yes.")
    revoked = trusts_here(settings).revoked  # what a person took back, only his own word for it gives again
    waiting = [
        each
        for each in catalog.by_name.values()
        if each.shown == "pending_approval" and each.name not in revoked
    ]
    chosen = waiting if everything else [_meant(catalog, name) for name in names]
    results: list[dict[str, str]] = []
    for each in chosen:
        problem = _trust(each, settings, ask=not yes, quiet=as_json)
        results.append({"name": each.name, "problem": problem})
        if problem and not as_json:
            click.echo(f"✗ {one_line(each.name, 80)}: {one_line(problem)}", err=True)
    if as_json:
        import json

        click.echo(json.dumps(results, ensure_ascii=False))
    elif not chosen:
        click.echo("No skill waits to be trusted.")
    if any(result["problem"] for result in results):
        ctx.exit(exits.PROBLEM)


def _meant(catalog: Catalog, name: str) -> Listed:
    return meant(catalog, named(catalog, name))


def _trust(each: Listed, settings: Settings, *, ask: bool, quiet: bool) -> str:
    """Trust one skill; returns why it was not. What is shown is read from the very bytes that will be bound."""
    each = unread(each, settings)
    if each.skill is not None and each.root.kind != "bundled" and not each.shadowed_by:
        Database.open(settings.database).close()  # bytes that are kept tell of a state, so there must be one
    taken = take(each, settings, trusts_here(settings))
    if isinstance(taken, str):
        return taken
    if not quiet:
        looked = compare(taken.declared, taken.measured, settings, taken.before)
        _show(each, taken.declared, looked, settings)
        _show_hooks(taken.declared, taken.snapshot)
    if ask and not click.confirm("    Trust exactly this?", default=False):
        return "not trusted; nothing was changed"
    with Database.open(settings.database) as database:
        if problem := give(taken, settings, database=database, by=at_the_terminal()):
            return problem
    if taken.server:
        if problem := Look(taken, settings)(ask=ask, quiet=quiet):
            return problem
    elif each.probe and (problem := _read_code(each, taken.found, settings, ask=ask, quiet=quiet)):
        return problem
    if not quiet:
        _say_trusted(each, settings)
    return ""


def _say_trusted(each: Listed, settings: Settings) -> None:
    """That it is trusted, and whether it can be used: who trusts something means to use it."""
    click.echo(f"✓ {one_line(each.name, 80)} is trusted.")
    now = next((one for one in catalog_here(settings).listed if one.folder == each.folder), None)
    if now is not None and now.shown != "usable":
        for said in words.advice(now, sys.platform) or [now.shown.replace("_", " ")]:
            click.echo(f"! It cannot be used yet ({now.shown.replace('_', ' ')}): {one_line(said)}")


def _read_code(each: Listed, found: Bytes, settings: Settings, *, ask: bool, quiet: bool) -> str:
    """Run what exists only as code, now that its bytes are trusted, show what it wants, and have that granted too.

    Gives why it is not trusted; then that its bytes were is taken back.
    """
    granted = False
    try:
        work(_opened_once, settings)
        read = next((one for one in catalog_here(settings).listed if one.folder == each.folder), each)
        if read.probe or read.skill is None:
            unread = "it could not be run to be read; `metier doctor` says whether a sandbox is missing"
            return unread if read.probe else read.why
        if not quiet:
            click.echo(f"    says it is: {one_line(read.skill.description) or '(nothing)'}")
            click.echo(f"    may: {words.permissions(read.skill.permissions)}")
            _show_network(read.skill, settings)
            _show_tools(read.skill)
        if ask and not click.confirm("    Let it do this?", default=False):
            return "not trusted; that its bytes were is taken back"
        with Database.open(settings.database) as database:
            problem = entrust(read, read.skill, found, database=database, by=at_the_terminal())
        granted = not problem
        return problem
    finally:
        if not granted:
            with Database.open(settings.database) as database:
                TrustStore(database).revoke(each.name, by=owner(), path=each.folder)


async def _opened_once(settings: Settings) -> None:
    """Whatever is trusted and unread is read when a runtime opens."""
    from metier.runtime import at_terminal  # slow to import, seldom needed here

    async with at_terminal(settings):
        pass


def _show(each: Listed, declared: Skill, looked: Review, settings: Settings) -> None:
    click.echo(f"{one_line(each.name, 80)}  ({one_line(each.folder)})")
    if each.shown == "disabled":
        click.echo(f"    {one_line(each.why)}")
    if each.skill is not None:
        click.echo(f"    source: {each.skill.source.replace('_', ' ')}")
    if os.path.isdir(os.path.join(BUNDLED, each.name)):
        click.echo("    takes the place of the skill of this name that comes with Metier")
    click.echo(f"    may: {words.permissions(declared.permissions)}")
    _show_network(declared, settings)
    for line in words.programs(declared.permissions, settings.binaries.programs):
        click.echo(f"      where {line}")
    if declared.dialect == "mcp_server":
        click.echo(
            "    its tools are told by the server: it is run in a sandbox with what it may, to be asked, and you look at them"
        )
    else:
        _show_tools(with_programs(declared, each.acting))
        if each.probe:
            click.echo(
                "    exists only as code: once trusted it is run in a sandbox without permissions, to be read"
            )
    for found in each.diagnostics:
        if found.code == TOOLS_CHANGED:
            click.echo(f"    since you looked: {one_line(found.message)}")
    for problem in name_problems(each):
        click.echo(f"    but: {one_line(problem)}")
    if declared.proposed_tools:
        click.echo(f"    proposes (not granted): {one_line(', '.join(declared.proposed_tools))}")
    if looked.changed:
        added = words.permissions(looked.diff.added) if looked.diff.added else "no rights"
        click.echo(f"    new since last time: {added}")
        click.echo(f"    files changed: {one_line(', '.join(looked.files)) or 'unknown'}")
    click.echo(f"    digest: {looked.digest}")


def _show_network(skill: Skill, settings: Settings) -> None:
    """That it asks for hosts without saying which, and which of them the operator named."""
    if not skill.asks_network:
        return
    hosts = ", ".join(sorted(hosts_for(skill, settings.skills.entries)))
    name = f"hosts under [skills.entries.{one_line(skill.name, 80)}] in metier.toml"
    click.echo(f"    asks for the network: {one_line(hosts) if hosts else f'none until you name its {name}'}")


def _show_hooks(skill: Skill, snapshot: Snapshot | None) -> None:
    """What of it is run by itself from then on, whenever something happens."""
    if snapshot is None or not any(file.path.startswith("hooks/") for file in snapshot.files):
        return
    from metier.hooks.installed import hooks_in  # few skills have any

    for hook in hooks_in(skill, snapshot):
        on = (
            f"on {', '.join(sorted(hook.events))}: sees what happens there"
            if not hook.problem
            else hook.problem
        )
        click.echo(f"    hook: {one_line(hook.file, 120) or '-'}, {one_line(on, 300)}")


def _show_tools(skill: Skill) -> None:
    """What somebody can call once it is trusted."""
    for line in tool_lines.shown(skill):
        click.echo(f"    {line}")


@click.command("untrust")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_skill)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@click.pass_context
def untrust_command(ctx: click.Context, names: tuple[str, ...], as_json: bool) -> None:
    """Take back the trust in each skill, at once and until it is trusted again."""
    settings, catalog = catalog_of(ctx)
    known = {name for name, _ in trusts_here(settings).trusted}
    folders: dict[str, str] = {}
    for name in names:  # all of them first: a misspelled one must not leave the work half done
        folders[name] = "" if name in known and catalog.get(name) is None else named(catalog, name).folder
    results: list[dict[str, object]] = []
    with Database.open(settings.database) as database:
        for name, folder in folders.items():
            found = catalog.get(name)
            problem = ""
            if found is not None and found.root.kind == "bundled":
                problem = f"it came with Metier; switch it off with disabled = [{name!r}] under [skills] in metier.toml"
            else:
                TrustStore(database).revoke(name, by=owner(), path=folder)
            results.append({"name": name, "problem": problem})
            if not as_json:
                text = (
                    f"✗ {one_line(name, 80)}: {problem}"
                    if problem
                    else f"{one_line(name, 80)} is no longer trusted."
                )
                click.echo(text, err=bool(problem))
    if as_json:
        import json

        click.echo(json.dumps(results, ensure_ascii=False))
    if any(result["problem"] for result in results):
        ctx.exit(exits.PROBLEM)
