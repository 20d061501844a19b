"""Acts of a guest: time, output, ways to end, and what a run leaves. Each function is a program of its own.

A function is sent into a sandbox as text (and, as the control, started outside), so it imports what it needs itself
and knows nothing of this package but `Tries`, which is sent along. What it gives back is plain JSON.
"""

# pyright: reportUnusedFunction=false

# pyright: basic, reportUnknownMemberType=false
# Programs for the other side: plain, and not worth a type for every list.

from typing import Any


def echo(params: dict[str, Any]) -> Any:
    return params


def loop(params: dict[str, Any]) -> Any:
    while True:
        pass


def regex(params: dict[str, Any]) -> Any:
    import re

    return re.match(r"(a+)+$", "a" * 60 + "b")


def sleep(params: dict[str, Any]) -> Any:
    import time

    time.sleep(params["seconds"])
    return "slept"


def stop(params: dict[str, Any]) -> Any:
    import os
    import signal
    from contextlib import suppress

    with suppress(PermissionError):
        os.setsid()
    if params["group"]:
        os.killpg(0, signal.SIGSTOP)
    else:
        os.kill(os.getpid(), signal.SIGSTOP)
    return "went on"


def end(params: dict[str, Any]) -> Any:
    """End in the way asked for."""
    import os
    import sys

    match params["how"]:
        case "exit":
            os._exit(params["code"])
        case "leave":
            sys.exit(params["code"])
        case "raise":
            raise ValueError(params["text"])
        case _:
            raise NotImplementedError(params["how"])


def crash(params: dict[str, Any]) -> Any:
    """Die of a signal, with as much of a core file as may be had."""
    import os
    import resource

    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    os.kill(os.getpid(), params["signal"])


def core_limit(params: dict[str, Any]) -> Any:
    import resource

    return list(resource.getrlimit(resource.RLIMIT_CORE))


def daemons(params: dict[str, Any]) -> Any:
    """Processes in sessions of their own whose parents are gone. They last `seconds`, and hold no output."""
    import os
    import time

    told, tell = os.pipe()
    for _ in range(params["count"]):
        kid = os.fork()
        if kid == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            os.write(tell, b"%d\n" % os.getpid())
            null = os.open("/dev/null", os.O_RDWR)
            for each in range(3 if params["quiet"] else 0):
                os.dup2(null, each)
            time.sleep(params["seconds"])
            os._exit(0)
        os.waitpid(kid, 0)
    os.close(tell)
    pids = []
    while len(pids) < params["count"]:
        pids += [int(each) for each in os.read(told, 4096).split()]
    for _ in range(params.get("zombies", 0)):
        if os.fork() == 0:
            os._exit(0)
    while params["stay"]:
        time.sleep(1)
    return {"pids": pids}


