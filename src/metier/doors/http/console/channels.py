"""Where messages come in and go out, what was said there, and what did not arrive."""

from typing import Any, Final

from metier.doors.http.console.asked import Unanswered, asked
from metier.doors.http.console.page import Page
from metier.doors.http.endpoint import Asking
from metier.doors.http.problem import not_found
from metier.kernel.channel_rules import UNKNOWN
from metier.model.digest import Json
from metier.model.role import EXECUTE

_MOST: Final = 50


async def _channels(asking: Asking) -> dict[str, object]:
    return {
        "channels": await _list(asking, "channels.list", {}, "channels"),
        "threads": await _list(asking, "conv.list_threads", {"limit": _MOST}, "threads"),
        "undelivered": await _list(asking, "conv.undelivered", {"limit": _MOST}, "messages"),
    }


async def _thread(asking: Asking) -> dict[str, object]:
    number = int(asking.given["thread"])
    found = await asked(asking, "conv.get_thread", {"thread_id": number, "limit": _MOST}, dict[str, Any])
    if isinstance(found, Unanswered) and found.code == UNKNOWN:
        raise not_found("there is no such conversation")
    return {
        "number": number,
        "found": None if isinstance(found, Unanswered) else found,
        "why": found.why if isinstance(found, Unanswered) else "",
    }


async def _list(
    asking: Asking, operation: str, arguments: dict[str, Json], name: str
) -> tuple[list[Any], str]:
    """What it lists, and why it does not."""
    found = await asked(asking, operation, arguments, dict[str, Any])
    return ([], found.why) if isinstance(found, Unanswered) else (found[name], "")


PAGES: Final = (
    Page(
        path="/channels",
        template="channels.html",
        title="Channels",
        shows=_channels,
        menu="Channels",
        right=(EXECUTE,),
        told=("channels", "conv", "host", "skills"),
    ),
    Page(
        path="/channels/threads/{thread}",
        template="thread.html",
        title="A conversation",
        shows=_thread,
        menu="Channels",
        right=(EXECUTE,),
        told=("channels", "conv", "host", "skills"),
    ),
)
