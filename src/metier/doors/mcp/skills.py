"""The skills extension of the protocol (SEP-2640): `skills/list` and `skills/get`, each skill with the SHA-256 of every file.

A skill is listed where this principal could read it right now. That is asked of every layer without making a call, as for a prompt;
reading one of its files is a call.
"""

from typing import TYPE_CHECKING, Any, Final, final
from urllib.parse import quote

import mcp_types as types
from anyio import to_thread
from mcp.shared.exceptions import MCPError
from mcp_types import PaginatedRequestParams

from metier.catalog.listed import Listed
from metier.dialects.frontmatter import read
from metier.dialects.skill_md import MANIFEST
from metier.disclosure.schemas import told
from metier.doors.mcp.peer import Peer
from metier.doors.mcp.resources import SCHEME, files_of
from metier.doors.mcp.skill_files import digest_of
from metier.doors.mcp.tools import page
from metier.model.digest import Json
from metier.runtime.engine import Engine
from metier.runtime.readable import readable

if TYPE_CHECKING:
    from metier.doors.mcp.peer import Context, Who

EXTENSION: Final = "io.modelcontextprotocol/skills"
_MOST_FILES: Final = 512
"""As many as the extension has a skill list. One with more says that its files are to be asked for."""
_FRESH: Final[dict[str, Any]] = {"ttlMs": 0, "cacheScope": "private"}


@final
class GetSkillParams(types.RequestParams):
    """Which one."""

    uri: str


@final
class Skills:
    """Belongs to one loop."""

    def __init__(self, engine: Engine, who: "Who") -> None:
        self._engine = engine
        self._who = who

    async def list(self, ctx: "Context", params: PaginatedRequestParams | None) -> dict[str, Any]:
        """Those that this principal could read."""
        peer = self._who(ctx)
        await self._engine.refresh()
        every = [each for each in self._engine.seen.catalog.listed if _is_one(each)]
        begin, end, after = page(params, len(every))
        shown = every[begin:end]
        made = await to_thread.run_sync(lambda: [self._entry(peer, each) for each in shown])
        found: dict[str, Any] = {"skills": [each for each in made if each is not None], **_FRESH}
        return found | ({"nextCursor": after} if after is not None else {})

    async def get(self, ctx: "Context", params: GetSkillParams) -> dict[str, Any]:
        """One of them.

        Raises:
            MCPError: when there is none such for this principal.
        """
        peer = self._who(ctx)
        await self._engine.refresh()
        every = (each for each in self._engine.seen.catalog.listed if _is_one(each))
        found = next((each for each in every if _place(each.name) == params.uri), None)
        entry = await to_thread.run_sync(self._entry, peer, found) if found is not None else None
        if entry is None:
            raise MCPError(types.INVALID_PARAMS, "there is no such skill")
        return {"skill": entry, **_FRESH}

    def _entry(self, peer: Peer, listed: Listed) -> dict[str, Json] | None:
        """What a client is told; None where this principal could not read it. Blocking."""
        engine = self._engine
        if readable(engine.state, engine.seen, peer.principal, listed) is None:
            return None
        digest = digest_of(engine, listed.name)
        snapshot = engine.state.bundles.open(digest) if digest else None
        data = snapshot.read(listed.manifest) if snapshot is not None else None
        fields = read(data).fields if data is not None else None
        if snapshot is None or fields is None:
            return None
        files: list[Json] = [
            {
                "uri": f"{_folder(listed.name)}/{quote(each.path)}",
                "digest": f"sha256:{each.sha256}",
                "size": each.size,
            }
            for each in files_of(snapshot)
        ]
        return {
            "uri": _place(listed.name),
            "frontmatter": told(fields),
            "resources": files if len(files) <= _MOST_FILES else "dynamic",
        }


def _is_one(listed: Listed) -> bool:
    """Whether it is a skill as the extension has them: written as SKILL.md, usable, and for models."""
    skill = listed.skill
    return (
        listed.shown == "usable"
        and skill is not None
        and skill.model_may_invoke
        and listed.manifest == MANIFEST
    )


def _folder(name: str) -> str:
    return SCHEME + quote(name, safe="")


def _place(name: str) -> str:
    return f"{_folder(name)}/{MANIFEST}"
