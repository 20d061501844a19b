"""What a server's program takes from this machine: its package, its interpreter, the folders it is told about. Only looked at.

A folder that holds the home or Metier's own state is never proposed: keys lie there, and no run would be given it.
"""

import os
import re
from glob import glob
from typing import Final, final

from msgspec import Struct

from metier.model.interpreters import is_interpreter
from metier.model.text import one_line
from metier.sandbox.job_binaries import real_programs

_PROJECT: Final = ("package.json", "pyproject.toml")
_UV_FOLDER: Final = frozenset({"--directory", "--project"})
_UV_DROPPED: Final = frozenset({"-q", "--quiet", "--frozen", "--locked", "--no-sync", "--no-progress", "--"})
_PYTHON: Final = re.compile(r"python[0-9.]*")


@final
class Taken(Struct, frozen=True, kw_only=True):
    """Folders and files for reading, and what is to be known of those that are not."""

    reads: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


@final
class OwnProgram(Struct, frozen=True, kw_only=True):
    """A use of a program that only the operator can name, as lines for his metier.toml."""

    lines: str
    called: str
    args: list[str]
    """What is left of its arguments."""
    notes: tuple[str, ...] = ()


def folders_among(words: list[str], state: str) -> Taken:
    """The folders that a line tells of, but for those that hold too much."""
    found = [each for each in words if os.path.isabs(each) and os.path.isdir(each)]
    small = frozenset(each for each in found if not _holds_too_much(each, state))
    notes = (
        f"{one_line(each, 200)} is not proposed for reading, for it holds your home or Metier's state; name folders below it"
        for each in found
        if each not in small
    )
    return Taken(reads=small, notes=tuple(notes))


def reads_of(program: str, path: str) -> frozenset[str] | None:
    """What a program of the path takes besides itself: the environment of the interpreter that it names. None when it is not there."""
    file = real_programs((program,), path).get(program)
    return None if file is None else _named_by(file)


def own_program(
    name: str, line: list[str], *, path: str, folder: str, project: bool, state: str
) -> OwnProgram:
    """Name a program for one use.

    Args:
        name: of the skill.
        line: the program and its arguments.
        path: where programs are looked for.
        folder: that the client runs it in; empty where that is not said.
        project: whether `folder` is a Python project that it is a part of.
        state: Metier's own folder.
    """
    program, args = line[0], line[1:]
    file = program if os.path.isabs(program) else real_programs((program,), path).get(program, program)
    called = f"{name}-server"
    # `time2-server` would count as GNU time: what it may do must not depend on what it is called here.
    if is_interpreter(called):
        called = f"mcp-{called}"
    before = [_whole(each, folder) for each in args] if is_interpreter(program) else []
    told = folders_among(before, state)
    scripts = _scripts(before, state)
    folders = _environment_of(file) | _named_by(file) | told.reads | scripts.reads
    if project and not _holds_too_much(folder, state):
        folders |= {folder}
    lines = [f"[binaries.programs.{called}]", f"file = {_quoted(file)}"]
    if before:
        lines.append(f"before = [{', '.join(map(_quoted, before))}]")
    if folders:
        lines.append(f"reads = [{', '.join(map(_quoted, sorted(folders)))}]")
    packages = [
        each
        for above in sorted(folders)
        if os.path.isfile(f"{above}/pyvenv.cfg")
        for each in glob(f"{above}/lib/python*/site-packages")
    ][:1]
    if packages:
        # The real file is what is started, and that knows nothing of a virtual environment, nor of what is installed to be edited.
        packages += [each for each in (f"{folder}/src", folder) if project and os.path.isdir(each)]
        lines.append(f"environment = {{ PYTHONPATH = {_quoted(':'.join(packages))} }}")
    note = f"{one_line(program, 80)} is not run by every skill that asks: name this one use of it in metier.toml, as {called}"
    return OwnProgram(
        lines="\n".join(lines),
        called=called,
        args=[] if before else args,
        notes=(note, *told.notes, *scripts.notes),
    )


