"""Announcements on the terminal of the host: one line each."""

from collections.abc import Callable, Mapping, Sequence
from typing import final

from metier.config.settings import Settings
from metier.kernel.announce_ways import MOST_AT_ONCE
from metier.kernel.announce_words import decided_line, waiting_line
from metier.model.approval import Approval


@final
class TerminalAnnouncer:
    """Says a line to whoever sits there."""

    way = "terminal"
    at_once = MOST_AT_ONCE

    def __init__(self, settings: Callable[[], Settings], say: Callable[[str], None]) -> None:
        """`say` prints one line, at once."""
        self._settings = settings
        self._say = say

    def recipients(self) -> Sequence[str]:
        """Whoever sits there, unless the operator wants no lines."""
        return ("terminal",) if self._settings().announce.terminal else ()

    async def announce(
        self, recipient: str, items: Sequence[Approval], *, reminder: bool
    ) -> Mapping[str, str]:
        """One line for all."""
        del recipient
        self._say(waiting_line(items, reminder=reminder))
        return {}

    async def decided(self, recipient: str, approval: Approval, references: Sequence[str]) -> None:
        """One line, unless the operator wants none any more."""
        del references
        if recipient not in self.recipients():
            return
        self._say(decided_line(approval))
