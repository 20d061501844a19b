"""What most commands start with: the settings and the catalog, read once."""

import os
import time
from typing import TYPE_CHECKING, Any

import click

from metier.catalog.catalog import Catalog
from metier.catalog.here import catalog_here
from metier.catalog.listed import Listed
from metier.config.load import load, state_folder
from metier.config.settings import Settings
from metier.errors import MetierError
from metier.kernel.lives import with_lives
from metier.model.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from metier.record.database import Database


def state_to_refuse() -> "Database":
    """The state, for a command that only takes something away. It needs no configuration, and what is doubtful about the state
    is said and keeps nobody from saying no."""
    from metier.record.database import Database

    database, doubt = Database.to_refuse(os.path.join(state_folder(os.environ), "state.db"))
    if doubt:
        click.echo(f"metier: {one_line(doubt)}", err=True)
    return database


def settings_of(ctx: click.Context, *, project: str | None = None) -> Settings:
    """The configuration this command line asks for; `project` where another folder than the working directory is meant."""
    given: dict[str, Any] = ctx.find_root().obj
    settings = load(config=given["config"], roots=given["roots"], project=project)
    for warning in settings.warnings:
        click.echo(f"metier: {one_line(warning)}", err=True)
    try:
        return with_lives(settings)
    except MetierError as error:  # what can be shown without it is shown
        click.echo(f"metier: {one_line(str(error))}", err=True)
        return settings


def reading_of(ctx: click.Context) -> "Callable[[], Settings]":
    """Reads the same configuration again each time, for a command that runs for long."""
    given: dict[str, Any] = ctx.find_root().obj
    project = os.getcwd()
    return lambda: load(config=given["config"], roots=given["roots"], project=project)


def catalog_of(ctx: click.Context, *, thorough: bool = False) -> tuple[Settings, Catalog]:
    """Settings and catalog; `thorough` looks at every file of every skill."""
    settings = settings_of(ctx)
    began = time.perf_counter()
    catalog = catalog_here(settings, thorough=thorough)
    if ctx.find_root().obj["log"]:
        from metier.catalog.journal import tell

        tell(catalog, seconds=time.perf_counter() - began)
    return settings, catalog


def named(catalog: Catalog, name: str) -> Listed:
    """The skill of this name, also one that is broken."""
    found = catalog.get(name) or next((each for each in catalog.listed if each.name == name), None)
    if found is not None:
        return found
    from difflib import get_close_matches

    near = get_close_matches(name, [each.name for each in catalog.listed], n=1)
    hint = f"Did you mean {near[0]!r}?" if near else "`metier skills list` shows all of them."
    raise click.UsageError(f"There is no skill {one_line(name, 80)!r}. {hint}")


def complete_skill(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of skills, for shell completion."""
    given = ctx.find_root().params
    try:
        catalog = catalog_here(load(config=given.get("config"), roots=tuple(given.get("roots") or ())))
    except MetierError:
        return []  # a line that is being typed is no place for an error
    return sorted(name for name in catalog.by_name if name.startswith(incomplete))
