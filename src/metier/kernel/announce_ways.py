"""By which way approvers hear that something waits for their word."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from metier.model.approval import Approval


class Announcer(Protocol):
    """One way to people. Who may decide is not settled here: being told of a request gives nobody a right."""

    @property
    def way(self) -> str:
        """One word, for example `telegram`."""
        ...

    def recipients(self) -> Sequence[str]:
        """Who is to be told now, each by an id that stays the same over restarts. None: nobody is reached this way now."""
        ...

    async def announce(
        self, recipient: str, items: Sequence[Approval], *, reminder: bool
    ) -> Mapping[str, str]:
        """Tell one recipient of all these at once, oldest first. Each has its `shown`.

        Gives, by the id of an approval, what it takes to find the announcement again (a message's id); may leave any out.

        Raises:
            NotNow: when it is to be tried again.
            Never: when it is in vain. Then none of these is announced to him again.
        """
        ...

    async def decided(self, recipient: str, approval: Approval, reference: str) -> None:
        """Tell him what became of one that he was told of: approved, denied, expired, spent or void.

        Raises:
            NotNow: when it is to be tried again.
            Never: when it is in vain.
        """
        ...
