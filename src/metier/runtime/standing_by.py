"""A process that takes the host role once nobody has it, and says who has it meanwhile: a server that is started while the old one still
ends, or beside another, must not leave a state without a host for good.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, final

import anyio
from anyio import to_thread

from metier.errors import MetierError
from metier.kernel.host_role import Holder, holder
from metier.model.text import one_line
from metier.sandbox.beat import on_beat

if TYPE_CHECKING:
    from metier.runtime.kernel_here import KernelHere, MakeDoor

LOOK_SECONDS: Final = 1.0
"""How often it is looked whether there still is a host."""
_WHAT: Final = "skills that live, channels and schedules"


@final
class StandingBy:
    """Belongs to one loop."""

    def __init__(
        self,
        kernel: "KernelHere",
        home: str,
        *,
        doors: "Sequence[MakeDoor]",
        say: Callable[[str], None],
        takes: bool = True,
    ) -> None:
        """`takes`: whether this process is the host where nobody else is. One that is not says all the same who is, or that nobody is."""
        self._kernel = kernel
        self._home = home
        self._doors = doors
        self._say = say
        self._takes = takes
        self._other: Holder | None = None
        """Who is the host, as far as was said."""
        self._said = ""

    async def begin(self) -> None:
        """Be the host, where nobody is.

        Raises:
            MetierError: when the state cannot be used.
        """
        if self._takes:
            await self._kernel.host(self._doors, self._say)

    async def tell(self) -> None:
        """Say how it stands, for who has just started this process."""
        if self._kernel.hosting is not None:
            return
        self._other = await self._look()
        if self._other is None and self._takes:
            return  # it has ended meanwhile, and its place is taken soon
        if self._other is None:
            self._say(f"  Nothing is the host: {_WHAT} wait until `metier host` runs")
        else:
            then = ", and then here" if self._takes else ""
            self._say(f"  {self._other} is the host: {_WHAT} run there until it ends{then}")

    async def run(self) -> None:
        """Until cancelled. Costs one look a second while another process is the host, and nothing while this one is."""
        while True:
            if self._kernel.hosting is not None:
                await self._be()
            await anyio.sleep(on_beat(LOOK_SECONDS))
            try:
                await self._try(await self._look())
            except MetierError as error:
                if self._said != (said := str(error)):  # once: it is tried again and again
                    self._said = said
                    self._say(f"metier: nothing is the host here, and that is why: {one_line(said, 500)}")
            else:
                self._said = ""

    async def _look(self) -> Holder | None:
        return await to_thread.run_sync(holder, self._home)

    async def _try(self, other: Holder | None) -> None:
        if other is None and self._takes:
            await self._kernel.host(self._doors, self._say)
            if self._kernel.hosting is not None:
                gone = (
                    f"{self._other}, which was the host, has ended" if self._other else "Nothing was the host"
                )
                self._say(f"  {gone}; this process is the host now.")
                self._other = None
                return
            other = await self._look()  # somebody was faster
        if other is None:
            if self._other is not None and not self._takes:
                self._say(
                    f"  {self._other}, which was the host, has ended: {_WHAT} wait until `metier host` runs"
                )
                self._other = None
        elif other.pid and (self._other is None or other.pid != self._other.pid):
            gone = f"{self._other} has ended; " if self._other and self._other.pid else ""
            self._say(f"  {gone}{other} is the host now.")
            self._other = other

    async def _be(self) -> None:
        """Until this process is the host no longer. Who was told to stop being it does not begin anew."""
        hosting = await self._kernel.hosted()
        await hosting.ended.wait()
        if hosting.told:
            self._takes = False
            self._say(
                f"  This process is the host no longer, as it was told: {_WHAT} wait until `metier host` runs, or this is started again"
            )
        else:
            self._say("  This process is the host no longer; it takes the role again once it can.")
