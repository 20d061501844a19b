"""The locks a process puts on itself inside a sandbox: Landlock, the seccomp filter, and giving up capabilities.

Runs where the package is not importable, in a process that should start at once: standard library only, and
little of it. Everything binds the calling thread, and what that thread starts, for ever.
What cannot be done raises OSError; nothing is left open silently. Written for Linux on x86-64.
"""

import ctypes
import errno
import fcntl
import os
import select
import stat
import struct

TYPE_CHECKING = False  # importing typing for this would be a third of the start-up time
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

if TYPE_CHECKING or __package__:
    from metier.sandbox.guest.syscall_filter import DENIED, NUMBERS, SUPPORTED, name_of, need_this_machine
else:  # inside a box the files of this folder lie beside each other and belong to no package
    from syscall_filter import DENIED, NUMBERS, SUPPORTED, name_of, need_this_machine

# --- Landlock -----------------------------------------------------------------------------------------------------

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_MAKE_CHAR, _MAKE_BLOCK, _TRUNCATE, _IOCTL_DEV = 1 << 6, 1 << 11, 1 << 14, 1 << 15
_FOR_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_CONNECT_TCP = 2
_RULE_PATH, _RULE_PORT = 1, 2


def landlock_abi() -> int:
    """The version of Landlock here; 0 when there is none."""
    if not SUPPORTED:
        return 0
    try:
        return _syscall("landlock_create_ruleset", 0, 0, 1)
    except OSError:
        return 0


def ruleset(
    *,
    read: "Sequence[str | int]",
    execute: "Sequence[str | int]",
    write: "Sequence[str | int]",
    connect: "Sequence[int]" = (),
) -> int:
    """A descriptor of rules that close everything this Landlock knows but the paths given, and TCP but to the ports
    in `connect`. `execute` and `write` may be read as well; what can be written cannot be executed.

    A path is text, links followed, or a descriptor that stays the caller's. One that is missing raises OSError.
    """
    need_this_machine()
    abi = landlock_abi()
    if abi < 1:
        raise OSError(errno.ENOSYS, "this kernel has no Landlock, or it is switched off")
    handled = (1 << (13 if abi < 2 else 14 if abi < 3 else 15 if abi < 5 else 16)) - 1
    attributes = struct.pack("=QQQ", handled, 3 if abi >= 4 else 0, 3 if abi >= 6 else 0)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    rules = _syscall("landlock_create_ruleset", attributes, size, 0)
    reading = _READ_FILE | _READ_DIR
    writing = handled & ~(_EXECUTE | _MAKE_CHAR | _MAKE_BLOCK)
    try:
        for rights, paths in ((reading, read), (reading | _EXECUTE, execute), (writing, write)):
            for path in paths:
                _allow(rules, path, rights)
        for port in connect if abi >= 4 else ():
            _syscall("landlock_add_rule", rules, _RULE_PORT, struct.pack("=QQ", _CONNECT_TCP, port), 0)
    except BaseException:
        os.close(rules)
        raise
    return rules


def _allow(rules: int, path: str | int, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC) if isinstance(path, str) else path
    try:
        # A device is only ever meant when it is named itself; for a file other rights are an error.
        folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        rights &= ~_IOCTL_DEV if folder else _FOR_FILES
        _syscall("landlock_add_rule", rules, _RULE_PATH, struct.pack("=Qi", rights, descriptor), 0)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    finally:
        if isinstance(path, str):
            os.close(descriptor)


# --- Putting it on ------------------------------------------------------------------------------------------------

_SET_NO_NEW_PRIVS, _GET_NO_NEW_PRIVS = 38, 39
_SET_MODE_FILTER = 1
_NEW_LISTENER, _WAIT_KILLABLE = 8, 32


