"""A server made with the official SDK, over streamable HTTP on the port it is told; it says when it listens."""

import sys

from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import BaseModel

server = MCPServer("sdk")


class Sum(BaseModel):
    total: int


@server.tool()
def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(total=a + b)


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("as asked")


if __name__ == "__main__":
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    server.run(
        "streamable-http", host="127.0.0.1", port=int(sys.argv[1]), transport_security=security,
        json_response=sys.argv[2] == "json",
    )  # fmt: skip
