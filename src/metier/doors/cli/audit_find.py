"""`metier audit search | show | export`: finding what happened, and handing it on."""

import re
from typing import Any, Final, cast

import click
import msgspec

from metier.doors.cli import exits
from metier.doors.cli.opening import settings_of
from metier.model.digest import Json
from metier.model.text import one_line, visible
from metier.record.audit import AuditLog
from metier.record.chain import Record
from metier.record.database import open_if_there
from metier.record.search import Query, of_call, record_at, search

_TIME: Final = re.compile(r"\d{4}-\d\d(-\d\d([T ]\d\d(:\d\d(:\d\d(\.\d{1,6})?)?)?Z?)?)?")
_NUMBER: Final = re.compile(r"\d{1,18}", re.ASCII)


def when(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | str:
    """A record's number, or a time as records have it; empty when nothing was said."""
    if value is None:
        return ""
    if _NUMBER.fullmatch(value):
        return int(value)
    if _TIME.fullmatch(value):
        return value.replace(" ", "T").removesuffix("Z")
    raise click.BadParameter("give a record's number, or a time in UTC like 2026-11-15 or 2026-11-15T18:30")


@click.command("search")
@click.argument("text", default="")
@click.option("--tool", default="", metavar="NAME")
@click.option("--skill", default="", metavar="NAME")
@click.option("--principal", default="", metavar="ID", help="Who did it, or on whose behalf.")
@click.option("--event", default="", metavar="EVENT", help="For example skill_execution_blocked.")
@click.option("--call", "call_id", default="", metavar="ID")
@click.option(
    "--since", callback=when, default="0", metavar="WHEN", help="A record's number, or a time in UTC."
)
@click.option("--until", callback=when, metavar="WHEN", help="The same; a day is all of that day.")
@click.option(
    "--limit", default=50, show_default=True, type=click.IntRange(1, 100_000), help="How many at most."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.pass_context
def search_command(
    ctx: click.Context,
    text: str,
    tool: str,
    skill: str,
    principal: str,
    event: str,
    call_id: str,
    since: int | str,
    until: int | str,
    limit: int,
    as_json: bool,
) -> None:
    """Find records: by TEXT in them or in what was kept beside them, and by what the options say. Newest last."""
    query = Query(
        text=text,
        tool=tool,
        skill=skill,
        principal=principal,
        event=event,
        call_id=call_id,
        since=since,
        until=until,
    )
    database = open_if_there(settings_of(ctx).database)
    found: list[Record] = []
    if database is not None:
        with database:
            found = search(database, query, limit)
    if not found:
        click.echo("Nothing was found.", err=True)
        ctx.exit(exits.PROBLEM)
    for record in found:
        click.echo(record_object(record, {}) if as_json else record_line(record))
    if len(found) == limit:
        click.echo(f"Only the newest {limit} are shown; --limit shows more.", err=True)


@click.command("show")
@click.argument("what", metavar="SEQ|CALL_ID")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.pass_context
def show_command(ctx: click.Context, what: str, as_json: bool) -> None:
    """Print everything about one call, or about the call that record SEQ belongs to: each record and what was kept with it."""
    database = open_if_there(settings_of(ctx).database)
    records: list[tuple[Record, dict[str, Json]]] = []
    if database is not None:
        with database:
            log = AuditLog(database)
            with database.reading() as connection:
                one = record_at(connection, int(what)) if _NUMBER.fullmatch(what) else None
                call = one.call_id if one else what
                found = of_call(connection, call) if call else []
            if one is not None and all(each.seq != one.seq for each in found):
                found = [one]
            records = [(record, log.kept(record)) for record in found]
    if not records:
        raise click.UsageError(
            f"There is no record and no call {one_line(what, 80)!r}. Try `metier audit search`."
        )
    for record, kept in records:
        click.echo(record_object(record, kept) if as_json else _page(record, kept))


@click.command("export")
@click.option("--format", "form", type=click.Choice(["jsonl", "csv"]), default="jsonl", show_default=True)
@click.option(
    "--since", callback=when, default="0", metavar="WHEN", help="A record's number, or a time in UTC."
)
@click.option("--until", callback=when, metavar="WHEN", help="The same; a day is all of that day.")
@click.option(
    "--stored", is_flag=True, help="Also each record to the byte, to compute the chain again (jsonl)."
)
@click.pass_context
def export_command(ctx: click.Context, form: str, since: int | str, until: int | str, stored: bool) -> None:
    """Print every record as one line, oldest first: JSON objects, or CSV for a spreadsheet."""
    from metier.record.export import COLUMNS, csv_cells, exported, json_line

    if stored and form == "csv":
        raise click.UsageError("--stored goes with --format jsonl.")
    database = open_if_there(settings_of(ctx).database)
    if form == "csv":
        click.echo(_quoted(COLUMNS))
    if database is None:
        click.echo("Nothing was recorded yet.", err=True)
        return
    with database:
        for line in exported(database, since=since, until=until, stored=stored):
            click.echo(json_line(line) if form == "jsonl" else _quoted(csv_cells(line)))


def _quoted(cells: "list[str] | tuple[str, ...]") -> str:
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells)


def record_object(record: Record, kept: dict[str, Json]) -> str:
    """A record as one line of JSON, with what was kept beside it."""
    import json

    if not kept:
        return msgspec.json.encode(record).decode("utf-8")
    # Others wrote what was kept, so what is beyond ASCII is escaped: nothing in it can move a cursor.
    return json.dumps({**msgspec.to_builtins(record), "kept": kept}, separators=(",", ":"))


def record_line(record: Record) -> str:
    """A record on one line for people."""
    subject = " ".join(part for part in (record.tool, record.skill) if part)
    reasons = f" ({'; '.join(record.reasons)})" if record.reasons else ""
    code = f" {record.code}" if record.code else ""
    return one_line(
        f"{record.seq:>6} {record.at} {record.event}{code}: {subject} by {record.principal}{reasons}", 400
    )


def _page(record: Record, kept: dict[str, Json]) -> str:
    """A record in full. Nothing of it is cut."""
    import json

    lines = [f"{record.seq}  {record.at}  {record.event} ({record.level}, {record.category})"]
    plain: dict[str, Any] = msgspec.to_builtins(record)
    for name in ("seq", "at", "event", "level", "category", "payloads", "unkept", "lengths"):
        plain.pop(name, None)
    for name, value in plain.items():
        if value not in ("", (), None):
            said = "; ".join(cast("list[str]", value)) if isinstance(value, list | tuple) else str(value)
            lines.append(f"    {name.replace('_', ' ')}: {one_line(said)}")
    for name in record.payloads:
        if name in kept:
            text = visible(json.dumps(kept[name], indent=2, ensure_ascii=False))
            lines.append(f"    {one_line(name)}: " + text.replace("\n", "\n    "))
        else:
            why = "only its digest was kept" if name in record.unkept else "erased, or not as it was recorded"
            if name in record.lengths:
                why = f"{record.lengths[name]:,} bytes, of which only the digest was kept"
            lines.append(f"    {one_line(name)}: ({why})")
    return "\n".join(lines) + "\n"
