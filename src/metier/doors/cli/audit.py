"""`metier audit …`."""

import os
import string
from typing import Final

import click
import msgspec

from metier.doors.cli import exits
from metier.doors.cli.opening import settings_of
from metier.model.digest import Json
from metier.model.text import one_line
from metier.record.audit import AuditLog
from metier.record.chain import Record
from metier.record.database import open_if_there
from metier.record.private import require_private_state
from metier.record.verify import verify, verify_nothing

_MOST_DIGITS: Final = 18


@click.group("audit")
def audit_command() -> None:
    """Read and verify the record of what happened."""


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
        click.echo(_object(record, kept.get(record.seq, {})) if as_json else _line(record))


def _object(record: Record, kept: dict[str, Json]) -> str:
    import json

    if not kept:
        return msgspec.json.encode(record).decode("utf-8")
    # Others wrote what was kept, so what is beyond ASCII is escaped: nothing in it can move a cursor.
    return json.dumps({**msgspec.to_builtins(record), "kept": kept}, separators=(",", ":"))


def _line(record: Record) -> str:
    subject = " ".join(part for part in (record.tool, record.skill) if part)
    reasons = f" ({'; '.join(record.reasons)})" if record.reasons else ""
    code = f" {record.code}" if record.code else ""
    return one_line(
        f"{record.seq:>6} {record.at} {record.event}{code}: {subject} by {record.principal}{reasons}", 400
    )


@audit_command.command("verify")
@click.option(
    "--expect", metavar="COUNT:HASH", help="A head kept elsewhere, as printed by an earlier verify."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def verify_command(ctx: click.Context, expect: str | None, as_json: bool) -> None:
    """Check that no record was changed, removed, swapped or cut off. Exit status 1 when one was."""
    expected = None if expect is None else _head(expect)
    path = settings_of(ctx).database
    there = os.path.lexists(path)
    if there:
        require_private_state(path)
        found = verify(path, expected=expected)
    else:
        found = verify_nothing(path, expected=expected)
    if as_json:
        click.echo(msgspec.json.encode(found).decode("utf-8"))
    elif found.ok and not there:
        click.echo("Nothing was recorded yet.", err=True)
    elif found.ok:
        click.echo(f"✓ {found.records} records, nothing changed. Head: {found.records}:{found.head}")
        if found.open_intents:
            click.echo(
                f"! {len(found.open_intents)} calls began and have no outcome: {list(found.open_intents)}"
            )
    else:
        place = f"record {found.first_bad}" if found.first_bad is not None else "the record"
        click.echo(f"✗ {place}: {one_line(found.problem)}", err=True)
    if not found.ok:
        ctx.exit(exits.PROBLEM)


def _head(text: str) -> tuple[int, str]:
    """`COUNT:HASH` as an earlier verify printed it; letters of either case are the same hash."""
    count, _, digest = text.partition(":")
    digits = count.isascii() and count.isdigit() and len(count) <= _MOST_DIGITS
    if not digits or len(digest) != 64 or not set(digest) <= set(string.hexdigits):
        raise click.UsageError("--expect takes COUNT:HASH, as an earlier verify printed it.")
    return int(count), digest.lower()
