"""`metier skills new`."""

import os
from typing import Final

import click

from metier.dialects.names import name_problem, style_problems
from metier.doors.cli import exits
from metier.model.text import one_line

_TEMPLATE: Final = """\
---
name: {name}
description: Say in one sentence what this skill does and when to use it. Models choose by this sentence.
version: "0.1.0"
---

# {title}

Write here what to do, step by step, for somebody who has never done it.

1. First step.
2. Second step.

Longer material goes into `references/`, programs into `scripts/`; name each file where it is needed.
"""


@click.command("new")
@click.argument("name")
@click.option("--in", "folder", metavar="DIR", default="skills", show_default=True, help="Where to put it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def new_command(ctx: click.Context, name: str, folder: str, as_json: bool) -> None:
    """Write DIR/NAME/SKILL.md: a skill that loads as it is."""
    problem = name_problem(name) or "; ".join(style_problems(name, name))
    if problem:
        raise click.UsageError(f"{one_line(name, 80)!r} is no good name for a skill: {problem}")
    place = os.path.join(folder, name)
    path = os.path.join(place, "SKILL.md")
    try:
        os.makedirs(place, exist_ok=True)
        with open(path, "x", encoding="utf-8") as file:
            file.write(_TEMPLATE.format(name=name, title=name.replace("-", " ").capitalize()))
    except FileExistsError:
        raise click.UsageError(f"{path} is there already; nothing was changed.") from None
    except OSError as error:
        click.echo(f"metier: cannot write {path}: {error.strerror}", err=True)
        ctx.exit(exits.SETUP)
    if as_json:
        import json

        click.echo(json.dumps({"path": os.path.abspath(path), "name": name}))
        return
    click.echo(
        f"Wrote {path}. Next: edit it, then `metier skills lint {place}` and `metier skills trust {name}`."
    )
