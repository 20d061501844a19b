"""What a language must bring to be tested: its acts, by name, and a way to run them bare.

An act that a language does not have at all (a WASM module cannot fork) is `absent`: there is a probe for it all the
same, which tries, and everything it tries must be refused.
"""

from collections.abc import Mapping
from typing import Any, Protocol, final

from msgspec import Struct

from metier.model.entry import Entry
from metier.model.job import Place, Report


@final
class Prepared(Struct, frozen=True, kw_only=True):
    """An act as a job wants it."""

    entry: Entry
    arguments: dict[str, Any] = {}
    bundle: str = ""
    binaries: dict[str, str] = {}
    places: tuple[Place, ...] = ()
    hosts: tuple[str, ...] = ()


@final
class Bare(Struct, frozen=True, kw_only=True):
    """How an act went outside every sandbox."""

    value: Any = None
    exit_code: int | None = None
    """None: it had to be killed."""
    stdout: bytes = b""
    stderr: bytes = b""
    seconds: float = 0.0


class Guest(Protocol):
    """A language."""

    @property
    def name(self) -> str: ...

    @property
    def absent(self) -> Mapping[str, str]:
        """Acts this language does not have, and what becomes of one who tries."""
        ...

    @property
    def ways(self) -> Mapping[str, tuple[Mapping[str, Any], ...]]:
        """By such an act: what to add to its parameters, in turn, where there is more than one way to try it."""
        ...

    @property
    def certain(self) -> Mapping[str, tuple[str, ...]]:
        """By act: the attempts that succeed outside on every machine, and so prove that it can be done."""
        ...

    @property
    def bridged(self) -> bool:
        """Whether code in it can ask the host, and gives its result as a value."""
        ...

    @property
    def leaves_uncaught(self) -> frozenset[str]:
        """How a run may end when it is refused memory: some languages turn that into an error of their own."""
        ...

    @property
    def has_processes(self) -> bool:
        """Whether a run of it is a process, and not a part of ours."""
        ...

    @property
    def leaves_silent(self) -> frozenset[str]:
        """How a run ends that is over without having given a result."""
        ...

    @property
    def odd_as(self) -> tuple[type, ...]:
        """What a result that is no plain data may come back as; nothing where it has to be refused."""
        ...

    @property
    def burns_fuel(self) -> bool:
        """Whether its steps are counted."""
        ...

    def prepare(self, act: str, params: Mapping[str, Any], folder: str, *, at_load: bool = False) -> Prepared:
        """The act as a job. `folder` is empty and the guest's own; `at_load` runs it before any function is called."""
        ...

    def said(self, report: Report) -> Any:
        """What the act gave back."""
        ...

    def shown(self, report: Report) -> str:
        """What it printed, on whichever output."""
        ...

    async def bare(
        self,
        act: str,
        params: Mapping[str, Any],
        *,
        cwd: str,
        seconds: float,
        environment: Mapping[str, str],
        stdin: bytes = b"",
    ) -> Bare:
        """The same act without any wall. It is killed after `seconds`; what it started is not."""
        ...
