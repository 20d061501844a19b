"""`metier explain`: every layer's word about a call that is not made."""

import sys

import click
import msgspec

from metier.doors.cli import exits
from metier.doors.cli.opening import settings_of
from metier.gate.explain import Explained
from metier.model import strictjson
from metier.model.outcome import Refused
from metier.model.text import one_line, visible
from metier.model.trust_level import LEVELS
from metier.runtime.asked import unreadable
from metier.runtime.explaining import explained

_MARKS = {"abstain": "·", "allow": "✓", "ask": "?", "deny": "✗"}
_ENDS = {"runs": "It would run.", "asks": "It would wait for an approval.", "refused": "It would be refused"}
_STATUS = {"runs": exits.OK, "asks": exits.PENDING, "refused": exits.REFUSED}


@click.command("explain")
@click.argument("tool")
@click.argument("arguments", default="{}", metavar="[JSON]")
@click.option(
    "--as",
    "principal",
    metavar="PRINCIPAL",
    default="",
    help="Who would ask; agent:cli by default, of operator.run the owner.",
)
@click.option("--trust", "level", type=click.Choice(LEVELS), help="As if this were the trust level.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def explain_command(
    ctx: click.Context, tool: str, arguments: str, principal: str, level: str | None, as_json: bool
) -> None:
    """Say what every layer thinks of calling TOOL with the JSON object JSON. Nothing runs and nothing is recorded.

    Exit status 0 when it would run, 4 when somebody would be asked, 3 when it would be refused.
    """
    settings = settings_of(ctx)
    written = sys.stdin.buffer.read(strictjson.MAX_BYTES + 1) if arguments == "-" else arguments
    try:
        given = strictjson.loads(written)
    except ValueError as error:
        found = unreadable("", f"the arguments are not strict JSON: {error}")
    else:
        found = explained(settings, tool, given, principal=principal, level=level)
    if as_json:
        import json

        click.echo(json.dumps(msgspec.to_builtins(found)))
    elif isinstance(found, Refused):
        click.echo(f"✗ It would be refused before any layer is asked ({found.code}).")
        for reason in found.reasons:
            click.echo(f"  {visible(reason)}")
        if found.remedy:
            click.echo(f"  → {visible(found.remedy)}")
    else:
        _show(found)
    ctx.exit(exits.REFUSED if isinstance(found, Refused) else _STATUS[found.ends])


def _show(found: Explained) -> None:
    about = f"{found.tool}{f' on {found.skill}' if found.skill else ''}"
    click.echo(one_line(f"{about}, asked by {found.principal} at trust level {found.trust_level}", 200))
    width = max(len(each.layer) for each in found.layers)
    for each in found.layers:
        said = one_line("; ".join(each.reasons), 400)
        click.echo(f"  {_MARKS.get(each.decision, ' ')} {each.layer:{width}}  {each.decision:8} {said}")
    for each in found.grants:
        click.echo(f"  grant {one_line(each.layer, 40)}: {each.decision}, {one_line(each.reasons[0], 200)}")
    click.echo(_ENDS[found.ends] + (f" ({found.code})." if found.code else ""))
    for reason in found.reasons:
        click.echo(f"  {visible(reason)}")
    if found.remedy:
        click.echo(f"  → {visible(found.remedy)}")
