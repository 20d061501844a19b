"""A server of another client's configuration as a skill: what its `mcp_server.json` would say, and what it would be permitted.

A client runs a server with everything its user may do. Here it is proposed as little as can be told from the line: its program, the
files of its own package, the folders it is told about for reading. Secrets become names; what they are is handed on apart, and never
shown. Nothing is fetched: what a runner such as npx would fetch is said as a command.
"""

import os
import re
from typing import Final, final
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from metier.dialects.names import name_problem
from metier.dialects.tool_words import BINARY
from metier.doors.cli.mcp_found import Found
from metier.doors.cli.mcp_ourselves import leads_to_us, programs_here, starts_us
from metier.doors.cli.mcp_places import folders_among, own_program, reads_of, uv_run
from metier.doors.cli.mcp_runners import fetched, without_shell
from metier.doors.cli.mcp_secrets import address_may_hold_secret, line_may_hold_secret, may_be_secret
from metier.model.digest import Json
from metier.model.interpreters import is_interpreter
from metier.model.text import one_line
from metier.sandbox.address import canonical, why_closed, why_closed_name
from metier.sandbox.job_environment import granted_variables

_REFERENCE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}|\$\{[^}]*\}")
_SCHEME: Final = re.compile(r"(?i)((?:bearer|basic|token|apikey)\s+)?(.*)", re.DOTALL)
_CONTAINERS: Final = frozenset({"docker", "podman", "nerdctl"})
_UNDERSTOOD: Final = frozenset({
    "command", "args", "env", "env_vars", "cwd", "url", "headers", "http_headers", "env_http_headers", "bearer_token_env_var", "type",
    "enabled", "disabled",
})  # fmt: skip


@final
class Proposal(Struct, frozen=True, kw_only=True):
    """What would be written, and what there is to do and to know besides."""

    name: str
    origin: str
    """The file it was read from."""
    manifest: dict[str, Json] = {}
    secrets: dict[str, str] = {}
    """By the name it would have here. Never shown."""
    commands: tuple[str, ...] = ()
    """What the operator would type to fetch it."""
    configuration: str = ""
    """Lines for his metier.toml."""
    notes: tuple[str, ...] = ()
    missing: str = ""
    """The program that is not installed yet; what it takes for reading cannot be told before."""
    problem: str = ""
    """Why it cannot be taken over."""
    ourselves: bool = False
    """It is Metier, which is started or reached there."""


def propose(found: Found, *, path: str, state: str = "", origins: frozenset[str] = frozenset()) -> Proposal:
    """Blocking: looks at the program, where it is there. `state` is Metier's own folder, `origins` are where its own server is reached."""
    name = re.sub(r"[^a-z0-9]+", "-", found.name.lower()).strip("-")[:64].strip("-")
    proposal = Proposal(name=name, origin=found.file)
    fields = found.fields
    sent = fields.get("headers") or fields.get("http_headers")
    command, args, variables = fields.get("command"), fields.get("args", []), fields.get("env")
    if starts_us(command, args, variables, here=programs_here()) or leads_to_us(
        fields.get("url"), sent, origins
    ):
        return replace(proposal, ourselves=True)
    if not name or name_problem(name):
        return replace(proposal, problem=f"{one_line(found.name, 60)!r} is no good name for a skill")
    if found.fields.get("disabled") is True or found.fields.get("enabled") is False:
        return replace(proposal, problem="it is switched off there; switch it on in a copy of the file")
    url, command = found.fields.get("url"), found.fields.get("command")
    if isinstance(url, str):
        return _noted(_remote(proposal, found, url), found)
    if not isinstance(command, str) or not command.strip():
        return replace(proposal, problem="it has neither a command nor a url")
    args = found.fields.get("args", [])
    if not isinstance(args, list) or not all(isinstance(each, str) for each in args):
        return replace(proposal, problem="its args are no list of texts")
    line = [command, *(each for each in args if isinstance(each, str))]
    if any(map(_REFERENCE.search, line)):
        return replace(
            proposal,
            problem="its line holds ${…}, which only that client fills in; write it out in a copy of the file",
        )
    return _noted(_program(proposal, found, without_shell(line), path, state), found)


def _noted(proposal: Proposal, found: Found) -> Proposal:
    """With a word on all that the client says and Metier does not take over."""
    if not (other := sorted(found.fields.keys() - _UNDERSTOOD)):
        return proposal
    note = f"not taken over: {', '.join(one_line(each, 40) for each in other[:20])}"
    return replace(proposal, notes=(*proposal.notes, note))


def _remote(proposal: Proposal, found: Found, url: str) -> Proposal:
    if found.fields.get("type") == "sse":
        return replace(proposal, problem="it speaks the old transport (sse), which Metier does not")
    if _REFERENCE.search(url):
        return replace(proposal, problem="its url holds ${…}, which only that client fills in")
    if address_may_hold_secret(url):
        return replace(
            proposal,
            problem="a secret may stand in its url, which is shown and written; if the server takes it as a header, write that in a copy of the file",
        )
    if _is_near(url):
        return replace(
            proposal,
            problem="it is on this machine or in a private network, where no skill may go by url; name its program instead",
        )
    written = found.fields.get("headers") or found.fields.get("http_headers") or {}
    headers: dict[str, Json] = {}
    secrets: dict[str, str] = {}
    for header, value in written.items() if isinstance(written, dict) else ():
        if not isinstance(value, str):
            return replace(proposal, problem=f"its header {one_line(header, 40)} is no text")
        if may_be_secret(header, value) or _REFERENCE.search(value):
            before, secret = _split(value)
            place = _place(proposal.name, header)
            headers[header] = f"{before}{{{{secret:{place}}}}}"
            secrets |= {} if _REFERENCE.search(value) else {place: secret}
        else:
            headers[header] = value
    of_variables = found.fields.get("env_http_headers")
    for header in of_variables if isinstance(of_variables, dict) else ():
        headers[header] = f"{{{{secret:{_place(proposal.name, header)}}}}}"
    if isinstance(found.fields.get("bearer_token_env_var"), str):
        headers["Authorization"] = f"Bearer {{{{secret:{_place(proposal.name, 'token')}}}}}"
    manifest: dict[str, Json] = {"url": url, **({"headers": headers} if headers else {})}
    return replace(proposal, manifest=manifest, secrets=secrets)


