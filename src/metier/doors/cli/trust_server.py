"""A person looks at what an MCP server tells of its tools. Only his yes makes them count, whatever ends this before."""

from typing import final

import click

from metier.catalog.acting_programs import with_programs
from metier.catalog.here import catalog_here, owner
from metier.catalog.probed import Probed
from metier.catalog.trusting import Taken
from metier.catalog.trusting_server import ServerTools
from metier.config.settings import Settings
from metier.doors.cli import server_lines, tool_lines
from metier.doors.cli.approvals import at_the_terminal
from metier.doors.cli.working import work
from metier.model.skill import Skill
from metier.model.text import one_line
from metier.record.database import Database
from metier.record.trust import TrustStore


@final
class Look:
    """One look at one server."""

    def __init__(self, taken: Taken, settings: Settings) -> None:
        self._taken = taken
        self._each = taken.each
        self._settings = settings
        self._tools = ServerTools(taken, settings)

    def __call__(self, *, ask: bool, quiet: bool) -> str:
        """Gives why its tools are not let in; then what was looked at before counts as it did, or nothing does."""
        from metier.runtime import ask_server  # slow to import, seldom needed here

        each, settings, granted = self._each, self._settings, False
        try:
            told = work(ask_server, settings, each.folder, self._taken.measured.digest)
            if isinstance(told, str):
                return f"it could not be asked for its tools: {told}"
            read = self._tools.read(told)
            if read is None:
                return "what it told is of no use"
            if not quiet:
                self._show(read, told)
                for lacking in self._tools.clashes(read, catalog_here(settings)):
                    click.echo(f"    but: {one_line(lacking)}")
            if ask and not click.confirm("    Let it do this?", default=False):
                kept_so = "what you looked at before stays"
                return f"not trusted; {kept_so if self._taken.stays else 'that its bytes were is taken back'}"
            with Database.open(settings.database) as database:
                problem = self._tools.let_in(told, database=database, by=at_the_terminal())
            granted = not problem
            return problem
        finally:
            if not granted:
                self._as_before()

    def _as_before(self) -> None:
        self._tools.as_before()
        if not self._taken.stays:
            with Database.open(self._settings.database) as database:
                TrustStore(database).revoke(self._each.name, by=owner(), path=self._each.folder)

    def _show(self, read: Skill, told: Probed) -> None:
        click.echo(f"    says it is: {one_line(read.description) or '(nothing)'}")
        for line in (
            *tool_lines.shown(with_programs(read, self._each.acting)),
            *server_lines.more(told.exported),
        ):
            click.echo(f"    {line}")
        before = self._tools.looked_at.exported if self._tools.looked_at is not None else {}
        for line in server_lines.changed(before, told.exported) if before else ():
            click.echo(f"    since you looked: {line}")
