"""By which way approvers hear that something waits for their word."""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from metier.model.approval import Approval

MOST_AT_ONCE: Final = 20
"""Requests of which one recipient is told before it is looked again who decided what."""


class Announcer(Protocol):
    """One way to people. Who may decide is not settled here: being told of a request gives nobody a right."""

    @property
    def way(self) -> str:
        """One word, for example `telegram`."""
        ...

    @property
    def at_once(self) -> int:
        """How many requests one announcement holds at most. What becomes of it becomes of all that it holds."""
        ...

    def recipients(self) -> Sequence[str]:
        """Who is to be told now, each by an id that stays the same over restarts. None: nobody is reached this way now."""
        ...

    async def announce(
        self, recipient: str, items: Sequence[Approval], *, reminder: bool
    ) -> Mapping[str, str]:
        """Tell one recipient of all these at once, oldest first; at most `at_once` of them. Each has its `shown`.

        Gives, by the id of an approval, what it takes to find the announcement again (a message's id); may leave any out.

        Raises:
            NotNow: when it is to be tried again.
            Never: when it is in vain. Then none of these is announced to him again.
        """
        ...

    async def decided(self, recipient: str, approval: Approval, references: Sequence[str]) -> None:
        """Tell him what became of one that he was told of: approved, denied, expired, spent or void. `references` are what `announce`
        gave for it and for the reminder. Also asked for who is no recipient any more: whether he is told is the announcer's to know.

        Raises:
            NotNow: when it is to be tried again.
            Never: when it is in vain.
        """
        ...
