"""What a model is shown of the skills: their texts, their list, their tools. Nothing here decides or runs anything."""

from typing import Final

from metier.model.skill import Skill

NAME_LIMIT: Final = 200
"""The longest name a model is shown; `read_skill` takes no longer one."""


def may_be_shown(skill: Skill) -> bool:
    """Whether a model may learn of `skill` at all: it is active and leaves its use to models."""
    return skill.model_may_invoke and skill.status == "active"