def deaf(params: dict[str, Any]) -> Any:
    """Ignore and block every signal, ask not to die with the parent, and stay."""
    import ctypes
    import os
    import signal
    import time
    from contextlib import suppress

    for each in signal.Signals:
        with suppress(OSError):
            signal.signal(each, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(os.getpid(), each)
    while params["stay"]:
        time.sleep(1)
    return "still here"


def flood(params: dict[str, Any]) -> Any:
    """Write `mb` to both outputs without a line end; 0 means for ever."""
    import os

    piece, written = b"x" * 65_536, 0
    while not params["mb"] or written < params["mb"] << 20:
        for each in (1, 2):
            os.write(each, piece)
        written += len(piece)
    return "done"


def write(params: dict[str, Any]) -> Any:
    import os

    data = bytes.fromhex(params["hex"])
    while data:
        data = data[os.write(1, data) :]
    return "written"


def talk(params: dict[str, Any]) -> Any:
    """Give back what came in, and print as much meanwhile."""
    import sys

    sys.stdout.write(params["text"])
    sys.stdout.flush()
    return params


def read_input(params: dict[str, Any]) -> Any:
    import os

    first = len(os.read(0, 100))
    return {"first": first, "read": first}


def burn(params: dict[str, Any]) -> Any:
    """A known load: processor time, memory and output, by this process or by a child of it."""
    import os
    import time

    os.write(2, b"e" * params["output"])
    kid = os.fork() if params["child"] else 0
    if not params["child"] or kid == 0:
        held = b"m" * (params["mb"] << 20)
        while time.process_time() < params["cpu"]:
            sum(range(1000))
        if params["child"]:
            os._exit(len(held) & 1)
    else:
        os.waitpid(kid, 0)
    while params["stay"]:
        time.sleep(1)
    return "burned"


def break_itself(params: dict[str, Any]) -> Any:
    """Leave a mark in the temporary folder, be seen in `meet` with a file that is held open, then break as asked for."""
    import ctypes
    import os
    import signal
    import time

    with open(os.path.join(os.environ["TMPDIR"], "mark"), "w") as file:
        file.write("was here")
    held = [open(os.path.join(params["meet"], "ready"), "w")] if params.get("meet") else []  # noqa: SIM115
    if held and params.get("how") == "orphan" and os.fork() == 0:
        os.setsid()
        time.sleep(60)  # it holds whatever we hold
        os._exit(0)
    while held and not os.path.exists(os.path.join(params["meet"], "go")):
        time.sleep(0.005)
    match "crash" if params.get("crash") else params.get("how"):
        case "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        case "violate":
            ctypes.CDLL(None).syscall(*(ctypes.c_long(each) for each in params["call"]))
            os._exit(7)
        case "memory":
            # Each takes less than it may, both together more.
            wait, hold = os.pipe()
            kid = os.fork()
            room = b"x" * (params["mb"] << 20)
            os.close(hold)
            if kid == 0:
                os.read(wait, 1)  # until the other has its own
                os._exit(len(room) & 1)
            os.waitpid(kid, 0)
            os._exit(7)
        case _:
            while True:
                time.sleep(1)


def look_for_mark(params: dict[str, Any]) -> Any:
    """What an earlier run could have left, and numbers nobody should be able to tell in advance."""
    import builtins
    import os
    import random
    import sys

    folders = [os.environ["TMPDIR"], os.environ["HOME"], "/dev/shm", "/tmp", "/var/tmp"]  # noqa: S108
    if params.get("own"):
        folders = folders[:2]
    found = []
    for folder in folders:
        try:
            found += [name for name in os.listdir(folder) if name.startswith("mark")]
        except OSError:
            continue
    said = {
        "files": found,
        "module": "mark" in sys.modules,
        "name": hasattr(builtins, "mark"),
        "variable": "MARK" in os.environ,
        "random": [random.random(), int.from_bytes(os.urandom(4), "big")],  # noqa: S311
    }
    if params["leave"]:
        for folder in folders:
            try:
                with open(os.path.join(folder, "mark"), "w") as file:
                    file.write("was here")
            except OSError:
                continue
        sys.modules["mark"] = sys
        setattr(builtins, "mark", True)  # noqa: B010
        os.environ["MARK"] = "1"
    return said


def keep_words(params: dict[str, Any]) -> Any:
    """Find, leave and take away a word where no file lies: in memory and queues of the kernel, on the folder itself."""
    import ctypes
    import os
    from contextlib import suppress

    libc = ctypes.CDLL(None, use_errno=True)
    own, key, name = os.environ["TMPDIR"], params["key"], f"/metier-kit-{params['key']}".encode()
    by_key = {
        "shared_memory": (lambda flags: libc.shmget(key, 4096, flags), lambda it: libc.shmctl(it, 0, None)),
        "semaphores": (lambda flags: libc.semget(key, 1, flags), lambda it: libc.semctl(it, 0, 0)),
        "messages": (lambda flags: libc.msgget(key, flags), lambda it: libc.msgctl(it, 0, None)),
        "queue": (lambda flags: libc.mq_open(name, flags, 0, None), lambda it: libc.mq_unlink(name)),
    }
    found = []
    for what, (get, remove) in by_key.items():
        if (number := get(0)) >= 0:
            found.append(what)
            if params["take"]:
                remove(number)
        elif params["leave"] and what != "queue":
            get(0o1600)
        elif params["leave"]:
            libc.mq_open(name, os.O_CREAT | os.O_RDWR, 0o600, None)
    with suppress(OSError):
        if os.getxattr(own, "user.metier"):
            found.append("attribute")
    state = os.stat(own)
    found += ["mode"] if state.st_mode & 0o777 == 0o751 else []
    found += ["times"] if int(state.st_mtime) == 1_234_567_890 else []
    if params["leave"]:
        with suppress(OSError):
            os.setxattr(own, "user.metier", b"was here")
        os.chmod(own, 0o751)  # noqa: S103
        os.utime(own, (1_234_567_890, 1_234_567_890))
    return {"did": found}
