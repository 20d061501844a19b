"""What a manifest turned out to be: the same for every dialect."""

from typing import Literal, TypeAlias, final

from msgspec import Struct
from msgspec.structs import replace

from metier.dialects.about import check_told
from metier.dialects.draft import Draft
from metier.dialects.risk import acts, as_act, default_risk, raised
from metier.model.diagnostic import Diagnostic
from metier.model.digest import Json
from metier.model.reserved_operations import reserved
from metier.model.skill import Dialect, Skill, Tool
from metier.model.text import one_line

Probe: TypeAlias = Literal["", "metahuman", "xbot", "mcp_server"]
"""A manifest that exists only as code has to be run to be read, in a sandbox without permissions, and after trust: as what. An MCP
server has to be run too, with what it was granted: which tools it has only it knows."""


@final
class Compiled(Struct, frozen=True, kw_only=True):
    """What a manifest turned out to be."""

    skill: Skill | None
    """None when it cannot be used; then an error among the diagnostics says why."""
    diagnostics: tuple[Diagnostic, ...] = ()
    metadata: dict[str, Json] | None = None
    """The openclaw block in OpenClaw's normal form, with what OpenClaw would drop under `extra`."""
    name: str = ""
    """For display, also when the skill was refused."""
    description: str = ""
    dialect: Dialect = "agent_skills"
    probe: Probe = ""


def finished(
    draft: Draft,
    name: str,
    description: str,
    dialect: Dialect,
    manifest: str,
    normal: dict[str, Json] | None = None,
) -> Compiled:
    """The skill of the draft's words, unless an error was found on the way."""
    words = draft.words
    if tools := words.get("tools"):
        bundled = name if words.get("source") == "bundled" else ""
        for tool in tools:
            check_told(draft, tool, description)
            for why in reserved(tool.permissions.operations, bundled):
                message = f"{one_line(tool.name, 80)} cannot be called: {why}"
                draft.note("reserved_operation", "warning", message)
        words["tools"] = tuple(_at_worst(draft, tool) for tool in tools)
    if draft.unsaid:
        message = f"{draft.unsaid} more findings are not listed"
        draft.notes.append(Diagnostic(code="more_findings", severity="info", message=message))
    notes = tuple(draft.notes)
    for note in notes:
        if note.severity == "error":
            return refused(notes, name, description, normal, dialect)
    if draft.extra:
        words["extra"] = draft.extra
    skill = Skill(name=name, description=description, dialect=dialect, manifest=manifest, **words)
    return Compiled(
        skill=skill, diagnostics=notes, metadata=normal, name=name, description=description, dialect=dialect
    )


def _at_worst(draft: Draft, tool: Tool) -> Tool:
    """The tool as what it can do makes it, whatever its dialect let it say of itself."""
    entry, permissions, network = tool.entry, tool.permissions, bool(draft.words.get("asks_network"))
    if tool.effect == "read" and (how := acts(entry, permissions, network=network)):
        message = (
            f"{one_line(tool.name, 80)} says that it only reads, but it {how}, so it counts as an act; say so"
        )
        draft.note("counts_as_act", "warning", message)
        tool = as_act(tool)
    worst = default_risk(effect=tool.effect, entry=entry, permissions=permissions, network=network)
    risk = raised(tool.risk, worst)
    return tool if risk == tool.risk else replace(tool, risk=risk)


def refused(
    notes: tuple[Diagnostic, ...],
    name: str,
    description: str,
    metadata: dict[str, Json] | None = None,
    dialect: Dialect = "agent_skills",
) -> Compiled:
    """No skill; `notes` say why."""
    # A folder's name may hold bytes that are no text; what is kept for display must be storable.
    shown = name.encode("utf-8", "backslashreplace").decode()
    return Compiled(
        skill=None, diagnostics=notes, metadata=metadata, name=shown, description=description, dialect=dialect
    )
