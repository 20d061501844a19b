"""Starts an agent of the workspace. Which agents there are, and what one may do, is Metier's to say; this asks for one."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TOLD = ("pid", "exitCode", "output", "artifacts")


def execute(inputs: "dict[str, Any]", context: "Any") -> "dict[str, Any]":
    """Have the agent run, and say which process it is and how it ended, as far as that is known."""
    # The bytes that somebody agreed to: what lies there now may be something else.
    asked = {"agentName": inputs["agentName"], "digest": context.agent, "wait": inputs.get("wait") is True}
    try:
        told: dict[str, Any] = context.operate("agents.run", asked).wait()
    except context.Error as error:  # what the host did not do, in its own words
        return {"success": False, "error": str(error)}
    return {"success": True, **{name: told[name] for name in TOLD if name in told}}
