"""`metier run`: a file of one's own in the sandbox, with nothing but what was allowed while typing."""

import os
import re
import sys
from typing import Final, Literal, TypeAlias, cast

import click

from metier.config.settings import Settings
from metier.doors.cli import ended
from metier.doors.cli.opening import settings_of
from metier.doors.cli.reader import to_its_reader
from metier.doors.cli.working import work
from metier.errors import ConfigError
from metier.model import strictjson
from metier.model.diagnostic import Diagnostic
from metier.model.digest import Json
from metier.model.entry import Entry, InlineCode, PythonHandler, ScriptHandler, WasmModule
from metier.model.outcome import Completed, Failed, Outcome
from metier.model.permission import PermissionSet
from metier.model.skill import Limits
from metier.model.text import one_line, visible
from metier.openfile import read_small
from metier.sandbox.job_operator_programs import real_files
from metier.sandbox.job_places import below

Language: TypeAlias = Literal["python", "javascript", "typescript", "wasm"]
LANGUAGES: Final[dict[str, Language]] = {
    ".py": "python",
    ".js": "javascript",
    ".mjs": "javascript",
    ".cjs": "javascript",
    ".ts": "typescript",
    ".mts": "typescript",
    ".wasm": "wasm",
}
_KINDS: Final = {"read": "reads", "write": "writes", "host": "hosts", "env": "env", "bin": "binaries"}
_MOST_BYTES: Final = 33_554_432
_PYTHON_HANDLER: Final = re.compile(r"^(?:async[ \t]+)?def[ \t]+main[ \t]*\([ \t\r\n]*\w", re.MULTILINE)
"""`main` that takes something; one that takes nothing is a script's own."""
_SCRIPT_HANDLER: Final = re.compile(
    r"^(?:export[ \t]+default\b|export[ \t]*\{[^}]*\bas[ \t]+default\b|(?:module\.)?exports(?:\.\w+)?[ \t]*=)",
    re.MULTILINE,
)
_MODULES: Final = (".mjs", ".mts", ".cjs")
_OF_A_MODULE: Final = re.compile(
    r"(?:^|[;}\s])(?:export[\s{*]|import[\s{*\"']|(?:module\.)?exports(?:\.\w+)?\s*=)", re.MULTILINE
)
"""What only a module says. Elsewhere it might stand in a text."""


@click.command("run")
@click.argument("file", type=click.Path())
@click.option(
    "--lang",
    type=click.Choice(list(dict.fromkeys(LANGUAGES.values()))),
    help="What it is written in; known by the file's ending where that says it.",
)
@click.option(
    "--allow", "allowed", metavar="KIND=WHAT", multiple=True,
    help="read=PATH, write=PATH, host=NAME, env=NAME or bin=NAME. May be repeated. Nothing is allowed unless it is said.",
)  # fmt: skip
@click.option(
    "--timeout", type=float, default=None, metavar="SECONDS", help="At most 300; 30 unless it is said."
)
@click.option("--memory", type=int, default=None, metavar="MB", help="256 unless it is said.")
@click.option(
    "--args", "arguments", default="{}", metavar="JSON", help="What the code gets as its parameters."
)
@click.option("--json", "as_json", is_flag=True, help="Print the whole outcome as one JSON object.")
@click.pass_context
def run_command(
    ctx: click.Context,
    file: str,
    lang: str | None,
    allowed: tuple[str, ...],
    timeout: float | None,
    memory: int | None,
    arguments: str,
    as_json: bool,
) -> None:
    """Run FILE in the sandbox, and say what it tried to touch.

    Example: metier run count.py --allow read=. --args '{"word": "tea"}'

    A file with a handler (`def main(params, context)`, `export default`, `module.exports =`) has it called; any other
    runs as it is, sees `params`, and gives back its `result` (JavaScript may also `return` it).

    It starts in your folder where that may be read, else in an empty one of its own. The run is recorded like every call. An allowed variable is visible to the code, whatever it holds.
    """
    from metier.runtime.own import OwnRun, run_own

    settings = settings_of(ctx)
    data = _data(file)
    language, name = _language(file, lang), os.path.basename(os.path.abspath(file))
    if language != "wasm":
        _need_text(file, data)
    permissions = _permissions(allowed)
    wanted = OwnRun(
        name=name,
        data=data,
        entry=_entry(language, name, data),
        arguments=_arguments(arguments),
        permissions=permissions,
        limits=_limits(timeout, memory),
        cwd=os.getcwd(),
    )
    _warn(permissions, settings)
    ask = None
    if not as_json and sys.stdin.isatty() and sys.stderr.isatty():
        from metier.doors.cli.approver import ask_here as ask
    outcome = work(run_own, settings, wanted, ask)
    with to_its_reader():
        if as_json:
            click.echo(ended.ascii_json(outcome))
        else:
            _show(outcome, printed=not (language == "wasm" and isinstance(outcome, Completed)))
    ctx.exit(ended.STATUS[type(outcome)])


