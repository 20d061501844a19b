"""How a call ended, as an MCP client is told it: text for the model, the value as it is, and links to files that were made."""

import mcp_types as types
import msgspec

from metier.disclosure.toolcalls import content, ran_before
from metier.model.answer import told
from metier.model.digest import Json
from metier.model.outcome import Artifact, Completed, Failed, Outcome, Pending
from metier.model.skill import Answer
from metier.model.text import one_line


def result_of(
    outcome: Outcome, answer: Answer, *, links: dict[str, Artifact], decide_at: str = ""
) -> types.CallToolResult:
    """One result.

    Args:
        links: where each file that it made can be read.
        decide_at: page where what waits can be decided; empty where there is none.
    """
    blocks: list[types.ContentBlock] = [types.TextContent(text=content(outcome, answer))]
    if isinstance(outcome, Pending):
        blocks.append(types.TextContent(text=waiting(outcome, decide_at)))
    if said := ran_before(outcome):
        blocks.append(types.TextContent(text=said))
    blocks += [
        types.ResourceLink(
            uri=uri, name=artifact.path.rpartition("/")[2], mime_type=artifact.type, size=artifact.size
        )
        for uri, artifact in links.items()
    ]
    failed = not isinstance(outcome, Completed)
    return types.CallToolResult(
        content=blocks, structured_content=_structured(outcome, answer), is_error=failed
    )


def _structured(outcome: Outcome, answer: Answer) -> dict[str, Json] | None:
    """The value as the tool's dialect has callers see it. Clients before 2026-07-28 refuse what is no object."""
    if not isinstance(outcome, Completed):
        return None
    value = outcome.value if answer == "value" else told(outcome, answer)
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:  # half a character, which no message could carry; the text spells it out
        return None
    return value if isinstance(value, dict) else None


def waiting(pending: Pending, decide_at: str) -> str:
    """What the user is to be told about a call that waits."""
    id = pending.approval_id
    until = f" until {one_line(pending.expires_at, 40)}" if pending.expires_at else ""
    said = [
        f"A person decides this{until}, and not over this connection. Tell the user where:",
        *([decide_at] if decide_at else []),
        f"metier approvals show {id}",
        "Never decide it yourself. Once the user says that it was approved, call it again with the same arguments: it runs then, once, and you "
        "are given the result. If it ran already where it was approved, you are given how it ended, and nothing runs twice. Do not call it "
        "again before it was approved: that would be asked about anew.",
    ]
    return "\n".join(said)


def made_by(outcome: Outcome) -> tuple[Artifact, ...]:
    """The files that a call left."""
    return outcome.artifacts if isinstance(outcome, Completed | Failed) else ()
