"""`metier skills trust` and `untrust`: the operator's word, given at a terminal and recorded."""

import os
import time

import click
from msgspec.structs import replace

from metier.catalog.acting_programs import with_programs
from metier.catalog.bundle import BundleStore, Snapshot, measure
from metier.catalog.catalog import Catalog
from metier.catalog.entrust import entrust
from metier.catalog.function_names import name_problems
from metier.catalog.here import catalog_here, owner, trusts_here
from metier.catalog.hold import declared_by
from metier.catalog.listed import Listed
from metier.catalog.network import hosts_for
from metier.catalog.probed import forget
from metier.catalog.release import recorded
from metier.catalog.standing import same_bytes
from metier.config.roots import BUNDLED
from metier.config.settings import Settings
from metier.dialects.mcp_tools import CHANGED as TOOLS_CHANGED
from metier.doors.cli import exits, tool_lines, words
from metier.doors.cli.approvals import at_the_terminal
from metier.doors.cli.opening import catalog_of, complete_skill, named
from metier.doors.cli.review import Review, compare
from metier.doors.cli.trust_server import Look
from metier.doors.cli.working import work
from metier.errors import BundleError
from metier.model.call import Bytes
from metier.model.skill import Skill
from metier.model.text import one_line
from metier.record.database import Database
from metier.record.disabling import enable
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
    """The skill of this name; where that is one that ships, the first that waits to be put in its place."""
    found = named(catalog, name)
    others = (each for each in catalog.listed if each.name == found.name and each.instead and each.skill)
    other = next(others, None) if found.root.kind == "bundled" else None
    return found if other is None else replace(other, shadowed_by="")


def _trust(each: Listed, settings: Settings, *, ask: bool, quiet: bool) -> str:
    """Trust one skill; returns why it was not. What is shown is read from the very bytes that will be bound."""
    each = _unread(each, settings)
    if each.skill is None or each.shadowed_by:
        return each.why
    if each.root.kind == "bundled":
        return "it came with Metier and is trusted by the release"
    Database.open(settings.database).close()  # bytes that are kept tell of a state, so there must be one
    store = BundleStore(settings.bundles)
    try:
        made = store.take(each.folder, now_ns=time.time_ns(), hard_links=each.root.hard_links)
        if each.root.kind == "installed" and (problem := recorded(each.folder, made.files)):
            return problem
        snapshot = store.open(made.digest)
        declared = declared_by(snapshot, each.manifest, folder=each.folder) if snapshot else None
    except BundleError as error:
        return str(error)
    if declared is None or declared.name != each.name:
        return "it changed while you looked at it; look again"
    server = declared.dialect == "mcp_server"
    trusts = trusts_here(settings)
    other = trusts.disabled_bytes.get(made.digest, each.name)
    if other != each.name:
        return same_bytes(other, trusts)
    if not quiet:
        _show(each, declared, compare(declared, made, settings), settings)
        _show_hooks(declared, snapshot)
    if ask and not click.confirm("    Trust exactly this?", default=False):
        return "not trusted; nothing was changed"
    found = Bytes(digest=made.digest, signature=made.signature)
    stays = (each.name, made.digest) in trusts.trusted and each.name not in trusts.disabled
    others = any(digest == made.digest and name != each.name for name, digest in trusts.trusted)
    if server and not stays and not others:
        forget(settings.bundles, made.digest)  # what was looked at before its trust was taken back
    with Database.open(settings.database) as database:
        if problem := entrust(each, declared, found, database=database, by=at_the_terminal()):
            return problem
        enable(database, each.name, by=owner())  # who looks and says yes after a violation means it
    if server and snapshot is not None:
        look = Look(each, snapshot, found, settings, trusts, stays=stays)
        if problem := look(ask=ask, quiet=quiet):
            return problem
    elif each.probe and (problem := _read_code(each, found, settings, ask=ask, quiet=quiet)):
        return problem
    if not quiet:
        click.echo(f"✓ {one_line(each.name, 80)} is trusted.")
    return ""


def _unread(each: Listed, settings: Settings) -> Listed:
    """The skill as if nobody had tried to read it by running it, where that failed: the machine may have been to blame."""
    if not any(found.code == "probe_failed" for found in each.diagnostics):
        return each
    try:
        digest = measure(each.folder, now_ns=time.time_ns(), hard_links=each.root.hard_links).digest
    except BundleError:
        return each  # whoever takes its bytes is told why they cannot be taken
    if not forget(settings.bundles, digest):
        return each
    return next((one for one in catalog_here(settings).listed if one.folder == each.folder), each)


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
