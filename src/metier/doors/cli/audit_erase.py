"""`metier audit erase | retain`: making what was kept beside records unreadable, for good. The records stay."""

from datetime import UTC, datetime, timedelta

import click

from metier.catalog.here import owner
from metier.doors.cli import exits
from metier.doors.cli.opening import settings_of
from metier.model.text import one_line
from metier.record.database import Database
from metier.record.erasure import calls_of, erase, erase_call, older_than, require_records
from metier.record.inside import with_inner
from metier.record.payload import bounded_text


@click.command("erase")
@click.argument("seqs", metavar="[SEQ]...", nargs=-1, type=click.IntRange(1, 2**63 - 1))
@click.option(
    "--call",
    "call_id",
    metavar="ID",
    help="Everything that was kept of this call and of those inside of it, their logs too.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def erase_command(ctx: click.Context, seqs: tuple[int, ...], call_id: str | None, yes: bool) -> None:
    """Erase arguments, results and whatever else was kept with records SEQ, or with a call. Nobody can bring it back."""
    if bool(seqs) == bool(call_id):
        raise click.UsageError("Give either numbers of records, or --call.")
    settings = settings_of(ctx)
    with Database.open(settings.database, create=False) as database:
        calls = _with_inner(database, call_id) if call_id else frozenset[str]()
        what = f"the call {one_line(call_id, 80)}" if call_id else f"record {', '.join(map(str, seqs))}"
        if len(calls) > 1:
            what += f" and of {len(calls) - 1} that came of it"
        if not yes:
            click.confirm(f"Erase what was kept of {what}, for good?", abort=True, err=True)
        if call_id:
            done = erase_call(database, call_id, by=owner())
            done += _erase_logs(settings.home, calls)
        else:
            require_records(database, seqs)
            done = _erase_logs(settings.home, calls_of(database, seqs))
            done += erase(database, seqs, by=owner())
    if done:
        click.echo(f"✓ Erased what was kept of {what}. The records stay.")
    else:
        click.echo(f"Nothing was left to erase of {what}.")


@click.command("retain")
@click.option("--days", type=click.IntRange(1, 36_500), help="Instead of `[audit] keep_days`.")
@click.option("--dry-run", is_flag=True, help="Only say how many it would be.")
@click.pass_context
def retain_command(ctx: click.Context, days: int | None, dry_run: bool) -> None:
    """Erase what was kept with records older than `[audit] keep_days`. Run it daily; it never runs by itself."""
    settings = settings_of(ctx)
    days = days if days is not None else settings.audit.keep_days
    if days is None:
        raise click.UsageError(
            "Say how long payloads are kept: `[audit] keep_days` in metier.toml, or --days."
        )
    before = (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    with Database.open(settings.database, create=False) as database:
        old = older_than(database, before)
        if not dry_run:  # logs first: of what is erased already nobody could say any more whose it was
            _erase_logs(settings.home, calls_of(database, old.seqs))
        done = len(old.seqs) if dry_run else erase(database, old.seqs, by=owner())
    said = "would be erased" if dry_run else "were erased"
    click.echo(f"✓ The payloads of {done} records from before {before[:16].replace('T', ' ')} UTC {said}.")
    if old.unreadable:
        numbers = ", ".join(map(str, old.unreadable[:10])) + (" …" if len(old.unreadable) > 10 else "")
        click.echo(f"✗ How old record {numbers} is cannot be read, so what was kept with it stays.", err=True)
        click.echo("  Run `metier audit verify` to see what is wrong with the log.", err=True)
        ctx.exit(exits.PROBLEM)


def _erase_logs(home: str, calls: frozenset[str]) -> int:
    """What skills wrote into the logs of these calls, what they took in or sent on channels, and what the HTTP door answered to them;
    gives how many there were."""
    from metier.host.call_log import erase_log
    from metier.record.doors_db import erase_answers

    logs = sum(erase_log(home, call_id) for call_id in calls)
    return logs + _erase_said(home, calls) + erase_answers(home, calls)


def _with_inner(database: Database, call_id: str) -> frozenset[str]:
    with database.reading() as connection:
        return with_inner(connection, frozenset({bounded_text(call_id)}))


def _erase_said(home: str, calls: frozenset[str]) -> int:
    """The words of the messages that these calls took in or sent; gives how many."""
    import os

    from metier.kernel.store import FILE

    if not calls or not os.path.exists(os.path.join(home, FILE)):
        return 0
    from metier.kernel.conversation_erase import erase_of_calls
    from metier.kernel.store import Store

    store = Store(home)
    try:
        return erase_of_calls(store, calls)
    finally:
        store.close()