def _is_near(url: str) -> bool:
    try:
        host = (urlsplit(url).hostname or "").removesuffix(".")
    except ValueError:
        return False  # no address at all, which is said where it is read
    return bool(why_closed(host) if canonical(host) else why_closed_name(host))


def _split(value: str) -> tuple[str, str]:
    parts = _SCHEME.fullmatch(value)
    return (parts[1] or "", parts[2]) if parts else ("", value)


def _place(name: str, of: str) -> str:
    """What a secret would be called here. No name of one begins with a digit."""
    before = "mcp." if name[0].isdigit() else ""
    return f"{before}{name}.{re.sub(r'[^A-Za-z0-9_.-]', '_', of)}"


def _program(proposal: Proposal, found: Found, line: list[str], path: str, state: str) -> Proposal:
    if os.path.basename(line[0]) in _CONTAINERS:
        return replace(
            proposal,
            problem="it runs in a container, which no sandbox here can start; name the program itself",
        )
    written, cwd = found.fields.get("env"), found.fields.get("cwd")
    runner = fetched(line, written if isinstance(written, dict) else {}, path)
    # Asked of the whole line, before any of it can be shown.
    if line_may_hold_secret(line, runner.packages if runner else ()):
        return replace(
            proposal,
            problem="a secret may stand among its arguments, which are shown and written; give it as a variable in a copy of the file",
        )
    commands: tuple[str, ...] = ()
    notes: list[str] = []
    folder, project = cwd if isinstance(cwd, str) else "", False
    if runner is not None:
        if runner.problem:
            return replace(proposal, problem=runner.problem)
        line, commands = runner.line, (runner.command,)
        notes.append(
            f"{runner.runner} fetches its package each time; here it is installed once, by you. Check that its program is {line[0]!r}"
        )
    elif os.path.basename(line[0]) == "uv":
        ran = uv_run(line, folder)
        if isinstance(ran, str):
            return replace(proposal, problem=ran)
        (line, folder), project = ran, True
    program, args = line[0], line[1:]
    configuration, missing = "", ""
    reads: frozenset[str] = frozenset()
    if is_interpreter(program) or not BINARY.fullmatch(program):
        own = own_program(proposal.name, line, path=path, folder=folder, project=project, state=state)
        configuration, program, args = own.lines, own.called, own.args
        notes += own.notes
    elif (found_reads := reads_of(program, path)) is not None:
        reads = found_reads
    elif commands:
        missing = program
    else:
        notes.append(
            f"{program} is not on your path, so what it reads of its own package cannot be told; import again once it is"
        )
    told = folders_among(args, state)
    reads |= told.reads
    notes += told.notes
    fixed, secrets, passed, dropped = _environment(proposal.name, written)
    named = found.fields.get("env_vars")
    passed |= {
        each
        for each in (named if isinstance(named, list) else ())
        if isinstance(each, str) and not isinstance(granted_variables((each,), {each: ""}), str)
    }
    notes += [f"the variable {each} is not handed on" for each in dropped]
    if "cwd" in found.fields:
        notes.append("its cwd is not taken over; say one in the file if it needs one")
    notes.append(
        "it gets no network and may write nothing; add hosts and writes under permissions if it needs them"
    )
    permissions: dict[str, Json] = {}
    if reads:
        permissions["reads"] = [*sorted(reads)]
    if passed:
        permissions["env"] = [*sorted(passed)]
    manifest: dict[str, Json] = {
        "command": program,
        **({"args": [*args]} if args else {}),
        **({"env": fixed} if fixed else {}),
        **({"permissions": permissions} if permissions else {}),
    }
    return replace(
        proposal,
        manifest=manifest,
        secrets=secrets,
        commands=commands,
        configuration=configuration,
        notes=tuple(notes),
        missing=missing,
    )


def _environment(name: str, written: Json) -> tuple[dict[str, Json], dict[str, str], set[str], list[str]]:
    """Variables with fixed values and places, what belongs into the places, those passed on, and those left out."""
    fixed: dict[str, Json] = {}
    secrets: dict[str, str] = {}
    passed: set[str] = set()
    dropped: list[str] = []
    for variable, value in written.items() if isinstance(written, dict) else ():
        if not isinstance(value, str) or isinstance(granted_variables((variable,), {variable: value}), str):
            dropped.append(one_line(variable, 60))
            continue
        place = _place(name, variable)
        reference = _REFERENCE.fullmatch(value)
        if reference and reference[1] == variable:
            passed.add(variable)
        elif _REFERENCE.search(value):
            fixed[variable] = f"{{{{secret:{place}}}}}"
        elif may_be_secret(variable, value):
            fixed[variable] = f"{{{{secret:{place}}}}}"
            secrets[place] = value
        else:
            fixed[variable] = value
    return fixed, secrets, passed, dropped
