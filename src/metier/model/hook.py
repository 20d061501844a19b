"""What a hook is given and what it gives back, as OmniAgent's document and OpenClaw have it. JSON names are theirs."""

from typing import Annotated, Final, Literal, final

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


@final
class HookEvent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happened."""

    type: Literal["agent", "tool", "message"]
    action: Annotated[str, Meta(max_length=1024)]
    session_key: Annotated[str, Meta(max_length=1024)] = field(name="sessionKey")
    context: HookContext
