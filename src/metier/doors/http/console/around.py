"""What stands around every page and changes by itself: how much waits, and whether everything is stopped.

A page that is filled by operations cannot look again whenever something is called: its looking would be what it hears of next. So this
part is asked for alone, and by every page.
"""

from typing import Final

from metier.doors.http.console.page import Page
from metier.doors.http.endpoint import Asking


async def _nothing_more(_asking: Asking) -> dict[str, object]:
    """What it shows is what every page shows."""
    return {}


PAGES: Final = (
    Page(path="/around", template="around.html", title="Around", shows=_nothing_more, menu="Now"),
)
