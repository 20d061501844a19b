"""A person looks at what an MCP server tells of its tools. Only his yes makes them count, whatever ends this before.

The bytes are trusted already, or the server could not be run. But without tools that somebody let in, there is nothing to call.
"""

from typing import final

import click

from metier.catalog.acting_programs import with_programs
from metier.catalog.bundle import Snapshot
from metier.catalog.entrust import entrust
from metier.catalog.function_names import name_problems
from metier.catalog.here import catalog_here, owner
from metier.catalog.hold import declared_by
from metier.catalog.listed import Listed
from metier.catalog.probed import Probed, forget, forget_newer, keep, kept, since
from metier.config.settings import Settings
from metier.doors.cli import server_lines, tool_lines
from metier.doors.cli.approvals import at_the_terminal
from metier.doors.cli.working import work
from metier.model.call import Bytes
from metier.model.skill import Skill
from metier.model.text import one_line
from metier.record.database import Database
from metier.record.trust import Trusts, TrustStore


@final
class Look:
    """One look at one server."""

    def __init__(
        self,
        each: Listed,
        snapshot: Snapshot,
        found: Bytes,
        settings: Settings,
        before: Trusts,
        *,
        stays: bool,
    ) -> None:
        """`before`: what was trusted before he was asked; `stays`: whether these very bytes were, and go on as they did."""
        self._each = each
        self._snapshot = snapshot
        self._found = found
        self._settings = settings
        self._stays = stays
        self._looked_at = kept(snapshot)
        self._known = since(settings.bundles, found.digest)
        # To be looked at again, or to have other bytes, makes nobody a newcomer.
        grants = (grant for (name, _), grant in before.grants.items() if name == each.name)
        earlier = (since(settings.bundles, grant.digest) or grant.granted_at for grant in grants)
        self._since = min(earlier, default="")

    def __call__(self, *, ask: bool, quiet: bool) -> str:
        """Gives why its tools are not let in; then what was looked at before counts as it did, or nothing does."""
        from metier.record.chain import now  # slow to import, seldom needed here
        from metier.runtime import ask_server

        each, settings, granted = self._each, self._settings, False
        try:
            told = work(ask_server, settings, each.folder, self._found.digest)
            if isinstance(told, str):
                return f"it could not be asked for its tools: {told}"
            read = declared_by(self._snapshot, each.manifest, folder=each.folder, told=told)
            if read is None:
                return "what it told is of no use"
            if not quiet:
                self._show(read, told)
            if ask and not click.confirm("    Let it do this?", default=False):
                kept_so = "what you looked at before stays"
                return f"not trusted; {kept_so if self._stays else 'that its bytes were is taken back'}"
            # Kept first: whoever is told that something was trusted looks at once what.
            if not keep(self._snapshot, told, since=self._since or now()):
                return "what it told could not be kept; is there room, or is it very much?"
            forget_newer(settings.bundles, self._found.digest)
            with Database.open(settings.database) as database:
                problem = entrust(each, read, self._found, database=database, by=at_the_terminal())
            granted = not problem
            listed = catalog_here(settings).get(each.name)
            for lacking in name_problems(listed) if granted and listed is not None and not quiet else ():
                click.echo(f"    but: {one_line(lacking)}")
            return problem
        finally:
            if not granted:
                self._as_before()

    def _as_before(self) -> None:
        if self._looked_at is None:
            forget(self._settings.bundles, self._found.digest)
        elif kept(self._snapshot) != self._looked_at:
            keep(self._snapshot, self._looked_at, since=self._known)
        if not self._stays:
            with Database.open(self._settings.database) as database:
                TrustStore(database).revoke(self._each.name, by=owner(), path=self._each.folder)

    def _show(self, read: Skill, told: Probed) -> None:
        click.echo(f"    says it is: {one_line(read.description) or '(nothing)'}")
        for line in (
            *tool_lines.shown(with_programs(read, self._each.acting)),
            *server_lines.more(told.exported),
        ):
            click.echo(f"    {line}")
        before = self._looked_at.exported if self._looked_at is not None else {}
        for line in server_lines.changed(before, told.exported) if before else ():
            click.echo(f"    since you looked: {line}")
