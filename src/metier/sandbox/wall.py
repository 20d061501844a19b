"""The wall around a process: what a program of the machine can reach while it runs. Two are built:
`bubblewrap` (namespaces) and `landlock` (where there is no bubblewrap). A backend asks its wall to start a program."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias, final

from msgspec import Struct

from metier.model.guarantee import Guarantee
from metier.model.job import Event, Place
from metier.sandbox.protocol import Missing

if TYPE_CHECKING:
    from os import statvfs_result
    from socket import socket


Take: TypeAlias = Callable[[int], None]
"""Is given a descriptor of the folder that a run left files in, while nobody else can touch it. Blocking."""
OUT: Final = "out"
"""The folder in a run's temporary one that it may leave files in. Always there, and named by METIER_OUT."""
Cut: TypeAlias = Literal[
    "", "timed_out", "out_of_memory", "out_of_disk", "out_of_fuel", "stopped", "signalled"
]
"""Why a run was ended by force, if it was. `signalled`: whoever watched it was. `out_of_fuel`: what lives took the processor for
too long."""


@final
class Policy(Struct, frozen=True, kw_only=True):
    """What a wall lets through. Equal policies may share what is kept warm, so everything that matters is here."""

    places: tuple[Place, ...] = ()
    """Sorted. Besides these only the system's own programs and libraries are there, read-only."""
    network: bool = False
    """Loopback of its own, with our proxy on it and nothing else."""
    memory_mb: int = 256
    processes: int = 64
    file_mb: int = 256
    """The largest file it can write; its temporary folder as a whole is as large."""
    cpu_seconds: int = 301
    programs: tuple[str, ...] | None = None
    """Real files that may be started, where Landlock is there to hold it; None for any program of the machine."""
    bare_heap: bool = False
    """For engines that reserve address space and have a heap limit of their own (Deno): no limit on that here."""


@final
class Program(Struct, frozen=True, kw_only=True):
    """A program to start behind a wall. Descriptors stay the caller's: he closes his copies after the start."""

    argv: tuple[str, ...]
    """`argv[0]` is the real file to run."""
    called: str = ""
    """What it is told to be called, where that is not its file. Only for what is supervised."""
    environment: dict[str, str] = {}
    """The wall adds HOME, TMPDIR, METIER_OUT, PATH and LANG, which are not the host's."""
    cwd: str = ""
    """Empty: the temporary folder, which is empty at every start."""
    stdin: int = -1
    """A descriptor; -1 is an empty input."""
    stdout: int
    stderr: int
    supervised: bool = False
    """Whether forbidden system calls must be reported, not only refused. The first start takes longer then."""
    alone: bool = False
    """Whether it starts no other program and finds its libraries where the distribution has them."""
    again: bool = False
    """Whether more of its kind are likely to follow, so that a supervisor is worth keeping."""
    exact_memory: bool = False
    """Whether one memory limit must hold for all its processes together."""
    files: dict[str, str] = {}
    """Texts to lay into its temporary folder first, by name. Only for what is supervised, and so is the next."""
    named: dict[str, str] | None = None
    """Which file each name of a program stands for; only these are on its PATH. None for the machine's own PATH."""
    take: Take | None = None


@final
class Code(Struct, frozen=True, kw_only=True):
    """Python code to start behind a wall, in a copy of an interpreter that waits there. It is told what to do over
    the bridge, and so are its variables: the interpreter it is a copy of must not hold them."""

    packages: tuple[str, ...] = ()
    """Folders it may import from."""
    cwd: str = ""
    stdout: int
    stderr: int
    bridge: int
    """Its descriptor 3."""
    take: Take | None = None


@final
class Ended(Struct, frozen=True, kw_only=True):
    """How a program behind a wall ended, as the wall saw it."""

    exit_code: int | None = None
    signal: int | None = None
    why: Literal["exited", "killed", "out_of_memory", "lost"] = "exited"
    """`lost`: whoever watched it went down with it, so nothing it said can be believed."""
    cpu_seconds: float = 0.0
    memory_bytes: int = 0
    written: int = 0
    """Bytes written to disks."""
    left: bool = False
    """Whether files lie in its `out` folder, which waits for somebody to take them."""
    denials: tuple[Event, ...] = ()
    violations: tuple[Event, ...] = ()


@final
class Look(Struct, frozen=True):
    """What a run takes at one moment."""

    disks: "tuple[statvfs_result, ...]" = ()
    """How full the file systems are that only it has."""
    resident: int = 0
    """Bytes of memory that the process which holds most of it holds, without files it has mapped."""
    written: int = 0
    """Bytes they have written to disks."""
    processes: tuple[int, ...] = ()
    """Those of the run, as we see them."""
    seconds: float = 0.0
    """Of the processor, that it has taken so far."""


class Running(Protocol):
    """A program behind a wall."""

    def look(self) -> Look:
        """What it takes now. Cheap enough to be asked many times a second."""
        ...

    @property
    def shared_folders(self) -> list[str]:
        """Its temporary folders where they lie on a disk of the host."""
        ...

    @property
    def proxy(self) -> "socket | None":
        """Listens inside, where the program finds it as its proxy; to be served out here. None without network."""
        ...

    def left(self) -> int:
        """A descriptor of its `out` folder while it runs, for the caller to close; -1 where there is none to be had: what
        is supervised hands it over when it ends."""
        ...

    async def wait(self) -> Ended:
        """Until its main process ends; then everything else of it is gone as well."""
        ...

    async def kill(self) -> Ended:
        """End all of it at once, whatever state it is in. May be called at any time, also twice."""
        ...

    def strike(self) -> Ended | None:
        """As `kill`, but without waiting for the corpse, which a `kill` must follow to clear away; what it had used
        until then. None, and nothing done, where this wall has to wait."""
        ...


class Wall(Protocol):
    """Starts programs with nothing but what a policy lets through."""

    @property
    def name(self) -> str: ...

    def guarantees(self) -> frozenset[Guarantee]: ...

    def missing(self) -> tuple[Missing, ...]: ...

    async def start(self, policy: Policy, program: Program) -> Running:
        """Raises WallError when the program could not be started; nothing is left behind then."""
        ...

    async def fork(self, policy: Policy, code: Code) -> Running:
        """As `start`, for Python code."""
        ...

    async def aclose(self) -> None:
        """End everything. Afterwards no process behind this wall is left."""
        ...


class WallError(Exception):
    """A program could not be started behind its wall. The text is for people and names no secret."""


class NoRoomError(OSError):
    """A program could not be started for want of processes or memory on this machine, now. Another time it can."""
