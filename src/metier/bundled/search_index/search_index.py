"""Searches the memories of the workspace. The search itself is Metier's; this asks for it and hands the answer on."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ASKED = ("query", "limit", "minSimilarity")


def execute(inputs: "dict[str, Any]", context: "Any") -> "dict[str, Any]":
    """The memories that fit best."""
    asked = {name: inputs[name] for name in ASKED if inputs.get(name) is not None}
    if not str(asked.get("query", "")).strip():
        return {"success": False, "error": "query is empty; say what to look for"}
    try:
        found: dict[str, Any] = context.operate("memory.search", asked).wait()
    except context.Error as error:  # what the host did not do, in its own words
        return {"success": False, "error": str(error)}
    return {"success": True, **found}
