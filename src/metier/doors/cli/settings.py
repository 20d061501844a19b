"""`metier settings`: what a skill is told. Reading and writing are calls of the owner's; a secret is typed, never an argument."""

import sys
from typing import cast

import click
import msgspec

from metier.config.settings import Settings
from metier.doors.cli import ended, exits
from metier.doors.cli.opening import catalog_of, complete_skill, named, settings_of
from metier.doors.cli.typed_secret import typed_secret, wrapped
from metier.doors.cli.working import work
from metier.kernel.settings_change import SEALED
from metier.kernel.settings_shape import Shape, dotted
from metier.model.digest import Json
from metier.model.outcome import Completed
from metier.model.text import one_line
from metier.record.secret_text import MASK


@click.group("settings")
def settings_command() -> None:
    """Read and write the settings of skills. Secrets are shown as ••••••••."""


@settings_command.command("get")
@click.argument("skill", shell_complete=complete_skill)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def get_command(ctx: click.Context, skill: str, as_json: bool) -> None:
    """Print the settings of SKILL; each with what it is for."""
    asked: dict[str, Json] = {"skill_id": skill, "include_schema": True, "include_masked": True}
    answer = _operate(ctx, settings_of(ctx), "settings.get_skill", asked, as_json=as_json)
    if answer is None:
        return
    for field in _fields(answer):
        value = _at(answer.get("settings"), str(field["key"]))
        about = field.get("help") or field.get("label")
        click.echo(
            f"{one_line(str(field['key']), 60):28} {_shown(value):28} {one_line(str(about), 100)}".rstrip()
        )


@settings_command.command("set")
@click.argument("skill", shell_complete=complete_skill)
@click.argument("changes", nargs=-1, metavar="KEY=VALUE|SECRET…")
@click.option("--unset", "removed", multiple=True, metavar="KEY", help="Remove this one. May be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def set_command(
    ctx: click.Context, skill: str, changes: tuple[str, ...], removed: tuple[str, ...], as_json: bool
) -> None:
    """Change settings of SKILL.

    A secret one is named without a value: it is asked for here, or read from standard input. What is typed into a command line
    is in the history of the shell, and every process can see it.

    Example: metier settings set my-bot mode=polling bot_token
    """
    if not changes and not removed:
        raise click.UsageError("Say what to change: KEY=VALUE, the name of a secret, or --unset KEY")
    settings, catalog = catalog_of(ctx)
    from metier.kernel.settings import name_of

    found = named(catalog, name_of(catalog, skill))
    try:
        shape = Shape(found.skill) if found.skill is not None else None
    except ValueError as error:
        raise click.UsageError(f"The settings of {one_line(skill, 80)!r} cannot be used: {error}") from None
    typed = [each for each in changes if "=" not in each]
    if len(typed) > 1 and not sys.stdin.isatty():
        listed = ", ".join(one_line(each, 60) for each in typed[:5])
        message = (
            f"Standard input is one secret, and {len(typed)} are named: {listed}. Set one after the other."
        )
        raise click.UsageError(message)
    patch: dict[str, Json] = dict.fromkeys(removed)
    for each in changes:
        key, given, value = each.partition("=")
        if key in patch:
            raise click.UsageError(f"{one_line(key, 80)!r} is given twice.")
        patch[key] = _value(settings, found.name, shape, key, value if given else None)
    asked: dict[str, Json] = {"skill_id": skill, "patch": patch}
    answer = _operate(ctx, settings, "settings.set_skill", asked, as_json=as_json)
    if answer is not None:
        listed = ", ".join(
            one_line(str(each), 60) for each in cast("list[Json]", answer.get("changed") or [])
        )
        click.echo(f"✓ {one_line(skill, 80)}: {listed or 'nothing'} changed.")


@settings_command.command("reset")
@click.argument("skill", shell_complete=complete_skill)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def reset_command(ctx: click.Context, skill: str, yes: bool, as_json: bool) -> None:
    """Put the settings of SKILL back to its defaults. Its secrets are forgotten."""
    if not yes:
        question = f"Put the settings of {one_line(skill, 80)} back to its defaults and forget its secrets?"
        click.confirm(question, abort=True, err=True)
    answer = _operate(ctx, settings_of(ctx), "settings.reset_skill", {"skill_id": skill}, as_json=as_json)
    if answer is not None:
        click.echo(f"✓ {one_line(skill, 80)} has its defaults again, and no secrets.")


