"""How a tool is run: one of eight kinds, told apart by `kind` wherever it is written down."""

from typing import Literal, TypeAlias, final

from msgspec import Struct

from metier.model.digest import Json


@final
class Operation(Struct, frozen=True, kw_only=True, tag_field="kind", tag="operation"):
    """A function of one of Metier's own modules."""

    module: str
    operation: str


@final
class ScriptHandler(Struct, frozen=True, kw_only=True, tag_field="kind", tag="script"):
    """A JavaScript or TypeScript function in a file of the skill."""

    path: str
    language: Literal["javascript", "typescript"]
    export: str = "default"
    hook: bool = False
    """Whether it is a hook: it gets an event, and what comes back is the event's context as it left it."""


@final
class PythonHandler(Struct, frozen=True, kw_only=True, tag_field="kind", tag="python"):
    """A Python function in a file of the skill."""

    path: str
    function: str = "main"


@final
class WasmModule(Struct, frozen=True, kw_only=True, tag_field="kind", tag="wasm"):
    """A WASM module or component of the skill; no function means stdin and stdout carry JSON."""

    path: str
    function: str | None = None


@final
class Command(Struct, frozen=True, kw_only=True, tag_field="kind", tag="command"):
    """A program with its arguments. Never a shell line."""

    argv: tuple[str, ...]


@final
class HttpRequest(Struct, frozen=True, kw_only=True, tag_field="kind", tag="http"):
    """One HTTP request."""

    method: str
    url: str
    headers: dict[str, str] = {}
    body: Json = None


@final
class InlineCode(Struct, frozen=True, kw_only=True, tag_field="kind", tag="code"):
    """Source code written in the manifest itself."""

    language: Literal["javascript", "typescript", "python"]
    source: str


@final
class RemoteTool(Struct, frozen=True, kw_only=True, tag_field="kind", tag="mcp"):
    """A tool of a remote MCP server."""

    server: str
    tool: str


Entry: TypeAlias = (
    Operation | ScriptHandler | PythonHandler | WasmModule | Command | HttpRequest | InlineCode | RemoteTool
)
