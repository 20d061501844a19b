"""Why a tool that nobody knows cannot be called, where its skill is there and is the reason.

What an MCP server can do is known once somebody trusted it, and what it changed since is held back. Whoever calls such a tool is
told that, and by which command a person mends it. Why the skill waits, and what changed in it, is a stranger's text: only a person
who looks is shown that.
"""

from typing import Final

from metier.catalog.catalog import Catalog
from metier.catalog.function_names import outward
from metier.catalog.listed import Listed
from metier.model.call import Call
from metier.model.outcome import REMEDIES, Refused
from metier.model.skill import Skill
from metier.model.text import one_line

_HELD_BACK: Final = {
    "new": "its server did not have it when a person looked",
    "gone": "its server has it no more",
}
_CHANGED: Final = "its server describes it otherwise than when a person looked at it"


def why_not(call: Call, catalog: Catalog) -> Refused | None:
    """What is to be said of a tool that is none; None where nothing is known of it, or nothing may be said."""
    found = _meant(call.tool, catalog)
    skill = found.skill if found is not None else None
    if found is None or skill is None or not (call.principal.kind == "human" or skill.model_may_invoke):
        return None
    shown = one_line(skill.name, 80)
    if how := skill.held_back.get(call.tool):
        why = f"{call.tool!r} is held back: {_HELD_BACK.get(how, _CHANGED)}"
        return _not_trusted(call, why, f"A person looks at what changed with `metier skills trust {shown}`")
    if not found.probe:
        return None
    if skill.status == "disabled":
        why = f"skill {shown!r} is disabled"
        return Refused(
            call_id=call.id, code="skill_disabled", reasons=(why,), remedy=REMEDIES["skill_disabled"]
        )
    return _unread(call, skill, shown)


def _unread(call: Call, skill: Skill, shown: str) -> Refused:
    """Nothing is known of it but its name."""
    look = f"A person looks at it with `metier skills info {shown}`, then trusts it with `metier skills trust {shown}`"
    if skill.status == "pending_approval":
        return _not_trusted(
            call, f"skill {shown!r} is not trusted as it is now, so what it can do is not known", look
        )
    if skill.dialect == "mcp_server":
        return _not_trusted(call, f"nobody looked yet at the tools of skill {shown!r}", look)
    return Refused(
        call_id=call.id,
        code="skill_unavailable",
        reasons=(
            f"skill {shown!r} exists only as code and was not read yet, so what it can do is not known",
        ),
        remedy=REMEDIES["skill_unavailable"],
    )


def _not_trusted(call: Call, why: str, remedy: str) -> Refused:
    return Refused(call_id=call.id, code="not_trusted", reasons=(why,), remedy=remedy)


def _meant(tool: str, catalog: Catalog) -> Listed | None:
    """The skill that the tool would be of: of what is not known there is no list, so its name begins with the skill's."""
    name, inside, _ = tool.partition("/")
    if inside or "__" not in tool:
        return catalog.get(name) if inside else None
    fitting = (each for each in catalog.by_name if tool.startswith(f"{outward(each)}__"))
    return catalog.get(max(fitting, key=len, default=""))
