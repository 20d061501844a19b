"""`metier doctor`: what each sandbox can promise on this machine, what would add what is missing, and which skills want a name that
is taken."""

import textwrap
from typing import Any, Final

import anyio
import click

from metier.catalog.function_names import name_problems
from metier.catalog.here import catalog_here
from metier.config.settings import Settings
from metier.doors.cli import exits
from metier.doors.cli.opening import settings_of
from metier.doors.mcp.own_clients import problems_here
from metier.errors import MetierError
from metier.model.entry import Command, Entry, HttpRequest, InlineCode, WasmModule
from metier.model.guarantee import MEANING, Guarantee
from metier.model.text import one_line
from metier.prepare import trial
from metier.sandbox.doctor import Examination, Kind, examine
from metier.sandbox.select import LOOK

KINDS: Final[dict[str, Entry]] = {
    "command": Command(argv=("true",)),
    "python": InlineCode(language="python", source=""),
    "javascript": InlineCode(language="javascript", source=""),
    "typescript": InlineCode(language="typescript", source=""),
    "wasm": WasmModule(path="main.wasm"),
    "http": HttpRequest(method="GET", url="https://example.com/"),
}
_WIDTH: Final = 79


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def doctor_command(ctx: click.Context, as_json: bool) -> None:
    """Say what each sandbox can promise here, what is missing, the command that adds it, and which skills want a name that is taken.

    Exit status 1 when a kind of skill cannot run on this machine.
    """
    settings = settings_of(ctx)
    found = anyio.run(_examine, settings)
    taken = _taken(settings)
    own = _own_clients(settings)
    if as_json:
        import json

        click.echo(
            json.dumps(
                {**_report(found), "names_taken": taken, "own_clients": own}, ensure_ascii=False, indent=1
            )
        )
    else:
        _show(found)
        _show_taken(taken)
        for each in own:
            _wrapped(f"! {each}", "")
    if not found.ok:
        ctx.exit(exits.PROBLEM)


def _taken(settings: Settings) -> dict[str, list[str]]:
    """By skill: what is to be said of names it cannot have."""
    try:
        listed = catalog_here(settings).listed
    except MetierError as error:  # who looks for what is wrong here hears the rest all the same
        click.echo(f"metier: the skills could not be looked at: {one_line(str(error))}", err=True)
        return {}
    return {each.name: said for each in listed if (said := name_problems(each))}


def _own_clients(settings: Settings) -> list[str]:
    """What is wrong with those MCP clients that were declared to be the owner himself."""
    try:
        return problems_here(settings)
    except MetierError as error:
        click.echo(f"metier: own_clients could not be looked at: {one_line(str(error))}", err=True)
        return []


async def _examine(settings: Settings) -> Examination:
    from metier.runtime.sandboxes import Sandboxes

    sandboxes = Sandboxes(settings)
    trials = {name: (trial(entry), trial(entry, network=True)) for name, entry in KINDS.items()}
    try:
        return await examine(sandboxes(), trials)
    finally:
        with anyio.CancelScope(shield=True):
            await sandboxes.aclose()


def _show(found: Examination) -> None:
    machine = found.machine
    click.echo(f"{machine.system}, kernel {machine.kernel}")
    click.echo(f"Landlock ABI {machine.landlock_abi or 'none'}, cgroups {machine.cgroups}, ", nl=False)
    click.echo(f"bubblewrap {machine.bubblewrap or 'none'}")
    if machine.follows_links_out:
        click.echo("  It has CVE-2026-87766, which our mounts give no occasion to; 0.12.0 mends it.")
    click.echo("\nWhat can run here")
    for kind in found.kinds:
        _show_kind(kind)
    if found.backends:
        click.echo("\nWhat each sandbox promises")
        for number, backend in enumerate(found.backends, 1):
            click.echo(f"  {number:>2}  {one_line(backend.name, 60)}")
        click.echo("\n" + "".join(f"{number:>3}" for number, _ in enumerate(found.backends, 1)))
        for guarantee in Guarantee:
            for backend in found.backends:
                _mark(guarantee in backend.guarantees, before="  ")
            _meaning(guarantee, 3 * len(found.backends) + 2)
        _wrapped(
            "A run gets the quickest sandbox that promises all it needs. http runs no code: it sends one request.",
            "  ",
        )
    _show_missing(found)


def _show_kind(kind: Kind) -> None:
    _mark(bool(kind.sandbox), before="  ")
    if kind.sandbox:
        network = "" if kind.network else ", without network"
        click.echo(f" {kind.name:11} {one_line(kind.sandbox, 40)}{network}")
        return
    click.echo(f" {kind.name:11} nothing here can run it safely")
    for reason in kind.reasons:
        _wrapped(one_line(reason), "      ")
    if kind.remedy != LOOK:
        _wrapped(f"→ {one_line(kind.remedy)}", "      ")


def _show_missing(found: Examination) -> None:
    """Each missing thing once, with the sandboxes that would gain from it."""
    said: dict[tuple[str, str, str], list[str]] = {}
    for backend in found.backends:
        for each in backend.missing:
            said.setdefault((each.what, each.why, each.remedy), []).append(backend.name)
    if said:
        click.echo("\nWhat is missing")
    for (what, why, remedy), names in said.items():
        _wrapped(f"{one_line(what)} (for {', '.join(names)}): {one_line(why)}", "  ")
        if remedy:
            click.echo(f"    → {one_line(remedy)}")  # to be copied, so it is not wrapped


def _show_taken(taken: dict[str, list[str]]) -> None:
    if taken:
        click.echo("\nNames that more than one skill wants")
    for name, said in taken.items():
        for each in said:
            _wrapped(f"{one_line(name, 80)}: {one_line(each)}", "  ")


def _mark(yes: bool, *, before: str) -> None:
    click.echo(before, nl=False)
    click.secho("✓" if yes else "✗", fg="green" if yes else "red", nl=False)


def _meaning(guarantee: Guarantee, column: int) -> None:
    text = f"{guarantee.value}: {MEANING[guarantee]}"
    lines = textwrap.wrap(text, max(30, _WIDTH - column))
    click.echo(f"  {lines[0]}")
    for line in lines[1:]:
        click.echo(f"{'':{column}}  {line}")


def _wrapped(text: str, indent: str) -> None:
    click.echo(textwrap.fill(text, _WIDTH, initial_indent=indent, subsequent_indent=indent + "  "))


def _report(found: Examination) -> dict[str, Any]:
    machine = found.machine
    return {
        "ok": found.ok,
        "machine": {
            "system": machine.system,
            "kernel": machine.kernel,
            "landlock_abi": machine.landlock_abi,
            "cgroups": machine.cgroups,
            "bubblewrap": machine.bubblewrap or None,
            "follows_links_out": machine.follows_links_out,
        },
        "kinds": [
            {
                "name": kind.name,
                "sandbox": kind.sandbox or None,
                "network": kind.network,
                "reasons": list(kind.reasons),
                "remedy": kind.remedy,
            }
            for kind in found.kinds
        ],
        "sandboxes": [
            {
                "name": backend.name,
                "guarantees": {each.value: each in backend.guarantees for each in Guarantee},
                "missing": [
                    {
                        "what": each.what,
                        "why": each.why,
                        "remedy": each.remedy,
                        "costs": [cost.value for cost in Guarantee if cost in each.costs],
                    }
                    for each in backend.missing
                ],
            }
            for backend in found.backends
        ],
        "guarantees": {each.value: MEANING[each] for each in Guarantee},
    }
