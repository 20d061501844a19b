"""What a sandbox is given and what it gives back. A `Job` is made only by execute."""

from typing import Literal, final

from msgspec import Struct

from metier.model.digest import Json
from metier.model.entry import Entry
from metier.model.permission import PermissionSet
from metier.model.skill import Limits


@final
class Job(Struct, frozen=True, kw_only=True):
    """One run: what to start, with which input, and the only things it may touch."""

    call_id: str
    entry: Entry
    arguments: dict[str, Json]
    bundle: str
    """Folder of the snapshot the entry's files are taken from."""
    permissions: PermissionSet
    limits: Limits


@final
class Usage(Struct, frozen=True, kw_only=True):
    """What a run cost."""

    seconds: float = 0.0
    memory_bytes: int = 0
    fuel: int | None = None


@final
class Report(Struct, frozen=True, kw_only=True):
    """How a run ended, as the backend saw it; nothing in here was read from the skill's own words."""

    ending: Literal["returned", "raised", "timed_out", "out_of_memory", "out_of_fuel", "killed"]
    value: Json = None
    usage: Usage = Usage()
    denials: tuple[str, ...] = ()
    violations: tuple[str, ...] = ()
