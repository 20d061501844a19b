"""Runs inside the sandbox, before any code of a skill, and starts one run at a time there.

The host speaks to it over one socket (`control.py`). Each run is restricted once more (Landlock, system calls, no new
privileges) before it begins. It is ended at its first violation. When its main process has ended, everything else it
started is killed and reaped, and the temporary folders are emptied, before the next.

Standard library only: the package is not importable here.
"""

import ctypes
import errno
import fcntl
import os
import resource
import select
import signal
import socket
import sys
import threading
import time

TYPE_CHECKING = False  # importing typing would cost a good part of the start-up time
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from metier.sandbox.guest import aftermath, before, confine, syscall_filter
    from metier.sandbox.guest.control import Control

    Message: TypeAlias = dict[str, Any]
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # an isolated interpreter leaves it out
    import aftermath
    import before
    import confine
    import syscall_filter
    from control import Control

FAMILIES = 64
"""Address families up to here are told apart; a run cannot make a list grow by inventing more."""
LAST_WORDS_SECONDS = 0.01
OWN = {"RLIMIT_DATA": 96 << 20, "RLIMIT_NOFILE": 4_096}
"""What we need ourselves, where a run may have less. Of descriptors that are under way in sockets the kernel counts those
of all our user's programs together, and refuses whoever may have fewer."""
ORPHANS_AT_ONCE = 64
NO_ROOM = (errno.EAGAIN, errno.ENOMEM, errno.ENFILE)
WITH_PARENT, DUMPABLE, SUBREAPER = 1, 4, 36
LIBC = ctypes.CDLL(None, use_errno=True)
DEFAULTS = (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ)
"""An interpreter handles or ignores these; a program started by it should not."""


class Walls:
    """What every run here is restricted to; made once. Most limits bind this process too, so nothing can slip by."""

    def __init__(self, setup: "Message", lent: "list[int]") -> None:
        self.temporary: list[str] = setup["temporary"]
        self.by_tree: bool = setup["sweep_by_tree"]
        self.ruleset = -1
        if confine.landlock_abi() > 0:
            writable = [each for each, write in zip(lent, setup["lent"], strict=True) if write]
            self.ruleset = confine.ruleset(
                read=setup["read"],
                execute=[*setup["execute"], *lent],
                write=[*setup["write"], *self.temporary, *writable],
                connect=setup["connect"],
            )
        elif setup["landlock"]:
            raise OSError(errno.ENOSYS, "Landlock is not there")
        self.filter = syscall_filter.program(
            notify=True, sockets=setup["sockets"], no_metadata=setup["no_metadata"]
        )
        self.forks: bool = setup["python"]
        self.in_run: list[tuple[int, int]] = []
        """Limits of a run that are not ours: each is put below them when it is started."""
        for name, most in setup["limits"].items():
            kind = getattr(resource, name)
            if name == "RLIMIT_CPU":  # ours goes on from run to run
                self.in_run.append((kind, lowered(kind, most)))
                continue
            if most < OWN.get(name, most):
                self.in_run.append((kind, lowered(kind, most)))
                most = OWN[name]
            most = lowered(kind, most)
            resource.setrlimit(kind, (most, most))

    def settle(self) -> None:
        """Once the host has our descriptors: who only starts programs sends no more of them, and then it is best that
        none of those programs ever had a higher limit."""
        files = resource.RLIMIT_NOFILE
        if not self.forks:
            for most in [most for kind, most in self.in_run if kind == files]:
                resource.setrlimit(files, (most, most))
            self.in_run = [(kind, most) for kind, most in self.in_run if kind != files]


def lowered(kind: int, most: int) -> int:
    """`most`, or what we were given if that is less."""
    hard = resource.getrlimit(kind)[1]
    return most if hard == resource.RLIM_INFINITY else min(most, hard)


