"""Which triggers something sets off, and in which order. Pure, but for the time that patterns take: call it in a thread."""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, final

from msgspec import Struct

from metier.kernel.events import NO_CAUSE
from metier.kernel.trigger import (
    ANY_SOURCE,
    Condition,
    ConditionTrigger,
    EventTrigger,
    MessageTrigger,
    ToolTrigger,
)
from metier.kernel.trigger_pattern import fits
from metier.kernel.trigger_store import KeptTrigger
from metier.kernel.trigger_template import found
from metier.model.call import Cause, Principal
from metier.model.digest import Json

Phase: TypeAlias = Literal["before", "after", "instead"]
_ORDER: Final = {"before": 0, "instead": 1, "after": 2}


@final
class Occasion(Struct, frozen=True, kw_only=True):
    """Something that happened and may set off triggers."""

    kind: Literal["message", "event", "tool"]
    """A message is the event that one came in, and more."""
    name: str
    """Of the event or the tool."""
    names: tuple[str, ...] = ()
    """Every name of the tool."""
    source: str
    """Whose it is: `metier`, or the skill that emitted an event."""
    counted: str
    """Who is counted for it: a chat, a skill, a caller."""
    cause: Cause = NO_CAUSE
    """What set it off, and how many firings lie behind it."""
    rounds: int = 0
    """How many do as far as can be guessed: who tells it worked for one."""
    around: dict[str, Json]
    """What templates and conditions can name."""
    text: str = ""
    channel: str = ""
    chat: str = ""
    by_skill: str = ""
    """The skill that tells of a message, so that text and author are its words; empty for a door of ours."""
    message: int = 0
    at: float = 0.0
    """When a message was taken in, or when an event was told."""
    call: str = ""
    """The call by which it came about, where Metier says so: who erases that erases what triggers made of it."""
    phase: Phase = "after"
    """Of a tool: before it runs, after, or in its place."""

    @property
    def chain(self) -> Cause:
        """The cause of what is fired on this occasion."""
        chat = f"{self.channel}/{self.chat}" if self.kind == "message" else ""
        return Cause(
            firings=self.cause.firings + 1,
            root=self.counted,
            chat=self.cause.chat if self.cause.root else chat,
        )

    @property
    def whose(self) -> str:
        """Whose word it is: of a message on a skill's channel that skill's, though Metier tells of it."""
        return self.by_skill or self.source


@final
class Due(Struct, frozen=True):
    """An occasion that is to be handled."""

    occasion: Occasion
    among: tuple[KeptTrigger, ...]
    """Those that it may set off, as far as can be told without matching anything."""
    parent: str | None = None
    """The call that what it sets off is part of."""
    by: Principal | None = None
    """Who made that, where not everybody may know of it."""
    tries: int = 0
    """How often it was taken up in vain."""


def set_off(triggers: Sequence[KeptTrigger], occasion: Occasion) -> list[KeptTrigger]:
    """Those that fit, in the order they fire: before, instead, after; in each the higher priority first. One that fires `instead`
    keeps those after it from firing."""
    hit = [each for each in triggers if each.enabled and _fits(each, occasion)]
    hit.sort(key=lambda each: _rank(each, occasion))
    return hit


def wanted(name: str, names: Sequence[str]) -> bool:
    """Whether `name` is one of those, of which some may end in `*`."""
    return any(name.startswith(each[:-1]) if each.endswith("*") else name == each for each in names)


def holds(condition: Condition, around: dict[str, Json]) -> bool:
    """Whether it holds. A field that is not there, or a comparison of unlike things, holds for nothing."""
    value, other = found(condition.field, around), condition.value
    if value is None:
        return False
    match condition.operator:
        case "eq":
            return _equal(value, other)
        case "ne":
            return not _equal(value, other)
        case "between":
            low, high = (other[0], other[1]) if isinstance(other, list) and len(other) == 2 else (None, None)
            return _compared(low, value) in (-1, 0) and _compared(value, high) in (-1, 0)
        case "gt":
            return _compared(value, other) == 1
        case "lt":
            return _compared(value, other) == -1
        case "gte":
            return _compared(value, other) in (0, 1)
        case "lte":
            return _compared(value, other) in (-1, 0)


def _rank(each: KeptTrigger, occasion: Occasion) -> tuple[int, int, float, str]:
    trigger = each.trigger
    timing = occasion.phase if occasion.kind == "tool" or trigger is None else trigger.timing
    return _ORDER[timing], -(trigger.priority if trigger is not None else 0), each.created_at, each.id


def _fits(each: KeptTrigger, occasion: Occasion) -> bool:
    match each.trigger:
        case MessageTrigger() as trigger:
            if occasion.kind != "message":
                return False
            if trigger.channels is None:
                if occasion.by_skill:
                    return False
            elif not wanted(occasion.channel, trigger.channels):
                return False
            return any(
                fits(pattern, occasion.text, trigger.match_mode, case_sensitive=trigger.case_sensitive)
                for pattern in trigger.patterns
            )
        case ToolTrigger() as trigger:
            return (
                occasion.kind == "tool"
                and occasion.phase in trigger.phases
                and any(wanted(name, trigger.tool_names) for name in occasion.names)
            )
        case EventTrigger() as trigger:
            return (
                occasion.kind != "tool"
                and means(trigger.sources, occasion.whose)
                and wanted(occasion.name, trigger.events)
            )
        case ConditionTrigger() as trigger:
            if occasion.kind == "tool" or not means(trigger.sources, occasion.whose):
                return False
            some = any if trigger.logical == "OR" else all
            return some(holds(condition, occasion.around) for condition in trigger.conditions)
        case None:
            return False


def means(sources: Sequence[str], source: str) -> bool:
    """Whether what comes from `source` is meant."""
    return ANY_SOURCE in sources or wanted(source, sources)


def _equal(value: Json, other: Json) -> bool:
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _compared(value: Json, other: Json) -> int | None:
    """-1, 0 or 1; None for what cannot be compared."""
    if isinstance(value, bool) or isinstance(other, bool):
        return None
    if isinstance(value, int | float) and isinstance(other, int | float):
        return (value > other) - (value < other)
    if isinstance(value, str) and isinstance(other, str):
        return (value > other) - (value < other)
    return None
