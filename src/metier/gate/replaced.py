"""The file that a call may replace: who is asked sees what is lost, and agrees to losing exactly that.

It concerns tools that MetaHuman's check `isWriteAllowed` holds to their folders, where the call says `overwrite: true`. Such
a call is asked each time: nobody can have agreed in advance to losing what he has not seen. Its code is told what was agreed to,
to compare it once more at the moment of writing. Blocking: the file is read.
"""

import os
import stat
from collections.abc import Callable
from hashlib import sha256
from typing import Final

from metier.model.call import ValidCall
from metier.model.digest import Json
from metier.model.ground import Ground
from metier.model.text import one_line

FLAG: Final = "overwrite"
MOST_BYTES: Final = 16_777_216
"""Of what is larger nobody can say at once what it is."""
_PIECE: Final = 1_048_576
_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def may_replace(valid: ValidCall) -> bool:
    """Whether the call may put a file in the place of another."""
    return valid.arguments.get(FLAG) is True and any(
        check == "isWriteAllowed" for check in valid.tool.checks.values()
    )


def replaced(valid: ValidCall, ground: Ground) -> dict[str, Json] | str:
    """By argument: size and digest of the file that lies there now, None where there is none; or why that cannot be told."""
    found: dict[str, Json] = {}
    if not may_replace(valid):
        return found
    for argument, check in valid.tool.checks.items():
        path = valid.arguments.get(argument)
        if check != "isWriteAllowed" or not isinstance(path, str):
            continue
        # Without a slash at its end, with which a file that is there would look like none.
        looked = _looked_at(os.path.normpath(os.path.join(ground.workspace, path)))
        if isinstance(looked, str):
            return f"argument {one_line(argument, 80)!r} names what cannot be replaced: {looked}"
        found[argument] = looked
    return found


def agreed_to(around: dict[str, Json] | str) -> dict[str, Json]:
    """What an act that somebody decided about may replace, by argument, of all that it depends on."""
    found = around.get("replaces") if isinstance(around, dict) else None
    return found if isinstance(found, dict) else {}


def replaced_line(valid: ValidCall, found: Json) -> str:
    """What an approver is told of it; empty when nothing is replaced."""
    said: list[str] = []
    for argument, looked in found.items() if isinstance(found, dict) else ():
        if isinstance(looked, dict):
            path = one_line(str(valid.arguments.get(argument)), 200)
            said.append(f"replaces {path!r}: {looked['size']:,} bytes, {looked['digest']}")
    return "; ".join(said)


def _looked_at(path: str) -> dict[str, Json] | str | None:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return "a part of the way to it is no folder"
    except (OSError, ValueError) as error:
        return (error.strerror or "it cannot be looked at") if isinstance(error, OSError) else "it is no path"
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    try:
        descriptor = os.open(path, _OPEN)
    except OSError as error:
        return error.strerror or "it cannot be read"
    with open(descriptor, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return "it is not a regular file"
        return _measured(file.read)


def _measured(read: Callable[[int], bytes | None]) -> dict[str, Json] | str:
    size, digest = 0, sha256()
    while piece := read(_PIECE):
        size += len(piece)
        if size > MOST_BYTES:
            return f"it has more than {MOST_BYTES:,} bytes, too many to be shown as one thing"
        digest.update(piece)
    return {"size": size, "digest": f"sha256:{digest.hexdigest()}"}
