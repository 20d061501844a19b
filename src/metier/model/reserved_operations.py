"""Operations of Metier's that only one of the skills that ship with it may call, whatever another declares and whoever grants
it. Pure."""

from collections.abc import Iterable
from typing import Final

_OF: Final = {"agents.run": "run_agent"}
"""Through an agent another skill would do what it was not granted."""


def reserved(operations: Iterable[str], bundled: str) -> list[str]:
    """Why each of these is not for the caller, whose name is `bundled` where it ships with Metier and else empty."""
    return [
        f"{name!r} is for the skill {_OF[name]!r} that ships with Metier, and for no other; call that one"
        for name in sorted(operations)
        if name in _OF and _OF[name] != bundled
    ]
