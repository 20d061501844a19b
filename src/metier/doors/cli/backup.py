"""`metier backup` and `metier restore`."""

import os

import click

from metier.catalog.here import owner
from metier.doors.cli import exits
from metier.doors.cli.opening import settings_of
from metier.errors import StateError
from metier.model.text import one_line
from metier.record.backup import KEYS, back_up, restore
from metier.record.keys import Keys
from metier.record.private import require_private_state


@click.command("backup")
@click.argument("file", metavar="FILE", type=click.Path(exists=False))
@click.option(
    "--with-keys", is_flag=True, help="Also the key that signs checkpoints, as FILE.keys. Keep it secret."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def backup_command(ctx: click.Context, file: str, with_keys: bool, as_json: bool) -> None:
    """Copy the state of one moment into a new FILE, while everything runs on. The copy is verified."""
    settings = settings_of(ctx)
    if not os.path.lexists(settings.database):
        raise StateError("there is no state yet", remedy="Call something first")
    require_private_state(settings.database)
    found = back_up(settings.database, file, keys=Keys(settings.home) if with_keys else None)
    if as_json:
        import json

        click.echo(
            json.dumps(
                {"ok": found.ok, "records": found.records, "head": found.head, "problem": found.problem}
            )
        )
    elif found.ok:
        click.echo(f"✓ {found.records} records. Head: {found.records}:{found.head}")
        if with_keys and os.path.lexists(file + KEYS):
            click.echo(f"  The keys are in {one_line(file, 200)}{KEYS}.")
        elif with_keys:
            click.echo("  There is no key yet, so none was saved: nothing was ever signed.")
    else:
        click.echo(f"✗ The copy was made, and does not verify: {one_line(found.problem)}", err=True)
    if not found.ok:
        ctx.exit(exits.PROBLEM)


@click.command("restore")
@click.argument("file", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def restore_command(ctx: click.Context, file: str, as_json: bool) -> None:
    """Put the backup FILE in place as the state, where there is none. Everything stays stopped until `metier resume`."""
    settings = settings_of(ctx)
    keys = Keys(settings.home)
    done = restore(file, settings.database, by=owner(), keys=keys)
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(done).decode())
        return
    click.echo(f"✓ Restored {done.records} records.")
    if os.path.lexists(file + KEYS):
        used = "came back" if done.keys else f"were not used: there are keys in {one_line(keys.folder, 200)}"
        click.echo(f"  The keys in {one_line(file, 200)}{KEYS} {used}.")
    click.echo(f"  {done.voided} open approvals are void, {done.revoked} standing grants are revoked.")
    click.echo("! What was revoked after the backup was made is trusted again: look at `metier skills list`,")
    click.echo(
        "  `metier principals list` and `metier trust show`, then let things run with `metier resume`."
    )
