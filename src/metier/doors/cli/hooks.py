"""`metier hooks …`: which hooks of skills are fired, on what, and whose word counts."""

import json

import click
import msgspec

from metier.catalog.bundle import BundleStore
from metier.doors.cli import exits
from metier.doors.cli.opening import catalog_of
from metier.hooks.installed import Hook, installed, untrusted
from metier.model.text import one_line


@click.group("hooks")
def hooks_command() -> None:
    """See which hooks of skills are fired, and on what."""


@hooks_command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.pass_context
def list_command(ctx: click.Context, as_json: bool) -> None:
    """Print every hook of a trusted skill. The status is 1 when a skill that has to agree to calls has none to ask."""
    settings, catalog = catalog_of(ctx)
    gate = settings.hooks.gate
    found = installed(catalog, BundleStore(settings.bundles))
    for each in found:
        if as_json:
            row = {**msgspec.to_builtins(each), "events": sorted(each.events), "gate": _is_gate(each, gate)}
            click.echo(json.dumps(row))
        else:
            click.echo(_shown(each, gate))
    if not found and not as_json:
        click.echo("No trusted skill has a hook.", err=True)
    for name in untrusted(catalog):
        click.echo(
            f"metier: {one_line(name, 80)} brings hooks and none of them is fired: nobody gave his word for it "
            f"(`metier skills trust {one_line(name, 80)}`)",
            err=True,
        )
    lacking = [name for name in gate if not _can_be_asked([each for each in found if each.skill == name])]
    for name in lacking:
        click.echo(
            f"metier: [hooks] gate names {one_line(name, 80)!r}, and it has no hook on tool:before, or one that is broken, so "
            "every call of a tool is refused",
            err=True,
        )
    if lacking:
        ctx.exit(exits.PROBLEM)


def _can_be_asked(own: list[Hook]) -> bool:
    return any(each.wants("tool:before") for each in own) and not any(each.broken for each in own)


def _is_gate(hook: Hook, gate: tuple[str, ...]) -> bool:
    return hook.skill in gate and hook.wants("tool:before")


def _shown(hook: Hook, gate: tuple[str, ...]) -> str:
    name = f"{one_line(hook.skill, 80)}  {one_line(hook.file, 120) or '-'}"
    if hook.problem:
        return f"{name}  not fired: {one_line(hook.problem, 300)}"
    what = "has to agree" if _is_gate(hook, gate) else "looks on"
    return f"{name}  {what}: {one_line(', '.join(sorted(hook.events)), 200)}"
