"""When the host is root, a sandbox is still started as an ordinary user that owns nothing.

The starter thread, and only it, takes a mount namespace of its own, puts the granted folders there as mounts on
which root's files belong to the sandbox's user (idmapped mounts), becomes that user, and starts the program. What
the program writes is root's again on the disk. Nothing of this can be seen outside that thread, and a file system
that cannot be lent like this refuses the run.
"""

import ctypes
import json
import os
import signal
import stat
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar, final

from metier.model.job import Place
from metier.sandbox.process import Process, start
from metier.sandbox.wall import WallError

T = TypeVar("T")

FIRST_UID: Final = 1_879_048_192
"""Above everything distributions, containers and systemd give out."""

_UIDS: Final = 4_096
_SETUID, _SETGID, _SETGROUPS = 117, 119, 116
_UNSHARE, _SETNS = 272, 308
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_NEWNS: Final = 0x20000
_REC_PRIVATE: Final = 0x4000 | 0x40000
_OPEN_TREE_CLONE, _OPEN_TREE_CLOEXEC, _EMPTY_PATH = 1, 0x80000, 0x1000
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
    """Gives out identities and starts programs under them. All of it runs in the starter thread."""

    def __init__(self, bwrap: str, stage: str) -> None:
        """`stage` is an empty folder of ours; nothing is ever put there but in the starter's own namespace."""
        self._bwrap = bwrap
        self._stage = stage
        self._free: list[Tenant] = []
        self._made = 0
        self._home = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)

    def take(self) -> Tenant:
        """An identity nobody else has now."""
        if self._free:
            return self._free.pop()
        if self._made >= _UIDS:
            raise WallError("too many sandboxes at once")
        tenant = Tenant(FIRST_UID + self._made, self._owner_map(FIRST_UID + self._made))
        self._made += 1
        return tenant

    def give_back(self, tenant: Tenant) -> None:
        """Only once every process of it is gone."""
        self._free.append(tenant)

    def close(self) -> None:
        for tenant in self._free:
            os.close(tenant.owner_map)
        self._free.clear()
        os.close(self._home)

    def start_as(self, tenant: Tenant, places: Sequence[Place], begin: Callable[[dict[str, int]], T]) -> T:
        """Call `begin` as the tenant, with an O_PATH descriptor for each place as it is lent to it."""
        _call(_UNSHARE, _NEWNS)
        try:
            _mount(b"none", b"/", None, _REC_PRIVATE, None)
            _mount(b"tmpfs", os.fsencode(self._stage), b"tmpfs", 0, b"mode=0755,size=1m")
            lent: dict[str, int] = {}
            try:
                for number, place in enumerate(places):
                    lent[place.path] = self._lend(place, f"{self._stage}/{number}", tenant)
                with _as_user(tenant.uid):
                    return begin(lent)
            finally:
                for descriptor in lent.values():
                    os.close(descriptor)
        finally:
            _call(_SETNS, self._home, _NEWNS)

    def _lend(self, place: Place, at: str, tenant: Tenant) -> int:
        try:
            source = os.open(place.path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise WallError(f"{place.path} cannot be opened: {error.strerror}") from None
        try:
            found = os.fstat(source)
            check_same(place, found)
            flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _EMPTY_PATH
            tree = _call(_OPEN_TREE, source, b"", flags)
        finally:
            os.close(source)
        try:
            change = struct.pack("QQQQ", _ATTR_IDMAP, 0, 0, tenant.owner_map)
            _call(_MOUNT_SETATTR, tree, b"", _EMPTY_PATH, change, len(change))
            if stat.S_ISDIR(found.st_mode):
                os.mkdir(at, 0o755)
            else:
                os.close(os.open(at, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644))
            _call(_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(at), _MOVE_MOUNT_F_EMPTY_PATH)
        except OSError as error:
            raise WallError(
                f"{place.path} cannot be lent to a sandbox ({error.strerror}): its file system does not take"
                " part; run Metier as an ordinary user, or grant another folder"
            ) from None
        finally:
            os.close(tree)
        return os.open(at, os.O_PATH | os.O_CLOEXEC)

    def _owner_map(self, uid: int) -> int:
        """A user namespace that maps 0 to `uid`. Bubblewrap makes one and waits; it is gone again before we return."""
        told, tell = os.pipe()
        blocked, unblock = os.pipe()
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


def stage_folder() -> str:
    """A folder that every user can pass through; what TMPDIR names may not be one."""
    for folder in ("/run", "/tmp", "/var/tmp"):  # noqa: S108  only an empty folder of ours is made there
        with suppress(OSError):
            if os.stat(folder).st_mode & stat.S_IXOTH and os.access(folder, os.W_OK):
                return folder
    raise WallError(
        "root has no folder in which a sandbox could be set up: /run, /tmp and /var/tmp are closed"
    )


def check_same(place: Place, found: os.stat_result) -> None:
    """Whether what lies there now is what the call was judged with."""
    if place.inode and (found.st_dev, found.st_ino) != (place.device, place.inode):
        raise WallError(f"{place.path} was replaced after the call was judged")


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
    data = b""
    while not data.rstrip().endswith(b"}"):
        more = os.read(descriptor, 4_096)
        if not more:
            break
        data += more
    return data
