"""When the host is root, a sandbox is still started as an ordinary user that owns nothing.

The starter thread, and only it, lives in a mount namespace of its own. For each start it puts the granted folders
there as mounts on which root's files belong to the sandbox's user (idmapped mounts), becomes that user, starts the
program, and takes the mounts away again. What the program writes is root's on the disk. Nothing of this can be seen
outside that thread, and a file system that cannot be lent like this refuses the run.
"""

import ctypes
import json
import os
import select
import signal
import stat
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Final, TypeVar, final

from metier.sandbox.mounts import Held
from metier.sandbox.process import Process, start, two_pipes
from metier.sandbox.wall import WallError

T = TypeVar("T")

FIRST_UID: Final = 1_879_048_192
"""Above everything distributions, containers and systemd give out."""

TELL_SECONDS: Final = 10.0
"""How long bubblewrap may take to make an identity. Every other start waits for this one meanwhile."""

_UIDS: Final = 4_096
_SETUID, _SETGID, _SETGROUPS = 117, 119, 116
_UNSHARE: Final = 272
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_NEWNS: Final = 0x20000
_REC_SLAVE: Final = 0x4000 | 0x80000
_DETACH: Final = 2
_OPEN_TREE_CLONE, _OPEN_TREE_CLOEXEC, _EMPTY_PATH, _RECURSIVE = 1, 0x80000, 0x1000, 0x8000
_MOVE_MOUNT_F_EMPTY_PATH: Final = 4
_ATTR_IDMAP: Final = 0x100000
_AT_FDCWD: Final = -100
_STILL: Final = -1

_libc: Final = ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: int | bytes) -> int:
    """A raw system call: the C library would change the identity of every thread, and this must not."""
    result: int = _libc.syscall(
        ctypes.c_long(number), *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments)
    )
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


@final
class Tenant:
    """An identity for one sandbox at a time, with the map that lends it root's files."""

    def __init__(self, uid: int, owner_map: int) -> None:
        self.uid: Final = uid
        self.owner_map: Final = owner_map
        """Descriptor of a user namespace in which 0 is `uid`."""


@final
class Lending:
    """Gives out identities and starts programs under them. One for the whole program, used in the starter thread."""

    def __init__(self, bwrap: str) -> None:
        self._bwrap = bwrap
        self._free: list[Tenant] = []
        self._uids = iter(range(FIRST_UID, FIRST_UID + _UIDS))
        self._given_up: list[int] = []
        self._slots: set[str] = set()
        # Mounts of the machine still come in, ours do not go out.
        _call(_UNSHARE, _NEWNS)
        _mount(b"none", b"/", None, _REC_SLAVE, None)
        self._stage = self._new_stage()

    def take(self) -> Tenant:
        """An identity nobody else has now."""
        if self._free:
            return self._free.pop()
        uid = self._given_up.pop() if self._given_up else next(self._uids, None)
        if uid is None:
            raise WallError("too many sandboxes at once")
        try:
            return Tenant(uid, self._owner_map(uid))
        except WallError:
            self._given_up.append(uid)
            raise

    def give_back(self, tenant: Tenant) -> None:
        """Only once every process of it is gone."""
        self._free.append(tenant)

    def rest(self) -> None:
        """Let go of what is kept for identities nobody has."""
        while self._free:
            tenant = self._free.pop()
            os.close(tenant.owner_map)
            self._given_up.append(tenant.uid)

    def start_as(self, tenant: Tenant, held: Sequence[Held], begin: Callable[[dict[str, str]], T]) -> T:
        """Call `begin` as the tenant, with the path at which each place is lent to it. When it returns, what it started
        must have a namespace of its own."""
        lent: dict[str, str] = {}
        try:
            for number, each in enumerate(held):
                lent[each.place.path] = self._lend(each, number, tenant)
            with _as_user(tenant.uid):
                return begin(lent)
        finally:
            for path in lent.values():
                # In our namespace only; and the empty folder stays, for with it the mount would go everywhere.
                _libc.umount2(os.fsencode(path), _DETACH)

    def _new_stage(self) -> str:
        """Where places are put to be lent."""
        stage = _stage_folder()
        _mount(b"tmpfs", os.fsencode(stage), b"tmpfs", 0, b"mode=0755,size=1m")
        self._slots.clear()
        return stage

    def _lend(self, held: Held, number: int, tenant: Tenant) -> str:
        try:
            return self._lent(held, number, tenant)
        except FileNotFoundError:
            # Somebody cleared up and took the empty folder away, which takes along what is mounted there, here too.
            self._stage = self._new_stage()
        try:
            return self._lent(held, number, tenant)
        except FileNotFoundError as error:
            raise WallError(f"{held.place.path} cannot be lent to a sandbox: {error.strerror}") from None

    def _lent(self, held: Held, number: int, tenant: Tenant) -> str:
        path = held.place.path
        try:
            # With what is mounted below it: without, the run would see what those mounts cover.
            flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _EMPTY_PATH | _RECURSIVE
            tree = _call(_OPEN_TREE, held.descriptor, b"", flags)
        except OSError as error:
            raise WallError(f"{path} cannot be lent to a sandbox: {error.strerror}") from None
        try:
            change = struct.pack("QQQQ", _ATTR_IDMAP, 0, 0, tenant.owner_map)
            _call(_MOUNT_SETATTR, tree, b"", _EMPTY_PATH | _RECURSIVE, change, len(change))
            found = os.fstat(held.descriptor)
            at = self._slot(number, folder=stat.S_ISDIR(found.st_mode))
            _call(_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(at), _MOVE_MOUNT_F_EMPTY_PATH)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise WallError(
                f"{path} cannot be lent to a sandbox ({error.strerror}): a file system in it does not take"
                " part; run Metier as an ordinary user, or grant another folder"
            ) from None
        finally:
            os.close(tree)
        return at

    def _slot(self, number: int, *, folder: bool) -> str:
        path = f"{self._stage}/{'folder' if folder else 'file'}{number}"
        if path not in self._slots:
            if folder:
                os.mkdir(path, 0o755)
            else:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644))
            self._slots.add(path)
        return path

    def _owner_map(self, uid: int) -> int:
        """A user namespace that maps 0 to `uid`. Bubblewrap makes one and waits; it is gone again before we return."""
        told, tell, blocked, unblock = two_pipes()
        child: Process | None = None
        inner = _STILL
        try:
            child = start(
                [
                    self._bwrap, "--unshare-user", "--die-with-parent", "--ro-bind", "/", "/",
                    "--info-fd", str(tell), "--userns-block-fd", str(blocked), "--", "/",
                ],
                keep=(tell, blocked),
            )  # fmt: skip
            os.close(tell)
            tell = _STILL
            pid = json.loads(_all_of(told))["child-pid"]
            inner = os.pidfd_open(pid)
            for name in ("uid_map", "gid_map"):
                with open(f"/proc/{pid}/{name}", "w", encoding="ascii") as file:
                    file.write(f"0 {uid} 1")
            return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        except (OSError, ValueError, KeyError) as error:
            raise WallError(f"root could not make an identity for a sandbox: {error}") from None
        finally:
            # Both halves: the inner one has not yet been told to die with the outer.
            if inner != _STILL:
                signal.pidfd_send_signal(inner, signal.SIGKILL)
            if child is not None:
                child.signal()
                child.reap()
            for each in (told, tell, blocked, unblock, inner):
                if each != _STILL:
                    os.close(each)


