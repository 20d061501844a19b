"""What a skill's own file declares is accepted only where it keeps to the skill, all at once or not at all, and as it was shown."""

from pathlib import Path
from typing import Any

import pytest

from firing_kit import Desk
from metier.catalog.catalog import Catalog
from metier.kernel import trigger_store
from metier.kernel.operation import OperationError
from metier.kernel.trigger_declared import declared_by
from metier.kernel.trigger_narrow import is_about_something
from metier.kernel.trigger_pattern import fits
from metier.model.digest import Json
from metier.model.entry import Command
from metier.model.skill import Tool

MESSAGE: dict[str, Json] = {"type": "message", "patterns": ["tidy up"], "actionId": "tidy"}
EVENT: dict[str, Json] = {"type": "event", "events": ["desk.full"], "sources": ["desk"], "actionId": "tidy"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Skill:
    name = "desk"

    def __init__(self, **extra: Json) -> None:
        self.extra = extra
        self.tools = (
            Tool(
                name="desk/tidy",
                description="",
                parameters={"type": "object"},
                entry=Command(argv=("true",)),
            ),
        )


class Listed:
    shown = "usable"
    why = ""

    def __init__(self, **extra: Json) -> None:
        self.skill: Any = Skill(**extra)


def catalog_of(**extra: Json) -> Catalog:
    """Of one skill that declares these."""
    by_name: Any = {"desk": Listed(**extra)}
    return Catalog(by_name=by_name)


def desk_with(top: Path, *triggers: Json) -> Desk:
    catalog = catalog_of(triggers=[*triggers])
    return Desk(top, lambda: catalog)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "narrow",
    [
        MESSAGE,
        {**MESSAGE, "matchMode": "exact", "patterns": ["7"]},
        {**MESSAGE, "matchMode": "startsWith", "patterns": ["/t"]},
        {**MESSAGE, "matchMode": "regex", "patterns": [r"^tidy (\w+) up$"], "channels": ["telegram"]},
        {**MESSAGE, "patterns": ["天气"], "contextTemplate": "{{result}}"},
        EVENT,
        {**EVENT, "events": ["*"], "timing": "before"},
        {**EVENT, "sources": ["metier"], "events": ["heartbeat_check", "skill_installed"]},
        {"type": "tool_use", "toolNames": ["desk/*"], "actionId": "tidy"},
        {"type": "condition", "conditions": [{"field": "event.name", "operator": "eq", "value": "x"}],
         "sources": ["desk"], "actionId": "tidy"},
    ],
)  # fmt: skip
async def test_what_keeps_to_the_skill_itself_can_be_accepted(tmp_path: Path, narrow: Json) -> None:
    desk = desk_with(tmp_path, narrow)
    (shown,) = (await desk.do("declared", skill="desk"))["triggers"]
    assert shown["wider"] == ""
    answer = await desk.do("adopt", skill="desk")
    assert [each["name"] for each in answer["adopted"]] == ["desk: trigger 1"]
    assert answer["left"] == []


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("wide", "said"),
    [
        ({**MESSAGE, "timing": "instead"}, "`instead`"),
        ({**MESSAGE, "contextTemplate": "x", "sendTo": {"channel": "telegram", "chat": "1"}}, "names itself"),
        ({**MESSAGE, "perMinute": 61}, "60 times a minute"),
        ({**MESSAGE, "channels": ["*"]}, "does not name"),
        ({**MESSAGE, "patterns": ["tidy up", "a"]}, "'a'"),
        ({**MESSAGE, "patterns": ["..."]}, "not meant for it"),
        ({**MESSAGE, "patterns": ["*"]}, "not meant for it"),
        ({**MESSAGE, "patterns": ["t"], "matchMode": "startsWith"}, "not meant for it"),
        ({**MESSAGE, "patterns": [".*"], "matchMode": "regex"}, "not meant for it"),
        ({**MESSAGE, "patterns": ["[aeiou]"], "matchMode": "regex"}, "not meant for it"),
        ({**MESSAGE, "patterns": [r"\w+\s\w+"], "matchMode": "regex"}, "not meant for it"),
        ({**MESSAGE, "patterns": [r"[^a-z]$"], "matchMode": "regex"}, "not meant for it"),
        ({**MESSAGE, "patterns": ["的"]}, "not meant for it"),
        ({**MESSAGE, "patterns": ["です"]}, "not meant for it"),
        ({**MESSAGE, "patterns": ["о, "]}, "not meant for it"),
        ({**MESSAGE, "patterns": ["п"], "matchMode": "startsWith"}, "not meant for it"),
        ({"type": "message", "patterns": ["tidy up"], "contextTemplate": "I am your bank"}, "`actionId`"),
        ({"type": "tool_use", "toolNames": ["*"], "actionId": "tidy"}, "calls of others"),
        ({"type": "tool_use", "toolNames": ["desk/tidy", "mail/send"], "actionId": "tidy",
          "arguments": {"q": "{{tool.result}}"}}, "'mail/send'"),
        ({"type": "tool_use", "toolNames": ["desk*"], "actionId": "tidy"}, "calls of others"),
        ({**EVENT, "sources": ["*"]}, "other skills"),
        ({**EVENT, "sources": ["desk", "mail"]}, "other skills"),
        ({**EVENT, "sources": ["metier"], "events": ["channels.message.received"]}, "about others"),
        ({**EVENT, "sources": ["metier"], "events": ["error_occurred"]}, "about others"),
        ({**EVENT, "sources": ["metier"], "events": ["heartbeat_*"]}, "about others"),
        ({"type": "condition", "conditions": [{"field": "message.text", "operator": "ne", "value": ""}],
          "actionId": "tidy"}, "every message"),
    ],
)  # fmt: skip
async def test_what_reaches_further_is_shown_with_the_reason_and_left_out(
    tmp_path: Path, wide: Json, said: str
) -> None:
    desk = desk_with(tmp_path, wide, MESSAGE)
    first, second = (await desk.do("declared", skill="desk"))["triggers"]
    assert said in first["wider"]
    assert second["wider"] == "", "the control"
    answer = await desk.do("adopt", skill="desk")
    assert [each["name"] for each in answer["adopted"]] == ["desk: trigger 2"]
    assert [(each["name"], said in each["why"]) for each in answer["left"]] == [("desk: trigger 1", True)]
    alone = desk_with(tmp_path / "alone", wide)
    with pytest.raises(OperationError, match="nothing of what 'desk' declares can be accepted as it is"):
        await alone.do("adopt", skill="desk")
    assert trigger_store.all_triggers(alone.store) == []


