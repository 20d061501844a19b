"""Acts of a guest: neighbours, terminals, code made at run time. Each function is a program of its own, as in `acts_run`."""

# pyright: basic, reportUnknownMemberType=false
# Programs for the other side: plain, and not worth a type for every list.

from typing import Any

from metier.testing.sandbox_kit.tries import Tries


def others(params: dict[str, Any]) -> Any:
    """See, signal and trace processes that are not of this run."""
    import ctypes
    import os
    import resource
    from contextlib import suppress

    tries = Tries()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.restype = ctypes.c_long
    for who, pid in params["pids"].items():
        with tries(f"signal_{who}"):
            os.kill(pid, 0)
        with tries(f"see_{who}"), suppress(PermissionError):  # refused, it still tells that there is one
            os.kill(pid, 0)
        with tries(f"look_{who}"):
            os.stat(f"/proc/{pid}/status")
        with tries(f"hold_{who}"):
            os.close(os.pidfd_open(pid))
        with tries(f"limit_{who}"):
            resource.prlimit(pid, resource.RLIMIT_CORE)
        with tries(f"slow_{who}"):
            os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid))
    if params["everybody"]:
        with tries("signal_everybody"):
            os.kill(-1, 0)
            if len([name for name in os.listdir("/proc") if name.isdigit()]) < params["everybody"]:
                raise ProcessLookupError
    return tries.said()


def stay(params: dict[str, Any]) -> Any:
    """Write something of its own where only it may, say where that is, and go on for a while."""
    import os
    import time

    mine = os.path.join(os.environ["TMPDIR"], "of-a-neighbour")
    with open(mine, "w") as file:
        file.write(params["secret"])
    told = os.path.join(params["folder"], "where")
    with open(told + ".new", "w") as file:
        file.write(mine)
    os.rename(told + ".new", told)
    time.sleep(params["seconds"])


def files_of_others(params: dict[str, Any]) -> Any:
    """Reach what a run that goes on at the same time has, by its name or through its process."""
    import os

    tries = Tries()
    file, secret = params["file"], params["secret"]
    name = os.path.basename(file)

    def read(path: str) -> None:
        with open(path) as opened:
            if secret not in opened.read():
                raise OSError("it is another one")

    with tries("read"):
        read(file)
    with tries("write"):
        os.close(os.open(file, os.O_WRONLY))
    with tries("list"):
        if name not in os.listdir(os.path.dirname(file)):
            raise OSError("it is another one")
    with tries("beside"):
        beside = os.path.dirname(os.environ.get("TMPDIR") or os.getcwd())
        if not [each for each in os.listdir(beside) if os.path.exists(os.path.join(beside, each, name))]:
            raise OSError("there is nobody")
    with tries("granted"):
        os.listdir(params["granted"])
    for pid in params["pids"]:
        with tries("by_its_root"):
            read(f"/proc/{pid}/root{file}")
        with tries("by_its_folder"):
            os.listdir(f"/proc/{pid}/cwd")
        with tries("by_its_descriptors"):
            os.listdir(f"/proc/{pid}/fd")
    return tries.said()


def trace(params: dict[str, Any]) -> Any:
    """Read another process's memory. Apart from `others`, because it is a violation."""
    import ctypes
    import os

    tries = Tries()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.process_vm_readv.restype = ctypes.c_long
    libc.ptrace.restype = ctypes.c_long
    how = params.get("how", ["ptrace", "process_vm_readv"])
    if "ptrace" in how:
        with tries("attach"):
            if libc.ptrace(16, params["pid"], None, None) != 0:
                raise OSError(ctypes.get_errno(), "ptrace")
            os.waitpid(params["pid"], 0x40000000)
            libc.ptrace(17, params["pid"], None, None)
    if "process_vm_readv" in how:
        with tries("read"):
            room = ctypes.create_string_buffer(8)
            mine = (ctypes.c_void_p * 2)(ctypes.addressof(room), 8)
            theirs = (ctypes.c_void_p * 2)(params["address"], 8)
            if libc.process_vm_readv(params["pid"], mine, 1, theirs, 1, 0) != 8:
                raise OSError(ctypes.get_errno(), "process_vm_readv")
    return tries.said()


