"""A server that offers every skill on this machine to any MCP client, over standard input and output.

It shows how to put Metier behind a server of your own; a ready one, `metier mcp`, comes later.
"""

import anyio
from mcp import stdio_server
from mcp.server.lowlevel import Server
from mcp.types import CallToolResult, ListToolsResult

from metier import Runtime


async def main() -> None:
    async with Runtime.open() as metier:

        async def list_tools(_context, _params) -> ListToolsResult:
            return ListToolsResult.model_validate({"tools": metier.tools("mcp")})

        async def call_tool(_context, params) -> CallToolResult:
            [result] = await metier.handle(params)
            return CallToolResult.model_validate(result)

        server = Server(
            "metier-example",
            instructions=metier.prompt(),
            on_list_tools=list_tools,
            on_call_tool=call_tool,
        )
        async with stdio_server() as (received, sent):
            await server.run(received, sent, server.create_initialization_options())


anyio.run(main)