def restrict(ruleset_fd: int, bpf: bytes, *, notify: bool) -> int:
    """Bind the calling thread to the rules (none when `ruleset_fd` is negative) and the filter; other threads stay
    free. Gives the listener of the filter, closed on exec, or -1. After an OSError end the thread: it may be half bound.
    """
    need_this_machine()
    _prctl(_SET_NO_NEW_PRIVS, 1)
    if ruleset_fd >= 0:
        _syscall("landlock_restrict_self", ruleset_fd, 0)
    code = ctypes.create_string_buffer(bpf, len(bpf))
    filter_program = struct.pack("@HxxxxxxQ", len(bpf) // 8, ctypes.addressof(code))
    if not notify:
        _syscall("seccomp", _SET_MODE_FILTER, 0, filter_program)
        return -1
    try:
        # So that a signal does not make the caller ask, and be counted, twice.
        return _syscall("seccomp", _SET_MODE_FILTER, _NEW_LISTENER | _WAIT_KILLABLE, filter_program)
    except OSError as error:
        if error.errno != errno.EINVAL:  # before Linux 5.19
            raise
        return _syscall("seccomp", _SET_MODE_FILTER, _NEW_LISTENER, filter_program)


class Notice:
    """A system call that was stopped and waits for an answer."""

    __slots__ = ("args", "id", "name", "nr", "pid")

    def __init__(self, id: int, pid: int, nr: int, arch: int, args: tuple[int, ...]) -> None:
        self.id = id
        self.pid = pid
        self.nr = nr
        self.name = name_of(nr, arch)
        self.args = args

    @property
    def violation(self) -> bool:
        """Otherwise it is a denial."""
        return self.name not in DENIED

    @property
    def error(self) -> int:
        """What to refuse it with, the same as without a listener."""
        return DENIED.get(self.name, errno.EPERM)


_RECEIVE, _SEND = 0xC0502100, 0xC0182101


def receive(listener: int) -> Notice | None:
    """The next call that waits, or None when there is none (any more: its caller may have died meanwhile).

    Never blocks. Wait with `poll` for POLLIN; POLLHUP means that nobody is left who could call. `select` cannot tell
    the two apart and would spin.
    """
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    if not any(event & select.POLLIN for _, event in poll.poll(0)):
        return None
    room = bytearray(80)  # the kernel wants it zeroed
    try:
        fcntl.ioctl(listener, _RECEIVE, room, True)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINTR):
            return None
        raise
    number, pid, _, nr, arch, _, *args = struct.unpack("=QIIiIQ6Q", room)
    return Notice(number, pid, nr, arch, tuple(args))


def refuse(listener: int, notice: Notice, error: int) -> None:
    """Let the waiting call fail with `error`. There is no way to let one pass: its arguments can change meanwhile."""
    if not 0 < error < 4096:
        raise ValueError(f"{error} is not an error number")
    try:
        fcntl.ioctl(listener, _SEND, struct.pack("=QqiI", notice.id, 0, -error, 0))
    except OSError as failed:
        if failed.errno != errno.ENOENT:  # its caller died, or was interrupted and will ask again
            raise


# --- Giving up capabilities ---------------------------------------------------------------------------------------

_GET_KEEP_CAPS, _DROP_FROM_BOUNDS, _SET_SECURE_BITS, _AMBIENT = 7, 24, 28, 47
_AMBIENT_CLEAR_ALL = 4
_ROOT_IS_NOBODY = 0xEF  # NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE, each locked; KEEP_CAPS locked off
_CAPABILITY_VERSION = 0x20080522


def drop_capabilities() -> None:
    """Give up every capability of the calling thread and the way back to them, user 0 included. Call it while there
    is one thread."""
    need_this_machine()
    _empty_bounds()
    locked = True
    try:
        _prctl(_SET_SECURE_BITS, _ROOT_IS_NOBODY)
    except OSError as error:
        if error.errno != errno.EPERM:
            raise
        locked = False
    _empty_capabilities()
    if not locked and 0 in os.getresuid() and not _prctl(_GET_NO_NEW_PRIVS):
        raise OSError(errno.EPERM, "user 0 would get its capabilities back with the next program")


def _empty_bounds() -> None:
    for capability in range(64):
        try:
            _prctl(_DROP_FROM_BOUNDS, capability)
        except OSError:  # EINVAL: past the last one. EPERM: without privilege there is nothing to take from
            return


def _empty_capabilities() -> None:
    """All sets of the calling thread; what is not permitted cannot be ambient either."""
    _prctl(_AMBIENT, _AMBIENT_CLEAR_ALL)
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    _syscall("capset", header, bytes(24))
    left = ctypes.create_string_buffer(24)
    _syscall("capget", header, ctypes.addressof(left))
    if any(left.raw) or _prctl(_GET_KEEP_CAPS):
        raise OSError(errno.EPERM, "a capability is left after all were dropped")


# --- The kernel's door --------------------------------------------------------------------------------------------


def _syscall(name: str, *arguments: int | bytes) -> int:
    passed: Iterable[object] = (
        ctypes.c_char_p(each) if isinstance(each, bytes) else ctypes.c_long(each) for each in arguments
    )
    return _checked_result(name, _libc().syscall(ctypes.c_long(NUMBERS[name]), *passed))


def _prctl(option: int, argument: int = 0) -> int:
    zero = ctypes.c_ulong(0)
    result = _libc().prctl(ctypes.c_int(option), ctypes.c_ulong(argument), zero, zero, zero)
    return _checked_result(f"prctl({option})", result)


def _checked_result(what: str, result: int) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc
