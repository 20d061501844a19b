"""What every sandbox backend is: it says what it can promise here, which jobs it takes, and runs them."""

from typing import Protocol, final

from msgspec import Struct

from metier.model.guarantee import Guarantee
from metier.model.job import Job, Report


@final
class Missing(Struct, frozen=True, kw_only=True):
    """Something this machine lacks, and the command that would add it."""

    what: str
    """For example `bubblewrap` or `Landlock ABI 6`."""
    why: str
    """What was tried and how it failed."""
    remedy: str
    """What to type, or what to ask the administrator for."""
    costs: frozenset[Guarantee]
    """The guarantees that go with it; all of a backend's when it cannot run at all."""


class Sandbox(Protocol):
    """One backend. `run` never raises but for cancellation, and leaves nothing behind then either."""

    @property
    def name(self) -> str: ...

    def takes(self, job: Job) -> bool:
        """Whether this backend runs this kind of entry at all."""
        ...

    def guarantees(self) -> frozenset[Guarantee]:
        """What it promises on this machine; found out by trying, once."""
        ...

    def missing(self) -> tuple[Missing, ...]:
        """What would make it promise more here."""
        ...

    async def run(self, job: Job) -> Report: ...

    async def aclose(self) -> None:
        """End everything kept warm. Afterwards no process of it is left."""
        ...
