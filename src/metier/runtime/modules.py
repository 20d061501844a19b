"""The modules whose operations running code may ask for, as one runtime has them."""

from collections.abc import Callable, Mapping, Sequence
from typing import final

from metier.host.running import Running
from metier.model.call import ApprovedCall
from metier.model.outcome import Completed, Failed
from metier.model.ports import OperationFunction
from metier.record.trust import Trusts
from metier.runtime.agents import Agents
from metier.runtime.inner import Inner
from metier.runtime.memory import Memory
from metier.runtime.state import Seen
from metier.sandbox.protocol import Sandbox


@final
class Modules:
    """Memory and agents."""

    def __init__(
        self,
        inner: Inner,
        sandboxes: Callable[[], Sequence[Sandbox]],
        running: Running,
        trusts: Callable[[], Trusts],
    ) -> None:
        self._memory = Memory()
        self._agents = Agents(inner, sandboxes, running, trusts)

    def operations(self, seen: Seen) -> Mapping[tuple[str, str], OperationFunction]:
        """The functions, for what was seen when a call began."""

        async def search(approved: ApprovedCall) -> Completed | Failed:
            return await self._memory.search(approved, seen)

        async def run(approved: ApprovedCall) -> Completed | Failed:
            return await self._agents.run(approved, seen)

        async def status(approved: ApprovedCall) -> Completed | Failed:
            return await self._agents.status(approved, seen)

        return {("memory", "search"): search, ("agents", "run"): run, ("agents", "status"): status}

    def close(self) -> None:
        """Let go of what is open."""
        self._memory.close()
