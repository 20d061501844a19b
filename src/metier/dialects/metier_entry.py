"""What runs a tool, as `metadata.metier` writes it down: `entry: {kind: …}`, checked so that it can be run later. Pure.

`{{name}}` stands for an argument of the call. It never chooses a program, a scheme or a host, and the arguments it names
must be among the tool's parameters.
"""

import re
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from metier.dialects import command_places
from metier.dialects.block_fields import Fields, kind, shown
from metier.dialects.handler_file import LANGUAGES, PYTHON, Language, path_problem, suffix_of
from metier.dialects.metier_http import request_of
from metier.dialects.metier_places import place_problem
from metier.dialects.tool_words import BINARY, PLAIN_BINARY
from metier.model.digest import Json
from metier.model.entry import (
    Command,
    Entry,
    InlineCode,
    PythonHandler,
    RemoteTool,
    ScriptHandler,
    WasmModule,
)

KINDS: Final = ("script", "python", "wasm", "command", "http", "code", "mcp")
LONGEST_SOURCE: Final = 65_536
_Inline: TypeAlias = Literal["javascript", "typescript", "python"]
_INLINE: Final[tuple[_Inline, ...]] = ("javascript", "typescript", "python")
_NAME: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]{0,127}", re.ASCII)
_A_NAME: Final = "the name of a function"
_EXPORT: Final = re.compile(r"[A-Za-z0-9_$.:/@#-]{1,128}", re.ASCII)
_REMOTE: Final = re.compile(r"[A-Za-z0-9_.:/@-]{1,200}", re.ASCII)


def entry_of(given: Fields, parameters: dict[str, Json]) -> Entry | None:
    """The entry, or None when an error was found in it."""
    if "kind" not in given:
        given.wrong("kind", f"is missing; write one of {', '.join(KINDS)}")
        return None
    written = given.take("kind")
    if written == "operation":
        given.wrong(
            "kind",
            "is operation, and those are Metier's own; name the operation under permissions and call it from a handler",
        )
        return None
    reader = _READERS.get(written) if isinstance(written, str) else None
    if reader is None:
        given.wrong("kind", f"is {shown(written)}; write one of {', '.join(KINDS)}")
        return None
    return reader(given, parameters)


def _script(given: Fields, _: dict[str, Json]) -> Entry | None:
    path = _path(given, tuple(LANGUAGES))
    if not path:
        return None
    by_name = LANGUAGES[suffix_of(path)]
    language: Language = given.choice("language", ("javascript", "typescript"), by_name)
    if language != by_name:
        given.wrong("language", f"is {language}, and the name of the file says {by_name}; leave it out")
    export = given.word("export", _NAME, "the name under which the file exports the function", "default")
    hook = given.flag("hook")
    given.no_more("kind, path, language, export and hook")
    return ScriptHandler(path=path, language=language, export=export, hook=hook)


def _python(given: Fields, _: dict[str, Json]) -> Entry | None:
    path = _path(given, (PYTHON,))
    function = given.word("function", _NAME, _A_NAME, "main")
    given.no_more("kind, path and function")
    return PythonHandler(path=path, function=function) if path else None


def _wasm(given: Fields, _: dict[str, Json]) -> Entry | None:
    path = _path(given, (".wasm",))
    function = given.word("function", _EXPORT, "the name of an exported function", "")
    given.no_more("kind, path and function")
    return WasmModule(path=path, function=function or None) if path else None


def _command(given: Fields, parameters: dict[str, Json]) -> Entry | None:
    argv = given.line("argv")
    cwd = given.text("cwd", most=4_096, default="")
    given.no_more("kind, argv and cwd")
    if not argv or not BINARY.fullmatch(argv[0]):
        found = f"names the program {shown(argv[0])}" if argv else "names no program"
        given.wrong("argv", f"{found}; {PLAIN_BINARY}")
        return None
    for item in argv[1:]:
        if problem := place_problem(item, parameters):
            given.wrong("argv", problem)
            return None
    if problem := command_places.place_problem(argv):
        given.wrong("argv", f"has a place that is refused: {problem}")
        return None
    return Command(argv=argv, cwd=cwd)


def _code(given: Fields, _: dict[str, Json]) -> Entry | None:
    if "language" not in given:
        given.wrong("language", f"is missing; write one of {', '.join(_INLINE)}")
    language: _Inline = given.choice("language", _INLINE, "javascript")
    source = given.text("source", most=LONGEST_SOURCE)
    given.no_more("kind, language and source")
    return InlineCode(language=language, source=source)


def _mcp(given: Fields, _: dict[str, Json]) -> Entry | None:
    server = given.word("server", _REMOTE, "the name under which the operator configured the MCP server")
    tool = given.word("tool", _REMOTE, "the name of one of its tools")
    given.no_more("kind, server and tool")
    return RemoteTool(server=server, tool=tool)


def _path(given: Fields, suffixes: tuple[str, ...]) -> str:
    """A file of the skill; empty when an error was found."""
    ends = ", ".join(suffixes)
    if "path" not in given:
        given.wrong("path", f"is missing; write the path of a file of the skill that ends in {ends}")
        return ""
    path = given.take("path")
    if not isinstance(path, str):
        given.wrong("path", f"is {kind(path)}; write the path of a file of the skill that ends in {ends}")
    elif problem := path_problem(path):
        given.wrong("path", problem)
    elif suffix_of(path) not in suffixes:
        given.wrong("path", f"is {shown(path)}; this kind takes files that end in {ends}")
    else:
        return path
    return ""


_READERS: Final[dict[str, Callable[[Fields, dict[str, Json]], Entry | None]]] = {
    "script": _script,
    "python": _python,
    "wasm": _wasm,
    "command": _command,
    "http": request_of,
    "code": _code,
    "mcp": _mcp,
}
