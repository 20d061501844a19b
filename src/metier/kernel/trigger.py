"""A trigger as it is written down: what sets it off, and what it then has done (ADR 022 of F.R.I.D.A.Y., word for word).

Nothing is matched or run here. What cannot be understood is refused with the field and the reason, so that nothing is stored that
would silently never fire.
"""

import re
from typing import Annotated, Final, Literal, TypeAlias, final

import msgspec
from msgspec import Meta, Struct

from metier.kernel.events import OURS
from metier.kernel.operation import OperationError
from metier.kernel.trigger_pattern import pattern_problem
from metier.kernel.trigger_template import places_problem
from metier.model.digest import Json
from metier.model.text import one_line

BAD: Final = "E_TRIGGERS_BAD_PARAMS"
ANY_SOURCE: Final = "*"
EVENTS: Final = (
    "session_start",
    "session_end",
    "skill_installed",
    "skill_uninstalled",
    "personality_changed",
    "error_occurred",
    "heartbeat_check",
)
"""The events of ADR 022. Others have names of their own: `channels.message.sent`, or whatever a skill emits."""
NOT_TOLD: Final = frozenset(
    {"session_start", "session_end", "personality_changed", "approvals.waiting", "approvals.decided"}
)
"""What Metier might be expected to tell and has no occasion to: a trigger that waited for one would never fire."""
MOST_ARGUMENTS: Final = 65_536
_NAME: Final = re.compile(r"[A-Za-z0-9@_][A-Za-z0-9@_./:-]{0,199}\*?|\*", re.ASCII)

Timing: TypeAlias = Literal["before", "after", "instead"]
Text: TypeAlias = Annotated[str, Meta(min_length=1, max_length=500)]
Word: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
Words: TypeAlias = Annotated[tuple[Word, ...], Meta(min_length=1, max_length=50)]


