"""`metier policy replay`: what other rules would have done to the recorded past."""

import json
import os
from collections import Counter
from typing import Any, Final

import click

from metier.doors.cli import exits
from metier.doors.cli.audit_find import when
from metier.doors.cli.opening import catalog_of
from metier.gate.replay import Replay, Replayed
from metier.gate.rule_file import GONE, Examined, examine, policy_file
from metier.kernel.replaying import known_tools
from metier.model.text import one_line
from metier.model.verdict import Decision
from metier.record.database import open_if_there
from metier.record.judgements import judgements
from metier.record.policy import was_there

_ENDS: Final = {Decision.ALLOW: "allowed", Decision.ASK: "asked", Decision.DENY: "denied"}
_MARKS: Final = {"otherwise": "≠", "undecidable": "?"}


@click.command("replay")
@click.option(
    "--since", callback=when, default="0", metavar="WHEN", help="A record's number, or a time in UTC."
)
@click.option("--policy", "file", metavar="FILE", help="These rules instead of today's policy.toml.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line; the last one counts.")
@click.pass_context
def replay_command(ctx: click.Context, since: int | str, file: str | None, as_json: bool) -> None:
    """Say which recorded calls would have ended otherwise under other rules, and of which nobody can tell.

    Only the rules are asked again; what the other layers of the gate said is taken from the record. Nothing runs and
    nothing is recorded. Exit status 1 when the rules cannot be used.
    """
    settings, catalog = catalog_of(ctx)
    path = os.path.abspath(file) if file else policy_file(settings)
    if file and not os.path.lexists(path):
        raise click.UsageError(f"There is no file {one_line(file, 200)!r}.")
    there = os.path.lexists(path)
    found = examine(path)
    if not there and was_there(settings.database):
        found = Examined(problems=(GONE,))
    if found.problems:
        for problem in found.problems:
            click.echo(f"✗ {one_line(str(problem))}\n    {one_line(problem.remedy)}", err=True)
        click.echo("Rules that cannot be used deny everything; there is nothing to compare.", err=True)
        ctx.exit(exits.PROBLEM)
    counts: Counter[tuple[str, ...]] = Counter()
    database = open_if_there(settings.database)
    if database is not None:
        replay = Replay(found.rules, dict(known_tools(catalog)))
        with database:
            for judgement, beside in judgements(database, since=since):
                _count(replay.one(judgement, beside), counts, as_json=as_json)
    if as_json:
        click.echo(json.dumps({"summary": _summary(path, found.rules.digest, counts)}))
    else:
        _conclude(one_line(path) if there else f"Without any rules ({one_line(path)} does not exist)", counts)


def _count(found: Replayed | None, counts: Counter[tuple[str, ...]], *, as_json: bool) -> None:
    if found is None:
        counts["unasked",] += 1
        return
    before = _ENDS.get(found.before, "") if found.before is not None else ""
    after = " or ".join(_ENDS[each] for each in found.after)
    counts["judged",] += 1
    counts[found.state,] += 1
    if found.state == "otherwise":
        counts["otherwise", before, after] += 1
    if found.state != "same":
        click.echo(json.dumps(_object(found)) if as_json else _line(found, before, after))


def _line(found: Replayed, before: str, after: str) -> str:
    past = found.judgement
    subject = " ".join(part for part in (past.tool, past.skill) if part)
    why = "; ".join(found.unknown or found.rules)
    then = f"{before} → {after}" if found.state == "otherwise" else f"{before or 'not known'} → {after}?"
    mark = _MARKS[found.state]
    return one_line(f"{mark} {past.seq:>6} {past.at} {subject} by {past.principal}: {then} ({why})", 600)


def _object(found: Replayed) -> dict[str, Any]:
    past = found.judgement
    return {
        "seq": past.seq,
        "at": past.at,
        "callId": past.call_id,
        "tool": past.tool,
        "skill": past.skill,
        "principal": past.principal,
        "state": found.state,
        "was": None if found.before is None else found.before.name.lower(),
        "wouldBe": [each.name.lower() for each in found.after],
        "rules": list(found.rules),
        "unknown": list(found.unknown),
    }


def _summary(path: str, digest: str, counts: Counter[tuple[str, ...]]) -> dict[str, Any]:
    return {
        "file": path,
        "digest": digest,
        **{name: counts[name,] for name in ("judged", "same", "otherwise", "undecidable", "unasked")},
    }


def _conclude(rules: str, counts: Counter[tuple[str, ...]]) -> None:
    if not counts:
        click.echo("No call was recorded yet.", err=True)
        return
    kinds = ", ".join(
        f"{number:,} {kind[1]} → {kind[2]}" for kind, number in sorted(counts.items()) if len(kind) == 3
    )
    click.echo(
        f"{rules} over {counts['judged',]:,} {'call' if counts['judged',] == 1 else 'calls'}: {counts['otherwise',]:,} would have ended otherwise"
        f"{f' ({kinds})' if kinds else ''}, {counts['same',]:,} the same, {counts['undecidable',]:,} cannot be told."
    )
    click.echo("Only the rules were asked again; what other layers said is as recorded.")
    if counts["unasked",]:
        click.echo(f"{counts['unasked',]:,} more were refused for what no rule decides.")