def uv_run(line: list[str], folder: str) -> tuple[list[str], str] | str:
    """What `uv run` would start in a project, by the environment that is there, and the project's folder; or why that cannot be told."""
    words, ran = line[1:], False
    while words and (words[0].startswith("-") or not ran):
        flag, sign, value = words[0].partition("=")
        if words[0] == "run":
            ran, words = True, words[1:]
        elif flag in _UV_FOLDER and (sign or len(words) > 1):
            folder, words = (value, words[1:]) if sign else (words[1], words[2:])
        elif words[0] in _UV_DROPPED:
            words = words[1:]
        elif ran and words[0] in ("-m", "--module"):
            words = ["python", "-m", *words[1:]]
        else:
            return "what uv would run cannot be told from its line; name the program itself in a copy of the file"
    if not words:
        return "what uv would run cannot be told from its line; name the program itself in a copy of the file"
    if not os.path.isabs(folder):
        return "uv run works in a folder that its line does not name; say --directory in a copy of the file"
    folder = os.path.normpath(folder)
    programs = os.path.join(folder, ".venv", "bin")
    if not os.path.exists(f"{programs}/python"):
        return f"uv run makes an environment in {one_line(folder, 200)} first; run `uv sync` there yourself, then import again"
    if words[0].endswith(".py"):
        return [f"{programs}/python", *words], folder
    if _PYTHON.fullmatch(words[0]):
        return [f"{programs}/python", *words[1:]], folder
    if "/" in words[0] or not os.path.isfile(f"{programs}/{words[0]}"):
        return "the program that uv run would start is not in the project's environment; run `uv sync` there, then import again"
    return [f"{programs}/{words[0]}", *words[1:]], folder


def _whole(word: str, folder: str) -> str:
    """A file that is named from the folder it runs in, named from the top."""
    place = os.path.normpath(os.path.join(folder, word)) if os.path.isabs(folder) else ""
    return place if place and not word.startswith("-") and os.path.isfile(place) else word


def _scripts(words: list[str], state: str) -> Taken:
    """For each file among the words the folder of the project it is a part of, as far down as that is told."""
    reads: set[str] = set()
    notes: list[str] = []
    for each in words:
        if not os.path.isabs(each) or not os.path.isfile(each):
            continue
        above = os.path.dirname(each)
        if _holds_too_much(above, state):
            reads.add(each)
            notes.append(
                f"{one_line(each, 200)} lies where much else does, so it may read that file alone; move it into a folder of its own "
                "if it needs others"
            )
        else:
            reads.add(_project_of(above, state))
    return Taken(reads=frozenset(reads), notes=tuple(notes))


def _project_of(folder: str, state: str) -> str:
    above = folder
    while not _holds_too_much(above, state):
        if any(os.path.isfile(os.path.join(above, each)) for each in _PROJECT):
            return above
        above = os.path.dirname(above)
    return folder


def _holds_too_much(folder: str, state: str) -> bool:
    real = os.path.realpath(folder)
    kept = (os.path.realpath(each) for each in (os.path.expanduser("~"), state, "/") if each)
    return any(os.path.commonpath((real, each)) == real for each in kept)


def _named_by(file: str) -> frozenset[str]:
    """The environment of the interpreter that the first line of a script names."""
    try:
        with open(file, "rb") as opened:
            first = opened.read(512).split(b"\n")[0]
    except OSError:
        return frozenset()
    words = os.fsdecode(first[2:]).split() if first.startswith(b"#!") else []
    return _environment_of(words[0]) if words and os.path.isabs(words[0]) else frozenset()


def _environment_of(interpreter: str) -> frozenset[str]:
    """The folders that an interpreter of a virtual environment takes, and none for one of the system."""
    found: set[str] = set()
    top = os.path.dirname(os.path.dirname(interpreter))
    if os.path.isfile(os.path.join(top, "pyvenv.cfg")):
        found.add(os.path.realpath(top))
    real = os.path.realpath(interpreter)
    base = os.path.dirname(os.path.dirname(real))
    if os.path.isfile(real) and base.count("/") > 1 and not base.startswith("/usr"):
        found.add(base)
    return frozenset(found)


def _quoted(text: str) -> str:
    """A text as TOML writes it."""
    import json

    return json.dumps(text, ensure_ascii=False)
