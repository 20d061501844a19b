"""The files that Python code looked for and could not have, for its author to see.

Inside a sandbox what was not granted is simply not there, and nobody outside sees that it was looked for. The interpreter
does, so it is asked to remember; the host then knows which of them there are. Code can hide from this, and it can accuse
itself of more than it did: it is a hint, and decides nothing.

Standard library only: the package is not importable here.
"""

import errno
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST = 64
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
KINDS = {
    "open": "",
    "os.listdir": "read",
    "os.scandir": "read",
    "os.mkdir": "write",
    "os.remove": "write",
    "os.rename": "write",
    "os.rmdir": "write",
    "os.truncate": "write",
}


class Touched:
    """Remembers from now on, for as long as the process lives."""

    def __init__(self, own: "list[str]", places: "list[tuple[str, bool]]", temporary: str) -> None:
        """`own` are folders of the interpreter and of the code itself, `places` what was granted and whether to write:
        what is not there is simply not there."""
        self._read = tuple(os.path.join(folder, "") for folder in (*own, *(place for place, _ in places)))
        self._write = tuple(os.path.join(place, "") for place, writable in places if writable)
        self._temporary = os.path.join(temporary, "")
        self._here: str | None = os.getcwd()
        self._asked: dict[tuple[str, str], None] = {}
        sys.addaudithook(self._hear)

    def refused(self) -> "list[tuple[str, str]]":
        """Kind and path of each that cannot be had now either."""
        asked, self._asked = self._asked, {}
        return [(kind, path) for kind, path in asked if not _can(kind, path)]

    def _hear(self, event: str, given: "tuple[Any, ...]") -> None:
        if event == "os.chdir":
            self._here = (
                None  # from now on only whole paths say what is meant; asking each time would cost too much
            )
        kind = KINDS.get(event)
        if kind is None or len(self._asked) >= MOST:
            return
        path = given[0]
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, str):
            return  # a descriptor: it was opened before
        if not kind:
            kind = "write" if isinstance(given[2], int) and given[2] & WRITING else "read"
        if not os.path.isabs(path):
            if self._here is None or self._here.startswith(self._temporary.rstrip("/")):
                return
            path = os.path.join(self._here, path)
        path = os.path.normpath(path)
        if not path.startswith(self._write if kind == "write" else self._read):
            self._asked[kind, path] = None


def _can(kind: str, path: str) -> bool:
    """Whether it can be had. Tried and not asked for: `access` does not know of every wall."""
    try:
        if kind == "read":
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        elif os.path.lexists(path) and not os.path.isdir(path):
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        else:
            os.close(os.open(os.path.dirname(path), os.O_WRONLY | os.O_TMPFILE))
    except (OSError, ValueError) as error:
        return getattr(error, "errno", 0) in (errno.ENXIO, errno.EOPNOTSUPP)  # there, and of another kind
    return True