class Watch:
    """Waits for one run, and writes down what it was refused and what its orphans have used."""

    def __init__(self, control: Control, main: int, listener: int, children: int) -> None:
        self._control = control
        self._main = main
        self._listener = listener
        self._children = children
        self._pidfd = os.pidfd_open(main)
        self.spent = aftermath.Spent()
        self.killed = False
        self.violated = False
        self.host_gone = False
        self.refused: dict[tuple[str, int], int] = {}

    def until_end(self) -> None:
        waiting = select.poll()
        for each in (self._pidfd, self._listener, self._children, self._control.fileno()):
            waiting.register(each, select.POLLIN)
        all_reaped = True
        while True:
            ready = [descriptor for descriptor, _ in waiting.poll(None if all_reaped else 0)]
            if self._control.fileno() in ready:
                # While a run is under way the host has only one thing to say; its end says it too.
                self.host_gone = self._control.receive() is None
                self.killed = True
                return
            if self._pidfd in ready:
                return
            if self._children in ready or not all_reaped:
                forget(self._children)
                all_reaped = aftermath.reap_orphans(self._main, self.spent, ORPHANS_AT_ONCE)
            if self._listener in ready and not self._refuse():
                time.sleep(0.0005)  # its last process is ending: the descriptor is readable and holds nothing
            if self.violated:
                self.killed = True
                return

    def drain(self, *, others: bool) -> None:
        """Hear what was tried and not yet answered; of others that are still at it, what they try in a moment more."""
        waiting = select.poll()
        waiting.register(self._listener, select.POLLIN)
        until = time.monotonic() + LAST_WORDS_SECONDS
        while time.monotonic() < until:
            if not self._refuse() and not (others and waiting.poll(LAST_WORDS_SECONDS * 1000)):
                return

    def _refuse(self) -> bool:
        notice = confine.receive(self._listener)
        if notice is None:
            return False
        family = min(notice.args[0], FAMILIES) if notice.name == "socket" else 0
        self.refused[notice.name, family] = self.refused.get((notice.name, family), 0) + 1
        if notice.violation:
            self.violated = True  # and whoever tried it waits for an answer until it is killed
        else:
            confine.refuse(self._listener, notice, notice.error)
        return True

    def close(self) -> None:
        os.close(self._pidfd)
        os.close(self._listener)


def spawn(request: "Message", descriptors: "list[int]", walls: Walls) -> "tuple[int, int]":
    """Start a program, from a thread that is restricted for ever and ends with this."""
    found: list[tuple[int, int] | Exception] = []

    def body() -> None:
        listener = -1
        try:
            listener = confine.restrict(walls.ruleset, walls.filter, notify=True)
            pid = os.posix_spawn(
                request["file"],
                request["argv"],
                request["environment"],
                file_actions=[(os.POSIX_SPAWN_DUP2, each, number) for number, each in enumerate(descriptors)],
                setsid=True,
                setsigmask=(),
                setsigdef=DEFAULTS,
            )
            expendable(pid)
            found.append((pid, listener))
        except Exception as error:  # noqa: BLE001  whatever it is, it is told, and nothing runs
            if listener >= 0:
                os.close(listener)
            found.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if isinstance(found[0], Exception):
        raise found[0]
    for kind, most in walls.in_run:  # not in that thread, which may limit nobody but itself
        resource.prlimit(found[0][0], kind, (most, most))
    return found[0]


def fork(request: "Message", descriptors: "list[int]", walls: Walls) -> "tuple[int, int]":
    """Start Python code in a copy of this interpreter."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        code = 70
        try:  # whatever happens here must not go on as a second supervisor
            os.setsid()
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            prctl(DUMPABLE, 1)
            prctl(WITH_PARENT, signal.SIGKILL)
            expendable(os.getpid())
            listener = confine.restrict(walls.ruleset, walls.filter, notify=True)
            socket.send_fds(theirs, [b"l"], [listener])
            for number, each in enumerate([fcntl.fcntl(each, fcntl.F_DUPFD, 16) for each in descriptors]):
                os.dup2(each, number)
            os.closerange(len(descriptors), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
            for each in DEFAULTS:
                signal.signal(each, signal.SIG_DFL)
            for kind, most in walls.in_run:
                resource.setrlimit(kind, (most, most))
            import python_runner  # pyright: ignore[reportMissingImports]  lies beside this file, and is loaded already

            code = python_runner.main(3, request)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        finally:
            os._exit(code)  # pyright: ignore[reportUnknownArgumentType]
    theirs.close()
    data, listeners, _, _ = socket.recv_fds(ours, 1, 1)
    ours.close()
    if not data or not listeners:
        os.waitpid(pid, 0)
        raise OSError(errno.EPERM, "the run could not be restricted")
    return pid, listeners[0]


def enter(request: "Message", walls: Walls) -> None:
    """Go where the run starts, if that is still what the call was judged with."""
    os.chdir(request["cwd"] or walls.temporary[0])
    found = os.stat(".")
    if request["identity"] and [found.st_dev, found.st_ino] != request["identity"]:
        raise OSError(errno.ESTALE, "the working directory was replaced after the call was judged")


def run(
    request: "Message", descriptors: "list[int]", control: Control, walls: Walls, children: int
) -> "tuple[Message, bool]":
    """One run from start to clean end: what to tell the host about it, and whether the host is gone."""
    try:
        before.lay(walls.temporary[0], request)
        enter(request, walls)
        main, listener = (spawn if "file" in request else fork)(request, descriptors, walls)
    except (OSError, ValueError, RuntimeError) as error:  # the last one is a thread that could not be started
        os.chdir("/")
        aftermath.sweep(-1, aftermath.Spent(), by_tree=walls.by_tree)  # it may have got as far as to begin
        no_room = isinstance(error, RuntimeError) or getattr(error, "errno", None) in NO_ROOM
        return {"error": getattr(error, "strerror", None) or str(error), "no_room": no_room}, False
    finally:
        for each in descriptors:
            os.close(each)
    watch = Watch(control, main, listener, children)
    watch.until_end()
    # Killed, those that wait for an answer would take with them what they tried.
    watch.drain(others=aftermath.others(main, by_tree=walls.by_tree))
    spent = watch.spent
    status = aftermath.sweep(main, spent, by_tree=walls.by_tree)
    watch.close()
    os.chdir("/")
    refused = [[name, argument, count] for (name, argument), count in watch.refused.items()]
    reply: Message = {
        "killed": watch.killed,
        "cpu": spent.seconds,
        "memory": spent.largest,
        "refused": refused,
    }
    reply["written"] = spent.written
    # Of what was ended by force nothing is kept: nobody knows how far it came.
    reply["left"] = not watch.killed and before.has_left(walls.temporary[0])
    if os.WIFSIGNALED(status):
        reply["signal"] = os.WTERMSIG(status)
    else:
        reply["exit"] = os.waitstatus_to_exitcode(status)
    return reply, watch.host_gone


def expendable(pid: int) -> None:
    """When memory runs out it is the run that goes, never who watches it."""
    try:
        descriptor = os.open(f"/proc/{pid}/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return  # it has ended already
    os.write(descriptor, b"1000")
    os.close(descriptor)


def ended_children() -> int:
    """A descriptor that becomes readable when a child of ours ends."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD,))
    only = (1 << (signal.SIGCHLD - 1)).to_bytes(128, "little")
    descriptor = LIBC.signalfd(-1, only, os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "signalfd")
    return descriptor


