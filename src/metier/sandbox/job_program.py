"""What `run_in_skill` runs: a file of the skill's own bundle with the interpreter that fits it, or a declared program."""

import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from metier.catalog.bundle import Snapshot
from metier.model.digest import Json
from metier.model.entry import Command, Program
from metier.model.in_skill import args_of
from metier.model.text import one_line
from metier.sandbox.native_line import interpreter_problem

Language: TypeAlias = Literal["python", "javascript", "typescript", "sh", "bash"]
_LANGUAGES: Final[dict[str, Language]] = {
    ".py": "python",
    **dict.fromkeys((".js", ".mjs", ".cjs"), "javascript"),
    **dict.fromkeys((".ts", ".mts"), "typescript"),
}
_FIRST_LINE: Final = re.compile(rb"#![ \t]*(?:\S*/)?(?:env[ \t]+(?:-S[ \t]+)?)?(?:\S*/)?([^\s/]+)")
_SHELLS: Final[dict[str, Language]] = {"sh": "sh", "dash": "sh", "ash": "sh", "bash": "bash"}


def program_of(
    arguments: Mapping[str, Json], snapshot: Snapshot | None, binaries: Mapping[str, str]
) -> Program | Command | str:
    """What the call names, or why it cannot be run."""
    binary, script = arguments.get("binary"), arguments.get("script")
    if isinstance(binary, str):
        if binary in binaries:
            return Command(argv=(binary, *args_of(arguments)))
        return (
            f"the program {one_line(binary, 80)!r} is not found in a folder of your path that only you and root can "
            "write to"
        )
    path = script if isinstance(script, str) else ""
    data = snapshot.read(path) if snapshot is not None else None
    if data is None:
        return f"the skill has no file {one_line(path, 120)!r}"
    language = _language(path, data)
    if language is None:
        said = _FIRST_LINE.match(data)
        asked = one_line(said[1].decode(errors="replace"), 40) if said else ""
        return f"the first line of {one_line(path, 120)!r} asks for {asked!r}, and only sh and bash are run"
    if problem := interpreter_problem(language):
        return f"{one_line(path, 120)!r} cannot be run: {problem}"
    return Program(path=path, language=language, args=args_of(arguments))


def _language(path: str, data: bytes) -> Language | None:
    """By the ending of its name; of a shell script the first line says which shell."""
    if not path.endswith(".sh"):
        return _LANGUAGES[path[path.rindex(".") :]]
    said = _FIRST_LINE.match(data[:256])
    return "sh" if said is None else _SHELLS.get(said[1].decode(errors="replace"))
