"""`metier backup` and `metier restore`."""

import os

import click

from metier.catalog.here import owner
from metier.config.load import state_folder
from metier.doors.cli import exits
from metier.doors.cli.opening import settings_of
from metier.errors import StateError
from metier.kernel.host_role import holder
from metier.model.text import one_line
from metier.record.backup import KEYS, back_up, restore
from metier.record.backup_beside import KERNEL, SECRETS
from metier.record.keys import Keys
from metier.record.private import require_private_state


@click.command("backup")
@click.argument("file", metavar="FILE", type=click.Path(exists=False))
@click.option(
    "--with-keys",
    is_flag=True,
    help="Also the keys that sign checkpoints and open secrets, as FILE.keys. Keep it apart.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def backup_command(ctx: click.Context, file: str, with_keys: bool, as_json: bool) -> None:
    """Copy the state of one moment into a new FILE, while everything runs on. The copy is verified.

    What modules keep (settings, messages, schedules) is put beside it as FILE.kernel, the sealed secrets as FILE.secrets.
    """
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
        for end, what in ((KERNEL, "What modules keep is"), (SECRETS, "The secrets are, sealed,")):
            if os.path.lexists(file + end):
                click.echo(f"  {what} in {one_line(file, 200)}{end}.")
        if with_keys and os.path.lexists(file + KEYS):
            click.echo(f"  The keys are in {one_line(file, 200)}{KEYS}.")
            if os.path.lexists(file + SECRETS) and Keys(settings.home).secrets_key_lies == "keyring":
                click.echo(
                    "! But not the one that opens the secrets: it lies in the keyring of this system, and is not saved."
                )
                click.echo("  `metier secrets key --to file` brings it here; then make another backup.")
        elif with_keys:
            click.echo("  There is no key yet, so none was saved: nothing was ever signed.")
        elif os.path.lexists(file + SECRETS):
            click.echo("! Nothing in it opens them: --with-keys saves the key too, to be kept apart.")
    else:
        click.echo(f"✗ The copy was made, and does not verify: {one_line(found.problem)}", err=True)
    if not found.ok:
        ctx.exit(exits.PROBLEM)


@click.command("restore")
@click.argument("file", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def restore_command(file: str, as_json: bool) -> None:
    """Put the backup FILE in place as the state, where there is none. Everything stays stopped until `metier resume`.

    What lies beside it (FILE.kernel, FILE.secrets, FILE.keys) comes back too, each where there is none.
    """
    home = state_folder(os.environ)  # what is broken may be why it is restored
    if (host := holder(home)) is not None:
        raise StateError(
            f"{host} is the host of this state, and would go on with what it had",
            remedy="End it with `metier host stop`, then restore again",
        )
    keys = Keys(home)
    done = restore(file, os.path.join(home, "state.db"), by=owner(), keys=keys)
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(done).decode())
        return
    click.echo(f"✓ Restored {done.records} records.")
    if os.path.lexists(file + KEYS):
        used = "came back" if done.keys else f"were not used: there are keys in {one_line(keys.folder, 200)}"
        click.echo(f"  The keys in {one_line(file, 200)}{KEYS} {used}.")
    for end, came, what in (
        (KERNEL, done.kernel, "What modules kept"),
        (SECRETS, bool(done.secrets), "The sealed secrets"),
    ):
        if os.path.lexists(file + end):
            how = "came back" if came else f"stayed: there was something in {one_line(home, 200)}"
            click.echo(f"  {what} {how}.")
    if done.secrets and done.secrets_key == "missing":
        click.echo("! Nothing here opens them: bring keys/secrets.age back into the state folder;")
        click.echo("  if it is lost for good, remove the folder `secrets` there and set each anew.")
    elif done.secrets and done.secrets_key == "keyring":
        click.echo(
            "! What opens them lies in the keyring of the system the backup was made on: only there they open."
        )
    if done.closed:
        click.echo(
            f"! {done.closed} messages waited to be sent then, and may have been sent since: `metier conversations undelivered`."
        )
    click.echo(f"  {done.voided} open approvals are void, {done.revoked} standing grants are revoked.")
    click.echo("! What was revoked after the backup was made is trusted again: look at `metier skills list`,")
    click.echo(
        "  `metier principals list` and `metier trust show`, then let things run with `metier resume`."
    )
