"""The log of one call, written by the skill that ran: `calls/<id>.jsonl` below the state folder.

Every line is made here: time, source and skill are ours, and what the skill says stands as one value under `entry`.
So nothing it writes can pass for a record of the runtime, and a line end in it is an escape inside a string.
"""

import os
import re
import stat
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, final

import anyio
import msgspec
from anyio import to_thread
from msgspec import Struct

from metier.errors import StateError
from metier.model.diagnostic import Diagnostic
from metier.model.digest import Json
from metier.model.permission import PermissionSet
from metier.model.ports import Answered, NotAnswered
from metier.openfile import read_small
from metier.record.payload import Payloads
from metier.record.private import make_private_folder, require_private
from metier.record.redact import redact
from metier.sandbox.given_secrets import masked
from metier.sandbox.secret import Mask

MOST_BYTES: Final = 1_048_576
"""Of one call's log."""
LONGEST: Final = 65_536
"""Of one line."""
TAKEN: Final = "skill.send_message"
"""The type of an entry by which a skill takes down a message for the operator."""
_SAID: Final = ("message", "caller_name", "callback_number")
_CALL_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@final
class Line(Struct, frozen=True, kw_only=True):
    """One line of the log."""

    at: str
    source: str
    """Always `skill`."""
    skill: str
    entry: Json


@final
class CallLog:
    """Appends to the log of one call."""

    def __init__(
        self,
        state: str,
        call_id: str,
        skill: str,
        payloads: Payloads = "redacted",
        *,
        rolling: bool = False,
        mask: Mask | None = None,
    ) -> None:
        """`state` is the state folder, and `payloads` how much of an entry is kept, as for what lies beside records. A
        `rolling` log of a call that has no end lets go of what is oldest when it is full. `mask` hides what the code was given
        as variables.
        Raises ValueError for a call id that could name another file."""
        if not good_id(call_id):
            raise ValueError(f"{call_id[:60]!r} is not the id of a call")
        self._folder = os.path.join(state, "calls")
        self._name = f"{call_id}.jsonl"
        self._skill = skill
        self._payloads = payloads
        self._rolling = rolling
        self.mask = mask or Mask()
        self._turn = anyio.Lock()

    @property
    def keeps(self) -> bool:
        """Whether anything of an entry is kept: not where only digests lie beside records."""
        return self._payloads != "hashes"

    async def settled(self) -> None:
        """Wait until what was to be written before is written, or was refused."""
        async with self._turn:
            pass

    async def append(self, entry: Json) -> NotAnswered | None:
        """Write one entry, where it `keeps` them; the reason when that failed. What was said is kept, also when the run
        ends meanwhile."""
        line = Line(
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            source="skill",
            skill=self._skill,
            entry=entry,
        )
        if len(msgspec.json.encode(line)) >= LONGEST:
            return NotAnswered(name="TooLarge", message=f"An entry has at most {LONGEST:,} bytes")
        if not self.keeps:
            return None
        with anyio.CancelScope(shield=True):
            # Code that does not wait for its entries finds them in their order all the same.
            async with self._turn:
                return await to_thread.run_sync(self._append, line)

    def _append(self, line: Line) -> NotAnswered | None:
        if self.mask:
            line = msgspec.structs.replace(line, entry=masked(line.entry, self.mask))
        if self._payloads != "full":
            line = msgspec.structs.replace(line, entry=_masked(line.entry))
        data = msgspec.json.encode(line) + b"\n"
        try:
            make_private_folder(os.path.dirname(self._folder))
            make_private_folder(self._folder)
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except (OSError, StateError):
            return _unwritable()
        try:
            if self._rolling:
                _make_room(folder, self._name, len(data))
            return _append_to(folder, self._name, data)
        except OSError:
            return _unwritable()
        finally:
            os.close(folder)


def _masked(entry: Json) -> Json:
    """The entry without what is likely a secret. A message for the operator stays as it was said: it is noted here so that it is not
    lost, and who left it was told so."""
    kept = redact(entry)
    if isinstance(entry, dict) and isinstance(kept, dict) and entry.get("type") == TAKEN:
        kept |= {name: entry[name] for name in _SAID if name in entry}
    return kept


