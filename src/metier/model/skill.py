"""A skill, whatever dialect it was written in, and the tools it brings."""

from typing import Literal, TypeAlias, final

from msgspec import Struct

from metier.model.digest import Json
from metier.model.entry import Entry
from metier.model.permission import OWN_FOLDER, PermissionSet
from metier.model.requirement import NOTHING, Installer, Requirements

Dialect: TypeAlias = Literal[
    "metier", "amber", "openclaw", "agent_skills", "friday", "metahuman", "xbot", "mcp_server"
]
Source: TypeAlias = Literal[
    "bundled", "workspace", "user", "installed", "community", "ai_proposed", "ai_learned"
]
Status: TypeAlias = Literal["active", "pending_approval", "disabled", "broken"]
Audience: TypeAlias = Literal["model", "operator"]
Answer: TypeAlias = Literal["value", "amber", "metahuman"]
"""What a tool's code returns and what its caller is shown: any value as it is, `{success, message, result, error}` of Amber, or
`{success, …outputs}` of MetaHuman."""
Check: TypeAlias = Literal["isWithinAllowedDirectory", "isWriteAllowed", "isValidAgent", "isWhitelisted"]
"""Of MetaHuman manifests. They are judged against what the tool is permitted: a path, a program, an agent."""


@final
class Limits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The most one run may use. A skill may ask for less, and for more only up to the operator's cap."""

    timeout: float = 30.0
    memory_mb: int = 256
    fuel: int | None = None
    output_bytes: int = 1_048_576
    processes: int = 64


@final
class Tool(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that can be called, with everything the gate needs to judge a call of it."""

    name: str
    description: str
    parameters: dict[str, Json]
    returns: dict[str, Json] | None = None
    audience: Audience = "model"
    permission: str = "skills:execute"
    """The right a principal needs to call it; an operation of a module has its own."""
    privileged: bool = False
    """An operation of the kernel that takes more than `permission`: a skill must have declared it by name and been granted it,
    a person needs his right only, and an agent never gets it."""
    skill: str = ""
    """The skill it belongs to, under whose name and permissions it runs; empty for a tool of Metier's own."""
    outward: str = ""
    """The name a model is told, where the dialect gives it as it stands; empty for one made from `name`."""
    answer: Answer = "value"
    subject: str = ""
    """Argument that names the skill under whose name and permissions the call runs; empty for the tool's own."""
    subject_file: str = ""
    """Argument that names a file of that skill. Whatever way it is written, from validate on it is the name in the bundle."""
    as_subject: bool = False
    """Whether a call needs what that skill is permitted, instead of `permissions`: it runs something of the skill."""
    effect: Literal["read", "act"] = "act"
    risk: Literal["low", "medium", "high"] = "high"
    cost: Literal["free", "cheap", "expensive"] = "free"
    minimum_trust: str = "supervised_auto"
    approval: Literal["policy", "always"] = "policy"
    confirmation: str | None = None
    """What to ask the caller before it acts; empty for our own words, None when nobody is asked."""
    sanitize: bool = False
    """Whether its text arguments are cleaned as an Amber router does it, instead of being refused."""
    checks: dict[str, Check] = {}
    """By argument: the named check of its dialect that the value must pass."""
    validator: Entry | None = None
    """Code of the skill that is given the arguments first, with no permissions, and lets the call go on by returning `true`."""
    permissions: PermissionSet = PermissionSet()
    limits: Limits = Limits()
    entry: Entry


@final
class Activation(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """When a skill thinks it is wanted; used only to choose among many."""

    keywords: tuple[str, ...] = ()
    exclude_keywords: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()


@final
class CommandDispatch(Struct, frozen=True, kw_only=True):
    """A slash command that goes straight to a tool, without a model in between."""

    tool: str
    argument_mode: str = "raw"


@final
class Skill(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One skill as the rest of Metier knows it.

    The instructions are not held here: a catalog of thousands would keep every text in memory to show a
    few. `metier.catalog` reads them from the skill's snapshot when somebody asks.
    """

    name: str
    description: str
    dialect: Dialect
    version: str = ""
    digest: str = ""
    """Of the whole bundle; empty until it was taken, which happens when the skill is trusted."""
    source: Source = "user"
    status: Status = "active"
    why: str = ""
    """Why the status is not `active`."""
    location: str = ""
    """Absolute path of the skill's folder; of its manifest, where several skills share one folder."""
    manifest: str = "SKILL.md"
    """Name of the manifest inside that folder, as it is spelled there."""
    emoji: str = ""
    homepage: str = ""
    license: str = ""
    compatibility: str = ""
    key: str = ""
    """Name under which the operator's settings for this skill are kept; the skill's name when empty."""
    primary_env: str = ""
    requirements: Requirements = NOTHING
    installers: tuple[Installer, ...] = ()
    permissions: PermissionSet = OWN_FOLDER
    proposed_tools: tuple[str, ...] = ()
    """`allowed-tools` as written: a proposal shown when the skill is trusted, never a grant."""
    settings_schema: dict[str, Json] | None = None
    depends_on: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    tools: tuple[Tool, ...] = ()
    held_back: dict[str, str] = {}
    """Tools of an MCP server that nobody can call until a person looked at them again: by name, `changed`, `new` or `gone`."""
    hooks: tuple[str, ...] = ()
    triggers: tuple[str, ...] = ()
    asks_network: bool = False
    """It wants to use the network without saying which hosts; it cannot be used until the operator names them."""
    model_may_invoke: bool = True
    user_may_invoke: bool = True
    command: CommandDispatch | None = None
    activation: Activation = Activation()
    extra: dict[str, Json] = {}
    """Fields of other systems that Metier keeps and shows but does not act on."""
