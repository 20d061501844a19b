"""What an act depends on outside of itself: which program each name stands for, what the variables say that it is given, and
where the paths among its arguments lead. Somebody who approves the act approves it with these; with others it is another act.

Only for what somebody is asked about, and blocking: it follows paths. How far is bounded, and what goes beyond that cannot be
asked; nothing of it is left out in silence.
"""

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from typing import Final

from metier.gate.agent_bytes import NamedAgent, named_agent
from metier.gate.replaced import replaced
from metier.gate.situation import Programs
from metier.model.call import ValidCall
from metier.model.digest import Json, digest_bytes
from metier.model.ground import Ground
from metier.model.interpreters import hides_interpreter, is_interpreter
from metier.model.permission import WORKSPACE
from metier.model.program import OperatorProgram
from metier.model.text import one_line

MOST_PATHS: Final = 256
MOST_STEPS: Final = 4_096
"""Folders on the way of all paths together."""
_LONGEST: Final = 4096
_NOWHERE: Final = Ground()


def program_files(
    valid: ValidCall, programs: Programs, ground: Ground = _NOWHERE, agent: NamedAgent | None = None
) -> str:
    """Digest of which file each program is now, of how it looks, of what the operator gives to it, and of the bytes of an agent
    that is started; empty for a call that uses none. Values of variables are not in it."""
    names = valid.permissions.binaries
    agent = agent or named_agent(valid, ground)
    if not names and not agent.file:
        return ""
    found = programs(names)
    lines = [f"{name} {_file(found.get(name, ''))}{_given(name, ground)}" for name in sorted(names)]
    if agent.file:
        lines.append(f"agent {agent.file} {agent.digest}")
    return digest_bytes("\n".join(lines).encode())


def hidden_interpreter(valid: ValidCall, programs: Programs, ground: Ground) -> str:
    """A program of the call that runs whatever it is told though its name does not say so: by the operator's word, or by the file it
    is now; empty when there is none."""
    names = valid.permissions.binaries
    if not names:
        return ""
    found = programs(names)
    for name in sorted(names):
        own = ground.programs.get(name)
        # Nobody but the operator says what a program of his is called, so all that counts is its file.
        really = is_interpreter(os.path.realpath(own.file)) if own is not None and own.file else False
        if really or name in ground.interpreters:
            return name
        if own is None and hides_interpreter(name, found.get(name, "")):
            return name
    return ""


def around(
    valid: ValidCall,
    programs: Programs,
    environ: Mapping[str, str],
    ground: Ground = _NOWHERE,
    agent: NamedAgent | None = None,
) -> dict[str, Json] | str:
    """All of it, or why it cannot be told. Only its keyed digest is ever stored: values of variables are in it. `agent` is the
    one it names, where somebody looked at that already."""
    agent = agent or named_agent(valid, ground)
    if agent.problem:
        return agent.problem
    paths = _paths(valid, valid.call.cwd or "")
    if isinstance(paths, str):
        return paths
    inner = _paths(valid, _workspace(valid, ground), folders=True)
    if isinstance(inner, str):
        return inner
    lost = replaced(valid, ground)
    if isinstance(lost, str):
        return lost
    return {
        "programs": program_files(valid, programs, ground, agent),
        "variables": {name: environ.get(name) for name in sorted(valid.permissions.env)},
        "given": _values(valid, environ, ground),
        "paths": paths,
        "workspace": inner,
        "replaces": lost,
    }


def lasting(found: Mapping[str, Json]) -> dict[str, Json]:
    """Of what an act depends on, what it cannot have changed by running: not where its paths lead now, and what lies there."""
    return {name: each for name, each in found.items() if name not in ("paths", "workspace", "replaces")}


def named_programs(valid: ValidCall, ground: Ground) -> dict[str, OperatorProgram]:
    """The programs of a call that stand for what the operator says."""
    return {
        name: ground.programs[name] for name in sorted(valid.permissions.binaries & ground.programs.keys())
    }


def _given(name: str, ground: Ground) -> str:
    program = ground.programs.get(name)
    if program is None:
        return ""
    names = (
        program.spellings,
        program.reads,
        program.writes,
        program.hosts,
        program.env,
        program.environment,
    )
    return f" {program.before!r} {[sorted(each) for each in names]!r}"


def _values(valid: ValidCall, environ: Mapping[str, str], ground: Ground) -> dict[str, Json]:
    """What the variables say that the operator's programs are given."""
    return {
        name: {**{each: environ.get(each) for each in sorted(program.env)}, **program.environment}
        for name, program in named_programs(valid, ground).items()
    }


def _workspace(valid: ValidCall, ground: Ground) -> str | None:
    """Where relative paths begin for a tool that works in the workspace."""
    needs = valid.permissions.reads | valid.permissions.writes
    return ground.workspace if any(path.partition("/")[0] == WORKSPACE for path in needs) else None


def _file(path: str) -> str:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return f"{path!r} is not there"
    return f"{path!r} {found.st_dev} {found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def _paths(valid: ValidCall, start: str | None, *, folders: bool = False) -> dict[str, Json] | str:
    """Each text among the arguments that leads somewhere on this disk, seen from `start`, and where. With `folders` also
    which folder it is, whatever has its name later."""
    found: dict[str, Json] = {}
    if start is None:
        return found
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
            found[text] = _which(real) if folders else real
        if len(found) > MOST_PATHS:
            return f"its arguments name more than {MOST_PATHS} paths, too many to be followed"
    return found


def _which(path: str) -> Json:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return path
    return [path, status.st_dev, str(status.st_ino)] if stat.S_ISDIR(status.st_mode) else path


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
