"""What a hook is given and what it gives back, as OmniAgent's document and OpenClaw have it. JSON names are theirs."""

from typing import Annotated, Any, Final, Literal, final

from msgspec import UNSET, Meta, Struct, UnsetType, field

HOOK: Final = "hook"
"""Where a job's context has it, the entry is a hook: this is its event, and its result is the event's context."""


@final
class BootstrapFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of those an agent is started with."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    content: str
    virtual: bool = False
    """Made up by a hook; no such file need exist."""


@final
class HookContext(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a hook may look at and change. What it leaves here is its result."""

    bootstrap_files: tuple[BootstrapFile, ...] = field(name="bootstrapFiles")
    workspace_dir: str | UnsetType = field(name="workspaceDir", default=UNSET)
    tool_name: str | UnsetType = field(name="toolName", default=UNSET)
    """On events about tools: which one is called. What it said is in `CLAUDE_TOOL_OUTPUT`."""
    params: dict[str, Any] | UnsetType = UNSET
    """Its arguments; absent where they are too large to be shown. Only a gate hook sees them without a mask over what is likely a
    secret."""
    skill: str | UnsetType = UNSET
    """Under whose name it runs."""
    call_id: str | UnsetType = field(name="callId", default=UNSET)
    outcome: Literal["completed", "failed"] | UnsetType = UNSET
    """After it ran: how it ended."""
    error: str | UnsetType = UNSET
    """The code of how it failed."""
    from_: str | UnsetType = field(name="from", default=UNSET)
    """On events about messages, in OpenClaw's words: who sent it."""
    to: str | UnsetType = UNSET
    content: str | UnsetType = UNSET
    channel_id: str | UnsetType = field(name="channelId", default=UNSET)
    conversation_id: str | UnsetType = field(name="conversationId", default=UNSET)
    message_id: str | UnsetType = field(name="messageId", default=UNSET)
    decision: Literal["allow", "ask", "deny"] | UnsetType = UNSET
    """What a gate hook says about the call. Nobody's `allow` lets anything happen that would not happen without it."""
    reason: str | UnsetType = UNSET
    """Why, in the hook's own words."""


@final
class HookEvent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happened."""

    type: Literal["agent", "tool", "message"]
    action: Annotated[str, Meta(max_length=1024)]
    session_key: Annotated[str, Meta(max_length=1024)] = field(name="sessionKey")
    context: HookContext
