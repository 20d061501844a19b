"""Whose a friday skill is and whether it may run: what its file says can only make both less.

Nobody but the file vouches for what the file says. So `bundled` cannot be said, what an AI wrote waits for a person,
and what came from the community brings no actions and no switches.
"""

from typing import Final

from metier.dialects.friday_part import Part
from metier.model.skill import Source, Status

_SAID: Final[dict[str, Source]] = {
    "user": "user",
    "marketplace": "installed",
    "installed": "installed",
    "ai_learned": "ai_learned",
    "ai_proposed": "ai_proposed",
    "community": "community",
}
_ORDER: Final[tuple[Source, ...]] = (
    "bundled",
    "user",
    "workspace",
    "installed",
    "ai_learned",
    "ai_proposed",
    "community",
)
"""From the most trusted to the least."""
_BY_AI: Final = ("ai_learned", "ai_proposed")
_STATUS: Final = ("active", "pending_approval", "disabled")
_NOT_FROM_THE_COMMUNITY: Final = (
    "actions",
    "triggerPatterns",
    "triggers",
    "schedules",
    "dependencies",
    "requireApproval",
)


def source_of(whole: Part, given: Source) -> Source:
    """The less trusted of what the root and the file say. What the community may not bring is refused."""
    word = whole.one_of("source", tuple(_SAID))
    said = _SAID.get(word, given)
    source = said if _ORDER.index(said) > _ORDER.index(given) else given
    if source != said:
        message = f'it says that it comes from "{word}", but it lies where skills are "{given}"; that counts'
        whole.note("source_kept", "info", message, "source")
    if source == "community":
        for key in _NOT_FROM_THE_COMMUNITY:
            value = whole.fields.get(key)
            # A list may be empty; a switch is one whichever way it stands.
            if value or isinstance(value, bool):
                message = f"a skill from the community may not bring `{key}`; take it out, or make the skill your own"
                whole.note("community_brings", "error", message, key)
    if by := next((each for each in (said, given) if each in _BY_AI), ""):
        whole.draft.words["status"] = "pending_approval"
        whole.draft.words["why"] = f"it is {by}: an AI wrote it and no person has looked at it yet"
    return source


def status_of(whole: Part) -> None:
    """Put the strictest status into the draft: disabled, then waiting, then active."""
    words = whole.draft.words
    enabled = whole.flag("enabled")
    said = whole.one_of("status", _STATUS)
    status: Status = words.get("status", "active")
    if enabled is False:
        words["status"], words["why"] = "disabled", "its file says `enabled: false`"
    elif said == "disabled":
        words["status"], words["why"] = "disabled", "its file says `status: disabled`"
    elif said == "pending_approval" and status == "active":
        words["status"], words["why"] = "pending_approval", "its file says `status: pending_approval`"
