"""Acts of a guest: network, privilege, neighbours. Each function is a program of its own, as in `acts_run`."""

# pyright: basic, reportUnknownMemberType=false
# Programs for the other side: plain, and not worth a type for every list.

from typing import Any

from metier.testing.sandbox_kit.tries import Tries


def network(params: dict[str, Any]) -> Any:
    """Reach the host's own loopback, or make a socket of a family that reaches anything else."""
    import os
    import socket

    tries = Tries()
    with tries("tcp"):
        socket.create_connection(("127.0.0.1", params["tcp"]), 1).close()
    with tries("tcp_version_6"):
        socket.create_connection(("::1", params["tcp6"]), 1).close()
    with tries("udp"), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.settimeout(1)
        made.sendto(b"out", ("127.0.0.1", params["udp"]))
        made.recv(10)
    with tries("listen"), socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        made.listen()
    with tries("icmp"), socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP):
        pass
    with tries("raw"), socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP):
        pass
    for family in ("AF_NETLINK", "AF_VSOCK", "AF_PACKET", "AF_ALG"):
        with tries(family):
            kind = socket.SOCK_SEQPACKET if family == "AF_ALG" else socket.SOCK_RAW
            socket.socket(getattr(socket, family), kind).close()
    with tries("names"):
        socket.getaddrinfo("localhost", params["tcp"], proto=socket.IPPROTO_TCP)
        if not os.path.exists("/etc/hosts"):
            raise OSError("nobody was asked")
    bash = "/bin/bash"
    with tries("shell"):
        line = f"exec 3<>/dev/tcp/127.0.0.1/{params['tcp']}"
        out = os.open("/dev/null", os.O_WRONLY)
        actions = [(os.POSIX_SPAWN_DUP2, out, 2)]
        kid = os.posix_spawn(bash, [bash, "-c", line], {}, file_actions=actions)
        if os.waitpid(kid, 0)[1] != 0:
            raise PermissionError("refused")
    return tries.said()


def unix_sockets(params: dict[str, Any]) -> Any:
    import socket

    tries = Tries()
    for name in ("abstract", "path"):
        address = "\0" + params[name] if name == "abstract" else params[name]
        for kind, number in (("stream", socket.SOCK_STREAM), ("datagram", socket.SOCK_DGRAM)):
            with tries(f"{name}_{kind}"), socket.socket(socket.AF_UNIX, number) as made:
                made.settimeout(1)
                made.connect(address + ("" if kind == "stream" else ".dgram"))
        with tries(f"{name}_by_a_pair"):
            one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            with one, two:
                one.sendto(b"out", address + ".dgram")
    return tries.said()


def privilege(params: dict[str, Any]) -> Any:
    """What the process may do beyond an ordinary one, and what a program started by it may."""
    import ctypes
    import json
    import os
    import struct

    libc = ctypes.CDLL(None, use_errno=True)
    sets = ctypes.create_string_buffer(24)
    libc.capget(ctypes.c_char_p(struct.pack("=Ii", 0x20080522, 0)), sets)
    said: dict[str, Any] = {
        "no_new_privileges": libc.prctl(39, 0, 0, 0, 0),
        "capabilities": any(sets.raw),
        "groups": [each for each in os.getgroups() if each not in (65534, os.getgid())],
    }
    tries = Tries()
    with tries("become_root"):
        os.setresuid(0, 0, 0)
        os.chown(params["own"], 12345, 12345)
    with tries("device"):
        os.mknod(os.path.join(os.path.dirname(params["own"]), "device"), 0o600 | 0x2000, os.makedev(1, 3))
    with tries("setuid_program"):
        told, tell = os.pipe()
        os.set_inheritable(tell, True)
        kid = os.posix_spawn(params["setuid"], ["x", "-u"], {}, file_actions=[(os.POSIX_SPAWN_DUP2, tell, 1)])
        os.close(tell)
        user = os.read(told, 100).strip()
        if os.waitpid(kid, 0)[1] != 0 or user != b"0" or os.geteuid() == 0:
            raise PermissionError("it gained nothing")
    return {**said, **json.loads(json.dumps(tries.said()))}


def system_calls(params: dict[str, Any]) -> Any:
    """Make calls, each with arguments that do nothing, and tell how each was answered.

    What the kernel itself answered (a bad argument, mostly) got through; EPERM, EACCES and ENOSYS did not.
    """
    import ctypes
    import errno

    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    tries, answers = Tries(), {}
    for name, call in params["calls"].items():
        ctypes.set_errno(0)
        result = libc.syscall(*(ctypes.c_long(each) for each in call))
        number = ctypes.get_errno() if result < 0 else 0
        answers[name] = errno.errorcode.get(number, "") if number else "done"
        with tries(name):
            if number in (errno.EPERM, errno.EACCES, errno.ENOSYS):
                raise OSError(number, "")
    return {**tries.said(), "answers": answers}


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
    return tries.said()
