"""Skills and files as resources.

| address | what it is |
|---|---|
| `skill://NAME/SKILL.md` | the instructions of a skill, as they lie there |
| `skill://NAME/_manifest` | every file of it with size and SHA-256, and the digest of the whole |
| `skill://NAME/PATH` | one of those files, as text or in base64 |
| `metier://out/CALL/PATH` | a file that a call of the same principal made |

Each reading of a skill is a call through the gate.
"""

import base64
from mimetypes import MimeTypes
from typing import TYPE_CHECKING, Final, final
from urllib.parse import quote, unquote

import mcp_types as types
import msgspec
from anyio import to_thread
from mcp.shared.exceptions import MCPError

from metier.catalog.bundle import File, Snapshot
from metier.disclosure.read_skill import MAX_BYTES
from metier.doors.mcp import artifacts
from metier.doors.mcp.artifacts import Artifacts
from metier.doors.mcp.peer import Peer, may_use
from metier.doors.mcp.skill_files import NotRead, snapshot_of
from metier.doors.mcp.tools import page
from metier.model.digest import Json
from metier.model.skill import Skill
from metier.model.text import one_line
from metier.runtime.engine import Engine

if TYPE_CHECKING:
    from metier.doors.mcp.peer import Context, Who

SCHEME: Final = "skill://"
MANIFEST: Final = "_manifest"
INSTRUCTIONS: Final = "SKILL.md"
_NOT_FOUND: Final = -32002
_LONGEST: Final = 2_048
_SMALL: Final = 65_536
_TYPES: Final = MimeTypes()


@final
class Resources:
    """Belongs to one loop."""

    def __init__(self, engine: Engine, who: "Who", files: Artifacts) -> None:
        self._engine = engine
        self._who = who
        self._files = files

    async def list(
        self, ctx: "Context", params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Every skill that may be read here, and what calls of this principal made."""
        peer = self._who(ctx)
        await self._engine.refresh()
        every: list[types.Resource] = []
        if await may_use(peer, self._engine.state.database):
            for skill in self._engine.seen.catalog.usable():
                if skill.model_may_invoke:
                    every += _of_skill(skill)
            every += [
                types.Resource(
                    uri=uri, name=each.path.rpartition("/")[2], mime_type=each.type, size=each.size
                )
                for uri, each in self._files.of(peer).items()
            ]
        begin, end, after = page(params, len(every))
        return types.ListResourcesResult(resources=every[begin:end], next_cursor=after)

    async def templates(
        self, ctx: "Context", params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """How single files of a skill are asked for."""
        one = types.ResourceTemplate(
            uri_template="skill://{name}/{+path}",
            name="file-of-a-skill",
            description=f"One of the files that {MANIFEST} of the skill lists, of at most {MAX_BYTES:,} bytes; what is no text comes in base64",
        )
        return types.ListResourceTemplatesResult(resource_templates=[one])

    async def read(self, ctx: "Context", params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        """One of them.

        Raises:
            MCPError: when there is none such for this principal.
        """
        peer, uri = self._who(ctx), str(params.uri)
        if len(uri) > _LONGEST:
            raise MCPError(types.INVALID_PARAMS, f"an address has at most {_LONGEST} characters")
        if not await may_use(peer, self._engine.state.database):
            raise _none(uri)
        if uri.startswith(SCHEME):
            content = await self._of_skill(peer, uri)
        else:
            artifact = self._files.get(peer, uri)
            if artifact is None:
                raise _none(uri)
            workspace = self._engine.seen.ground.workspace
            data = await to_thread.run_sync(artifacts.read, artifact, workspace)
            if isinstance(data, NotRead):
                raise MCPError(_NOT_FOUND, one_line(data.why, 500), {"uri": uri})
            content = _content(uri, data, artifact.type)
        return types.ReadResourceResult(contents=[content])

    async def _of_skill(
        self, peer: Peer, uri: str
    ) -> "types.TextResourceContents | types.BlobResourceContents":
        quoted_name, _, quoted_path = uri.removeprefix(SCHEME).partition("/")
        name, path = unquote(quoted_name), unquote(quoted_path)
        await self._engine.refresh()
        listed = self._engine.seen.catalog.get(name)
        if listed is None or listed.skill is None or not path or not listed.skill.model_may_invoke:
            raise _none(uri)
        whole = path in (MANIFEST, INSTRUCTIONS, listed.manifest)
        found = await snapshot_of(self._engine, peer, name, None if whole else path)
        if isinstance(found, NotRead):
            raise MCPError(_NOT_FOUND, one_line(found.why, 500), {"uri": uri})
        if path == MANIFEST:
            return types.TextResourceContents(
                uri=uri, mime_type="application/json", text=_manifest(listed.skill, found)
            )
        name = listed.manifest if whole else path
        content = await to_thread.run_sync(_file, uri, found, name)
        if content is None:
            raise _none(uri)
        return content


def _file(
    uri: str, found: Snapshot, name: str
) -> "types.TextResourceContents | types.BlobResourceContents | None":
    """One file of a skill. Blocking: a large one takes a while, to be read and to be written out."""
    data = found.read(name)
    type = "text/markdown" if name.endswith(".md") else "text/plain"
    return None if data is None else _content(uri, data, type, name)


def _of_skill(skill: Skill) -> list[types.Resource]:
    place = SCHEME + quote(skill.name, safe="")
    about = one_line(skill.description, 500)
    return [
        types.Resource(
            uri=f"{place}/{INSTRUCTIONS}",
            name=f"{skill.name}/{INSTRUCTIONS}",
            title=skill.name,
            description=about,
            mime_type="text/markdown",
        ),
        types.Resource(
            uri=f"{place}/{MANIFEST}",
            name=f"{skill.name}/{MANIFEST}",
            description=f"Every file of {skill.name} with its SHA-256",
            mime_type="application/json",
        ),
    ]


def files_of(found: Snapshot) -> list[File]:
    """Those that have an address here. One that is called as our list of them has none: its digest would not fit what is read there."""
    return [each for each in found.files if each.path != MANIFEST]


def _manifest(skill: Skill, found: Snapshot) -> str:
    files: list[Json] = [
        {"path": each.path, "size": each.size, "sha256": each.sha256} for each in files_of(found)
    ]
    told: dict[str, Json] = {
        "skill": skill.name,
        "version": skill.version,
        "digest": found.digest,
        "instructions": skill.manifest,
        "files": files,
    }
    return msgspec.json.format(msgspec.json.encode(told)).decode()


def _content(
    uri: str, data: bytes, type: str, name: str = ""
) -> "types.TextResourceContents | types.BlobResourceContents":
    """As text where it is one, byte for byte; else in base64. So is text that would be longer than that, with all its line ends
    spelled out."""
    blob = base64.b64encode(data).decode()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        mime = _type_of(name) if type.startswith("text/") else type
        return types.BlobResourceContents(uri=uri, mime_type=mime, blob=blob)
    if len(data) > _SMALL and len(msgspec.json.encode(text)) > len(blob) + _SMALL:
        return types.BlobResourceContents(uri=uri, mime_type=type, blob=blob)
    return types.TextResourceContents(uri=uri, mime_type=type, text=text)


def _type_of(name: str) -> str:
    """What a file that is no text most likely is, by its name; no table of this machine's is asked."""
    guessed = _TYPES.guess_type(name)[0] or ""
    return guessed if guessed and not guessed.startswith("text/") else "application/octet-stream"


def _none(uri: str) -> MCPError:
    """Another's and none at all look the same."""
    return MCPError(_NOT_FOUND, "there is no such resource", {"uri": uri})
