"""`metier skills check`: why is my skill missing?"""

import sys
from typing import Any

import click

from metier.catalog.catalog import Catalog
from metier.catalog.here import trusts_here
from metier.catalog.listed import Listed
from metier.catalog.review import withheld
from metier.doors.cli import exits, words
from metier.doors.cli.opening import catalog_of, complete_skill, named
from metier.model.text import one_line
from metier.record.trust import Trusts


@click.command("check")
@click.argument("name", required=False, shell_complete=complete_skill)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def check_command(ctx: click.Context, name: str | None, as_json: bool) -> None:
    """Say for every skill, or for NAME, whether it is usable, and if not, why and what to do.

    Exit status 1 when something is not usable, but for what came with Metier and needs what you did not install.
    """
    settings, catalog = catalog_of(ctx, thorough=True)
    trusts = trusts_here(settings)
    listed = (named(catalog, name),) if name else catalog.listed
    if as_json:
        import json

        click.echo(json.dumps(_report(catalog, listed), ensure_ascii=False, indent=1))
    else:
        for each in listed:
            _show(each, trusts)
        if not name:
            for note in catalog.notes:
                click.echo(f"! {one_line(note.folder)}\n    {words.finding(note.problem)}")
            click.echo(_last_word(listed), err=True)
    if any(map(_is_problem, listed)) or (name and listed[0].shown == "unavailable"):
        ctx.exit(exits.PROBLEM)


def _is_problem(each: Listed) -> bool:
    fine = ("usable", "shadowed", "unavailable") if each.root.kind == "bundled" else ("usable", "shadowed")
    return each.shown not in fine and not each.offered


def _show(each: Listed, trusts: Trusts) -> None:
    findings = [found for found in each.diagnostics if found.severity != "info"]
    mark = "✓" if each.shown == "usable" else "·" if each.shown == "shadowed" or each.offered else "✗"
    click.echo(f"{mark} {one_line(each.name, 80)}: {each.shown.replace('_', ' ')}  ({one_line(each.folder)})")
    said = words.advice(each, sys.platform)
    for text in said:
        click.echo(f"    {text}")
    for found in findings:
        if one_line(found.message) not in said:
            click.echo(f"    {words.finding(found)}")
    if each.shown == "usable" and (lacks := withheld(each, each.skill.digest if each.skill else "", trusts)):
        click.echo(f"    not granted: {words.withheld(each.name, lacks)}")


def _report(catalog: Catalog, listed: tuple[Listed, ...]) -> dict[str, Any]:
    return {
        "skills": [
            {
                "name": each.name,
                "status": each.shown,
                "folder": each.folder,
                "advice": words.advice(each, sys.platform),
                "diagnostics": [
                    {"code": d.code, "severity": d.severity, "message": d.message, "line": d.line}
                    for d in each.diagnostics
                ],
            }
            for each in listed
        ],
        "notes": [
            {"folder": n.folder, "code": n.problem.code, "message": n.problem.message} for n in catalog.notes
        ],
    }


def _last_word(listed: tuple[Listed, ...]) -> str:
    if not listed:
        return "No skill folders were found in any root."
    bad = sum(each.shown not in ("usable", "shadowed") and not each.offered for each in listed)
    return (
        "Every skill is usable." if not bad else f"{bad} of {len(listed)} not usable; the reasons are above."
    )
