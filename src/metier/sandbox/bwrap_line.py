"""The options of bubblewrap, from a policy. This is the policy as the kernel gets it, so tests compare it word for
word."""

import os
import stat
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from metier.model.job import Place
from metier.sandbox.mounts import system_files, system_folders
from metier.sandbox.wall import OUT, WallError

WHERE: Final = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap", "/run/current-system/sw/bin/bwrap")
TEMPORARY: Final = ("/tmp", "/var/tmp", "/run/tmp")  # noqa: S108  inside, and empty at every start
SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108  another name for the temporary folder: one size, one thing to empty
DEVICES: Final = ("zero", "null", "urandom")
INSIDE_ID: Final = "1000"

_WALLS: Final = (
    "--unshare-user",
    "--unshare-ipc",
    "--unshare-pid",
    "--unshare-net",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--uid",
    INSIDE_ID,
    "--gid",
    INSIDE_ID,
    "--hostname",
    "sandbox",
    "--cap-drop",
    "ALL",
    "--die-with-parent",
    "--new-session",
    "--clearenv",
)


def find() -> str | None:
    """Bubblewrap in a place only root can write. What PATH says does not count: a skill may have written there."""
    return next((path for path in WHERE if _only_root_writes(path)), None)


def options(
    *,
    places: Sequence[tuple[Place, int | str]],
    temporary: str,
    temporary_bytes: int,
    environment: Mapping[str, str],
    cwd: str,
    supervised: bool = False,
    network: bool = False,
    alone: bool = False,
    extra: Sequence[str] = (),
) -> list[str]:
    """Everything but the command. Each place comes with what it is bound from: a descriptor, or a path of our own that
    nobody can swap.

    `supervised` is whether a supervisor restricts every run further: only then is there a zero device, which mapped
    for writing is memory nobody counts. It also takes time to forbid user namespaces twice: the filter does it.
    `alone` is for one program of the distribution that starts no other: it finds its libraries without being told where.
    """
    words = [*_WALLS, *(("--disable-userns",) if supervised else ()), *extra]
    for name, value in environment.items():
        words += ["--setenv", name, value]
    words += _machine(network, alone)
    words += ["--proc", "/proc", *_devices(supervised), "--symlink", temporary, SHARED_MEMORY]
    words += ["--size", str(temporary_bytes), "--perms", "0700", "--tmpfs", temporary]
    words += ["--perms", "0700", "--dir", f"{temporary}/{OUT}"]
    for place, source in places:
        option = "--bind" if place.writable else "--ro-bind"
        words += [option if isinstance(source, str) else f"{option}-fd", str(source), place.path]
    return [*words, "--remount-ro", "/", "--chdir", cwd or temporary]


@cache
def _machine(network: bool, alone: bool) -> tuple[str, ...]:
    argv: list[str] = []
    for folder, link in system_folders():
        argv += ["--symlink", link, folder] if link else ["--ro-bind", folder, folder]
    for file in () if alone else system_files(network):
        argv += ["--ro-bind", file, file]
    if alone:
        argv += ["--dir", "/etc"]
    return tuple(argv)


def _devices(zero: bool) -> list[str]:
    """The few devices a program needs; no terminal, and nothing that could be one."""
    argv: list[str] = []
    for name in DEVICES if zero else DEVICES[1:]:
        argv += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    argv += ["--symlink", "urandom", "/dev/random"]  # the same to the kernel, and one mount less
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        argv += ["--symlink", f"/proc/self/fd/{number}", f"/dev/{name}"]
    return [*argv, "--symlink", "/proc/self/fd", "/dev/fd"]


def temporary_for(places: Sequence[Place]) -> str:
    """Where the temporary folder lies: never above a granted one, which would then lie in a writable folder."""
    for path in TEMPORARY:
        if not any(place.path == path or place.path.startswith(path + "/") for place in places):
            return path
    raise WallError(f"grants may not lie in all of {', '.join(TEMPORARY)} at once")


def _only_root_writes(path: str) -> bool:
    try:
        real = os.path.realpath(path, strict=True)
        while True:
            found = os.lstat(real)
            if found.st_uid != 0 or (
                found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not stat.S_ISLNK(found.st_mode)
            ):
                return False
            if real == "/":
                return os.access(path, os.X_OK)
            real = os.path.dirname(real)
    except OSError:
        return False
