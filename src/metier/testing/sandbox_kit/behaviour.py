"""One behaviour of the contract."""

from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias, final

from msgspec import Struct

from metier.model.guarantee import Guarantee
from metier.testing.sandbox_kit.bench import Bench

Check: TypeAlias = Callable[[Bench], Awaitable[None]]
Control: TypeAlias = Literal["outside", "fault"]
"""How it is known that a behaviour can fail. `outside`: its check first has the forbidden thing happen where nothing
prevents it (`Bench.prove`). `fault`: there is no such thing outside, as with what a backend says of itself; a backend
with just this fault is found out, in the tests of the kit."""


@final
class Behaviour(Struct, frozen=True, kw_only=True):
    """One promise, what it stands for, and how it is tried."""

    number: int
    name: str
    cases: tuple[str, ...] = ()
    guarantees: frozenset[Guarantee] = frozenset()
    """Broken where this is not seen."""
    check: Check
    slow: bool = False
    control: Control = "outside"

    def __str__(self) -> str:
        return f"{self.number:02}_{self.name}"


def behaviour(
    number: int,
    check: Check,
    cases: str = "",
    guarantees: str = "",
    *,
    slow: bool = False,
    control: Control = "outside",
) -> Behaviour:
    """A behaviour that is called as its check is; cases and guarantees are given as words."""
    return Behaviour(
        number=number,
        name=check.__name__,
        cases=tuple(cases.split()),
        guarantees=frozenset(map(Guarantee, guarantees.split())),
        check=check,
        slow=slow,
        control=control,
    )
