"""Messages that were taken down and did not reach the operator, as the logs of calls have them.

A skill that takes messages writes each into the log of its call before anything is sent (`skill.send_message`), and then how it
went (`skill.send_message.delivered`, `.delivery_failed`, `.delivery_unknown`). One that was written down and of which nothing is
said afterwards is undelivered too: the run was ended in between. What a skill wrote are its own words; time and skill are ours.
"""

import os
from collections.abc import Iterable
from typing import Final, Literal, final

from msgspec import Struct

from metier.errors import StateError
from metier.host.call_log import TAKEN, Line, good_id, read_log

DELIVERED: Final = f"{TAKEN}.delivered"
FAILED: Final = f"{TAKEN}.delivery_failed"
UNKNOWN: Final = f"{TAKEN}.delivery_unknown"


@final
class Undelivered(Struct, frozen=True, kw_only=True):
    """One message that waits for the operator."""

    call_id: str
    at: str
    skill: str
    message: str
    caller_name: str = ""
    callback_number: str = ""
    urgency: str = "normal"
    state: Literal["failed", "unknown"]
    """`unknown`: it may even have arrived. Nothing is written about its delivery, or `error` says why nobody knows."""
    error: str = ""


@final
class Found(Struct, frozen=True, kw_only=True):
    """What the logs say, oldest message first."""

    messages: tuple[Undelivered, ...] = ()
    unreadable: tuple[str, ...] = ()
    """Why some logs could not be read; what is in them nobody knows."""


def undelivered(state: str, *, without: frozenset[str] = frozenset()) -> Found:
    """Every message below the state folder that was not delivered. Blocking.

    Args:
        without: ids of calls that are left out: those under way, whose messages are still being delivered, and those of which
            the operator says that he has them.
    """
    folder = os.path.join(state, "calls")
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return Found()
    except OSError as error:
        return Found(unreadable=(f"{folder}: {error.strerror}",))
    messages: list[Undelivered] = []
    unreadable: list[str] = []
    for name in names:
        call_id, dot, kind = name.partition(".")
        if (dot, kind) != (".", "jsonl") or not good_id(call_id) or call_id in without:
            continue
        try:
            log = read_log(state, call_id)
        except StateError as error:
            unreadable.append(error.message)
            continue
        messages += open_messages(call_id, log.lines) if log is not None else ()
    return Found(messages=tuple(sorted(messages, key=lambda each: each.at)), unreadable=tuple(unreadable))


def open_messages(call_id: str, lines: Iterable[Line]) -> list[Undelivered]:
    """The messages of one call that were not delivered. What is said of a delivery is said of the last message before it
    of which nothing was said yet."""
    taken: list[tuple[Line, Line | None]] = []
    for line in lines:
        kind = _text(line, "type")
        if kind == TAKEN:
            taken.append((line, None))
        elif kind in (DELIVERED, FAILED, UNKNOWN):
            last = next((at for at in reversed(range(len(taken))) if taken[at][1] is None), None)
            if last is not None:
                taken[last] = (taken[last][0], line)
    return [
        _undelivered(call_id, line, end)
        for line, end in taken
        if end is None or _text(end, "type") != DELIVERED
    ]


def _undelivered(call_id: str, line: Line, end: Line | None) -> Undelivered:
    return Undelivered(
        call_id=call_id,
        at=line.at,
        skill=line.skill,
        message=_text(line, "message"),
        caller_name=_text(line, "caller_name"),
        callback_number=_text(line, "callback_number"),
        urgency="urgent" if _text(line, "urgency") == "urgent" else "normal",
        state="failed" if end is not None and _text(end, "type") == FAILED else "unknown",
        error=_text(end, "error") if end is not None else "",
    )


def _text(line: Line, name: str) -> str:
    value = line.entry.get(name) if isinstance(line.entry, dict) else None
    return value if isinstance(value, str) else ""
