"""What happened, in the words that triggers have for it. Pure."""

from typing import Final

from metier.kernel.events import OURS, Happened
from metier.kernel.trigger_match import Occasion, Phase
from metier.model.call import ValidCall
from metier.model.digest import Json
from metier.model.entry import Operation
from metier.model.outcome import Completed, Failed
from metier.record.secret_arguments import kept_arguments

RECEIVED: Final = "channels.message.received"


def of_event(happened: Happened, depth: int, rounds: int = 0) -> Occasion:
    """An event, or a message where Metier itself says that one came in: what a skill emits under that name is an event of its own."""
    payload = happened.payload
    ours = payload if happened.source == OURS and isinstance(payload, dict) else {}
    call = _text(ours.get("call_id"))
    about: dict[str, Json] = {"name": happened.name, "source": happened.source, "payload": payload}
    if happened.source == OURS and happened.name == RECEIVED and isinstance(payload, dict):
        number = payload.get("message")
        channel, chat = _text(payload.get("channel")), _text(payload.get("chat"))
        return Occasion(
            kind="message",
            name=happened.name,
            source=OURS,
            counted=f"the chat {channel}/{chat}",
            depth=depth,
            around={"message": {**payload, "id": number}, "event": about},
            text=_text(payload.get("text")),
            channel=channel,
            chat=chat,
            by_skill=_text(payload.get("skill")),
            message=number if isinstance(number, int) and not isinstance(number, bool) else 0,
            call=call,
        )
    counted = "Metier" if happened.source == OURS else f"the skill {happened.source}"
    return Occasion(
        kind="event",
        name=happened.name,
        source=happened.source,
        counted=counted,
        depth=depth,
        rounds=rounds,
        around={"event": about},
        call=call,
    )


def of_tool(
    valid: ValidCall, phase: Phase, outcome: Completed | Failed | None, depth: int, rounds: int
) -> Occasion:
    """A call of a tool."""
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
        source=OURS,
        counted=valid.call.principal.id,
        depth=depth,
        rounds=rounds,
        around={"tool": about},
        phase=phase,
    )


def concerns(valid: ValidCall) -> bool:
    """Whether triggers may have to do with such a call: those of tools that skills bring. What people steer by (stop, disable,
    settings, secrets) nothing stands before, after or in place of."""
    tool = valid.tool
    if tool.audience != "model" or tool.privileged:
        return False
    return not isinstance(tool.entry, Operation) or bool(tool.skill)


def _text(value: Json) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)
