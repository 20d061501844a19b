"""Acts of a guest: environment, folders and files. Each function is a program of its own, as in `acts_run`."""

# pyright: basic, reportUnknownMemberType=false
# Programs for the other side: plain, and not worth a type for every list.

from typing import Any

from metier.testing.sandbox_kit.tries import Tries


def environment(params: dict[str, Any]) -> Any:
    """Every variable, and whether a planted word is in what the kernel keeps of this process and of those above."""
    import os

    seen = []
    for pid in ("self", "1", "2", str(os.getppid()), str(params.get("pid", 1))):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if params["secret"].encode() in file.read():
                    seen.append(pid)
        except OSError:
            continue
    variables = dict(os.environ)
    if variables.get("PWD") == os.getcwd():
        del variables["PWD"]  # it tells nothing new
    tries = Tries()
    with tries("home"), open(os.path.join(variables.get("HOME", ""), "written"), "w") as file:
        file.write("from inside")
    return {"variables": variables, "seen": sorted(set(seen)), "home": tries.did == ["home"]}


def here(params: dict[str, Any]) -> Any:
    """Where it starts, and a file written there by a relative path."""
    import os

    if params.get("name"):
        with open(params["name"], "w") as file:
            file.write("from inside")
    return {"cwd": os.getcwd(), "files": sorted(os.listdir("."))}


def read_outside(params: dict[str, Any]) -> Any:
    """Get at the contents of a file, or the names in a folder, that was not granted."""
    import importlib.util
    import mmap
    import os

    file, folder, secret = params["file"], os.path.dirname(params["file"]), params["secret"]
    tries = Tries()

    def found(data: object) -> None:
        text = data.decode("utf-8", "replace") if isinstance(data, bytes) else str(data)
        if secret not in text:
            raise PermissionError("not there")

    with tries("open"), open(file) as opened:
        found(opened.read())
    with tries("descriptor_of_folder"):
        at = os.open(folder, os.O_RDONLY)
        found(os.read(os.open(os.path.basename(file), os.O_RDONLY, dir_fd=at), 4096))
    with tries("map"), open(file, "rb") as opened:
        found(mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ)[:])
    with tries("list"):
        found(secret if os.path.basename(file) in os.listdir(folder) else "")
    with tries("import"):
        spec = importlib.util.spec_from_file_location("outside", file)
        assert spec is not None  # noqa: S101
        assert spec.loader is not None  # noqa: S101
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found(module.SECRET)
    with tries("root_of_another"):
        found(open(f"/proc/{params['pid']}/root{file}").read())  # noqa: SIM115
    with tries("working_directory_of_another"):
        found(secret if os.listdir(f"/proc/{params['pid']}/cwd") else "")
    with tries("environment_of_another"):
        found(open(f"/proc/{params['pid']}/environ", "rb").read())  # noqa: SIM115
    with tries("environment_of_the_first"):
        found(open("/proc/1/environ", "rb").read())  # noqa: SIM115
    with tries("passwords"):
        found(secret if "root:" in open("/etc/passwd").read() else "")  # noqa: SIM115
    with tries("home"):
        found(secret if set(params["names"]) <= set(os.listdir(params["home"])) else "")
    with tries("write"), open(file, "a") as opened:
        opened.write("\n")
    with tries("create"), open(os.path.join(folder, "made"), "w") as opened:
        opened.write("from inside")
    with tries("remove"):
        os.unlink(os.path.join(folder, "removable"))
    return tries.said()


def around(params: dict[str, Any]) -> Any:
    """List the machine from each of `starts` on, as far as to what may be seen, and open some of its files."""
    import os

    temporary = os.environ.get("TMPDIR", "/tmp")  # noqa: S108
    may_be_seen = [*params["may_be_seen"], temporary]
    # Where something granted lies below the run's own temporary folder, that is walked through, and this found.
    kept = os.path.join(temporary, params["kept"])
    root = params.get("root", "")
    seen = {}
    for start in params["starts"]:
        found, waiting = [], [] if start in may_be_seen else [start]
        while waiting and len(found) < 20:
            folder = waiting.pop()
            try:
                names = os.listdir(root + folder)
            except OSError:
                continue
            for path in (os.path.join(folder, name) for name in names):
                if any(each.startswith(path + "/") for each in may_be_seen):
                    waiting.append(path)
                elif path != kept and path not in may_be_seen:
                    found.append(path)
        if found:
            seen[start] = found
    for path in params["files"]:
        try:
            with open(root + path, "rb") as file:
                file.read(1)
            seen[path] = [path]
        except OSError:
            continue
    return {"did": sorted(seen), "seen": seen}