def _stage_folder() -> str:
    """An empty folder that every user can pass through. Nothing is ever in it but in our own namespace."""
    for parent in ("/run", "/tmp", "/var/tmp"):  # noqa: S108  a name that is taken by somebody else is not used
        path = f"{parent}/metier-stage"
        with suppress(OSError):
            with suppress(FileExistsError):
                os.mkdir(path, 0o755)
            found = os.stat(path, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode) and found.st_uid == 0 and os.stat(parent).st_mode & stat.S_IXOTH:
                return path
    raise WallError(
        "root has no folder in which a sandbox could be set up: /run, /tmp and /var/tmp are closed"
    )


@cache
def lending(bwrap: str) -> Lending:
    """The one of this program. In the starter thread only."""
    return Lending(bwrap)


@final
class _as_user:
    """The calling thread as another user. Root is kept as its saved id, which a started program loses."""

    def __init__(self, uid: int) -> None:
        self._uid = uid

    def __enter__(self) -> None:
        self._groups = os.getgroups()
        _call(_SETGROUPS, 0, 0)
        _call(_SETGID, self._uid, self._uid, 0)
        _call(_SETUID, self._uid, self._uid, 0)

    def __exit__(self, *_: object) -> None:
        _call(_SETUID, 0, 0, 0)
        _call(_SETGID, 0, 0, 0)
        packed = struct.pack(f"{len(self._groups)}I", *self._groups)
        _call(_SETGROUPS, len(self._groups), packed)


def _mount(source: bytes, target: bytes, kind: bytes | None, flags: int, data: bytes | None) -> None:
    if _libc.mount(source, target, kind, ctypes.c_ulong(flags), data) != 0:
        error = ctypes.get_errno()
        raise WallError(f"root could not mount {os.fsdecode(target)}: {os.strerror(error)}")


def _all_of(descriptor: int) -> bytes:
    """What bubblewrap says of itself, to its end. Raises TimeoutError when it does not come to one."""
    data = b""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    give_up = time.monotonic() + TELL_SECONDS
    while not data.rstrip().endswith(b"}"):
        if not waiting.poll(max(0, give_up - time.monotonic()) * 1000):
            raise TimeoutError(f"bubblewrap said nothing of it for {TELL_SECONDS:g} s")
        more = os.read(descriptor, 4_096)
        if not more:
            break
        data += more
    return data