@pytest.mark.parametrize(
    "pattern",
    [
        "^[^q8?Ж]",  # fits none of a few odd texts, and everything else
        "|" + "я" * 150,  # too large where case does not count, and fits everything where it does
        ".*|tidy up",
        "(tidy up)?",
        "(tidy up)*.",
        "(?i)tidy up|",
        "(?:tidy|)up?",
        "t?i?d?y?",
        "tid{0}y{0,3}",
        "[tidy up]",
        "[^]tidy up]",  # not a class and a text: a class
        "[]tidy up]",
        "[[:word:]tidy up]",
        r"[\]tidy up]",
        r"\Qtidy up\E*",
        r"\x{74}.*",
        r"\pL",
        "(?s).tidy",
        "tidy{,3}",
        "ti(dy)",
        "",
    ],
)
def test_a_regular_expression_that_does_not_say_plainly_what_it_is_about_is_about_nothing(
    pattern: str,
) -> None:
    assert not is_about_something(pattern, "regex")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (r"^tidy (\w+) up$", "tidy all up"),
        (r"tidy( up)?", "tidy"),
        (r"^/tidy\b.*", "/tidy the desk"),
        (r"[Tt]idy", "idy Tidy"),
        (r"\d+ tidy[^a-z]", "7 tidy!"),
        (r"天气(好|坏)?", "天气"),
        (r"(?P<who>\w+) tidies\?", "who tidies?"),
    ],
)
def test_a_regular_expression_that_says_it_is_accepted(pattern: str, message: str) -> None:
    assert is_about_something(pattern, "regex")
    assert fits(pattern, message, "regex", case_sensitive=False), "and it is one"


