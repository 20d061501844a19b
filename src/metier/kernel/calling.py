"""How the kernel has something done: by a call like any other, through every stage and onto the record."""

from typing import Protocol

from metier.model.call import Cause, Principal, Surroundings
from metier.model.digest import Json
from metier.model.outcome import Outcome

NO_SURROUNDINGS = Surroundings()


class Calls(Protocol):
    """Makes calls. Handed in by the runtime."""

    async def call(
        self,
        principal: Principal,
        tool: str,
        arguments: dict[str, Json],
        *,
        parent: str | None = None,
        surroundings: Surroundings = NO_SURROUNDINGS,
        unattended: bool = True,
        cause: Cause | None = None,
        id: str = "",
    ) -> Outcome:
        """How the call ended.

        Args:
            parent: the call it is part of, where that is known.
            unattended: nobody is there to be asked.
            cause: what set it off; None for the one of `parent`.
            id: of the call, for who must know it however it ends; empty for a new one.
        """
        ...
