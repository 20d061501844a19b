"""`metier skills info`."""

import os
import sys
from typing import Any

import click
import msgspec

from metier.catalog.listed import Listed
from metier.catalog.requirements import install_hint
from metier.catalog.review import review
from metier.config.settings import Settings
from metier.doors.cli import tool_lines, words
from metier.doors.cli.listing import summary
from metier.doors.cli.opening import catalog_of, complete_skill, named
from metier.model.skill import Skill
from metier.model.text import one_line


@click.command("info")
@click.argument("name", shell_complete=complete_skill)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def info_command(ctx: click.Context, name: str, as_json: bool) -> None:
    """Show everything about the skill NAME: what it says, needs, may do, and why it is not usable."""
    settings, catalog = catalog_of(ctx, thorough=True)
    each = named(catalog, name)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(_everything(each, settings)), indent=1).decode())
        return
    rows = [(f"{label}:" if label else "", value) for label, value in _rows(each, settings) if value]
    click.echo("\n".join(f"{label:<14} {value}" for label, value in rows))
    for found in each.diagnostics:
        click.echo(f"  {words.finding(found)}")


def _rows(each: Listed, settings: Settings) -> list[tuple[str, str]]:
    skill = each.skill or Skill(name=each.name, description="", dialect="agent_skills")
    rows = [
        ("name", f"{one_line(skill.emoji, 8)} {one_line(each.name)}".strip()),
        ("status", each.shown.replace("_", " ")),
        *(("", said) for said in words.advice(each, sys.platform)),
        ("description", one_line(skill.description)),
        ("dialect", skill.dialect if each.skill else ""),
        ("source", skill.source.replace("_", " ") if each.skill else ""),
        ("version", one_line(skill.version)),
        ("license", one_line(skill.license)),
        ("homepage", one_line(skill.homepage)),
        ("compatibility", one_line(skill.compatibility)),
        ("folder", one_line(each.folder)),
        ("holds", ", ".join(noted(each.folder))),
        ("may", words.permissions(skill.permissions) if each.skill else ""),
        *(("where", line) for line in words.programs(skill.permissions, settings.binaries.programs)),
        *(("tool" if not line.startswith(" ") else "", line) for line in tool_lines.lines(skill)),
        ("install", install_hint(skill.installers, sys.platform)),
        ("proposes", one_line(", ".join(skill.proposed_tools))),
        ("for models", "" if skill.model_may_invoke else "no, only for people"),
        ("for people", "" if skill.user_may_invoke else "no, only for models"),
        ("settings key", one_line(skill.key)),
        *((f"also: {one_line(key, 30)}", one_line(str(value), 300)) for key, value in skill.extra.items()),
    ]
    if each.skill is None:
        return rows
    looked = review(each, settings)
    if looked.withheld:
        rows.append(("not granted", words.withheld(each.name, looked.withheld)))
    rows.append(("digest", looked.digest or looked.problem))
    if looked.changed:
        rows.append(
            ("now also may", words.permissions(looked.diff.added) if looked.diff.added else "nothing more")
        )
        rows.append(("no longer", words.permissions(looked.diff.removed) if looked.diff.removed else ""))
        rows.append(("files changed", one_line(", ".join(looked.files))))
    return rows


def _everything(each: Listed, settings: Settings) -> dict[str, Any]:
    looked = review(each, settings)
    return {
        **summary(each),
        "skill": each.skill,
        "digest": looked.digest or None,
        "holds": noted(each.folder),
        "missing": [
            {"type": error.type, "name": error.name, "message": str(error)} for error in each.missing
        ],
        "diagnostics": each.diagnostics,
        "permissions": each.skill.permissions.plain() if each.skill else {},
        "programs": words.programs(each.skill.permissions, settings.binaries.programs) if each.skill else [],
        "permissions_withheld": looked.withheld.plain(),
        "permissions_added": looked.diff.added.plain(),
        "permissions_removed": looked.diff.removed.plain(),
    }


def noted(folder: str) -> list[str]:
    """Which of the customary folders and files a skill has."""
    customary = (
        "hooks",
        "scripts",
        "references",
        "assets",
        "templates",
        "agents/openai.yaml",
        "package.json",
    )
    return [name for name in customary if os.path.exists(os.path.join(folder, name))]
