"""The dialect `mcp_server`: a folder with `mcp_server.json` makes one skill of all the tools of an MCP server.

The file says how the server is reached and what it may touch. Which tools it has only the server knows: it is run once the
operator trusts these bytes, with what the file was granted, and what it lists then is kept with them. Before that the skill has no
tools; and it always waits for a person's word, wherever it lies.
"""

import re
from typing import Final

from msgspec.structs import replace

from metier.dialects import mcp_tools
from metier.dialects.about import LONGEST_DESCRIPTION, check_hidden, check_name
from metier.dialects.block_fields import Fields, kind, shown
from metier.dialects.compiled import Compiled, finished, refused
from metier.dialects.draft import Draft
from metier.dialects.manifest_file import read as read_file
from metier.dialects.metier_grants import VARIABLE, limits_of, permissions_of
from metier.dialects.metier_http import origin_of, request_of, secrets_of
from metier.dialects.tool_words import BINARY, PLAIN_BINARY
from metier.dialects.written_secrets import header_looks_secret, looks_secret
from metier.model.diagnostic import Diagnostic
from metier.model.digest import Json
from metier.model.entry import HttpRequest, McpServer, RemoteTool
from metier.model.permission import OWN_FOLDER, PermissionSet
from metier.model.requirement import Requirements
from metier.model.skill import Limits, Source
from metier.model.text import one_line

MANIFEST: Final = "mcp_server.json"
WAITS: Final = "an MCP server is run only once you trusted it: `metier skills trust` shows what it may do"
_SECRET: Final = re.compile(r"\{\{\s*secret:([A-Za-z_][A-Za-z0-9_.-]{0,127})\s*\}\}", re.ASCII)
_FIELDS: Final = (
    "name, description, version, command, args, cwd, env, url, headers, permissions, limits and tools"
)
_LONGEST_VALUE: Final = 4_096
_MOST_VARIABLES: Final = 100


def waiting(data: bytes, *, folder: str, manifest: str, location: str, source: Source) -> Compiled:
    """The skill as its file alone tells it: everything but its tools."""
    document = read_file(data, manifest)
    if document.fields is None:
        return refused(document.diagnostics, folder, "", dialect="mcp_server")
    draft = Draft(document)
    draft.words |= {"location": location, "source": source, "status": "pending_approval", "why": WAITS}
    given = Fields(draft, manifest, document.fields)
    name = given.text("name", most=200, default=folder)
    check_name(draft, name, folder)
    description = given.text("description", most=LONGEST_DESCRIPTION, default="")
    check_hidden(draft, "description", description)
    if version := given.text("version", most=100, default=""):
        draft.words["version"] = version
    reached = _reached(draft, given)
    permissions = OWN_FOLDER | permissions_of(given.inner("permissions")) | _implied(reached)
    limits_of(given.inner("limits"))
    mcp_tools.words_of(given.inner("tools"))
    given.no_more(_FIELDS)
    draft.words["permissions"] = permissions
    if reached.argv:
        draft.words["requirements"] = Requirements(binaries=reached.argv[:1])
    for lost in ("operations", "channels"):
        if getattr(permissions, lost):
            message = f"permissions: {lost} are given to no MCP server, which has no way to ask for them; take them out"
            draft.note("bad_field", "error", message)
    found = finished(draft, name, description, "mcp_server", manifest)
    if found.skill is None:
        return found
    note = Diagnostic(
        code="needs_probe",
        severity="info",
        message="which tools it has only the server knows: once trusted it is run with what it was granted, to be asked",
    )
    return replace(found, diagnostics=(*found.diagnostics, note), probe="mcp_server")


def entry_of(data: bytes, manifest: str, server: str) -> tuple[RemoteTool, PermissionSet, Limits] | None:
    """What is run to have it tell its tools, and with what; None where the file is none."""
    document = read_file(data, manifest)
    if document.fields is None:
        return None
    draft = Draft(document)
    given = Fields(draft, manifest, document.fields)
    reached = _reached(draft, given)
    permissions = OWN_FOLDER | permissions_of(given.inner("permissions")) | _implied(reached)
    limits = limits_of(given.inner("limits"))
    if any(note.severity == "error" for note in draft.notes):
        return None
    return RemoteTool(server=server, tool="", reached=reached), permissions, limits