def terminal(params: dict[str, Any]) -> Any:
    import fcntl
    import os

    tries = Tries()
    with tries("open"):
        os.close(os.open("/dev/tty", os.O_RDWR))
    with tries("type"):
        given = os.open("/dev/tty", os.O_RDWR)
        fcntl.ioctl(given, 0x5412, b"x")
    for number in (0, 1, 2):
        with tries(f"type_{number}"):
            fcntl.ioctl(number, 0x5412, b"x")
        with tries(f"terminal_{number}"):
            if not os.isatty(number):
                raise OSError("it is none")
    return tries.said()


def made_code(params: dict[str, Any]) -> Any:
    """Make code at run time and have it read what was not granted."""
    import ctypes
    import os

    file, secret, python = params["file"], params["secret"], params["python"]
    folder = params["folder"] or os.environ["TMPDIR"]
    tries = Tries()
    reading = f"print(open({file!r}).read())"

    def output(path: str, argv: list[str]) -> None:
        told, tell = os.pipe()
        null = os.open("/dev/null", os.O_WRONLY)
        actions = [(os.POSIX_SPAWN_DUP2, tell, 1), (os.POSIX_SPAWN_DUP2, null, 2)]
        kid = os.posix_spawn(path, argv, {}, file_actions=actions)
        os.close(tell)
        data = b""
        while more := os.read(told, 4096):
            data += more
        os.waitpid(kid, 0)
        if secret.encode() not in data:
            raise PermissionError("not there")

    with tries("evaluated"):
        if secret not in eval(f"open({file!r}).read()"):  # noqa: S307
            raise PermissionError
    with tries("by_its_frames"):
        builtins = next(
            each for each in ().__class__.__mro__[1].__subclasses__() if each.__name__ == "_wrap_close"
        ).__init__.__globals__["__builtins__"]  # pyright: ignore[reportAttributeAccessIssue]
        opened = (builtins if isinstance(builtins, dict) else vars(builtins))["open"]
        if secret not in opened(file).read():
            raise PermissionError
    with tries("by_foreign_functions"):
        libc = ctypes.CDLL(None, use_errno=True)
        number = libc.open(file.encode(), 0)
        if number < 0 or secret.encode() not in os.read(number, 4096):
            raise PermissionError
    with tries("by_a_shell"):
        output("/bin/sh", ["sh", "-c", f"cat '{file}'"])
    with tries("by_another_interpreter"):
        output(python, [python, "-I", "-S", "-c", reading])
    with tries("by_the_loader"):
        loader = next(
            path
            for path in ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1")
            if os.path.exists(path)
        )
        output(loader, [loader, os.path.realpath("/bin/cat"), file])
    with tries("from_memory"):
        held = os.memfd_create("program", 0)
        with open(os.path.realpath("/bin/cat"), "rb") as program:
            os.write(held, program.read())
        output(f"/proc/self/fd/{held}", ["cat", file])
    with tries("by_a_copy"):
        path = os.path.join(folder, "copy")
        with open(os.path.realpath("/bin/cat"), "rb") as program, open(path, "wb") as copy:
            copy.write(program.read())
        os.chmod(path, 0o755)  # noqa: S103
        output(path, ["cat", file])
    with tries("by_a_script"):
        path = os.path.join(folder, "script")
        with open(path, "w") as script:
            script.write(f"#!/bin/cat {file}\n")
        os.chmod(path, 0o755)  # noqa: S103
        output(path, [path])
    with tries("by_its_own_interpreter"):
        os.chdir(folder or ".")  # a first line may have 255 bytes, and two whole paths may be more
        with open(os.path.realpath("/bin/cat"), "rb") as program, open("interpreter", "wb") as copy:
            copy.write(program.read())
        with open("interpreted", "w") as script:
            script.write(f"#!./interpreter {file}\n")
        for each in ("interpreter", "interpreted"):
            os.chmod(each, 0o755)  # noqa: S103
        output("./interpreted", ["./interpreted"])
    return tries.said()
