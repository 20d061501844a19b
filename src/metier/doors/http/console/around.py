"""What stands around every page and changes by itself: how much waits, and whether everything is stopped. It is asked for alone, and by every
page: it changes more often than most of them.
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
