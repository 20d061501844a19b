"""`metier skills list`."""

import sys
from typing import Any

import click

from metier.catalog.listed import Listed
from metier.doors.cli.opening import catalog_of
from metier.model.text import one_line


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array, one object a skill.")
@click.pass_context
def list_command(ctx: click.Context, as_json: bool) -> None:
    """Show all skills: ✓ usable or ✗ not, emoji, name, description. What ships and was never started is only counted."""
    _, catalog = catalog_of(ctx)
    if as_json:
        import json

        click.echo(json.dumps([summary(each) for each in catalog.listed], ensure_ascii=False, indent=1))
        return
    listed = [each for each in catalog.listed if not each.shadowed_by and not each.offered]
    listed.sort(key=lambda each: each.name)
    if sys.stdout.isatty():
        from metier.doors.cli.terminal import show_list

        show_list(listed)
    else:
        click.echo("".join(f"{line(each)}\n" for each in listed), nl=False)
    click.echo(_totals(catalog.listed), err=True)


def line(each: Listed) -> str:
    """One skill on one line, safe to print."""
    mark = "✓" if each.shown == "usable" else "✗"
    emoji = one_line(each.skill.emoji, 8) if each.skill else ""
    known = each.skill is not None and not each.probe
    about = (
        one_line(each.skill.description) if each.skill and known else f"({each.shown}: {one_line(each.why)})"
    )
    held = f"({each.held_back})" if each.held_back else ""
    return " ".join(part for part in (mark, emoji, one_line(each.name, 80), "-", about, held) if part)


def summary(each: Listed) -> dict[str, Any]:
    """One skill for programs."""
    skill = each.skill
    return {
        "name": each.name,
        "status": each.shown,
        "why": each.why,
        "emoji": skill.emoji if skill else "",
        "description": skill.description if skill else "",
        "dialect": skill.dialect if skill else None,
        "source": skill.source if skill else None,
        "folder": each.folder,
        "root": each.root.path,
        "digest": (skill.digest if skill else "") or None,
        "held_back": skill.held_back if skill else {},
    }


def _totals(listed: tuple[Listed, ...]) -> str:
    if all(each.offered for each in listed):
        return (
            "No skills found. Put some into ~/.metier/skills, write one with `metier skills new NAME`, "
            "or point to a folder with `metier --root DIR skills list`."
        )
    counts: dict[str, int] = {}
    for each in listed:
        if not each.offered:
            counts[each.shown] = counts.get(each.shown, 0) + 1
    words = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in counts.items())
    more = "" if set(counts) <= {"usable", "shadowed"} else " `metier skills check` says why, and what to do."
    offered = ", ".join(one_line(each.name, 80) for each in listed if each.offered)
    if offered:
        more += f"\nOff until you start it with `metier skills start`: {offered}"
    return f"{words}.{more}"
