"""What an act depends on outside of itself: which program each name stands for, what the variables say that it is given, and
where the paths among its arguments lead. Somebody who approves the act approves it with these; with others it is another act.

Only for what somebody is asked about, and blocking: it follows paths. How far is bounded, and what goes beyond that cannot be
asked; nothing of it is left out in silence.
"""

import errno
import os
from collections.abc import Iterator, Mapping
from typing import Final

from metier.gate.situation import Programs
from metier.model.call import ValidCall
from metier.model.digest import Json, digest_bytes
from metier.model.text import one_line

MOST_PATHS: Final = 256
MOST_STEPS: Final = 4_096
"""Folders on the way of all paths together."""
_LONGEST: Final = 4096


def program_files(valid: ValidCall, programs: Programs) -> str:
    """Digest of which file each program is now, and of how it looks; empty for a call that uses none."""
    names = valid.permissions.binaries
    if not names:
        return ""
    found = programs(names)
    return digest_bytes("\n".join(f"{name} {_file(found.get(name, ''))}" for name in sorted(names)).encode())


def around(valid: ValidCall, programs: Programs, environ: Mapping[str, str]) -> dict[str, Json] | str:
    """All of it, or why it cannot be told. Only its keyed digest is ever stored: values of variables are in it."""
    paths = _paths(valid)
    if isinstance(paths, str):
        return paths
    return {
        "programs": program_files(valid, programs),
        "variables": {name: environ.get(name) for name in sorted(valid.permissions.env)},
        "paths": paths,
    }


def _file(path: str) -> str:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return f"{path!r} is not there"
    return f"{path!r} {found.st_dev} {found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def _paths(valid: ValidCall) -> dict[str, Json] | str:
    """Each text among the arguments that leads somewhere on this disk, and where."""
    start = valid.call.cwd or ""
    found: dict[str, Json] = {}
    steps = 0
    # Each text once, with the argument it stands in.
    texts = {text: name for name, value in valid.arguments.items() for text in _texts(value)}
    for text in sorted(texts):
        path = os.path.join(start, text) if start else text
        if not text or len(text) > _LONGEST or "\0" in text or not os.path.isabs(path):
            continue
        steps += path.count("/")
        if steps > MOST_STEPS:
            return f"its arguments name paths of more than {MOST_STEPS:,} folders, too many to be followed"
        try:
            # The system itself gives up on links that lead in a circle; following them by hand would not.
            there = _is_there(path)
            real = os.path.realpath(path)
        except (OSError, ValueError, RecursionError) as error:
            why = error.strerror if isinstance(error, OSError) else "it can be no name of a file"
            return f"argument {one_line(texts[text], 80)!r} names a path that cannot be followed: {why}"
        if there or real != os.path.normpath(path):
            found[text] = real
        if len(found) > MOST_PATHS:
            return f"its arguments name more than {MOST_PATHS} paths, too many to be followed"
    return found


def _is_there(path: str) -> bool:
    try:
        os.stat(path)
    except FileNotFoundError:
        return os.path.lexists(path)
    except NotADirectoryError:
        return False
    except PermissionError:
        return True
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return False  # an ordinary sentence, longer than a name can be
    return True


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
