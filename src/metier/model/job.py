"""What a sandbox is given and what it gives back. A `Job` is made only by execute."""

from collections.abc import Callable
from typing import Literal, TypeAlias, final

from msgspec import Struct

from metier.model.digest import Json
from metier.model.entry import Entry
from metier.model.guarantee import Guarantee
from metier.model.outcome import Artifact
from metier.model.permission import PermissionSet
from metier.model.ports import Host, Lives
from metier.model.skill import Limits

Ending: TypeAlias = Literal[
    "returned",
    "raised",
    "exited",
    "signalled",
    "no_result",
    "bad_result",
    "timed_out",
    "out_of_memory",
    "out_of_fuel",
    "out_of_disk",
    "stopped",
    "not_started",
    "busy",
]
"""`returned`: a value came back (a command: exit code 0). `raised`: the code said so itself, `fault` has its words.
`exited`, `signalled`: a command's own end. `no_result`: it ended without one. `bad_result`: not plain JSON.
`stopped`: for a violation. `not_started`: the machine refused, `fault` says why. `busy`: too many runs at once."""


@final
class Place(Struct, frozen=True, kw_only=True, order=True):
    """A folder or file of the host that a run may use, at the same path inside."""

    path: str
    """Real and absolute: no link in it, no `..`."""
    writable: bool = False
    device: int = 0
    inode: int = 0
    """What lay there when the call was judged. Something else there now refuses the run. Zero: not asked for."""


@final
class ProgramGrant(Struct, frozen=True, kw_only=True):
    """A program that the operator named, as real things of this machine. Only a run of that program is given them, never the
    code that asks for it."""

    file: str
    spellings: frozenset[str] = frozenset()
    """What else it may be called, each text whole."""
    before: tuple[str, ...] = ()
    """Arguments that always come first."""
    places: tuple[Place, ...] = ()
    hosts: frozenset[str] = frozenset()
    own_origin: str = ""
    """The one place it reaches, where that lies where no skill may go: on this machine, or in the operator's own network."""
    environment: dict[str, str] = {}


@final
class LifeBounds(Struct, frozen=True, kw_only=True):
    """What a life may take, which has no time limit of its own."""

    enable_seconds: float = 30.0
    """How long it may take to be enabled."""
    cpu_share: float = 0.9
    cpu_window: float = 60.0
    """One that took more than this share of a processor for so many seconds in a row is ended."""


@final
class Job(Struct, frozen=True, kw_only=True):
    """One run: what to start, with which input, and the only things it may touch."""

    call_id: str
    skill: str = ""
    entry: Entry
    arguments: dict[str, Json]
    bundle: str = ""
    """Real folder of the snapshot the entry's files are taken from; read-only inside. Empty when it has none."""
    packages: tuple[str, ...] = ()
    """Real folders of installed packages for the code to import, read-only inside."""
    places: tuple[Place, ...] = ()
    cwd: str = ""
    """Where it starts: one of the places or a folder below one. Empty: its own temporary folder."""
    files: dict[str, str] = {}
    """Texts that lie in its temporary folder when it starts, by name."""
    keep: str = ""
    """The workspace, below which files are kept that it leaves in its `out` folder. Empty: none are."""
    environment: dict[str, str] = {}
    """All there is of it, but for HOME, PATH, TMPDIR, LANG and METIER_OUT."""
    binaries: dict[str, str] = {}
    """Declared name → the one real file meant by it. Only these can be a command's program."""
    programs: dict[str, ProgramGrant] = {}
    """Declared name → the operator's own word on what it stands for. None of these is in `binaries`: a run of one is a job
    of its own (`sandbox.job_operator_programs.started`)."""
    permissions: PermissionSet
    own_origin: str = ""
    """In place of all hosts: the one service of the operator's own that this run of his program reaches. No skill has one."""
    limits: Limits
    needs: frozenset[Guarantee]
    context: dict[str, Json] = {}
    """What the guest's context shows read-only, for example `call` and `operator`."""
    host: Host | None = None
    """Who answers what the running code asks; None: nobody."""
    alarm: Callable[["Event"], None] = lambda _event: None
    """Told of a violation as soon as it is known: a run that is cancelled reports nothing any more."""
    life: Lives | None = None
    """Who is told that it lives; None for a run that ends by itself. The entry says so too."""
    life_bounds: LifeBounds = LifeBounds()
    begun: Callable[[int], None] | None = None
    """Told the number of its process, once that is known; of programs, where somebody wants to know."""


@final
class Usage(Struct, frozen=True, kw_only=True):
    """What a run cost, children included."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    memory_bytes: int = 0
    """The largest process, or the whole run where the backend promises `memory_exact`."""
    output_bytes: int = 0
    """As made, also what lay beyond the limit and was thrown away."""
    fuel: int | None = None


@final
class Fault(Struct, frozen=True, kw_only=True):
    """An error as it crosses the wall: name and message, never a traceback or a path of the host."""

    name: str
    message: str


@final
class Event(Struct, frozen=True, kw_only=True):
    """Something a run tried and was refused: a denial or a violation."""

    kind: str
    """For example `syscall`, `socket`, `egress`, `host_call`, `forged_message`, `read`."""
    detail: str
    count: int = 1


@final
class Report(Struct, frozen=True, kw_only=True):
    """How a run ended, as the backend saw it; nothing but `value`, `fault` and the output is the skill's own word."""

    ending: Ending
    value: Json = None
    fault: Fault | None = None
    exit_code: int | None = None
    signal: int | None = None
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False
    usage: Usage = Usage()
    denials: tuple[Event, ...] = ()
    violations: tuple[Event, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
