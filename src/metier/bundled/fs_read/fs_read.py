"""Reads one text file of the workspace.

The file is reached folder by folder, each opened from the one before, and no link is followed: what lies there at that
moment counts, never what a name leads to a moment later. Standard library only.
"""

import errno
import json
import os
import stat
from datetime import UTC, datetime, timedelta

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FOLDERS = ("memory", "persona", "logs", "out", "etc", "docs")
MOST_BYTES = 800_000
MOST_TOLD = 950_000
"""What an answer may have in JSON; a text of odd characters is longer there."""
LONGEST_PATH, LONGEST_NAME, DEEPEST = 4_096, 255, 64
WAY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
WORDS = {
    errno.ENOENT: "it is not there",
    errno.ENOTDIR: "a part of the way to it is a link, or no folder",
    errno.ELOOP: "it is a link, and links are not followed",
    errno.ENXIO: "it is not a regular file",
}


class Refused(Exception):
    """Why the file is not read."""


def execute(inputs: "dict[str, Any]", context: "Any") -> "dict[str, Any]":
    """The content, size and time of the file at `path`."""
    shown = ascii(str(inputs["path"])[:200])
    try:
        parts = parts_of(inputs["path"], context.workspace)
        data, changed = read(context.workspace, parts)
        content = data.decode("utf-8")
        if len(json.dumps(content)) > MOST_TOLD:
            raise Refused("it is too long to be given back")
    except Refused as refused:
        return {"success": False, "error": f"{shown} is not read: {refused}"}
    except UnicodeDecodeError:
        return {"success": False, "error": f"{shown} is not read: it holds no UTF-8 text"}
    except OSError as error:
        why = WORDS.get(error.errno or 0) or error.strerror or "it cannot be opened"
        return {"success": False, "error": f"{shown} is not read: {why}"}
    return {"success": True, "content": content, "size": len(data), "modified": moment(changed)}


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
        raise Refused(f"only files in {', '.join(FOLDERS)} of the workspace can be read")
    if len(parts) > DEEPEST or any(len(part.encode("utf-8")) > LONGEST_NAME for part in parts):
        raise Refused("its path is too long")
    return parts


def read(workspace: str, parts: list[str]) -> tuple[bytes, int]:
    """All bytes of the file, and the nanosecond it was last changed."""
    *folders, name = parts
    held = os.open(f"{workspace}/{folders[0]}", WAY)
    try:
        for folder in folders[1:]:
            inner = os.open(folder, WAY, dir_fd=held)
            os.close(held)
            held = inner
        # Looked at before it is opened: to open a device may already do something.
        require_plain(os.stat(name, dir_fd=held, follow_symlinks=False))
        file = os.open(name, READ, dir_fd=held)
    finally:
        os.close(held)
    try:
        status = os.fstat(file)
        require_plain(status)
        return whole(file, status.st_size), status.st_mtime_ns
    finally:
        os.close(file)


def require_plain(status: os.stat_result) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise Refused(WORDS[errno.ELOOP])
    if not stat.S_ISREG(status.st_mode):
        raise Refused(WORDS[errno.ENXIO])


def whole(file: int, size: int) -> bytes:
    """Everything until the end; a file that grows meanwhile is no way round the limit."""
    if size > MOST_BYTES:
        raise Refused(f"it has {size:,} bytes, and {MOST_BYTES:,} are the most")
    pieces: list[bytes] = []
    left = MOST_BYTES + 1
    while left and (piece := os.read(file, min(left, 262_144))):
        pieces.append(piece)
        left -= len(piece)
    if not left:
        raise Refused(f"it grew while it was read, and {MOST_BYTES:,} bytes are the most")
    return b"".join(pieces)


def moment(nanoseconds: int) -> str:
    """A time of the disk in UTC; empty for one that no calendar has."""
    try:
        found = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=nanoseconds // 1_000_000)
    except OverflowError:
        return ""
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")
