"""Acts of a guest: memory, processes, descriptors, disk. Each function is a program of its own, as in `acts_run`."""

# pyright: reportUnusedFunction=false

# pyright: basic, reportUnknownMemberType=false
# Programs for the other side: plain, and not worth a type for every list.

from typing import Any

from metier.testing.sandbox_kit.tries import Tries


def memory(params: dict[str, Any]) -> Any:
    """Take memory piece by piece, written to, up to `mb`. Who is refused keeps what he has for `stay` seconds."""
    import mmap
    import os
    import time

    piece, held = 4 << 20, []
    filling = b"x" * piece
    try:
        for _ in range(params["mb"] // 4):
            match params["kind"]:
                case "heap":
                    held.append(b"y" * piece)
                case "mapped":
                    held.append(mmap.mmap(-1, piece, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
                    held[-1].write(filling)
                case "shared":
                    held.append(mmap.mmap(-1, piece))
                    held[-1].write(filling)
                case _:
                    held.append(os.memfd_create("held"))
                    os.write(held[-1], filling)
    except MemoryError:
        time.sleep(params.get("stay", 0))
        raise
    return {"mb": 4 * len(held)}


def huge(params: dict[str, Any]) -> Any:
    """Ask for a great deal at once, and touch none of it."""
    import ctypes
    import mmap

    tries = Tries()
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000
    with tries("eight_gigabytes"):
        mmap.mmap(-1, 8 << 30, flags=flags).close()
    with tries("one_terabyte"):
        mmap.mmap(-1, 1 << 40, flags=flags).close()
    if params["text"]:
        with tries("one_text"):
            len("x" * (8 << 30))
    with tries("locked"):
        room = ctypes.create_string_buffer(1 << 20)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mlock(room, len(room)) != 0:
            raise OSError(ctypes.get_errno(), "mlock")
    return tries.said()


def children_memory(params: dict[str, Any]) -> Any:
    """Children that each take `mb`; how many of them had it at the same time."""
    import os
    import time

    ready, say = os.pipe()
    wait, hold = os.pipe()
    kids = []
    for _ in range(params["children"]):
        kid = os.fork()
        if kid == 0:
            try:
                held = b"z" * (params["mb"] << 20)
                os.write(say, b"1")
                os.close(hold)
                os.read(wait, 1)
                os._exit(len(held) & 1)
            finally:
                os._exit(3)
        kids.append(kid)
    os.close(say)
    had = 0
    while had < len(kids) and os.read(ready, 1):
        had += 1
    time.sleep(0.5)  # they have it for a while, as they would if they had a use for it
    os.close(hold)
    for kid in kids:
        os.waitpid(kid, 0)
    return {"had": had}


def forks(params: dict[str, Any]) -> Any:
    """Children that wait; how many there were when no more could be had, or `most`."""
    import os

    wait, hold = os.pipe()
    kids, why = [], ""
    while len(kids) < params["most"]:
        try:
            kid = os.fork()
        except OSError as error:
            why = error.strerror or ""
            break
        if kid == 0:
            os.close(hold)
            os.read(wait, 1)
            os._exit(0)
        kids.append(kid)
    os.close(hold)
    for kid in kids:
        os.waitpid(kid, 0)
    return {"count": len(kids), "why": why}


def threads(params: dict[str, Any]) -> Any:
    """As `forks`, with threads."""
    import threading

    threading.stack_size(65_536)
    over, started, why = threading.Event(), [], ""
    try:
        while len(started) < params["most"]:
            thread = threading.Thread(target=over.wait, daemon=True)
            thread.start()
            started.append(thread)
    except (RuntimeError, MemoryError) as error:
        why = type(error).__name__
    over.set()
    return {"count": len(started), "why": why}


def open_files(params: dict[str, Any]) -> Any:
    import os

    held, why = [], ""
    try:
        while len(held) < params["most"]:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error:
        why = error.strerror or ""
    for each in held:
        os.close(each)
    return {"count": len(held), "why": why}


def fill(params: dict[str, Any]) -> Any:
    """Put something on the disk: `large` files, `small` ones or a `sparse` one."""
    import os

    folder = params["folder"] or os.environ["TMPDIR"]
    folder = os.path.join(folder, "filled")
    os.mkdir(folder)
    made, why = 0, ""
    try:
        match params["kind"]:
            case "large":
                while made < params["most"]:
                    with open(f"{folder}/{made}", "wb") as file:
                        os.posix_fallocate(file.fileno(), 0, params["mb"] << 20)
                    made += 1
            case "small":
                while made < params["most"]:
                    os.mkdir(f"{folder}/{made}")
                    for number in range(2_000):
                        os.mknod(f"{folder}/{made}/{number}")
                    made += 1
            case _:
                with open(f"{folder}/sparse", "wb") as file:
                    file.truncate(1 << 40)
                made += 1
    except OSError as error:
        why = error.strerror or ""
    return {"made": made, "why": why}


def make_files(params: dict[str, Any]) -> Any:
    """Make an empty file in each of `folders`, and in each folder at the `top`: which took one, besides its own."""
    import os
    from contextlib import suppress

    own = [os.path.realpath(each) for each in (os.environ["TMPDIR"], *params["own"])]
    folders = list(params["folders"])
    if params["top"]:
        with suppress(OSError):
            folders += [f"/{name}" for name in sorted(os.listdir("/"))]
    tries = Tries()
    for folder in dict.fromkeys(folders):
        real = os.path.realpath(folder)
        if any(real == each or real.startswith(each + "/") for each in own):
            continue
        path = os.path.join(folder, "metier-kit-made")
        with tries(folder):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            os.unlink(path)
    return tries.said()


def recursion(params: dict[str, Any]) -> Any:
    import sys

    if params["unbounded"]:
        sys.setrecursionlimit(2**31 - 1)
        one: Any = []
        other: Any = []
        for _ in range(500_000):
            one, other = [one], [other]
        return one == other

    def down(depth: int) -> int:
        return down(depth + 1) + 1

    return down(0)
