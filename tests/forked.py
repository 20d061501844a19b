"""The `metier` command for tests that start it often.

To start an interpreter and import everything takes ten times as long as most commands do. So a process that has imported it all
stands ready, and each command is a fork of it: a process of its own, with its own streams, folder, environment and exit status.
What only a start shows (a name that nobody imported, say) is seen as well: the first of each kind of command is started.
"""

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

PROGRAM = os.path.join(os.path.dirname(sys.executable), "metier")
KNOWN = {"HOME", "PATH", "LANG", "PYTHONPATH"}
"""With those of our own, what an environment may have: nothing looks at it before a command begins, or it is alike for all."""
MOST_BYTES = 100_000
"""Of one question; a longer one might not fit into a packet."""

_started: set[tuple[str, ...]] = set()
_ready: "list[tuple[socket.socket, subprocess.Popen[bytes]]]" = []
_lock = threading.Lock()


def metier(
    args: Sequence[str], *, cwd: str, env: Mapping[str, str], stdin: str, umask: int, seconds: float
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` of the command; what it writes is UTF-8."""
    kind, line = tuple(args[:2]), [PROGRAM, *args]
    asked = json.dumps({"argv": line, "cwd": cwd, "env": dict(env), "umask": umask}).encode()
    if kind not in _started or not _is_alike(env) or len(asked) > MOST_BYTES or not _can_be_said(line):
        _started.add(kind)
        return subprocess.run(
            line,
            cwd=cwd,
            env=env,
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=seconds,
            umask=umask,
        )
    return _forked(line, asked, stdin, seconds)


def _surroundings() -> dict[str, str]:
    """What an interpreter looks at when it starts."""
    return {"LANG": "C.UTF-8", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}


def _is_alike(env: Mapping[str, str]) -> bool:
    others = {name for name in env if not name.startswith("METIER_")} - KNOWN
    return not others and all(env.get(name, "") == value for name, value in _surroundings().items())


def _can_be_said(line: Sequence[str]) -> bool:
    """Whether a command line can hold it: nothing else may reach a command, and who tries is told as ever."""
    try:
        return not any(b"\0" in os.fsencode(each) for each in line)
    except UnicodeEncodeError:
        return False


def _forked(line: list[str], asked: bytes, stdin: str, seconds: float) -> subprocess.CompletedProcess[str]:
    (given, give), (told, tell), (erred, err), (ended, end) = (os.pipe() for _ in range(4))
    try:
        _ask(asked, [given, tell, err, end])
    finally:
        for theirs in (given, tell, err, end):
            os.close(theirs)
    said = [b"", b""]

    def read(number: int, pipe: int) -> None:
        with os.fdopen(pipe, "rb") as file:
            said[number] = file.read()

    def write() -> None:
        try:
            with os.fdopen(give, "wb") as file:
                file.write(stdin.encode())
        except BrokenPipeError:
            pass  # it ended without reading on, as it may

    doing = [threading.Thread(target=read, args=each) for each in enumerate((told, erred))]
    doing.append(threading.Thread(target=write))
    for each in doing:
        each.start()
    late: list[int] = []
    with os.fdopen(ended, "rb") as file:
        pid = int(file.readline())
        timer = threading.Timer(seconds, lambda: (late.append(pid), os.kill(pid, signal.SIGKILL)))
        timer.start()
        status = int(file.readline())
    for each in doing:
        each.join()
    timer.cancel()
    stdout, stderr = said[0].decode(), said[1].decode()
    if late:
        raise subprocess.TimeoutExpired(line, seconds, stdout, stderr)
    return subprocess.CompletedProcess(line, status, _universal(stdout), _universal(stderr))


def _universal(text: str) -> str:
    """Line ends as `subprocess` gives them."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _ask(asked: bytes, pipes: list[int]) -> None:
    with _lock:
        for again in (True, False):
            if not _ready:
                _ready.append(_stand_ready())
            try:
                socket.send_fds(_ready[0][0], [asked], pipes)
                return
            except (BrokenPipeError, ConnectionResetError):  # some tests end every process there is
                _let_go(*_ready.pop())
                if not again:
                    raise


def _stand_ready() -> "tuple[socket.socket, subprocess.Popen[bytes]]":
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    line = [sys.executable, os.path.abspath(__file__), str(theirs.fileno())]
    with theirs:
        process = subprocess.Popen(line, env=_surroundings(), cwd="/", pass_fds=[theirs.fileno()], **streams)
    return ours, process


def _let_go(line: socket.socket, process: "subprocess.Popen[bytes]") -> None:
    line.close()  # which ends it
    with process:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


@atexit.register
def _end() -> None:
    while _ready:
        _let_go(*_ready.pop())


# In the process that stands ready


def _import_all() -> None:
    import importlib
    import pkgutil

    import anyio._backends._asyncio  # pyright: ignore[reportUnusedImport]  # noqa: F401
    import rfc8785  # pyright: ignore[reportUnusedImport]  # noqa: F401

    import metier.dialects
    import metier.doors.cli
    import metier.runtime

    for package in (metier.doors.cli, metier.dialects):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    gc.freeze()


def _next(line: socket.socket) -> bool:
    """Wait until a command is asked for and fork it; whether this is the fork. Ends when nobody can ask any more."""
    under_way: dict[int, int] = {}
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([line, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            while under_way and (found := os.waitpid(-1, os.WNOHANG))[0]:
                end = under_way.pop(found[0])
                os.write(end, b"%d\n" % os.waitstatus_to_exitcode(found[1]))
                os.close(end)
        if line not in ready:
            continue
        asked, pipes, _, _ = socket.recv_fds(line, MOST_BYTES, 4)
        if not asked:
            sys.exit()
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for each in (woken, wake, *under_way.values()):
                os.close(each)
            line.close()
            _become(json.loads(asked), pipes)
            return True
        os.write(pipes[3], b"%d\n" % pid)
        under_way[pid] = pipes[3]
        for each in pipes[:3]:
            os.close(each)


def _become(asked: dict[str, Any], pipes: list[int]) -> None:
    for number, each in enumerate(pipes[:3]):
        os.dup2(each, number)
    for each in pipes:
        os.close(each)
    os.chdir(asked["cwd"])
    if asked["umask"] != -1:
        os.umask(asked["umask"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.argv = asked["argv"]


if __name__ == "__main__":
    sys.path[0] = os.path.dirname(PROGRAM)  # as it is where the command is started
    _import_all()
    _next(socket.socket(fileno=int(sys.argv[1])))
    from metier.__main__ import main

    main()