@final
class Chat(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a text is sent."""

    channel: Word
    chat: Word


class Trigger(
    Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """What every trigger has. One of the four kinds below."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    timing: Timing = "after"
    tool: Annotated[str, Meta(max_length=200)] = ""
    action_id: Annotated[str, Meta(max_length=200)] = ""
    """ADR 022's word for it: an action of `skill`, or the name of a tool."""
    skill: Annotated[str, Meta(max_length=200)] = ""
    arguments: dict[str, Json] = {}
    """For the tool. `{{…}}` in texts is filled; keys and shape stay as they are."""
    enabled: bool = True
    priority: Annotated[int, Meta(ge=-1_000_000, le=1_000_000)] = 0
    """Higher first."""
    cooldown_ms: Annotated[int, Meta(ge=0, le=31_536_000_000)] = 0
    per_minute: Annotated[int, Meta(ge=1, le=6_000)] = 60
    """How often it fires at the most."""
    timeout_ms: Annotated[int, Meta(ge=100, le=300_000)] = 60_000
    context_template: Annotated[str, Meta(max_length=2_000)] = ""
    """The text that is made of what happened; sent where `reply` or `sendTo` say so."""
    reply: bool | None = None
    """Answer in the chat a message came from; so unless it is said otherwise, where there is a text to send."""
    send_to: Chat | None = None

    @property
    def called(self) -> str:
        """The tool it calls; empty where it only sends a text."""
        if self.tool or not self.action_id:
            return self.tool
        return f"{self.skill}/{self.action_id}" if self.skill else self.action_id


@final
class MessageTrigger(Trigger, frozen=True, kw_only=True, tag_field="type", tag="message"):
    """Set off by a message that comes in over a channel."""

    patterns: Annotated[tuple[Text, ...], Meta(min_length=1, max_length=20)]
    match_mode: Literal["exact", "contains", "regex", "startsWith"] = "contains"
    case_sensitive: bool = False
    channels: Words | None = None
    """Only in these. Where nothing is said: in those of our own doors, for what comes over a skill's channel are that skill's words."""

    @property
    def replies(self) -> bool:
        """Whether the chat hears of it."""
        return bool(self.context_template) if self.reply is None else self.reply


@final
class ToolTrigger(Trigger, frozen=True, kw_only=True, tag_field="type", tag="tool_use"):
    """Set off by a call of a tool."""

    tool_names: Words
    before: bool = False
    after: bool = True

    @property
    def phases(self) -> frozenset[Timing]:
        """When it fires. What `timing` says beyond its default outweighs the two switches."""
        if self.timing != "after":
            return frozenset({self.timing})
        said: dict[Timing, bool] = {"before": self.before, "after": self.after}
        return frozenset(phase for phase, wanted in said.items() if wanted)


@final
class EventTrigger(Trigger, frozen=True, kw_only=True, tag_field="type", tag="event"):
    """Set off by an event. Whose is said: a skill that emits an event of our name does not emit ours."""

    events: Words
    sources: Words = ("metier",)


@final
class Condition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A comparison with one field of what happened."""

    field: Word
    operator: Literal["eq", "ne", "gt", "lt", "gte", "lte", "between"]
    value: Json


@final
class ConditionTrigger(Trigger, frozen=True, kw_only=True, tag_field="type", tag="condition"):
    """Set off by any message or event for which its conditions hold."""

    conditions: Annotated[tuple[Condition, ...], Meta(min_length=1, max_length=20)]
    logical: Literal["AND", "OR"] = "AND"
    sources: Words = ("metier",)


AnyTrigger: TypeAlias = MessageTrigger | ToolTrigger | EventTrigger | ConditionTrigger
_TYPES: Final[dict[str, type[AnyTrigger]]] = {
    "message": MessageTrigger,
    "tool_use": ToolTrigger,
    "event": EventTrigger,
    "condition": ConditionTrigger,
}


def read(value: Json) -> AnyTrigger:
    """The trigger that `value` describes. Blocks for as long as its patterns take to compile.

    Raises:
        OperationError: saying what is wrong, and where.
    """
    kind = _TYPES.get(str(value.get("type"))) if isinstance(value, dict) else None
    if kind is None:
        raise OperationError(BAD, f"a trigger is an object with a `type`: {', '.join(_TYPES)}")
    try:
        found: AnyTrigger = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise OperationError(BAD, f"this is no trigger: {one_line(str(error), 300)}") from None
    if problem := _problem(found):
        raise OperationError(BAD, f"the trigger {one_line(found.name, 60)!r}: {problem}")
    return found


def written(trigger: AnyTrigger) -> str:
    """As it is stored; `read` takes it back."""
    return msgspec.json.encode(trigger).decode()


def _problem(found: AnyTrigger) -> str:
    if found.tool and found.action_id:
        return "it names a `tool` and an `actionId`; leave one of them out"
    sends = found.send_to is not None or (isinstance(found, MessageTrigger) and found.replies)
    if found.reply and not isinstance(found, MessageTrigger):
        return "only a message has a chat to reply to; say where with `sendTo`"
    if not found.called and not (sends and found.context_template):
        return (
            "it does nothing; name a `tool`, or a `contextTemplate` and where it is sent (`reply`, `sendTo`)"
        )
    if len(msgspec.json.encode(found.arguments)) > MOST_ARGUMENTS:
        return f"its arguments have more than {MOST_ARGUMENTS:,} bytes"
    if problem := places_problem(found.arguments) or places_problem(found.context_template):
        return problem
    match found:
        case MessageTrigger():
            for pattern in found.patterns if found.match_mode == "regex" else ():
                if problem := pattern_problem(pattern, case_sensitive=found.case_sensitive):
                    return problem
            blank = any(not pattern.strip() for pattern in found.patterns)
            return "a pattern of blanks would fit nearly every message" if blank else ""
        case ToolTrigger():
            if not found.phases:
                return "it fires neither before nor after; set one of them"
            return _names_problem("toolNames", found.tool_names)
        case EventTrigger():
            problem = _names_problem("events", found.events) or _names_problem("sources", found.sources)
            return problem or _never_told(found)
        case ConditionTrigger():
            for each in found.conditions:
                if problem := _condition_problem(each):
                    return problem
            return _names_problem("sources", found.sources)


def _never_told(found: EventTrigger) -> str:
    silent = next((name for name in found.events if name in NOT_TOLD), "")
    if not silent or set(found.sources) != {OURS}:
        return ""
    return f"Metier tells no event {silent!r}, so it would never fire; take it out, or say in `sources` which skill tells it"


def _names_problem(field: str, names: tuple[str, ...]) -> str:
    bad = next((name for name in names if not _NAME.fullmatch(name)), None)
    return (
        ""
        if bad is None
        else f"`{field}` holds {one_line(bad, 60)!r}, which is no name; `*` may only end one"
    )


def _condition_problem(each: Condition) -> str:
    value = each.value
    if each.operator == "between":
        if not isinstance(value, list) or len(value) != 2 or not all(map(_is_number, value)):
            return f"`between` compares {one_line(each.field, 60)!r} with two numbers: [from, to]"
    elif each.operator not in ("eq", "ne") and not _is_number(value) and not isinstance(value, str):
        return f"`{each.operator}` compares {one_line(each.field, 60)!r} with a number or a text"
    return ""


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