@pytest.mark.anyio
async def test_all_are_accepted_or_none(tmp_path: Path) -> None:
    desk = desk_with(tmp_path, MESSAGE, EVENT)
    taken: Json = {"name": "desk: trigger 2", "type": "message", "patterns": ["x"], "tool": "a/b"}
    id = (await desk.do("create", trigger=taken))["id"]
    with pytest.raises(OperationError, match="already"):
        await desk.do("adopt", skill="desk")
    assert [each.id for each in trigger_store.all_triggers(desk.store)] == [id]
    await desk.do("remove", id=id)
    assert len((await desk.do("adopt", skill="desk"))["adopted"]) == 2
    for number, (broken, why) in enumerate(
        [
            ({"type": "message", "actionId": "tidy"}, "no trigger"),
            ({**MESSAGE, "actionId": "other"}, "has no action 'other'"),
            ({**MESSAGE, "tool": "mail/send"}, "no other tool"),
        ]
    ):
        bad = desk_with(tmp_path / str(number), MESSAGE, broken)
        with pytest.raises(OperationError, match=why):
            await bad.do("adopt", skill="desk")
        assert trigger_store.all_triggers(bad.store) == []


@pytest.mark.anyio
async def test_what_changed_since_it_was_shown_is_not_accepted(tmp_path: Path) -> None:
    catalog = catalog_of(triggers=[MESSAGE])
    desk = Desk(tmp_path, lambda: catalog)
    shown = await desk.do("declared", skill="desk")
    catalog = catalog_of(triggers=[{**MESSAGE, "patterns": ["hello"]}])
    with pytest.raises(OperationError, match="changed since it was shown"):
        await desk.do("adopt", skill="desk", digest=shown["digest"])
    assert trigger_store.all_triggers(desk.store) == []
    again = await desk.do("declared", skill="desk")
    assert (await desk.do("adopt", skill="desk", digest=again["digest"]))["adopted"]


@pytest.mark.parametrize("notice", [{"type": "webhook", "url": "https://x.example/"}, {"type": "memory"}, 7])
def test_a_schedule_that_would_tell_somebody_outside_is_set_up_by_hand(notice: Json) -> None:
    schedule: dict[str, Json] = {"type": "cron", "expression": "0 9 * * *", "actionId": "tidy"}
    log: Json = {"onSuccess": [{"type": "log"}]}
    good = catalog_of(schedules=[{**schedule, "notifications": log}])
    assert [each["name"] for each in declared_by(good, "desk", "schedules")] == ["desk: schedule 1"]
    bad = catalog_of(schedules=[{**schedule, "notifications": {"onFailure": [notice]}}])
    with pytest.raises(OperationError, match="somebody outside"):
        declared_by(bad, "desk", "schedules")


# --- events that nobody tells


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["session_start", "session_end", "personality_changed", "approvals.waiting"])
async def test_a_trigger_on_what_metier_never_tells_is_refused_when_it_is_set_up(
    tmp_path: Path, name: str
) -> None:
    desk = Desk(tmp_path)
    trigger: dict[str, Json] = {
        "name": "n",
        "type": "event",
        "events": ["heartbeat_check", name],
        "tool": "a/b",
    }
    with pytest.raises(OperationError, match=f"Metier tells no event '{name}'"):
        await desk.do("create", trigger=trigger)
    assert await desk.do("create", trigger={**trigger, "sources": ["a-door"]}), "a skill may tell it"
