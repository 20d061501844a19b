"""The connector of a channel that a skill owns: its own module is asked to send, by a call like any other."""

from typing import Final, final

from metier.kernel.calling import Calls
from metier.kernel.channel_rules import Channel
from metier.kernel.conversation_rows import Message
from metier.kernel.delivery_ports import Never, NotNow
from metier.kernel.resident_life import NOT_READY
from metier.model.call import Principal, Surroundings
from metier.model.digest import Json
from metier.model.outcome import UNHEARD, Completed, Failed, Outcome, Pending, Refused
from metier.model.text import one_line

_LATER: Final = frozenset(
    {
        "unknown_tool",  # the skill does not live at the moment
        "skill_disabled",
        "skill_unavailable",
        "not_trusted",
        "budget_exceeded",
        "stopped",
        "changed_meanwhile",
        "record_unavailable",
        "setup_unusable",
        "sandbox_unavailable",
        "too_many_pending",
        "approval_required",
    }
)
"""Refusals that may be lifted. Nothing ran, so trying again harms nobody."""
_NOTHING_SENT: Final = frozenset({"busy", "not_started", "not_found"})
_NOT_ASKED: Final = frozenset({"Busy", NOT_READY})
"""What is said for a skill that was not asked at all. Whatever else went wrong did so after its module began."""
_LATE: Final = "TimedOut"
_LONG_PAUSE: Final = 30.0
_LONGEST_ID: Final = 256


@final
class SkillConnector:
    """Sends one message of a channel through the skill that registered it."""

    def __init__(self, calls: Calls, behalf: str, channel: Channel, message: Message) -> None:
        """`behalf` is who enabled the skill."""
        self._calls = calls
        self._behalf = behalf
        self._channel = channel
        self._message = message

    async def send(self, chat: str, text: str, *, key: str, reply_to: str | None) -> str | None:
        """As `Connector.send`."""
        name, message = self._channel.name, self._message
        arguments: dict[str, Json] = {
            "channel": name,
            "chat_id": chat,
            "text": text,
            "message_id": message.id,
            "key": key,
        }
        if reply_to is not None:
            arguments["reply_to"] = reply_to
        skill = Principal(id=f"skill:{self._channel.skill}", kind="skill", on_behalf_of=self._behalf)
        outcome = await self._calls.call(
            skill,
            f"{self._channel.connector}.send",
            arguments,
            parent=message.call_id or None,
            surroundings=Surroundings(channel=name),
        )
        return _answer(outcome)


def _answer(outcome: Outcome) -> str | None:
    """The channel's own id for what was sent.

    Raises:
        NotNow, Never: as `Connector.send`.
    """
    match outcome:
        case Completed(value=value):
            return _said(value)
        case Refused(code=code, reasons=reasons):
            why = one_line(f"{code}: {'; '.join(reasons)}", 250)
            if code in _LATER or outcome.remedy in UNHEARD:
                raise NotNow(_LONG_PAUSE, why)
            raise Never(why)
        case Pending():
            raise NotNow(_LONG_PAUSE, "somebody has to approve it first")
        case Failed(code="reported", value={"code": str(code), "message": str(message)}):
            ours = code == _LATE or code in _NOT_ASKED  # which is for programs; the message says it to people
            why = one_line(message if ours else f"{code}: {message}", 250)
            raise NotNow(0, why, doubtful=code not in _NOT_ASKED, late=code == _LATE)
        case Failed(code=code, message=message):
            why = one_line(f"{code}: {message}", 250)
            raise NotNow(0, why, doubtful=code not in _NOTHING_SENT, late=code == "timed_out")


def _said(value: Json) -> str | None:
    """What the skill's module answered: nothing, an id, or an object with `message_id`; `ok: false` means that it did not send."""
    if not isinstance(value, dict):
        return _id(value)
    if value.get("ok") is False or value.get("success") is False:
        why = value.get("error") or value.get("message") or "its connector says that it was not sent"
        pause = value.get("retry_after")
        text = one_line(why, 250) if isinstance(why, str) else "its connector says that it was not sent"
        if value.get("permanent") is True:
            raise Never(text)
        seconds = float(pause) if isinstance(pause, int | float) and not isinstance(pause, bool) else 0.0
        raise NotNow(max(seconds, 0.0), text)
    return _id(value.get("message_id"))


def _id(given: Json) -> str | None:
    if isinstance(given, bool) or not isinstance(given, str | int):
        return None
    text = str(given)
    return text if text and len(text) <= _LONGEST_ID and text.isprintable() else None
