"""What our own backends are known not to do. Each line is tried: one that is no longer true makes the kit fail."""

from typing import Final

from metier.testing.sandbox_kit.backend import Gap

BUBBLEWRAP_NATIVE: Final[tuple[Gap, ...]] = ()
BUBBLEWRAP_PYTHON: Final[tuple[Gap, ...]] = ()
BUBBLEWRAP_STRAIGHT: Final[tuple[Gap, ...]] = ()
LANDLOCK_NATIVE: Final[tuple[Gap, ...]] = ()
LANDLOCK_PYTHON: Final[tuple[Gap, ...]] = ()
