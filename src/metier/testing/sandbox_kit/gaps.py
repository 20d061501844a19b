"""What our own backends are known not to do. Each line is tried: one that is no longer true makes the kit fail."""

from typing import Final

from metier.model.guarantee import Guarantee
from metier.testing.sandbox_kit.backend import Gap

_NO_NAMESPACES: Final = (
    Gap(
        behaviour=38,
        what=frozenset({"existence"}),
        reason="Landlock guards what is in a file, not whether there is one",
        guarantee=Guarantee.EXISTENCE,
    ),
    Gap(
        behaviour=51,
        what=frozenset({"see", "look", "hold"}),
        reason="without a process namespace a number tells whether somebody has it",
        guarantee=Guarantee.PROCESSES_HIDDEN,
    ),
    Gap(
        behaviour=47,
        what=frozenset(),
        reason="without a network namespace there is no network of its own to give out",
        guarantee=Guarantee.NETWORK_BY_GRANT,
    ),
)

BUBBLEWRAP_NATIVE: Final[tuple[Gap, ...]] = ()
BUBBLEWRAP_PYTHON: Final[tuple[Gap, ...]] = ()
BUBBLEWRAP_STRAIGHT: Final = (
    Gap(
        behaviour=14,
        what=frozenset({"together"}),
        reason="without a control group each process has a limit of its own",
        guarantee=Guarantee.MEMORY_EXACT,
    ),
    Gap(
        behaviour=31,
        what=frozenset({"exit_137", "apart"}),
        reason="bubblewrap tells a signal as a shell does, so an exit code above 128 reads like one",
    ),
    Gap(
        behaviour=56,
        what=frozenset({"system_call"}),
        reason="nobody is there to be told: forbidden system calls are refused, and that is all",
        guarantee=Guarantee.VIOLATIONS_SEEN,
    ),
)
LANDLOCK_NATIVE: Final = _NO_NAMESPACES
LANDLOCK_PYTHON: Final = _NO_NAMESPACES
BUBBLEWRAP_DENO: Final[tuple[Gap, ...]] = ()
LANDLOCK_DENO: Final = (
    Gap(
        behaviour=38,
        what=frozenset(),
        reason="the engine tells nobody whether a file exists, but an engine alone is not believed",
        guarantee=Guarantee.EXISTENCE,
    ),
    Gap(
        behaviour=51,
        what=frozenset(),
        reason="the engine lets nobody look at processes, but an engine alone is not believed",
        guarantee=Guarantee.PROCESSES_HIDDEN,
    ),
)
WASM: Final = (
    Gap(
        behaviour=31,
        what=frozenset({"exit_137"}),
        reason="WASI has no exit codes above 125; the module is told so and ends in an error of its own",
    ),
    Gap(
        behaviour=47,
        what=frozenset(),
        reason="a module has no sockets; what it wants from the network it asks of the host",
        guarantee=Guarantee.NETWORK_BY_GRANT,
    ),
)
