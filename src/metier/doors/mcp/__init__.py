"""The door for programs that speak MCP: over standard input and output (`metier mcp`), and over HTTP (`/mcp` of `metier serve`).

The official SDK speaks the protocol, in both of its generations. What is ours is who asks, what is shown to whom, that every
act is a call through the gate, and the bounds. Nothing of the SDK is imported before somebody needs it.
"""