@settings_command.command("schema")
@click.argument("skill", shell_complete=complete_skill)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def schema_command(ctx: click.Context, skill: str, as_json: bool) -> None:
    """Print which settings SKILL has, and what each may be."""
    answer = _operate(ctx, settings_of(ctx), "settings.schema", {"skill_id": skill}, as_json=as_json)
    if answer is None:
        return
    form = answer.get("schema")
    if isinstance(form, dict) and isinstance(title := form.get("title"), str):
        click.echo(one_line(title, 200))
    for field in _fields(answer):
        kind = "secret " * bool(field.get("secret")) + str(field["type"])
        if options := field.get("options"):
            values = (each.get("value") for each in cast("list[dict[str, Json]]", options))
            kind = "one of " + ", ".join(map(_shown, values))
        about = " ".join(filter(None, (str(field.get("label") or ""), str(field.get("help") or ""))))
        click.echo(
            f"{one_line(str(field['key']), 60):28} {one_line(kind, 80):24} {one_line(about, 120)}".rstrip()
        )


def _operate(
    ctx: click.Context, settings: Settings, tool: str, arguments: dict[str, Json], *, as_json: bool
) -> dict[str, Json] | None:
    """What the operation answered, for people; None where there is nothing more to say. Ends the command where it failed."""
    from metier.runtime.as_owner import operate

    outcome = work(operate, settings, tool, arguments)
    value = outcome.value if isinstance(outcome, Completed) else None
    answer = value if isinstance(value, dict) else {}
    if as_json:
        click.echo(ended.ascii_json(outcome) if not isinstance(outcome, Completed) else _json(answer))
    elif not isinstance(outcome, Completed):
        ended.show(outcome)
    elif answer.get("reason") == "no_schema":
        click.echo(f"{one_line(str(arguments['skill_id']), 80)} has no settings: it declares none.", err=True)
    if not isinstance(outcome, Completed) or answer.get("ok") is not True:
        ctx.exit(exits.PROBLEM if isinstance(outcome, Completed) else ended.STATUS[type(outcome)])
    return None if as_json else answer


def _json(value: Json) -> str:
    import json

    return json.dumps(value)


def _value(settings: Settings, skill: str, shape: Shape | None, key: str, text: str | None) -> Json:
    """A value as its setting has it. What does not fit is left to the operation, which says so on the record."""
    secret = shape is not None and _is_secret(shape, key)
    if text is None and not secret:
        raise click.UsageError(f"{one_line(key, 80)!r} is no secret setting, so give it as KEY=VALUE.")
    if text is not None and secret and text != MASK:
        raise click.UsageError(
            f"{one_line(key, 80)!r} is secret: name it without a value, and it is asked for or read from standard input."
        )
    fields = shape.fields() if shape is not None else []
    field = next((each for each in fields if each["key"] == key), dict[str, Json]())
    read = typed_secret(f"Value of {one_line(key, 80)}") if text is None else text
    value = read if read == MASK else _typed(read, field)
    if not secret or value == MASK:
        return value
    from metier.kernel.settings import wrapped_for

    return {SEALED: wrapped(settings, msgspec.json.encode(value).decode(), wrapped_for(skill, key))}


def _is_secret(shape: Shape, key: str) -> bool:
    """Whether what `key` means is secret, or lies inside of what is; also where the schema has no place of that name."""
    known = next((each for each in shape.leaves if dotted(each) == key), None)
    return shape.hides(known if known is not None else shape.named(key, ()))


def _typed(text: str, field: dict[str, Json]) -> Json:
    """`text` as a value of the field's type; as it stands where it is none."""
    kind = field.get("type")
    if kind == "string_list" and not text.lstrip().startswith("["):
        return [each.strip() for each in text.split(",") if each.strip()]
    if kind == "select":
        options = cast("list[dict[str, Json]]", field.get("options") or [])
        return next((each["value"] for each in options if _shown(each["value"]) == text), text)
    if kind in ("number", "boolean", "json", "string_list"):
        try:
            return msgspec.json.decode(text)
        except msgspec.MsgspecError:
            return text
    return text


def _fields(answer: dict[str, Json]) -> list[dict[str, Json]]:
    form = answer.get("schema")
    return cast("list[dict[str, Json]]", form.get("fields") or []) if isinstance(form, dict) else []


def _at(value: Json, key: str) -> Json:
    """What stands at a dotted path; a name that has dots in it comes first."""
    if not isinstance(value, dict):
        return None
    if key in value:
        return value[key]
    head, _, rest = key.partition(".")
    return _at(value.get(head), rest) if rest else None


def _shown(value: Json) -> str:
    if value is None:
        return "-"
    return one_line(value if isinstance(value, str) else msgspec.json.encode(value).decode(), 120)
