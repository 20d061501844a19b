"""`metier skills trust` and `untrust`: the operator's word, given at a terminal and recorded."""

import time

import click

from metier.catalog.bundle import BundleStore
from metier.catalog.catalog import Listed
from metier.catalog.here import owner, trusts_here
from metier.catalog.hold import bind, declared_by
from metier.catalog.standing import same_bytes
from metier.config.settings import Settings
from metier.doors.cli import exits, words
from metier.doors.cli.opening import catalog_of, complete_skill, named
from metier.doors.cli.review import Review, compare
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
    chosen = waiting if everything else [named(catalog, name) for name in names]
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


def _trust(each: Listed, settings: Settings, *, ask: bool, quiet: bool) -> str:
    """Trust one skill; returns why it was not. What is shown is read from the very bytes that will be bound."""
    if each.skill is None or each.shadowed_by:
        return each.why
    if each.root.kind == "bundled":
        return "it came with Metier and is trusted by the release"
    Database.open(settings.database).close()  # bytes that are kept tell of a state, so there must be one
    store = BundleStore(settings.bundles)
    try:
        made = store.take(each.folder, now_ns=time.time_ns())
        snapshot = store.open(made.digest)
        declared = declared_by(snapshot, each.manifest, folder=each.folder) if snapshot else None
    except BundleError as error:
        return str(error)
    if declared is None or declared.name != each.name:
        return "it changed while you looked at it; look again"
    trusts = trusts_here(settings)
    other = trusts.disabled_bytes.get(made.digest, each.name)
    if other != each.name:
        return same_bytes(other, trusts)
    if not quiet:
        _show(each, declared, compare(declared, made, settings))
    if ask and not click.confirm("    Trust exactly this?", default=False):
        return "not trusted; nothing was changed"
    found = Bytes(digest=made.digest, signature=made.signature)
    with Database.open(settings.database) as database:
        bind(each, declared, found, trust=TrustStore(database), how="operator", by=owner())
        enable(database, each.name, by=owner())  # who looks and says yes after a violation means it
    if not quiet:
        click.echo(f"✓ {one_line(each.name, 80)} is trusted.")
    return ""


def _show(each: Listed, declared: Skill, looked: Review) -> None:
    click.echo(f"{one_line(each.name, 80)}  ({one_line(each.folder)})")
    if each.shown == "disabled":
        click.echo(f"    {one_line(each.why)}")
    click.echo(f"    may: {words.permissions(declared.permissions)}")
    if declared.proposed_tools:
        click.echo(f"    proposes (not granted): {one_line(', '.join(declared.proposed_tools))}")
    if looked.changed:
        added = words.permissions(looked.diff.added) if looked.diff.added else "no rights"
        click.echo(f"    new since last time: {added}")
        click.echo(f"    files changed: {one_line(', '.join(looked.files)) or 'unknown'}")
    click.echo(f"    digest: {looked.digest}")


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
