"""What is said to an MCP server: who we are, which tools it has, and to use one. The same over a pipe and over HTTP.

The handshake of the versions up to 2025-11-25 is tried first; a server that knows only the later ones, which have none, says so and is
asked in their way. Nothing that it tells decides about anything but its own tools.
"""

import time
from typing import Final, final

import msgspec

from metier.model.digest import Json
from metier.model.mcp_listing import LISTING, MOST_BYTES, MOST_TOOL_BYTES, MOST_TOOLS
from metier.model.text import one_line
from metier.sandbox.mcp_peer import Peer, Said, Trouble

HANDSHAKE: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
STATELESS: Final = "2026-07-28"
_UNSUPPORTED: Final = frozenset({-32022, -32601})
"""Codes of a server that has no handshake."""
MOST_PAGES: Final = 16
_LONGEST: Final = 300
_META: Final = "io.modelcontextprotocol/"


@final
class Session:
    """A server that was greeted."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._stateless = False
        self._server: dict[str, Json] = {}

    async def greet(self, seconds: float) -> Trouble | None:
        """Say who we are. Why it is of no use, where it is not."""
        params: dict[str, Json] = {
            "protocolVersion": HANDSHAKE[0],
            "capabilities": {},
            "clientInfo": {"name": "metier", "version": "1"},
        }
        said = await self._peer.ask("initialize", params, seconds)
        if isinstance(said, Trouble):
            if said.kind != "error" or said.code not in _UNSUPPORTED:
                return said
            self._stateless = True
            said = await self._ask("server/discover", {}, seconds)
            if isinstance(said, Trouble):
                return said
            versions = said.get("supportedVersions")
            if not isinstance(versions, list) or STATELESS not in versions:
                return Trouble(kind="bad", message="it speaks no version of the protocol that Metier knows")
        elif said.get("protocolVersion") not in HANDSHAKE:
            version = one_line(str(said.get("protocolVersion")), 40)
            return Trouble(
                kind="bad", message=f"it speaks the version {version} of the protocol, which Metier does not"
            )
        abilities = said.get("capabilities")
        if not isinstance(abilities, dict) or not isinstance(abilities.get("tools"), dict):
            return Trouble(kind="bad", message="it says that it has no tools")
        self._server = _about(said.get("serverInfo"))
        if not self._stateless:
            await self._peer.tell("notifications/initialized", {})
        return None

    async def tools(self, seconds: float) -> Said:
        """What tools there are, as much of it as is kept: `{server, tools, left_out}`. All pages within so many seconds."""
        until = time.monotonic() + seconds
        found: list[Json] = []
        left_out: list[Json] = []
        names: set[str] = set()
        size = 0
        params: dict[str, Json] = {}
        for _ in range(MOST_PAGES):
            page = await self._ask("tools/list", params, max(0.0, until - time.monotonic()))
            if isinstance(page, Trouble):
                return page
            tools, cursor = page.get("tools"), page.get("nextCursor")
            if not isinstance(tools, list):
                return Trouble(kind="bad", message="its list of tools is none")
            for each in tools:
                taken = len(msgspec.json.encode(each))
                if problem := _unfit(each, names, taken):
                    left_out.append(problem)
                elif len(found) >= MOST_TOOLS or size + taken > MOST_BYTES:
                    left_out.append(
                        f"more than {MOST_TOOLS} tools or {MOST_BYTES:,} bytes of them are not read"
                    )
                    cursor = None
                    break
                else:
                    found.append(each)
                    size += taken
            if cursor is None or len(left_out) > MOST_TOOLS:
                told: dict[str, Json] = {"server": self._server, LISTING: found, "left_out": left_out[:20]}
                return told
            if not isinstance(cursor, str) or len(cursor) > 4_096:
                return Trouble(kind="bad", message="its list of tools goes on at no place that can be named")
            params = {"cursor": cursor}
        return Trouble(kind="bad", message=f"its list of tools has more than {MOST_PAGES} pages")

    async def use(self, tool: str, arguments: dict[str, Json], seconds: float) -> Said:
        """Have a tool used."""
        return await self._ask("tools/call", {"name": tool, "arguments": arguments}, seconds)

    async def _ask(self, method: str, params: dict[str, Json], seconds: float) -> Said:
        if self._stateless:
            meta: dict[str, Json] = {
                f"{_META}protocolVersion": STATELESS,
                f"{_META}clientCapabilities": {},
                f"{_META}clientInfo": {"name": "metier", "version": "1"},
            }
            params = {**params, "_meta": meta}
        return await self._peer.ask(method, params, seconds)


def _unfit(tool: Json, names: set[str], size: int) -> str:
    """Why a tool of the list is not kept; notes its name otherwise."""
    name = tool.get("name") if isinstance(tool, dict) else None
    if not isinstance(name, str) or not name or len(name) > _LONGEST:
        return "a tool without a name, or with one that is too long, is not read"
    if name in names:
        return f"the tool {one_line(name, 64)} is there twice; the second is not read"
    names.add(name)
    if size > MOST_TOOL_BYTES:
        return (
            f"the tool {one_line(name, 64)} is described by {size:,} bytes; {MOST_TOOL_BYTES:,} are the most"
        )
    return ""


def _about(info: Json) -> dict[str, Json]:
    """Name and version, as the server tells them: to be shown, and nothing more."""
    told = info if isinstance(info, dict) else {}
    words = ((name, told.get(name)) for name in ("name", "title", "version"))
    return {name: one_line(text, 100) for name, text in words if isinstance(text, str)}
