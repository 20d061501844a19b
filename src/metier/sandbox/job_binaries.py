"""The programs of a run: each declared name stands for one real file of the operator's machine.

Only absolute folders of the operator's own path are searched, and only those that nobody but he and root can write
to; the same holds for the file. Otherwise whoever can put a file there would choose what runs.
"""

import os
import re
import stat
from collections.abc import Iterable
from typing import Final

_KEEPS_TO_ITSELF: Final = re.compile(
    "true|false|echo|printf|cat|tac|head|tail|wc|cut|tr|uniq|nl|od|fold|fmt|expand|unexpand|paste|comm|join|rev|seq"
    "|ls|dir|vdir|pwd|basename|dirname|realpath|readlink|stat|du|df|date|cal|id|whoami|groups|uname|hostname|arch|nproc"
    "|cp|mv|rm|ln|mkdir|rmdir|touch|mktemp|truncate|tee|cmp|grep|jq|base32|base64|cksum|sum|b2sum|md5sum"
    "|sha(?:1|224|256|384|512)sum|sleep|expr|test|factor|numfmt|tsort|shuf"
)
_SYSTEMS_OWN: Final = ("/bin", "/usr/bin")


def real_programs(names: Iterable[str], path: str) -> dict[str, str]:
    """Each name that a safe folder of `path` has, with the real file behind it."""
    folders = [folder for folder in path.split(os.pathsep) if os.path.isabs(folder) and _is_safe(folder)]
    found = {name: _find(name, folders) for name in names}
    return {name: file for name, file in sorted(found.items()) if file}


def keeps_to_itself(file: str) -> bool:
    """Whether a program is known to start no other one, whatever it is told. Of most that is not known."""
    folder, name = os.path.split(file)
    return folder in _SYSTEMS_OWN and _KEEPS_TO_ITSELF.fullmatch(name) is not None


def _find(name: str, folders: Iterable[str]) -> str:
    if not name or "/" in name or "\0" in name or name in (".", ".."):
        return ""  # a path is not a name
    for folder in folders:
        place = os.path.join(folder, name)
        if not os.path.isfile(place):
            continue
        real = os.path.realpath(place)
        # The first of its name is the one meant; another further on would be a surprise.
        return real if _is_program(real) else ""
    return ""


def _is_program(file: str) -> bool:
    return os.access(file, os.X_OK) and _is_safe(file) and _is_safe(os.path.dirname(file))


def _is_safe(place: str) -> bool:
    """Whether nobody but root and this user can change what lies there."""
    try:
        status = os.stat(place)
    except OSError:
        return False
    mode = status.st_mode
    others = mode & stat.S_IWOTH or (mode & stat.S_IWGRP and status.st_gid != 0)
    return status.st_uid in (0, os.geteuid()) and not others
