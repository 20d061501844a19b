"""`metier skills new`: a skill in any dialect that loads as it is, with cases that hold (`metier skills test`)."""

import os
from importlib.resources import files
from tempfile import TemporaryDirectory
from typing import Final, get_args

import click

from metier.catalog.lint import Linted, lint
from metier.catalog.requirements import Environment
from metier.dialects.names import name_problem, style_problems
from metier.dialects.package_file import is_name
from metier.doors.cli import exits
from metier.doors.cli.approvals import at_the_terminal
from metier.model.role import CREATE
from metier.model.skill import Dialect
from metier.model.text import one_line

_STARTERS: Final = "starters"
_NAME: Final = "__NAME__"


@click.command("new")
@click.argument("name")
@click.option("--in", "folder", metavar="DIR", default="skills", show_default=True, help="Where to put it.")
@click.option(
    "--dialect",
    type=click.Choice([each for each in get_args(Dialect) if each != "mcp_server"]),  # those are imported
    default="metier",
    show_default=True,
    help="How to write it down.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def new_command(ctx: click.Context, name: str, folder: str, dialect: str, as_json: bool) -> None:
    """Write DIR/NAME: a skill that loads as it is, and the cases that `metier skills test` tries."""
    me = at_the_terminal()
    if CREATE not in me.rights:
        click.echo(f"metier: {me.id!r} lacks the right {CREATE!r}, which it takes to write a skill", err=True)
        ctx.exit(exits.PROBLEM)
    problem = name_problem(name) or "; ".join(style_problems(name, name))
    if problem:
        raise click.UsageError(f"{one_line(name, 80)!r} is no good name for a skill: {problem}")
    place = os.path.join(folder, name)
    texts = _texts(dialect, name)
    if problem := _unread(dialect, name, texts):
        raise click.UsageError(
            f"{one_line(name, 80)!r} is no good name for a skill in the dialect {dialect}: {problem}"
        )
    manifest = next(iter(texts))
    # All of them first: nothing is begun where it could not be ended.
    there = [path for path in (os.path.join(place, file) for file in texts) if os.path.lexists(path)]
    if there:
        raise click.UsageError(f"{there[0]} is there already; nothing was changed.")
    path = place
    try:
        os.makedirs(place, exist_ok=True)
        for file, text in texts.items():
            path = os.path.join(place, file)
            with open(path, "x", encoding="utf-8") as opened:
                opened.write(text)
    except OSError as error:
        click.echo(f"metier: cannot write {path}: {error.strerror}", err=True)
        ctx.exit(exits.SETUP)
    path = os.path.join(place, manifest)
    if as_json:
        import json

        written = [os.path.abspath(os.path.join(place, file)) for file in texts]
        click.echo(
            json.dumps({"path": os.path.abspath(path), "name": name, "dialect": dialect, "files": written})
        )
        return
    click.echo(
        f"Wrote {path}. Next: edit it, then `metier skills lint {place}`, `metier skills trust {name}` and "
        f"`metier skills test {name}`."
    )
    if dialect == "xbot":
        click.echo(
            f"An XBot package is a skill once metier.toml names it: `[xbot]` with allow and enabled = [{name!r}], "
            f"`[xbot.resolve]` with local_paths = [{place!r}]."
        )


def _texts(dialect: str, name: str) -> dict[str, str]:
    """The files of a skill by their names, the manifest first."""
    title = name.replace("-", " ").capitalize()
    words = {_NAME: name, "__TITLE__": title, "__FUNCTION__": name.replace("-", "_")}
    found: dict[str, str] = {}
    for each in files("metier.doors.cli").joinpath(_STARTERS, dialect).iterdir():
        if each.is_file():
            found[each.name.replace(_NAME, name)] = _filled(each.read_text(encoding="utf-8"), words)
    manifests = ("SKILL.md", "skill.yaml", "package.json", f"{name}.json")
    return dict(sorted(found.items(), key=lambda item: (item[0] not in manifests, item[0])))


def _unread(dialect: str, name: str, texts: dict[str, str]) -> str:
    """Why a skill of this name would not be read as what it is called; empty when it would."""
    if dialect == "xbot":  # it can be read only by running it
        return "" if is_name(name) else "a package is called by small ASCII letters, digits and hyphens"
    with TemporaryDirectory() as top:
        place = os.path.join(top, name)
        os.mkdir(place)
        for file, text in texts.items():
            with open(os.path.join(place, file), "x", encoding="utf-8") as opened:
                opened.write(text)
        found = [
            each
            for each in lint((place,), Environment(path="", env={}, platform="linux"))
            if isinstance(each, Linted)
        ]
    if [(each.name, each.dialect) for each in found] != [(name, dialect)]:
        return "it would be read as something else"
    return next((each.message for each in found[0].diagnostics if each.severity == "error"), "")


def _filled(text: str, words: dict[str, str]) -> str:
    for place, word in words.items():
        text = text.replace(place, word)
    return text
