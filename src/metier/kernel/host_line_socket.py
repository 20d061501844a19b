"""Where the host is reached: a socket and a key in the state folder, both this user's alone.

The folder keeps other users out, the kernel says who is at the other end, and the key shows that he can read the state. The key
is made anew at every start; it is in no log and no message.
"""

import hmac
import os
import secrets
import socket
import stat
import struct
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final, final

import anyio
from anyio import to_thread
from anyio.abc import SocketAttribute, SocketListener, UNIXSocketStream
from msgspec import Struct

from metier.errors import NoHost, StateError
from metier.kernel.host_line_words import BUSY
from metier.kernel.host_role import holder
from metier.kernel.operation import OperationError
from metier.record.private import make_private_folder, require_private

SOCKET: Final = "host.sock"
KEY: Final = "host.key"
START: Final = "Start one with `metier host`"
_KEY_BYTES: Final = 32
_BACKLOG: Final = 256
_LONGEST: Final = 100
"""Of an address, in bytes: the kernel takes 107 and a zero."""
_UCRED: Final = struct.Struct("3i")


@final
class Peer(Struct, frozen=True, kw_only=True):
    """Who is at the other end, as the kernel knows it."""

    pid: int
    uid: int


@final
class Key:
    """Of one start. It can be compared, and not printed."""

    __slots__ = ("_text",)

    def __init__(self, text: bytes) -> None:
        self._text = text

    def __repr__(self) -> str:
        return "Key(…)"

    def is_shown_by(self, line: bytes) -> bool:
        """Whether `line` is the key. How long that takes tells nothing."""
        return hmac.compare_digest(self._text, line)

    def line(self) -> bytes:
        """To be sent to the host, and nowhere else."""
        return self._text + b"\n"


@contextmanager
def listening(home: str) -> Generator[tuple[socket.socket, Key]]:
    """The socket and its key. Only for who holds the host role: what an earlier one left is removed.

    Raises:
        StateError: when they cannot be made.
    """
    opened, key, own = _opened(home)
    try:
        yield opened, key
    finally:
        _clear(home, key, own)
        opened.close()


def _clear(home: str, key: Key, own: os.stat_result) -> None:
    """Take both away, unless they are another host's by now: somebody may have removed the lock of this one."""
    path = os.path.join(home, SOCKET)
    with suppress(OSError):
        if os.path.samestat(os.lstat(path), own):
            os.unlink(path)
    path = os.path.join(home, KEY)
    with suppress(OSError):
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            ours = key.is_shown_by(file.read(4 * _KEY_BYTES))
        if ours:
            os.unlink(path)


def _opened(home: str) -> tuple[socket.socket, Key, os.stat_result]:
    if not hasattr(socket, "SO_PEERCRED"):
        raise StateError("this system does not say who is at the other end of a socket", remedy="Use Linux")
    make_private_folder(home)
    path = os.path.join(home, SOCKET)
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_socket(path)
        key = _made_key(home)
        with _address(home) as address:
            opened.bind(address)
        os.chmod(path, 0o600)  # nobody can have connected: it does not listen yet
        own = os.lstat(path)
        opened.setblocking(False)
        opened.listen(_BACKLOG)
    except OSError as error:
        opened.close()
        raise StateError(
            f"the host cannot be reached at {path}: {error.strerror}",
            remedy="Look at what lies there, and at the mode and the free space of the state folder",
        ) from error
    except BaseException:
        opened.close()
        raise
    return opened, key, own


async def listener_of(opened: socket.socket) -> SocketListener:
    """The same, for the loop."""
    return await SocketListener.from_socket(opened)


async def connected(home: str) -> UNIXSocketStream:
    """A connection to the host.

    Raises:
        NoHost: when nobody is there, or somebody else.
        OperationError: when somebody is there, and cannot be reached for another reason.
    """
    try:
        with _address(home) as address:
            stream = await anyio.connect_unix(address)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise await to_thread.run_sync(_nobody, home) from error
    except OSError as error:
        raise OperationError(
            BUSY, f"the host cannot be reached now: {error.strerror}; nothing was done, try again in a moment"
        ) from None
    if peer_of(stream).uid != os.geteuid():
        await stream.aclose()
        raise NoHost(f"what answers at {SOCKET} in the state folder is another user's", remedy=START)
    return stream


def peer_of(stream: UNIXSocketStream) -> Peer:
    """Who is at the other end."""
    raw: socket.socket = stream.extra(SocketAttribute.raw_socket)  # noqa: S610  not Django's
    pid, uid, _ = _UCRED.unpack(raw.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return Peer(pid=pid, uid=uid)


def read_key(home: str) -> Key:
    """The key of the host that runs now.

    Raises:
        NoHost: when there is none that can be trusted.
    """
    path = os.path.join(home, KEY)
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            own = status.st_uid == os.geteuid() and stat.S_ISREG(status.st_mode)
            if not own or stat.S_IMODE(status.st_mode) & 0o077:
                raise NoHost(
                    f"{path} is not a file of yours that nobody else can read",
                    remedy="Look who changed it, then stop the host and start it again: it makes another key",
                )
            return Key(file.read(4 * _KEY_BYTES))
    except FileNotFoundError as error:
        raise _nobody(home) from error
    except OSError as error:
        raise NoHost(
            f"the key of the host, {path}, cannot be read: {error.strerror}",
            remedy="Look at what lies there, then stop the host and start it again: it makes another key",
        ) from error


def _nobody(home: str) -> NoHost:
    """Why nobody answers."""
    try:
        there = holder(home)
    except StateError as error:
        return NoHost(error.message, remedy=error.remedy)
    if there is None:
        return NoHost("nothing runs as the host", remedy=START)
    return NoHost(
        f"{there} holds the host role, and nobody listens at {SOCKET} in the state folder: it only just begins or ends, or "
        f"somebody removed {SOCKET} or {KEY}",
        remedy="Try again in a moment; if it stays so, end that process by its number, then start another with `metier host`",
    )


def _made_key(home: str) -> Key:
    """One that nobody knows yet, in the place of the last. There is never half of one."""
    path = os.path.join(home, KEY)
    draft = f"{path}.{os.urandom(8).hex()}"
    key = Key(secrets.token_hex(_KEY_BYTES).encode())
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(key.line()[:-1])
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise
    require_private(path, folder=False)
    return key


def _remove_socket(path: str) -> None:
    """What a host that was killed left. Anything else is not ours to remove."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise StateError(f"{path} is not a socket of ours", remedy="Look at it, and move it away")
        os.unlink(path)


@contextmanager
def _address(home: str) -> Generator[str]:
    """The socket's name, short enough for the kernel however long the folder's is."""
    path = os.path.join(home, SOCKET)
    if len(os.fsencode(path)) <= _LONGEST:
        yield path
        return
    folder = os.open(home, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{SOCKET}"
    finally:
        os.close(folder)
