"""The network of one sandboxed run, as far as it was granted: our proxy on its loopback, judged by egress."""

from collections.abc import Callable
from socket import socket
from typing import TYPE_CHECKING, TypeAlias, final

import anyio

from metier.model.job import Event, Job
from metier.sandbox.egress import Egress
from metier.sandbox.given import Given, given_to

if TYPE_CHECKING:
    from metier.sandbox.proxy import Proxy

EgressFor: TypeAlias = Callable[[frozenset[str]], Egress]


def egress_for(hosts: frozenset[str]) -> Egress:
    """The way out to `hosts` and nowhere else."""
    return Egress(hosts=hosts)


@final
class WayOut:
    """Served beside a run; a run without network has none, and then this does nothing."""

    def __init__(
        self, listening: socket | None, job: Job, egress: EgressFor, given: Given | None = None
    ) -> None:
        """`given` is what the run was told, where somebody keeps account of that."""
        self._listening = listening
        self._job = job
        self._egress = egress
        self._given = given
        self._proxy: Proxy | None = None
        self.stop = anyio.Event()
        """Set when the run tried to reach what no skill may ever reach."""

    @property
    def denials(self) -> tuple[Event, ...]:
        return self._proxy.denials if self._proxy else ()

    @property
    def violations(self) -> tuple[Event, ...]:
        return self._proxy.violations if self._proxy else ()

    async def serve(self) -> None:
        """Until cancelled."""
        if self._listening is None:
            return
        from metier.sandbox.proxy import Proxy  # only who may go out pays for it

        given, own = self._given or given_to(self._job), self._job.own_origin
        made = Egress(hosts=frozenset(), own=own) if own else self._egress(self._job.permissions.hosts)
        async with made as egress, anyio.create_task_group() as tasks:
            self._proxy = Proxy(self._listening, egress, given=given, alarm=self._job.alarm)
            tasks.start_soon(self._proxy.serve)
            await self._proxy.violated.wait()
            self.stop.set()
