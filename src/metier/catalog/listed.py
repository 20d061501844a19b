"""One skill that was found, and what became of it."""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, final

from msgspec import Struct

from metier.config.roots import BUNDLED
from metier.config.settings import Root
from metier.dialects.risk import Risk
from metier.model.diagnostic import Diagnostic
from metier.model.requirement import RequirementError
from metier.model.skill import Skill
from metier.model.text import one_line
from metier.openfile import Signature

UNREAD: Final = "it exists only as code and was not read yet; `metier skills trust` runs it in a sandbox without permissions, to read it"
UNASKED: Final = "the MCP server was not asked yet which tools it has; `metier skills trust` runs it with what it was granted, to ask it"
Shown: TypeAlias = Literal["usable", "unavailable", "pending_approval", "disabled", "broken", "shadowed"]


@final
class Listed(Struct, frozen=True, kw_only=True, gc=False):
    """One skill folder, and what became of it."""

    name: str
    folder: str
    root: Root
    manifest: str = "SKILL.md"
    skill: Skill | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    missing: tuple[RequirementError, ...] = ()
    shadowed_by: str = ""
    """Folder of the skill that has this name already, or that this is a link to."""
    signature: Signature | None = None
    vouched: bool = True
    """Whether the operator, or the release, vouches for it; also said of one that is switched off."""
    entrusted: bool = False
    """Whether a person gave his word for these very bytes. To be used is no such word."""
    bound: bool = False
    """Whether he gave it for what lay in this folder under this name, whatever lies there now."""
    since: str = ""
    """Since when a person lets the tools of this MCP server be used; empty for what was let in before that was noted."""
    probe: bool = False
    """Whether it exists only as code and was not read yet, so that nothing is known of it but its name."""
    offered: bool = False
    """Whether it ships with Metier and lives once somebody starts it, which nobody did: it is fine as it is."""
    hosts: frozenset[str] = frozenset()
    """What the operator lets it reach, where it asks for the network without saying where to."""
    acting: Mapping[str, Risk] = {}
    """Programs of the operator's for which tools count as acts though they say that they only read, and of which risk."""
    carrying: frozenset[str] = frozenset()
    """Programs of his that it asks for and that hold what nobody has without his word."""

    @property
    def shown(self) -> Shown:
        """The one word people and programs are told."""
        if self.shadowed_by:
            return "shadowed"
        if self.skill is None:
            return "broken"
        if self.skill.status != "active":
            return self.skill.status
        return "unavailable" if self.missing or self.probe or self._all_held_back else "usable"

    @property
    def held_back(self) -> str:
        """How many tools of an MCP server are held back, and what to do; empty when none is."""
        if self.skill is None or not self.skill.held_back:
            return ""
        many = len(self.skill.held_back)
        tools = f"{many} of {many + len(self.skill.tools)} tools {'is' if many == 1 else 'are'}"
        return f"{tools} held back, for the server changed; `metier skills trust {one_line(self.name, 80)}` shows what"

    @property
    def _all_held_back(self) -> bool:
        return self.skill is not None and bool(self.skill.held_back) and not self.skill.tools

    @property
    def why(self) -> str:
        """Why it is not usable; empty when it is."""
        if self.shadowed_by and self.skill is None:
            return f"it is a link to {self.shadowed_by}, which counts where it lies"
        if self.shadowed_by:
            return f"{self.shadowed_by} comes first and has the same name{self.instead}"
        if self.skill is not None and self.skill.why:
            return self.skill.why
        if self.probe:
            server = self.skill is not None and self.skill.dialect == "mcp_server"
            return UNASKED if server else UNREAD
        errors = [found.message for found in self.diagnostics if found.severity == "error"]
        if errors or self.missing:
            return "; ".join(errors or map(str, self.missing))
        return self.held_back if self._all_held_back else ""

    @property
    def instead(self) -> str:
        """What it takes to have it in the place of one that ships; empty where it is another that has its name."""
        ships = self.shadowed_by.startswith(BUNDLED + "/") and self.root.path != BUNDLED
        return "; `metier skills trust` puts this one in its place" if ships else ""
