"""`metier audit …`."""

import os
import string
from collections.abc import Callable
from typing import Final

import click
import msgspec

from metier.doors.cli import exits
from metier.doors.cli.audit_erase import erase_command, retain_command
from metier.doors.cli.audit_find import (
    export_command,
    record_line,
    record_object,
    search_command,
    show_command,
)
from metier.doors.cli.audit_sign import (
    check_command,
    checkpoint_command,
    checkpoint_in,
    keys_for,
    prove_command,
    rotate_key_command,
)
from metier.doors.cli.opening import settings_of
from metier.model.digest import Json
from metier.model.text import one_line
from metier.record.audit import AuditLog
from metier.record.chain import Record
from metier.record.checkpoint import Checkpoint, Known, unvouched
from metier.record.database import open_if_there, require_none_before
from metier.record.private import require_private_state
from metier.record.verify import Verification, verify, verify_nothing

_MOST_DIGITS: Final = 18


@click.group("audit")
def audit_command() -> None:
    """Read, verify, sign and hand on the record of what happened."""


for command in (
    checkpoint_command,
    prove_command,
    check_command,
    rotate_key_command,
    search_command,
    show_command,
    export_command,
    erase_command,
    retain_command,
):
    audit_command.add_command(command)


@audit_command.command("tail")
@click.option(
    "-n", "--lines", default=20, show_default=True, type=click.IntRange(1, 100_000), help="How many records."
)
@click.option("--call", "call_id", metavar="ID", help="Only records of this call.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON object a line; with --call also what was kept beside each record.",
)
@click.pass_context
def tail_command(ctx: click.Context, lines: int, call_id: str | None, as_json: bool) -> None:
    """Print the newest records, newest last."""
    database = open_if_there(settings_of(ctx).database)
    records: list[Record] = []
    kept: dict[int, dict[str, Json]] = {}
    if database is not None:
        with database:
            log = AuditLog(database)
            records = log.tail(lines, call_id=call_id)
            if as_json and call_id is not None:
                kept = {record.seq: log.kept(record) for record in records}
    if not records:
        click.echo("Nothing was recorded yet.", err=True)
    for record in records:
        click.echo(record_object(record, kept.get(record.seq, {})) if as_json else record_line(record))


@audit_command.command("verify")
@click.option(
    "--since",
    "checkpoint",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help="A checkpoint kept elsewhere: the log must still begin with what was signed.",
)
@click.option(
    "--key",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Public keys to check signatures with, instead of those in the state folder.",
)
@click.option(
    "--expect", metavar="COUNT:HASH", help="A head kept elsewhere, as printed by an earlier verify."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def verify_command(
    ctx: click.Context, checkpoint: str | None, key: str | None, expect: str | None, as_json: bool
) -> None:
    """Check that no record was changed, removed, swapped, cut off or rolled back. Exit status 1 when one was."""
    expected = None if expect is None else _head(expect)
    settings = settings_of(ctx)
    known = keys_for(settings, key)
    kept = None if checkpoint is None else checkpoint_in(checkpoint)
    path = settings.database
    there = os.path.lexists(path)
    if there:
        require_private_state(path)
    problem = "" if kept is None else unvouched(kept, known)
    if problem:
        found = Verification(
            ok=False, records=0, head="00" * 32, problem=f"the checkpoint that was kept: {problem}"
        )
    elif there:
        found = walked(path, lambda: keys_for(settings, None) if key is None else known, expected, kept)
    else:
        found = verify_nothing(path, expected=expected, kept=kept)
        if found.ok:
            require_none_before(path)
    if found.ok and known and found.records and not any(each.key.name == found.origin for each in known):
        notes = (*found.notes, "none of the keys here is for this log: is it the one you signed?")
        found = msgspec.structs.replace(found, notes=notes)
    if found.ok and not found.signed and any(each.key.name == found.origin for each in known):
        notes = (
            *found.notes,
            "a key here has signed this log before, and now nothing in it is signed: was its end cut off?",
        )
        found = msgspec.structs.replace(found, notes=notes)
    if found.ok and found.signed and not known:
        notes = (
            *found.notes,
            "there is no public key here, so the log's own word was taken for its key; give --key",
        )
        found = msgspec.structs.replace(found, notes=notes)
    if as_json:
        click.echo(msgspec.json.encode(found).decode("utf-8"))
    else:
        _tell(found, kept, there=there)
    if not found.ok:
        ctx.exit(exits.PROBLEM)


def walked(
    path: str,
    keys: Callable[[], tuple[Known, ...]],
    expected: tuple[int, str] | None = None,
    kept: Checkpoint | None = None,
) -> Verification:
    """Verify the log at `path`, with the public keys that `keys` reads.

    The keys are read before the log. Somebody may put a new key in place in between and sign with it: then it is looked at again.
    """
    while True:
        known = keys()
        found = verify(path, expected=expected, kept=kept, trusted=known or None)
        if found.ok or keys() == known:
            return found


def _tell(found: Verification, kept: Checkpoint | None, *, there: bool) -> None:
    if not found.ok:
        place = f"record {found.first_bad}" if found.first_bad is not None else "the record"
        click.echo(f"✗ {place}: {one_line(found.problem)}", err=True)
        return
    if not there:
        click.echo("Nothing was recorded yet.", err=True)
        return
    click.echo(f"✓ {found.records} records, nothing changed. Head: {found.records}:{found.head}")
    if kept is not None:
        click.echo(f"✓ The first {kept.size} are those of the checkpoint of {kept.at}.")
    if found.signed:
        click.echo(f"  {found.signed} are signed, {found.records - found.signed} came since.")
    for note in found.notes:
        click.echo(f"! {note}")
    if found.open_intents:
        click.echo(f"! {len(found.open_intents)} calls began and have no outcome: {list(found.open_intents)}")


def _head(text: str) -> tuple[int, str]:
    """`COUNT:HASH` as an earlier verify printed it; letters of either case are the same hash."""
    count, _, digest = text.partition(":")
    digits = count.isascii() and count.isdigit() and len(count) <= _MOST_DIGITS
    if not digits or len(digest) != 64 or not set(digest) <= set(string.hexdigits):
        raise click.UsageError("--expect takes COUNT:HASH, as an earlier verify printed it.")
    return int(count), digest.lower()