def _warn(permissions: PermissionSet, settings: Settings) -> None:
    """Say which grants will not do what was probably meant."""
    there = real_files(permissions.binaries, settings.binaries.programs, os.environ.get("PATH", ""))
    for name in sorted(permissions.binaries - there.keys()):
        click.echo(
            f"metier: bin={one_line(name, 80)} grants nothing: no folder of your PATH that only you and root can write "
            "to has such a program.",
            err=True,
        )
    for name in sorted(permissions.env - os.environ.keys()):
        click.echo(f"metier: env={one_line(name, 80)} grants nothing: it is not set here.", err=True)
    places, here = permissions.reads | permissions.writes, os.getcwd()
    if places and not any(below(here, place) for place in places):
        shown = one_line(min(places), 200)
        click.echo(
            f"metier: the code starts in an empty folder of its own, so it must use full paths ({shown}). "
            "With --allow read=. it starts here.",
            err=True,
        )


def _show(outcome: Outcome, *, printed: bool) -> None:
    """What it printed (unless that is the value itself), then what it returned, then what the sandbox saw."""
    run = outcome.run if isinstance(outcome, Completed | Failed) else None
    if run is not None and run.stdout and printed:
        click.echo(visible(run.stdout), nl=not run.stdout.endswith("\n"))
    if run is not None and run.stderr:
        click.echo(visible(run.stderr), nl=not run.stderr.endswith("\n"), err=True)
    if not (isinstance(outcome, Completed) and outcome.value is None):
        ended.show(outcome)
    if run is not None and isinstance(outcome, Completed | Failed):
        click.echo("\n".join(ended.summary(outcome, run)), err=True)


def _language(file: str, said: str | None) -> Language:
    language = said or LANGUAGES.get(os.path.splitext(file)[1].lower())
    if language is None:
        known = ", ".join(LANGUAGES)
        raise click.UsageError(
            f"What {one_line(file, 80)!r} is written in cannot be told from its name ({known}). Say --lang."
        )
    return cast("Language", language)


def _entry(language: Language, name: str, data: bytes) -> Entry:
    """A file that brings a handler is asked for it; any other is run from its first line to its last."""
    if language == "wasm":
        return WasmModule(path=name)
    source = data.decode("utf-8")
    if language == "python":
        handler = _PYTHON_HANDLER.search(source)
        return PythonHandler(path=name) if handler else InlineCode(language="python", source=source)
    said = _OF_A_MODULE if name.lower().endswith(_MODULES) else _SCRIPT_HANDLER
    if said.search(source):
        return ScriptHandler(path=name, language=language)
    return InlineCode(language=language, source=source)


def _data(file: str) -> bytes:
    found = read_small(file, most=_MOST_BYTES, hard_links=True, links=True)
    if isinstance(found, Diagnostic):
        raise click.UsageError(f"{one_line(file, 200)!r} cannot be run: {found.message}.")
    return found[0]


def _need_text(file: str, data: bytes) -> None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise click.UsageError(
            f"{one_line(file, 200)!r} is not UTF-8 text (byte {error.start}), so it is no source code."
        ) from None


def _arguments(text: str) -> Json:
    try:
        given = strictjson.loads(text)
    except ValueError as error:
        raise click.UsageError(f"The arguments are not strict JSON: {error}.") from None
    if not isinstance(given, dict):
        raise click.UsageError("The arguments must be one JSON object.")
    return given


def _limits(timeout: float | None, memory: int | None) -> Limits:
    for name, given in (("--timeout", timeout), ("--memory", memory)):
        if given is not None and not given > 0:
            raise click.UsageError(f"{name} is {given:g}; it must be more than nothing.")
    usual = Limits()
    return Limits(
        timeout=usual.timeout if timeout is None else timeout,
        memory_mb=usual.memory_mb if memory is None else memory,
    )


def _permissions(allowed: tuple[str, ...]) -> PermissionSet:
    """What was allowed. Paths are made real here: what counts is the place that is meant now."""
    granted: dict[str, set[str]] = {name: set() for name in _KINDS.values()}
    for each in allowed:
        kind, equals, what = each.partition("=")
        if kind not in _KINDS or not equals or not what:
            raise click.UsageError(
                f"--allow {one_line(each, 80)!r} cannot be understood. Say read=PATH, write=PATH, host=NAME, env=NAME or bin=NAME."
            )
        granted[_KINDS[kind]].add(_path(what) if kind in ("read", "write") else what)
    try:
        made = PermissionSet(**{name: frozenset(names) for name, names in granted.items()})
    except ValueError as error:
        raise click.UsageError(f"--allow: {error}.") from None
    if made.hosts:
        from metier.sandbox.grants import read_grants

        try:
            read_grants(made.hosts)
        except ConfigError as error:
            raise click.UsageError(f"--allow: {error}.") from None
    return made


def _path(given: str) -> str:
    try:
        return os.path.realpath(given, strict=True)
    except OSError as error:
        raise click.UsageError(
            f"--allow: {one_line(given, 200)!r} cannot be used: {error.strerror}."
        ) from None