def _make_room(folder: int, name: str, more: int) -> None:
    """Let go of the older half of a log that would get too large."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
    except FileNotFoundError:
        return
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if status.st_size + more <= MOST_BYTES or not stat.S_ISREG(status.st_mode):
            return
        file.seek(MOST_BYTES // 2)
        kept = file.read(MOST_BYTES).partition(b"\n")[2]
    new = f"{name}.new"
    with suppress(FileNotFoundError):
        os.unlink(new, dir_fd=folder)
    written = os.open(new, _FLAGS | os.O_EXCL, 0o600, dir_fd=folder)
    with os.fdopen(written, "wb") as file:
        file.write(kept)
    os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)


def _append_to(folder: int, name: str, data: bytes) -> NotAnswered | None:
    descriptor = os.open(name, _FLAGS, 0o600, dir_fd=folder)
    try:
        status = os.fstat(descriptor)
        ours = stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_uid == os.geteuid()
        if not ours or stat.S_IMODE(status.st_mode) & 0o077:
            return _unwritable()
        if status.st_size + len(data) > MOST_BYTES:
            return NotAnswered(
                name="TooLarge", message=f"The log of a call has at most {MOST_BYTES:,} bytes and is full"
            )
        return None if os.write(descriptor, data) == len(data) else _unwritable()
    finally:
        os.close(descriptor)


def _unwritable() -> NotAnswered:
    return NotAnswered(name="Unavailable", message="The log of the call cannot be written")


def good_id(call_id: str) -> bool:
    """Whether this could be the id of a call, and names nothing else."""
    return _CALL_ID.fullmatch(call_id) is not None


def erase_log(state: str, call_id: str) -> int:
    """Remove what the skill wrote into the log of the call; 1 when there was something."""
    if not good_id(call_id):
        return 0  # no call of that name can have a log
    try:
        os.unlink(os.path.join(state, "calls", f"{call_id}.jsonl"))
    except OSError:
        return 0
    return 1


@final
class Log(Struct, frozen=True, kw_only=True):
    """What was written into the log of a call, oldest first."""

    lines: tuple[Line, ...]
    cut: bool
    """Whether the last line is not whole and left out: the disk was full, or the program was killed."""


def read_log(state: str, call_id: str) -> Log | None:
    """The log of a call; None when there is none.

    Raises:
        StateError: when it is there and cannot be read, or is not ours alone.
    """
    path = os.path.join(state, "calls", f"{call_id}.jsonl")
    if not good_id(call_id) or not os.path.lexists(path):
        return None
    require_private(os.path.dirname(path), folder=True)
    require_private(path, folder=False)
    found = read_small(path, most=MOST_BYTES)
    if isinstance(found, Diagnostic):
        raise StateError(f"the log of the call cannot be read: {found.message}", remedy=f"Look at {path}")
    *lines, last = found[0].split(b"\n")
    try:
        return Log(lines=tuple(msgspec.json.decode(line, type=Line) for line in lines), cut=bool(last))
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise StateError(f"the log of the call {call_id} was changed", remedy=f"Look at {path}") from None


@final
class WriteCallLog:
    """`call_log.write`: the skill keeps an entry of its own with its call. Open to every skill."""

    def __init__(self, log: CallLog) -> None:
        self._log = log

    def allowed(self, permissions: PermissionSet) -> bool:
        return True

    async def answer(self, params: dict[str, Json]) -> Answered | NotAnswered:
        if set(params) != {"entry"}:
            return NotAnswered(name="InvalidRequest", message="call_log.write takes one `entry`")
        if failure := await self._log.append(params["entry"]):
            return failure
        if not self._log.keeps:  # who says "noted" on our word must not say so when nothing is
            message = 'What skills note is not kept here: [audit] payloads is "hashes"'
            return NotAnswered(name="NotKept", message=message)
        return Answered()

    async def aclose(self) -> None:
        """Nothing is held."""