def read(compiled: Compiled, data: bytes, listing: dict[str, Json], newer: dict[str, Json]) -> Compiled:
    """The skill with the tools that the server has.

    Args:
        compiled: what `waiting` gave for the same bytes.
        data: those bytes.
        listing: what the server told when it was looked at.
        newer: what it told since, where that is something else; empty otherwise.
    """
    skill = compiled.skill
    document = read_file(data, skill.manifest if skill is not None else MANIFEST)
    made = entry_of(data, skill.manifest, skill.name) if skill is not None else None
    if skill is None or made is None or document.fields is None:
        return compiled
    draft = Draft(document)
    draft.notes = [note for note in compiled.diagnostics if note.code != "needs_probe"]
    words = mcp_tools.words_of(Fields(draft, skill.manifest, document.fields).inner("tools"))
    tools = mcp_tools.tools_of(draft, skill.name, made, listing, newer, words)
    names = (
        "version", "location", "source", "status", "why", "permissions", "requirements",
    )  # fmt: skip
    draft.words |= {name: getattr(skill, name) for name in names}
    draft.words["tools"] = tools
    description = skill.description or mcp_tools.about(listing)
    check_hidden(draft, "description", description)
    return finished(draft, skill.name, description, "mcp_server", skill.manifest)


def _reached(draft: Draft, given: Fields) -> McpServer:
    if ("command" in given) == ("url" in given):
        given.wrong("command", 'or url is wanted, and one of them alone: {"command": "mcp-server-time"}')
        for key in ("command", "args", "cwd", "env", "url", "headers"):
            given.take(key)
        return McpServer()
    return _remote(draft, given) if "url" in given else _program(draft, given)


def _program(draft: Draft, given: Fields) -> McpServer:
    command = given.word("command", BINARY, PLAIN_BINARY)
    args = given.line("args")
    cwd = given.text("cwd", most=4_096, default="")
    if cwd:
        try:
            PermissionSet(reads=frozenset({cwd}))
        except ValueError as error:
            given.wrong("cwd", f"is none: {one_line(str(error), 200)}")
    if any(map(looks_secret, args)):
        message = "args holds what looks like a secret, which everybody can read there; give it as env, by {{secret:NAME}}"
        draft.note("credential_written", "warning", message)
    fixed, secret = _environment(draft, given)
    return McpServer(
        argv=(command, *args) if command else (), cwd=cwd, environment=fixed, secret_environment=secret
    )


def _environment(draft: Draft, given: Fields) -> tuple[dict[str, str], dict[str, str]]:
    written = given.take("env") if "env" in given else {}
    if not isinstance(written, dict) or len(written) > _MOST_VARIABLES:
        given.wrong("env", f"is {kind(written)}; write an object of at most {_MOST_VARIABLES} variables")
        return {}, {}
    fixed: dict[str, str] = {}
    secret: dict[str, str] = {}
    for name, value in written.items():
        if not VARIABLE.fullmatch(name) or not isinstance(value, str) or len(value) > _LONGEST_VALUE:
            given.wrong("env", f'has "{one_line(name, 40)}": {kind(value)}; write a name and a text')
        elif place := _SECRET.fullmatch(value):
            secret[name] = place[1]
        elif "{{" in value or "\0" in value:
            given.wrong("env", f"{one_line(name, 40)} is no text and no {{{{secret:NAME}}}} alone")
        else:
            if header_looks_secret(name.replace("_", "-"), value):
                message = f"env: {one_line(name, 40)} looks like a secret, and everybody can read it there; write {{{{secret:NAME}}}}"
                draft.note("credential_written", "warning", message)
            fixed[name] = value
    return fixed, secret


def _remote(draft: Draft, given: Fields) -> McpServer:
    fields: dict[str, Json] = {"url": given.take("url")}
    if "headers" in given:
        fields["headers"] = given.take("headers")
    request = request_of(Fields(draft, MANIFEST, fields), {})
    for key in ("args", "cwd", "env"):
        if key in given:
            given.wrong(key, f"is {shown(given.take(key))}, and a server at an address is no program")
    return McpServer(url=request.url, headers=request.headers) if request is not None else McpServer()


def _implied(reached: McpServer) -> PermissionSet:
    """What reaching it takes, and so asks for."""
    if reached.url:
        request = HttpRequest(method="POST", url=reached.url, headers=reached.headers)
        return PermissionSet(hosts=frozenset({origin_of(request)}), secrets=secrets_of(request))
    return PermissionSet(
        binaries=frozenset(reached.argv[:1]), secrets=frozenset(reached.secret_environment.values())
    )
