"""What can be configured, as frozen values. Secret values are not kept: only the fact that one is there."""

import os
from typing import Annotated, Any, Literal, TypeAlias, final

from msgspec import Meta, Struct

from metier.config.agents import AgentSettings, MemorySettings
from metier.config.announce import AnnounceSettings
from metier.config.gateway import GatewaySettings, OperatorSettings
from metier.config.hooks import HookSettings
from metier.config.mcp import McpSettings
from metier.config.serve import ServeSettings
from metier.config.telegram import TelegramSettings
from metier.config.xbot import XbotSettings
from metier.model.program import OperatorProgram

RootKind: TypeAlias = Literal["user", "project", "extra", "installed", "bundled"]


@final
class Root(Struct, frozen=True, kw_only=True):
    """A folder that holds skills."""

    path: str
    kind: RootKind
    trusted: bool
    """Whether the operator vouches for the place itself: its skills are bound to their bytes at first use."""
    own: bool = False
    """Whether nobody but him puts files there: Metier's own, or one that he named. Other programs fill `~/.claude/skills`."""

    @property
    def hard_links(self) -> bool:
        """Installers give the files of a distribution several names; its RECORD vouches for them."""
        return self.kind in ("installed", "bundled")


@final
class SkillEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"api_key": "apiKey"}):
    """The operator's word on one skill, in OpenClaw's shape. Secret values are dropped while reading."""

    enabled: bool = True
    api_key: bool = False
    """Whether one is configured."""
    env: frozenset[str] = frozenset()
    """Names of the variables that are configured."""
    config: dict[str, Any] = {}
    hosts: frozenset[str] = frozenset()
    """What a skill may reach that asks for the network without naming a host."""


@final
class SkillSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[skills]`: which skills there are."""

    roots: tuple[str, ...] = ()
    allow: frozenset[str] | None = None
    """Only these; absent means no such limit, empty means none."""
    enabled: frozenset[str] | None = None
    disabled: frozenset[str] = frozenset()
    allowlist: Literal["trust", "required"] = "trust"
    """`required`: a root without SKILL_MANIFEST.json offers nothing."""
    entries: dict[str, SkillEntry] = {}


@final
class PromptSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[prompt]`: how much a model is shown."""

    max_skills: Annotated[int, Meta(ge=0)] = 20
    budget: Annotated[int, Meta(ge=0)] = 16_000


@final
class AuditSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[audit]`: how much of a payload is kept beside the chain."""

    payloads: Literal["hashes", "redacted", "full"] = "redacted"
    keep_days: Annotated[int, Meta(ge=1, le=36_500)] | None = None
    """How long `metier audit retain` leaves payloads; absent means that nobody said."""


@final
class PythonSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[python]`: what the Python code of skills finds installed."""

    packages: tuple[str, ...] = ()
    """Folders of installed packages that it may import, read-only."""


@final
class Window(Struct, frozen=True, kw_only=True):
    """So many calls, and no more, in each stretch of so many seconds."""

    calls: int
    seconds: int


@final
class BudgetSettings(Struct, frozen=True, kw_only=True):
    """`[budgets]`: how many calls may begin. Zero means none; no number means as many as one likes.

    What a tool or a skill has is for all. So that nobody uses it up alone, each principal has a fifth of it.
    """

    principal: Window = Window(calls=600, seconds=60)
    tool: Window = Window(calls=3_000, seconds=60)
    skill: Window = Window(calls=3_000, seconds=60)
    cheap: Window = Window(calls=6_000, seconds=3_600)
    """Calls of tools of this cost, by one principal. What is free has no limit of its own."""
    expensive: Window = Window(calls=600, seconds=3_600)
    memory: Window = Window(calls=60, seconds=60)
    """Searches of memory, for whoever stands behind them."""


@final
class BinarySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[binaries]`: which programs skills may be granted."""

    interpreters: frozenset[Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}\Z")]] = (
        frozenset()
    )
    """Shells, interpreters and the like, each by its exact name. All others are refused, whoever granted them."""
    programs: dict[Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}\Z")], OperatorProgram] = {}
    """Which file a name stands for, whatever the path has, and what that program is given."""


@final
class ApprovalSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[approvals]`: how people are asked."""

    unattended: Literal["deny", "wait"] = "deny"
    """What becomes of a call that must be asked where nobody is there."""
    expires_minutes: Annotated[int, Meta(ge=1, le=10_080)] = 15
    """After that nobody said yes."""
    four_eyes: bool = False
    """Whether a human's own call needs the word of another human."""
    pending_per_principal: Annotated[int, Meta(ge=0, le=10_000)] = 100
    """How many of its calls may wait for a decision at once; zero means that it can ask for nothing."""


@final
class TelemetrySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[telemetry]`: what others may watch. It takes the `telemetry` extra."""

    otel: bool = False
    prometheus: bool = False


@final
class Settings(Struct, frozen=True, kw_only=True):
    """Everything configured, after all files were read and combined."""

    home: str
    """Where Metier keeps its state: the real path."""
    project: str
    roots: tuple[Root, ...]
    """In order of precedence: the first root that has a name wins it."""
    skills: SkillSettings
    prompt: PromptSettings
    audit: AuditSettings
    home_written: str = ""
    """The same as the operator writes it, where a link leads there."""
    python: PythonSettings = PythonSettings()
    budgets: BudgetSettings = BudgetSettings()
    binaries: BinarySettings = BinarySettings()
    approvals: ApprovalSettings = ApprovalSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    gateway: GatewaySettings = GatewaySettings()
    operator: OperatorSettings = OperatorSettings()
    xbot: XbotSettings = XbotSettings()
    telegram: TelegramSettings = TelegramSettings()
    hooks: HookSettings = HookSettings()
    agents: AgentSettings = AgentSettings()
    memory: MemorySettings = MemorySettings()
    mcp: McpSettings = McpSettings()
    announce: AnnounceSettings = AnnounceSettings()
    serve: ServeSettings = ServeSettings()
    config: dict[str, Any] = {}
    secrets: dict[str, str] = {}
    """`[secrets]`: where each secret lies, by its name. References only, never a value."""
    warnings: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """Configuration files that were looked for; a change of one means reading all again."""
    held_roots: dict[str, str] = {}
    """Roots whose skills are held back, each with the reason."""

    @property
    def database(self) -> str:
        return os.path.join(self.home, "state.db")

    @property
    def bundles(self) -> str:
        return os.path.join(self.home, "bundles")

    @property
    def cache(self) -> str:
        return os.path.join(self.home, "cache")
