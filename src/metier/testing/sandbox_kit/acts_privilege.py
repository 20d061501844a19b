"""Acts of a guest: privilege, system calls. Each function is a program of its own, as in `acts_run`."""

# pyright: basic, reportUnknownMemberType=false
# Programs for the other side: plain, and not worth a type for every list.

from typing import Any

from metier.testing.sandbox_kit.tries import Tries


def privilege(params: dict[str, Any]) -> Any:
    """What the process may do beyond an ordinary one, and what a program started by it may."""
    import ctypes
    import json
    import os
    import struct
    from contextlib import suppress

    libc = ctypes.CDLL(None, use_errno=True)
    sets = ctypes.create_string_buffer(24)
    libc.capget(ctypes.c_char_p(struct.pack("=Ii", 0x20080522, 0)), sets)
    said: dict[str, Any] = {
        "no_new_privileges": libc.prctl(39, 0, 0, 0, 0),
        "capabilities": any(sets.raw),
        "groups": sorted(set(os.getgroups()) - {os.getgid()}),
    }
    tries = Tries()
    with tries("become_root"):
        os.setresuid(0, 0, 0)
        os.chown(params["own"], 12345, 12345)
    with tries("device"):
        os.mknod(os.path.join(os.path.dirname(params["own"]), "device"), 0o600 | 0x2000, os.makedev(1, 3))
    # Each changes the owner of a file, which only a program with another's rights can. By descriptor, and as nobody
    # where we may: outside that is who gains something.
    for name in ("setuid", "capable"):
        if not params.get(name):
            continue
        with tries(f"{name}_program"):
            program = os.open(params[name], os.O_RDONLY)
            folder, _, own = params["own"].rpartition("/")
            os.chdir(folder)
            kid = os.fork()
            if kid == 0:
                with suppress(OSError):
                    os.setgroups([])
                    os.setresgid(65534, 65534, 65534)
                    os.setresuid(65534, 65534, 65534)
                try:
                    os.dup2(os.open("/dev/null", os.O_WRONLY), 2)
                    os.execve(program, ["chown", "12346", own], {})  # noqa: S606  that is the point of it
                finally:
                    os._exit(1)
            if os.waitpid(kid, 0)[1] != 0:
                raise PermissionError("it gained nothing")
    return {**said, **json.loads(json.dumps(tries.said()))}


def set_id(params: dict[str, Any]) -> Any:
    """Leave a program that takes on its owner's rights, by every call that can make one."""
    import ctypes
    import os
    import stat

    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    tries = Tries()

    def made(path: str) -> str:
        with open(path, "w") as file:
            file.write("#!/bin/sh\n")
        return path

    def by_number(number: int, *arguments: Any) -> None:
        given = [
            ctypes.c_char_p(each.encode()) if isinstance(each, str) else ctypes.c_long(each)
            for each in arguments
        ]
        if libc.syscall(ctypes.c_long(number), *given) < 0:
            raise OSError(ctypes.get_errno(), "")

    def chmod(path: str, mode: int) -> None:
        os.chmod(made(path), mode)

    def fchmod(path: str, mode: int) -> None:
        with open(made(path)) as file:
            os.fchmod(file.fileno(), mode)

    def openat2(path: str, mode: int) -> None:
        how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, mode, 0)
        by_number(437, -100, path, ctypes.addressof(how), ctypes.sizeof(how))

    ways = {
        "chmod": chmod,
        "fchmod": fchmod,
        "fchmodat": lambda path, mode: by_number(268, -100, made(path), mode),
        "fchmodat2": lambda path, mode: by_number(452, -100, made(path), mode, 0),
        "open": lambda path, mode: by_number(2, path, os.O_CREAT | os.O_WRONLY, mode),
        "openat": lambda path, mode: os.close(os.open(path, os.O_CREAT | os.O_WRONLY, mode)),
        "openat2": openat2,
        "creat": lambda path, mode: by_number(85, path, mode),
        "mknod": lambda path, mode: os.mknod(path, stat.S_IFREG | mode),
    }
    for name, way in ways.items():
        for who, bits in (("user", stat.S_ISUID), ("group", stat.S_ISGID)):
            path = os.path.join(params["folder"], f"{name}_{who}")
            with tries(f"{name}_{who}"):
                way(path, 0o755 | bits)
                if not os.stat(path).st_mode & bits:
                    raise PermissionError("it only seemed so")
    return tries.said()


def system_calls(params: dict[str, Any]) -> Any:
    """Make calls, each with arguments that do nothing, and tell how each was answered.

    What the kernel itself answered (a bad argument, mostly) got through; EPERM, EACCES and ENOSYS did not.
    """
    import ctypes
    import errno
    import os

    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    tries, answers = Tries(), {}

    def terminal() -> bool:
        try:
            os.close(os.open("/dev/tty", os.O_RDONLY))
        except OSError:
            return False
        return True

    for name, call in params["calls"].items():
        if name == "vhangup" and terminal():
            continue  # it is somebody's, and would be gone
        ctypes.set_errno(0)
        result = libc.syscall(*(ctypes.c_long(each) for each in call))
        number = ctypes.get_errno() if result < 0 else 0
        answers[name] = errno.errorcode.get(number, "") if number else "done"
        with tries(name):
            if number in (errno.EPERM, errno.EACCES, errno.ENOSYS):
                raise OSError(number, "")
    return {**tries.said(), "answers": answers}


def other_word(params: dict[str, Any]) -> Any:
    """Ask for our own number as a program of another machine word would, where every call has another number."""
    import ctypes
    import os

    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    tries = Tries()
    if params["word"] == "x32":
        with tries("x32"):
            if libc.syscall(ctypes.c_long(0x40000000 | 39)) != os.getpid():
                raise OSError(ctypes.get_errno(), "")
        return tries.said()
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    room = libc.mmap(None, 4096, 7, 0x22, -1, 0)
    code = b"\xb8\x14\0\0\0\xcd\x80\xc3"  # mov eax, 20; int 0x80; ret
    with tries("i386"):
        if room in (None, 2**64 - 1):
            raise OSError("no memory to run code in")
        ctypes.memmove(room, code, len(code))
        if ctypes.CFUNCTYPE(ctypes.c_int)(room)() != os.getpid():
            raise OSError("it was not answered")
    return tries.said()
