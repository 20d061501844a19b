"""What a friday skill wants to happen by itself: patterns choose it, triggers and schedules wait for a person."""

import json
from typing import Any

from metier.dialects.friday import compile_skill
from metier.disclosure.selection import select
from metier.model.skill import Skill, Source


def compiled(source: Source = "user", **fields: Any) -> tuple[Skill | None, dict[str, str]]:
    about = {"id": "desk", "description": "Keeps things.", "instructions": "Do it.", **fields}
    made = compile_skill(
        json.dumps(about).encode(), folder="desk", manifest="skill.json", location="/x/desk", source=source
    )
    return made.skill, {found.code: found.message for found in made.diagnostics}


ACTION = {"id": "tidy", "type": "code", "language": "python", "code": "return 1"}


def test_a_message_that_fits_a_trigger_pattern_brings_up_the_skill() -> None:
    skill, _ = compiled(triggerPatterns=["review.*code|code.*review", r"\bpr\b"])
    other, _ = compiled(id="shelf", description="Holds things.")
    assert skill is not None
    assert other is not None
    for message in ("Please REVIEW my code", "is the PR fine?"):
        (choice,) = select([other, skill], message, limit=5)
        assert choice.skill.name == "desk"
        assert choice.because[0].startswith("pattern: ")
    assert select([other, skill], "improve the sprint", limit=5) == [], "the control: not within another word"


def test_more_patterns_than_are_matched_are_said_and_a_broken_one_chooses_nothing() -> None:
    skill, found = compiled(triggerPatterns=["(a", *"bcdefg"])
    assert skill is not None
    assert skill.triggers == ("(a", *"bcdefg"), "all of them are kept"
    assert "the first 5" in found["too_many_terms"]
    assert select([skill], "(a", limit=5) == []


def test_triggers_and_schedules_are_kept_and_wait_for_a_person() -> None:
    triggers = [{"type": "message", "patterns": ["tidy"], "actionId": "tidy"}]
    schedules = [{"type": "cron", "expression": "0 9 * * *", "actionId": "tidy"}]
    skill, found = compiled(actions=[ACTION], triggers=triggers, schedules=schedules)
    assert skill is not None
    assert skill.extra["triggers"] == triggers
    assert skill.extra["schedules"] == schedules
    assert "adopt desk" in found["waits_for_a_person"]
    assert "unknown_field" not in found


def test_a_trigger_can_set_off_nothing_but_an_action_of_its_own_skill() -> None:
    for bad in (
        {"type": "message", "patterns": ["x"], "actionId": "other"},
        {"type": "message", "patterns": ["x"], "tool": "shell_safe/execute"},
        {"type": "whenever", "actionId": "tidy"},
    ):
        skill, found = compiled(actions=[ACTION], triggers=[bad])
        assert skill is not None, "the skill itself can be used"
        assert "nobody can accept" in found["bad_trigger"]


def test_a_skill_from_the_community_brings_no_schedules() -> None:
    skill, found = compiled("community", schedules=[{"type": "once", "timestamp": 1}])
    assert skill is None
    assert "community_brings" in found
