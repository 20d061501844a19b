"""Triggers and schedules that a skill's own file declares. They are nobody's until a person accepts them.

He accepts them as they are, all at once, so what can be accepted like that is narrow: the skill's own actions, set off by what the
skill itself tells, by messages that are meant for it, and by what concerns nobody. What reaches further (all messages, the calls of
others, a call's place, somebody else's chat) is shown with the reason, and set up by hand by who wants it.
"""

from typing import Final, final

from msgspec import Struct

from metier.catalog.catalog import Catalog
from metier.kernel.events import OURS
from metier.kernel.operation import OperationError
from metier.kernel.resident_events import HARMLESS
from metier.kernel.trigger import (
    AnyTrigger,
    ConditionTrigger,
    EventTrigger,
    MessageTrigger,
    ToolTrigger,
    read,
)
from metier.kernel.trigger_narrow import LEAST, is_about_something
from metier.model.digest import Json
from metier.model.skill import Skill
from metier.model.text import one_line

_UNUSABLE: Final = "E_SKILLS_UNAVAILABLE"
_NOTHING: Final = "E_SKILLS_NOTHING_DECLARED"
MOST_OFTEN: Final = 60
"""Firings a minute of one that a skill declares."""


@final
class Declared(Struct, frozen=True, kw_only=True):
    """One trigger that a skill's file declares."""

    definition: dict[str, Json]
    """With the skill's name on it, as it would be kept."""
    trigger: AnyTrigger
    wider: str
    """Why it cannot be accepted with the others; empty where it can."""


def declared_triggers(catalog: Catalog, skill: str) -> list[Declared]:
    """Every trigger that `skill` declares. Blocks for as long as patterns take.

    Raises:
        OperationError: where there is no such skill, it cannot be used, declares none, or one that cannot be understood.
    """
    found, rows = _rows(catalog, skill, "triggers")
    made: list[Declared] = []
    for each in rows:
        trigger = read(each)
        if trigger.action_id and not _is_own(trigger, found):
            raise OperationError(
                _NOTHING,
                f"the trigger {one_line(trigger.name, 60)!r}: {one_line(skill, 60)!r} has no action {one_line(trigger.action_id, 60)!r}",
            )
        made.append(Declared(definition=each, trigger=trigger, wider=_wider(trigger, found)))
    return made


def declared_by(catalog: Catalog, skill: str, what: str) -> list[dict[str, Json]]:
    """The `what` (`triggers` or `schedules`) that `skill` declares, each with its action named in full.

    Raises:
        OperationError: where there is no such skill, it cannot be used, declares none, or has somebody told who is not here.
    """
    _, rows = _rows(catalog, skill, what)
    for each in rows:
        if _tells(each.get("notifications")):
            raise OperationError(
                _NOTHING,
                f"{one_line(skill, 60)!r}: {one_line(str(each['name']), 60)!r} would tell somebody outside (`notifications`); set it "
                f"up yourself with `metier {what} add`",
            )
    return rows


def _rows(catalog: Catalog, skill: str, what: str) -> tuple[Skill, list[dict[str, Json]]]:
    listed = catalog.get(skill)
    shown = one_line(skill, 60)
    if listed is None or listed.skill is None:
        raise OperationError(_UNUSABLE, f"there is no skill {shown!r}")
    if listed.shown != "usable":
        raise OperationError(
            _UNUSABLE,
            f"{shown!r} cannot be used ({one_line(listed.why or listed.shown, 200)}); trust it first",
        )
    found = listed.skill.extra.get(what)
    rows = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    if not rows:
        raise OperationError(_NOTHING, f"{shown!r} declares no {what}")
    return listed.skill, [_named(each, skill, number, what) for number, each in enumerate(rows, 1)]


def _named(each: dict[str, Json], skill: str, number: int, what: str) -> dict[str, Json]:
    """With the skill's name on it. An action is the skill's own, whatever its file says of others."""
    plain = {key: value for key, value in each.items() if key not in ("id", "skill", "name", "description")}
    if isinstance(when := plain.pop("schedule", None), dict):  # when it is due, written as a map of its own
        plain |= when
    name = each.get("name") or each.get("id") or f"{what[:-1]} {number}"
    if "tool" in plain:
        raise OperationError(
            _NOTHING,
            f"{one_line(skill, 60)!r}: its {what} may set off its own actions (`actionId`), no other tool",
        )
    return {**plain, "name": f"{skill}: {name}"[:100], "skill": skill}


def _tells(notifications: Json) -> bool:
    """Whether more is done about how it went than a line in our log."""
    several = notifications.values() if isinstance(notifications, dict) else ()
    told = [each for some in several for each in (some if isinstance(some, list) else [some])]
    return any(not isinstance(each, dict) or each.get("type") != "log" for each in told)


def _is_own(trigger: AnyTrigger, skill: Skill) -> bool:
    return trigger.called in {tool.name for tool in skill.tools}


def _wider(trigger: AnyTrigger, skill: Skill) -> str:
    """What of it reaches further than the skill itself."""
    if not _is_own(trigger, skill):
        return "it must set off an action of its own (`actionId`)"
    if trigger.timing == "instead":
        return "it would stand in the place of something else (`instead`)"
    if trigger.send_to is not None:
        return f"it would send to a chat that it names itself ({one_line(trigger.send_to.channel, 60)!r})"
    if trigger.per_minute > MOST_OFTEN:
        return f"it would fire more than {MOST_OFTEN} times a minute"
    match trigger:
        case MessageTrigger():
            return _all_messages(trigger)
        case ToolTrigger():
            others = [each for each in trigger.tool_names if not each.startswith(f"{skill.name}/")]
            return f"it would see calls of others ({one_line(others[0], 60)!r})" if others else ""
        case EventTrigger():
            return "" if trigger.sources == (skill.name,) else _others_events(trigger)
        case ConditionTrigger():
            if trigger.sources == (skill.name,):
                return ""
            return "it would look at every message and event of others (`sources`)"


def _all_messages(trigger: MessageTrigger) -> str:
    if wide := next((each for each in trigger.channels or () if each.endswith("*")), ""):
        return f"it would hear channels that it does not name ({one_line(wide, 60)!r})"
    for each in trigger.patterns:
        if not is_about_something(each, trigger.match_mode):
            return (
                f"the pattern {one_line(each, 60)!r} fits messages that are not meant for it, or that cannot be told (it needs "
                f"{LEAST} plain letters side by side that every message has)"
            )
    return ""


def _others_events(trigger: EventTrigger) -> str:
    if trigger.sources != (OURS,):
        return "it would hear what other skills tell (`sources`)"
    private = next((each for each in trigger.events if each not in HARMLESS), "")
    return f"it would hear {one_line(private, 60)!r}, which is about others" if private else ""
