"""How a tool is run: one of nine kinds, told apart by `kind` wherever it is written down."""

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
    life: bool = False
    """Whether it is a contract that lives: it is enabled, answers operations, and is disabled. `export` says nothing then."""


@final
class PythonHandler(Struct, frozen=True, kw_only=True, tag_field="kind", tag="python"):
    """A Python function in a file of the skill."""

    path: str
    function: str = "main"
    life: bool = False
    """As for a script; `function` says nothing then."""
    module: str = ""
    """The name that a package which lives imports itself by; empty for that of its file."""


@final
class WasmModule(Struct, frozen=True, kw_only=True, tag_field="kind", tag="wasm"):
    """A WASM module or component of the skill; no function means stdin and stdout carry JSON."""

    path: str
    function: str | None = None


@final
class Command(Struct, frozen=True, kw_only=True, tag_field="kind", tag="command"):
    """A program with its arguments. Never a shell line."""

    argv: tuple[str, ...]
    cwd: str = ""
    """Where it starts: a granted folder, or one below; empty for where the call is made."""


@final
class Program(Struct, frozen=True, kw_only=True, tag_field="kind", tag="program"):
    """A file of a skill that is run as a program: arguments go in, output and an exit code come out. No skill declares
    one: which file it is, and with what, is said by a call of `run_in_skill`, and only prepare fills it in."""

    path: str = ""
    language: Literal["python", "javascript", "typescript", "sh", "bash"] = "sh"
    args: tuple[str, ...] = ()


@final
class HttpRequest(Struct, frozen=True, kw_only=True, tag_field="kind", tag="http"):
    """One HTTP request."""

    method: str
    url: str
    headers: dict[str, str] = {}
    body: Json = None
    retries: int = 2
    """How often it is tried again when no answer came, or one that asks for patience."""


@final
class InlineCode(Struct, frozen=True, kw_only=True, tag_field="kind", tag="code"):
    """Source code written in the manifest itself."""

    language: Literal["javascript", "typescript", "python"]
    source: str


@final
class McpServer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an MCP server is reached: a program that speaks on its standard input and output, or an address."""

    argv: tuple[str, ...] = ()
    """Empty for a server at an address."""
    cwd: str = ""
    """As that of a command."""
    environment: dict[str, str] = {}
    """Variables with fixed values. Nothing secret: it stands in the skill's own file."""
    secret_environment: dict[str, str] = {}
    """Variable → name of the secret it holds, which the server then sees."""
    url: str = ""
    headers: dict[str, str] = {}
    """A value may end in `{{secret:NAME}}`, as that of an HTTP request."""


@final
class RemoteTool(Struct, frozen=True, kw_only=True, tag_field="kind", tag="mcp", omit_defaults=True):
    """A tool of an MCP server. Without a name: what tools there are."""

    server: str
    tool: str
    reached: McpServer | None = None
    """None where a skill only names a server; nothing runs that."""
    pin: str = ""
    """Digest of everything the server said of the tool when it was looked at. One that says something else now is not called."""


Entry: TypeAlias = (
    Operation
    | ScriptHandler
    | PythonHandler
    | WasmModule
    | Command
    | Program
    | HttpRequest
    | InlineCode
    | RemoteTool
)
