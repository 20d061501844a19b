"""What runs a tool, in one line."""

from metier.model.entry import (
    Command,
    Entry,
    HttpRequest,
    InlineCode,
    Operation,
    Program,
    PythonHandler,
    RemoteTool,
    ScriptHandler,
    WasmModule,
)
from metier.model.text import one_line


def runs(entry: Entry) -> str:
    """What runs it."""
    match entry:
        case Command(argv=argv):
            return one_line(" ".join(argv), 200)
        case HttpRequest(method=method, url=url):
            return one_line(f"{method} {url}", 200)
        case InlineCode(language=language):
            return f"{language} code in the manifest"
        case RemoteTool(server=server, tool=tool):
            return one_line(f"{tool} of the MCP server {server}", 200)
        case Operation(module=module, operation=operation):
            return one_line(f"{module}.{operation} of Metier's own", 200)
        case ScriptHandler(path=path) | PythonHandler(path=path) | WasmModule(path=path) | Program(path=path):
            return one_line(path, 200)
