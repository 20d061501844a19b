"""What the kit is told about a backend: how to open it, its language, and what it is known not to do."""

from collections.abc import Callable, Mapping
from typing import Protocol, final

from msgspec import Struct

from metier.model.guarantee import Guarantee
from metier.sandbox.protocol import Sandbox
from metier.testing.sandbox_kit.granted_names import Names
from metier.testing.sandbox_kit.guest import Guest


@final
class Gap(Struct, frozen=True, kw_only=True):
    """Something a backend does not do, and knows it."""

    behaviour: int
    what: frozenset[str] = frozenset()
    """The names of what will not be seen."""
    needs: tuple[str, ...] = ()
    """Acts without which the behaviour cannot be tried at all, and which the guest has not. They are tried in its
    place, and each must be refused."""
    reason: str
    guarantee: Guarantee | None = None
    """What it therefore does not promise; None where nothing was ever promised about it."""


class Opened(Protocol):
    """A sandbox, and whatever must be closed with it."""

    @property
    def sandbox(self) -> Sandbox: ...

    async def aclose(self) -> None: ...


@final
class Backend(Struct, frozen=True, kw_only=True):
    """A sandbox to try, and everything the kit must know about it."""

    name: str
    open: Callable[[str], Opened]
    """Opens it anew; gets an empty folder to keep things in."""
    guest: Guest
    gaps: tuple[Gap, ...] = ()
    without: Mapping[str, Callable[[str], Opened]] = {}
    """By what is taken away: how the backend is opened on a machine that lacks it. The backend has to use that very
    word when it says what is missing."""
    withhold: frozenset[Guarantee] = frozenset()
    """Guarantees its jobs do not ask for in this pass."""
    always_new: bool = False
    """Whether each run is to be the first of its kind, for backends that keep things warm."""
    own_files: tuple[str, ...] = ()
    """What it brings along for itself: files and folders that every run may see."""
    small_files: int = 40
    """How many times two thousand small files are certainly more than it lets a run make. Under torture it is a
    million files, whatever stands here."""
    names: Names | None = None
    """What its egress is opened with to look names up and dial, where it promises a network by grant."""
    elsewhere: str = ""
    """`file.py:function` that gives this same value in another process; the file by its whole path. That host is
    killed, has a terminal, or is in groups that ours is not in."""
