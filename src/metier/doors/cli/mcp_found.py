"""The MCP servers that other clients are configured with: where each keeps them, and what it says. Read, never written."""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Final, cast, final

from msgspec import Struct

from metier.model import strictjson, stricttoml
from metier.model.diagnostic import Diagnostic
from metier.model.digest import Json
from metier.model.text import one_line
from metier.openfile import read_small

MOST_BYTES: Final = 8_388_608
"""A client may keep much else in the same file."""
MOST_SERVERS: Final = 200
_TABLES: Final = ("mcpServers", "servers", "mcp_servers")
_STRING: Final = r'"(?:\\.|[^"\\])*+"?'
_COMMENT: Final = re.compile(rf"({_STRING})|//[^\n]*+|/\*(?:.*?\*/|.*+)", re.DOTALL)
_LAST_COMMA: Final = re.compile(rf"({_STRING})|,(?=\s*+[}}\]])", re.DOTALL)
_APPLICATION: Final = "Library/Application Support" if sys.platform == "darwin" else ".config"

CLIENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "claude-code": ("~/.claude.json", ".mcp.json"),
    "cursor": ("~/.cursor/mcp.json", ".cursor/mcp.json"),
    "codex": ("~/.codex/config.toml", ".codex/config.toml"),
    "vscode": (f"~/{_APPLICATION}/Code/User/mcp.json", ".vscode/mcp.json"),
    "claude-desktop": (f"~/{_APPLICATION}/Claude/claude_desktop_config.json",),
}
"""By name, its files: below the home folder, and below the project."""


@final
class Found(Struct, frozen=True, kw_only=True):
    """One server as a client has it."""

    name: str
    file: str
    fields: dict[str, Json]
    own: bool = False
    """Whether the client has it for this project alone, in a file of the user's."""


@final
class Unread(Struct, frozen=True, kw_only=True):
    """A file that could not be read, and why."""

    file: str
    why: str


def files_of(client: str, project: str) -> list[str]:
    """Where a client keeps its servers, those that are there; or the one file that is meant."""
    if client not in CLIENTS:
        return [os.path.abspath(client)]
    places = (os.path.join(project, os.path.expanduser(each)) for each in CLIENTS[client])
    # In the home folder both names lead to one file, which is read once.
    once = {os.path.realpath(each): each for each in reversed(list(places)) if os.path.lexists(each)}
    return [*reversed(once.values())]


def servers_of(files: list[str], project: str) -> list[Found | Unread]:
    """Every server of these files. What is nearer to the project comes first, as the clients themselves have it."""
    found = [(place, each) for place, file in enumerate(files) for each in servers_in(file, project)]
    ordered = sorted(found, key=lambda one: (not (isinstance(one[1], Found) and one[1].own), -one[0]))
    return [each for _, each in ordered]


def servers_in(file: str, project: str) -> Iterator[Found | Unread]:
    """Every server that a file names, for this project and for all."""
    found = read_small(
        file, most=MOST_BYTES, hard_links=True, links=True
    )  # many keep theirs elsewhere, and link it
    if isinstance(found, Diagnostic):
        yield Unread(file=file, why=found.message)
        return
    if found[1].st_uid not in (0, os.geteuid()):
        yield Unread(file=file, why="it belongs to somebody else; make a copy of your own, and name that")
        return
    fields = _fields(found[0], toml=file.endswith(".toml"))
    if isinstance(fields, str):
        yield Unread(file=file, why=fields)
        return
    projects = fields.get("projects")
    own = projects.get(project) if isinstance(projects, dict) else None
    count = 0
    for each in (own, fields):
        for name, server in _servers(each):
            count += 1
            if count > MOST_SERVERS:
                yield Unread(file=file, why=f"only the first {MOST_SERVERS} servers are looked at")
                return
            yield Found(name=name, file=file, fields=server, own=each is own)


def _fields(data: bytes, *, toml: bool) -> dict[str, Json] | str:
    try:
        if toml:
            return cast("dict[str, Json]", stricttoml.loads(data))
        text = data.decode().removeprefix("\ufeff")
        fields = strictjson.loads(_LAST_COMMA.sub(_kept, _COMMENT.sub(_kept, text)), most=MOST_BYTES)
    except stricttoml.TomlError as error:
        return f"it cannot be read: {one_line(str(error), 200)}"
    except UnicodeDecodeError as error:
        return f"it is no text: {one_line(str(error), 200)}"
    except ValueError as error:
        return f"it is no strict JSON: {one_line(str(error), 200)}; make a copy that is, and name that"
    return fields if isinstance(fields, dict) else "it is JSON, but no object"


def _kept(found: re.Match[str]) -> str:
    """What is in quotes stays; a comment and a comma too many become a blank. That much the clients let pass."""
    return found[1] or " "


def _servers(fields: Json) -> Iterator[tuple[str, dict[str, Json]]]:
    for table in _TABLES:
        named = fields.get(table) if isinstance(fields, dict) else None
        for name, server in named.items() if isinstance(named, dict) else ():
            if isinstance(server, dict):
                yield name, server
