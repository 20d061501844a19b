"""What happens by itself: schedules and triggers, when they are due, what they last did, and what was missed."""

from typing import Any, Final

from metier.doors.http.console.asked import Unanswered, asked
from metier.doors.http.console.page import Page
from metier.doors.http.endpoint import Asking
from metier.model.role import TRUST


async def _schedules(asking: Asking) -> dict[str, object]:
    return {
        "schedules": await _list(asking, "schedules.list", "schedules"),
        "missed": await _list(asking, "schedules.missed", "missed"),
        "triggers": await _list(asking, "triggers.list", "triggers"),
    }


async def _list(asking: Asking, operation: str, name: str) -> tuple[list[Any], str]:
    """What it lists, and why it does not."""
    found = await asked(asking, operation, {}, dict[str, Any])
    return ([], found.why) if isinstance(found, Unanswered) else (found[name], "")


PAGES: Final = (
    Page(
        path="/schedules",
        template="schedules.html",
        title="Schedules and triggers",
        shows=_schedules,
        menu="Schedules",
        right=(TRUST,),
        told=("schedules", "triggers", "host", "skills"),
    ),
)
