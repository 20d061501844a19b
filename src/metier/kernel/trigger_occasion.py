"""What happened, in the words that triggers have for it. Pure."""

from typing import Final

from metier.catalog.function_names import outward_of
from metier.kernel.events import NO_CAUSE, OURS, Happened
from metier.kernel.trigger_match import Occasion, Phase
from metier.model.call import Cause, ValidCall
from metier.model.digest import Json
from metier.model.entry import Operation
from metier.model.outcome import Completed, Failed
from metier.model.skill import Tool
from metier.record.secret_arguments import kept_arguments

RECEIVED: Final = "channels.message.received"
SENT: Final = "channels.message.sent"


def of_event(happened: Happened, cause: Cause = NO_CAUSE) -> Occasion:
    """An event, or a message where Metier itself says that one came in: what a skill emits under that name is an event of its own."""
    payload = happened.payload
    call = call_in(happened)
    about: dict[str, Json] = {"name": happened.name, "source": happened.source, "payload": payload}
    if happened.source == OURS and happened.name == RECEIVED and isinstance(payload, dict):
        number, at = payload.get("message"), payload.get("at")
        channel, chat = chat_in(happened)
        return Occasion(
            kind="message",
            name=happened.name,
            source=OURS,
            counted=cause.root or f"the chat {channel}/{chat}",
            cause=cause,
            around={"message": {**payload, "id": number}, "event": about},
            text=_text(payload.get("text")),
            channel=channel,
            chat=chat,
            by_skill=_text(payload.get("skill")),
            message=number if isinstance(number, int) and not isinstance(number, bool) else 0,
            at=at if isinstance(at, float) else happened.at,
            call=call,
        )
    return Occasion(
        kind="event",
        name=happened.name,
        source=happened.source,
        counted=cause.root or _behind(happened),
        cause=cause,
        around={"event": about},
        at=happened.at,
        call=call,
    )


def call_in(happened: Happened) -> str:
    """The call that an event is about, where Metier says so; empty where it is about none."""
    payload = happened.payload
    return _text(payload.get("call_id")) if happened.source == OURS and isinstance(payload, dict) else ""


def chat_in(happened: Happened) -> tuple[str, str]:
    """Channel and chat that an event of Metier's is about; empty where it is about none."""
    about = happened.payload if happened.source == OURS and isinstance(happened.payload, dict) else {}
    return _text(about.get("channel")), _text(about.get("chat"))


def owner_in(occasion: Occasion) -> str:
    """Who set up what an event of Metier's is about; empty where that is not said."""
    about = occasion.around.get("event")
    payload = about.get("payload") if isinstance(about, dict) else None
    return _text(payload.get("owner")) if isinstance(payload, dict) else ""


def _behind(happened: Happened) -> str:
    """Who has it that this happened, and is counted for it. Of our own events that is who they are about: one that has much happen
    must not use up what others may set off."""
    if happened.source != OURS:
        return f"the skill {happened.source}"
    about = happened.payload if isinstance(happened.payload, dict) else {}
    if principal := _text(about.get("principal")):
        kind, _, name = principal.partition(":")
        return f"the skill {name}" if kind == "skill" else principal
    if chat := _text(about.get("chat")):
        return f"the chat {_text(about.get('channel'))}/{chat}"
    named = ((key, _text(about.get(key))) for key in ("skill", "trigger", "schedule"))
    return next((f"the {key} {name}" for key, name in named if name), f"Metier's {happened.name}")


def of_tool(
    valid: ValidCall, phase: Phase, outcome: Completed | Failed | None = None, rounds: int = 0
) -> Occasion:
    """A call of a tool."""
    cause = valid.call.cause
    about: dict[str, Json] = {
        "name": valid.tool.name,
        "skill": valid.skill.name if valid.skill is not None else "",
        "arguments": kept_arguments(valid.tool.name, dict(valid.arguments)),
        "caller": valid.call.principal.id,
    }
    if isinstance(outcome, Completed):
        about |= {"result": outcome.value, "outcome": "completed", "error": ""}
    elif outcome is not None:
        about |= {"result": "", "outcome": "failed", "error": f"{outcome.code}: {outcome.message}"}
    return Occasion(
        kind="tool",
        name=valid.tool.name,
        names=names_of(valid.tool),
        source=OURS,
        counted=cause.root or valid.call.principal.id,
        cause=cause,
        rounds=rounds,
        around={"tool": about},
        phase=phase,
    )


def names_of(tool: Tool) -> tuple[str, ...]:
    """What a tool is called here, and what models and people call it."""
    return tool.name, outward_of(tool)


def concerns(valid: ValidCall) -> bool:
    """Whether triggers may have to do with such a call: those of tools that skills bring. What people steer by (stop, disable,
    settings, secrets) nothing stands before, after or in place of."""
    return may_concern(valid.tool)


def may_concern(tool: Tool) -> bool:
    """Whether calls of it set off triggers at all."""
    if tool.audience != "model" or tool.privileged:
        return False
    return not isinstance(tool.entry, Operation) or bool(tool.skill)


def _text(value: Json) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)