def forget(children: int) -> None:
    """What it has told so far."""
    try:
        os.read(children, 4_096)
    except BlockingIOError:
        pass


def prctl(option: int, value: int) -> None:
    if LIBC.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def prepare(setup: "Message", lent: "list[int]") -> "tuple[Walls, Message, list[int]]":
    """Do what the host asked for at the start; gives what it is told, with descriptors for it."""
    prctl(SUBREAPER, 1)  # orphans of a run come to us
    prctl(DUMPABLE, 0)  # our memory is not for our neighbours
    if setup["drop_capabilities"]:
        if os.geteuid() == 0:
            os.setgroups([])  # afterwards it may not any more
        confine.drop_capabilities()
    ready: Message = {"ready": True}
    handed: list[int] = []
    setup["connect"] = []
    if setup["sockets"] == "inet":
        # Made in here and served out there: the way to our egress needs no process between.
        listening = socket.create_server(("127.0.0.1", 0))
        ready["port"] = listening.getsockname()[1]
        setup["connect"] = [ready["port"]]
        handed.append(listening.detach())
    walls = Walls(setup, lent)
    for each in lent:
        os.close(each)
    if setup["python"]:
        import gc

        __import__("python_runner")  # so that every copy has it
        gc.collect()
        gc.freeze()
    for folder in walls.temporary:
        before.renew(folder)
    folders = [os.open(folder, os.O_PATH | os.O_CLOEXEC) for folder in walls.temporary]
    return walls, ready, [*folders, *handed]


def main() -> None:
    for each in (
        signal.Signals
    ):  # whoever started the host, in the background or for ever, may have had it ignore some
        if signal.getsignal(each) is signal.SIG_IGN and each not in DEFAULTS:
            signal.signal(each, signal.SIG_DFL)
    control = Control(int(sys.argv[1]))
    first = control.receive()
    if first is None:
        return
    try:
        children = ended_children()
        walls, ready, handed = prepare(*first)
    except OSError as error:
        control.send(
            {"error": f"{error.strerror or error}{': ' + str(error.filename) if error.filename else ''}"}
        )
        return
    control.send(ready, handed)
    for each in handed:
        os.close(each)
    walls.settle()
    try:
        serve(control, walls, children)
    finally:
        if walls.by_tree:  # it lies on the host's disk, and the host may be gone
            for folder in walls.temporary:
                aftermath.empty(folder)
                os.rmdir(folder)


def serve(control: Control, walls: Walls, children: int) -> None:
    """One run after another, until the host is gone."""
    while (got := control.receive()) is not None:
        request, descriptors = got
        if "kill" in request or "taken" in request:
            continue  # it had ended already
        reply, host_gone = run(request, descriptors, control, walls, children)
        if host_gone:
            return
        control.send(reply)  # first: what follows works on what the run left, and might fail
        if reply.get("left") and control.receive() is None:  # the host takes it first
            return
        for folder in walls.temporary:
            aftermath.empty(folder)
            before.renew(folder)
        control.send({"ready": True})


if __name__ == "__main__":
    main()