def exists(params: dict[str, Any]) -> Any:
    """Find out whether something is there, without reading it."""
    import os
    from contextlib import suppress

    tries = Tries()
    with tries("stat"):
        os.stat(params["file"])
    with tries("access"):
        if not os.access(params["file"], os.F_OK):
            raise FileNotFoundError
    with tries("error_tells"), suppress(PermissionError):
        os.close(os.open(params["file"], os.O_RDONLY))
    return tries.said()


def links(params: dict[str, Any]) -> Any:
    """Leave a granted folder by links that lie there and by links made here."""
    import os

    inside, file, secret = params["inside"], params["file"], params["secret"]
    outside, name = os.path.split(file)
    tries = Tries()

    def read(path: str) -> None:
        with open(path) as opened:
            if secret not in opened.read():
                raise PermissionError("not there")

    with tries("shipped_to_file"):
        read(f"{inside}/shipped_file")
    with tries("shipped_to_folder"):
        read(f"{inside}/shipped_folder/{name}")
    with tries("listed_through_shipped"):
        if name not in os.listdir(f"{inside}/shipped_folder/"):
            raise FileNotFoundError
    with tries("created_through_shipped"), open(f"{inside}/shipped_missing", "w") as opened:
        opened.write("from inside")
    with tries("dots"):
        read(f"{inside}/../{os.path.basename(outside)}/{name}")
    with tries("made_to_file"):
        os.symlink(file, f"{inside}/made_file")
        read(f"{inside}/made_file")
    with tries("made_to_folder"):
        os.symlink(outside, f"{inside}/made_folder")
        read(f"{inside}/made_folder/./{name}")
    with tries("made_relative"):
        os.symlink(os.path.relpath(file, inside), f"{inside}/made_relative")
        read(f"{inside}/made_relative")
    with tries("made_hard_link"):
        os.link(file, f"{inside}/made_hard")
        read(f"{inside}/made_hard")
    with tries("moved_in"):
        os.rename(f"{outside}/movable", f"{inside}/moved")
        read(f"{inside}/moved")
    with tries("moved_out"):
        open(f"{inside}/leaving", "w").close()
        os.rename(f"{inside}/leaving", f"{outside}/arrived")
    return tries.said()


def change(params: dict[str, Any]) -> Any:
    """Change a file in every way there is. Whether it changed is seen from outside, not here."""
    import os

    file, writable = params["file"], params["writable"]
    tries = Tries()
    with tries("write"), open(file, "r+") as opened:
        opened.write("changed")
    with tries("truncate"):
        os.truncate(file, 0)
    with tries("mode"):
        os.chmod(file, 0o777)  # noqa: S103
    with tries("owner"):
        os.chown(file, 12345, 12345)
    with tries("times"):
        os.utime(file, (1, 1))
    with tries("attribute"):
        os.setxattr(file, "user.metier", b"1")
    if writable:
        with tries("hard_link"):
            os.link(file, f"{writable}/linked")
            os.chmod(f"{writable}/linked", 0o777)  # noqa: S103
            with open(f"{writable}/linked", "r+") as opened:
                opened.write("changed")
    with tries("beside"), open(os.path.join(os.path.dirname(file), "made"), "w") as opened:
        opened.write("from inside")
    with tries("rename"):
        os.rename(file, file + ".moved")
    with tries("remove"):
        os.unlink(file)
    return tries.said()


def descriptors(params: dict[str, Any]) -> Any:
    """The numbers of all open descriptors, without opening one."""
    import fcntl

    found = []
    for number in range(1024):
        try:
            fcntl.fcntl(number, fcntl.F_GETFD)
            found.append(number)
        except OSError:
            continue
    return found


def devices(params: dict[str, Any]) -> Any:
    """What of the machine itself can be opened."""
    import os

    tries = Tries()
    for path in ("/dev/kmsg", "/dev/mem", "/proc/kcore", params["disk"]):
        with tries(path):
            os.close(os.open(path, os.O_RDONLY))
    for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper"):
        with tries(path):
            os.close(os.open(path, os.O_WRONLY))
    with tries("/proc/sys/kernel/hostname"):
        os.close(os.open("/proc/sys/kernel/hostname", os.O_WRONLY))
    with tries("other_processes"):
        if str(params["pid"]) not in os.listdir("/proc"):
            raise ProcessLookupError
    with tries("/sys"):
        os.listdir("/sys/kernel")
    return tries.said()


def shipped(params: dict[str, Any]) -> Any:
    """Whether files named like parts of the interpreter were taken for them."""
    import json
    import sys
    import textwrap

    try:
        import colorsys

        planted = any(hasattr(each, "PLANTED") for each in (json, textwrap, colorsys))
    except SystemError:
        planted = True
    return {
        "json": planted,
        "customized": [name for name in ("sitecustomize", "usercustomize", "planted") if name in sys.modules],
        "path": [path for path in sys.path if path == ""],
    }
