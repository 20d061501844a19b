"""What of a friday skill wants to happen by itself: patterns, triggers (ADR 022) and schedules (ADR 023).

Patterns bring the skill up among many when a message fits one; they are matched in linear time, and elsewhere. Triggers and schedules
are kept as they are written: they do nothing until a person accepts them, and are read with all their rules then.
"""

from typing import Final

from metier.dialects.friday_part import Part
from metier.model.digest import Json
from metier.model.skill import Activation, Tool
from metier.model.text import one_line

LONGEST_PATTERN: Final = 500
MOST_CHOOSING: Final = 5
"""Patterns that choose a skill: each is matched with every message."""
MOST_DECLARED: Final = 20
_TYPES: Final = {
    "triggers": ("message", "tool_use", "event", "condition"),
    "schedules": ("cron", "interval", "once"),
}


def patterns_of(whole: Part) -> None:
    """Put its patterns into the draft."""
    patterns = whole.texts("triggerPatterns", LONGEST_PATTERN)
    if not patterns:
        return
    whole.draft.words["triggers"] = patterns
    whole.draft.words["activation"] = Activation(patterns=patterns[:MOST_CHOOSING])
    if len(patterns) > MOST_CHOOSING:
        message = f"of {len(patterns)} `triggerPatterns` the first {MOST_CHOOSING} choose the skill"
        whole.note("too_many_terms", "warning", message, "triggerPatterns")


def declared_of(whole: Part, skill: str, tools: tuple[Tool, ...]) -> None:
    """Keep its triggers and schedules, and say what of them nobody can accept."""
    actions = {tool.name.partition("/")[2] for tool in tools}
    for key, types in _TYPES.items():
        found = whole.maps(key, MOST_DECLARED)
        if not found:
            continue
        for at, fields in enumerate(found, 1):
            if problem := _problem(fields, types, actions):
                message = f"{key[:-1]} {at}: {problem}; so nobody can accept the {key} of this skill"
                whole.note("bad_trigger", "warning", message, key)
        kept: list[Json] = [*found]
        whole.draft.extra[key] = kept
        message = (
            f"its {key} do nothing until a person accepts them: metier {key} adopt {one_line(skill, 60)}"
        )
        whole.note("waits_for_a_person", "info", message, key)


def _problem(fields: dict[str, Json], types: tuple[str, ...], actions: set[str]) -> str:
    if fields.get("type") not in types:
        return f"`type` can be {', '.join(types)}"
    action = fields.get("actionId")
    if "tool" in fields or (action is not None and action not in actions):
        return "`actionId` must name an action of this skill, and nothing else can be set off"
    return ""
