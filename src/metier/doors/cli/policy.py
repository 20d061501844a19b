"""`metier policy …`: the operator's rules."""

import os
from typing import Any

import click

from metier.catalog.here import owner
from metier.doors.cli import exits
from metier.doors.cli.opening import catalog_of, settings_of
from metier.doors.cli.policy_replay import replay_command
from metier.gate.rule_file import GONE, Examined, Problem, examine, policy_file
from metier.gate.rules import Rule
from metier.kernel.idle_rules import idle_rules
from metier.model.text import one_line
from metier.model.verdict import Decision
from metier.record.database import Database
from metier.record.policy import note_policy, was_there


@click.group("policy")
def policy_command() -> None:
    """Check the rules in policy.toml, and try them on what was recorded."""


policy_command.add_command(replay_command)


@policy_command.command("check")
@click.argument("file", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def check_command(ctx: click.Context, file: str | None, as_json: bool) -> None:
    """Say everything that is wrong with the rules there are, or with those in FILE.

    Exit status 1 when they cannot be used. A rule that no call can match today is a warning.
    """
    settings, catalog = catalog_of(ctx)
    path = os.path.abspath(file) if file else policy_file(settings)
    there = os.path.lexists(path)
    found = examine(path)
    if file and not there:
        found = Examined(problems=(Problem(message="there is no such file", remedy="Check its name"),))
    if not file and not there and was_there(settings.database):
        found = Examined(problems=(GONE,))
    idle = list(idle_rules(found.rules.rules, catalog))
    if as_json:
        import json

        click.echo(json.dumps(_report(path, found, idle, there=there), ensure_ascii=False, indent=1))
    else:
        _show(path, found, idle, there=there)
    if found.problems:
        ctx.exit(exits.PROBLEM)


def _show(path: str, found: Examined, idle: list[tuple[Rule, str]], *, there: bool) -> None:
    for problem in found.problems:
        click.echo(
            f"✗ {_place(problem.rule, problem.line)}{one_line(problem.message)}\n    {one_line(problem.remedy)}"
        )
    for rule, why in idle:
        click.echo(f"! {_place(rule.number, rule.line)}{one_line(why)}")
    if found.problems:
        until = "while it lies there as policy.toml" if there else "until then"
        said = f"{one_line(path)} cannot be used: {until}, everything is denied."
    elif not there:
        said = f"There are no rules: {one_line(path)} does not exist."
    else:
        counts = ", ".join(f"{number} {word}" for word, number in _counts(found).items())
        said = (
            f"✓ {one_line(path)}: {len(found.rules.rules)} rules ({counts}), {found.examples} examples hold."
        )
    click.echo(said, err=bool(found.problems))


def _place(rule: int, line: int) -> str:
    parts = [f"line {line}"] * bool(line) + [f"rule {rule}"] * bool(rule)
    return f"{', '.join(parts)}: " if parts else ""


def _counts(found: Examined) -> dict[str, int]:
    decisions = [rule.decision for rule in found.rules.rules]
    return {
        each.name.lower(): decisions.count(each) for each in (Decision.ALLOW, Decision.ASK, Decision.DENY)
    }


def _report(path: str, found: Examined, idle: list[tuple[Rule, str]], *, there: bool) -> dict[str, Any]:
    return {
        "file": path,
        "there": there,
        "ok": not found.problems,
        "digest": found.rules.digest,
        "rules": len(found.rules.rules),
        **_counts(found),
        "conditions": sum(rule.condition is not None for rule in found.rules.rules),
        "examples": found.examples,
        "problems": [
            {"rule": each.rule, "line": each.line, "message": each.message, "remedy": each.remedy}
            for each in found.problems
        ],
        "warnings": [{"rule": rule.number, "line": rule.line, "message": why} for rule, why in idle],
    }


@policy_command.command("forget")
@click.pass_context
def forget_command(ctx: click.Context) -> None:
    """Say that there are no rules any more, after you removed policy.toml. Until then everything is denied."""
    settings = settings_of(ctx)
    path = policy_file(settings)
    if os.path.lexists(path):
        raise click.UsageError(f"{one_line(path, 200)} is there. Remove it first, if you want no rules.")
    with Database.open(settings.database) as database:
        changed = note_policy(database, "", by=owner())
    click.echo("✓ There are no rules now." if changed else "There were none.")
