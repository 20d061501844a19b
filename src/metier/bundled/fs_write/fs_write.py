"""Writes one text file into the workspace.

Every folder on the way is opened from the one before, and no link is followed. The text goes into a new file of a name
nobody can guess, in the very folder that was opened; only when it is complete does it get its name. What is replaced is what
somebody agreed to lose, looked at directly before. Standard library only.
"""

import errno
import fcntl
import hashlib
import os
import secrets
import stat
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

FOLDERS = ("memory", "out", "logs")
LONGEST_PATH, LONGEST_NAME, DEEPEST = 4_096, 255, 64
WAY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
PATIENCE = 10.0
"""Seconds to wait for whoever writes into the same folder."""
NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""What disks answer on which a file has one name."""
CHANGED = "another file lies there than the one that was agreed to be replaced; ask again"
EXISTS = "a file is there already; with overwrite: true it is replaced"
WORDS = {
    errno.ENOTDIR: "a part of the way to it is a link, or no folder",
    errno.ELOOP: "a part of the way to it is a link, and links are not followed",
    errno.EEXIST: EXISTS,
    errno.EISDIR: "a folder is there",
}


class Refused(Exception):
    """Why nothing is written."""


def execute(inputs: "dict[str, Any]", context: "Any") -> "dict[str, Any]":
    """Write `content` to `path`, and say where it lies and how long it is."""
    shown = ascii(str(inputs["path"])[:200])
    try:
        parts = parts_of(inputs["path"], context.workspace)
        data = inputs["content"].encode("utf-8")
        agreed = getattr(context, "replaces", {})
        write(context.workspace, parts, data, overwrite=inputs.get("overwrite") is True, agreed=agreed)
    except Refused as refused:
        return {"success": False, "error": f"{shown} is not written: {refused}"}
    except UnicodeEncodeError:
        return {"success": False, "error": f"{shown} is not written: the content is no text"}
    except OSError as error:
        why = WORDS.get(error.errno or 0) or error.strerror or "it cannot be made"
        return {"success": False, "error": f"{shown} is not written: {why}"}
    return {"success": True, "path": "/".join([context.workspace, *parts]), "size": len(data)}


def parts_of(path: object, workspace: str) -> list[str]:
    """The folders from the workspace on, and the name of the file."""
    if not isinstance(path, str) or not path or "\0" in path:
        raise Refused("it is no path")
    try:
        size = len(path.encode("utf-8"))
    except UnicodeEncodeError:
        raise Refused("it is no path") from None
    if size > LONGEST_PATH:
        raise Refused("its path is too long")
    if path.startswith("/"):
        if not path.startswith(workspace + "/"):
            raise Refused("it lies outside the workspace")
        path = path[len(workspace) :]
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Refused("`..` leads elsewhere; write the path that is meant")
    if len(parts) < 2 or parts[0] not in FOLDERS:
        raise Refused(f"only files in {', '.join(FOLDERS)} of the workspace can be written")
    if len(parts) > DEEPEST or any(len(part.encode("utf-8")) > LONGEST_NAME for part in parts):
        raise Refused("its path is too long")
    if not all(part.isprintable() for part in parts):
        raise Refused("its name holds characters that nobody can see")
    return parts


def write(
    workspace: str, parts: list[str], data: bytes, *, overwrite: bool, agreed: "Mapping[str, Any]"
) -> None:
    """Have `data` in the file, all of it or nothing. `agreed` says what somebody agreed to lose, where somebody was asked."""
    *folders, name = parts
    held = os.open(f"{workspace}/{folders[0]}", WAY)
    try:
        for folder in folders[1:]:
            inner = opened(held, folder)
            os.close(held)
            held = inner
        refuse_repository(held, parts)
        replaces = is_replaced(held, name, overwrite=overwrite)
        if "path" in agreed and replaces != (agreed["path"] is not None):
            raise Refused(CHANGED)
        draft = drafted(held, data)
        try:
            waited_for(held)
            if replaces and "path" in agreed:
                require_agreed(held, name, agreed["path"])
            put(held, draft, name, replaces=replaces)
        except BaseException:
            with suppress(FileNotFoundError):  # it has its name, or somebody took it away
                os.unlink(draft, dir_fd=held)
            raise
        refuse_repository(held, parts, made="" if replaces else name)
    finally:
        os.close(held)


def makes_repository(held: int, depth: int) -> bool:
    """Whether git takes the folder, or one of those above it, for a repository. Looked at when the folders are there and when the
    file has its name: of several that are written at the same time the last one sees them all."""

    def has(name: str) -> bool:
        try:
            os.stat(above + name, dir_fd=held, follow_symlinks=False)
        except OSError:
            return False
        return True

    for number in range(depth):
        above = "../" * number
        if has("HEAD") and (has("commondir") or (has("objects") and has("refs"))):
            return True
    return False


def refuse_repository(held: int, parts: list[str], made: str = "") -> None:
    """Refuse it where git takes a folder on the way for a repository, and undo it: the file that was `made`, and the folders that
    are then empty, which alone may be what was missing."""
    if not makes_repository(held, len(parts) - 1):
        return
    with suppress(OSError):
        if made:
            os.unlink(made, dir_fd=held)
        above = ""
        for folder in reversed(parts[1:-1]):
            above += "../"
            os.rmdir(above + folder, dir_fd=held)
    raise Refused("git would take a folder on the way for a repository, and run what its settings name")


def opened(held: int, folder: str) -> int:
    """A folder below one that is open, made if it is not there."""
    try:
        return os.open(folder, WAY, dir_fd=held)
    except FileNotFoundError:
        with suppress(
            FileExistsError
        ):  # somebody else made it, or something else; it is looked at like any other
            os.mkdir(folder, 0o700, dir_fd=held)
        return os.open(folder, WAY, dir_fd=held)


def is_replaced(held: int, name: str, *, overwrite: bool) -> bool:
    """Whether a file is there; one that cannot be replaced, or may not be, is refused."""
    try:
        status = os.stat(name, dir_fd=held, follow_symlinks=False)
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(status.st_mode):
        raise Refused("what is there is not a regular file")
    if not overwrite:
        raise Refused(EXISTS)
    if status.st_nlink > 1:
        raise Refused("the file there has a second name elsewhere (a hard link)")
    return True


def drafted(held: int, data: bytes) -> str:
    """The name of a new file with `data` in it."""
    draft = f".{secrets.token_hex(16)}.draft"
    file = os.open(draft, NEW, 0o600, dir_fd=held)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(file, left) :]
        os.fsync(file)
    except BaseException:
        os.unlink(draft, dir_fd=held)
        raise
    finally:
        os.close(file)
    return draft


def waited_for(held: int) -> None:
    """Be the only one of these skills that writes into the folder, until it is closed."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise Refused("another program holds its folder; try again later") from None
            time.sleep(0.01)
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
                raise
            return  # there are no locks on this disk
        else:
            return


def require_agreed(held: int, name: str, agreed: "Mapping[str, Any]") -> None:
    """Refuse to replace another file than the one somebody agreed to lose."""
    digest, size = hashlib.sha256(), 0
    try:
        file = os.open(name, OLD, dir_fd=held)
    except OSError:
        raise Refused(CHANGED) from None
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise Refused(CHANGED)
        while size <= agreed["size"] and (piece := os.read(file, 1_048_576)):
            size += len(piece)
            digest.update(piece)
    finally:
        os.close(file)
    if (size, f"sha256:{digest.hexdigest()}") != (agreed["size"], agreed["digest"]):
        raise Refused(CHANGED)


def put(held: int, draft: str, name: str, *, replaces: bool) -> None:
    """Give the new file its name. Where it replaces nothing the name must be free at that moment too."""
    if not replaces:
        try:
            os.link(draft, name, src_dir_fd=held, dst_dir_fd=held, follow_symlinks=False)
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            os.close(os.open(name, NEW, 0o600, dir_fd=held))  # the name is ours from here on
        else:
            os.unlink(draft, dir_fd=held)
            return
    os.rename(draft, name, src_dir_fd=held, dst_dir_fd=held)
