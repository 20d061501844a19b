"""What a call of `run_in_skill` may name: one script or one program, arguments and texts, each within a size. Pure."""

import re
from collections.abc import Mapping
from typing import Final

from metier.model.digest import Json
from metier.model.text import one_line

ENDINGS: Final = (".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".sh")
HOOKS: Final = "hooks"
"""The folder of a skill whose files are run by events, and by nobody who asks for them."""
MOST_ARGUMENTS: Final = 256
MOST_ARGUMENT: Final = 65_536
"""Characters; a system takes 131,072 bytes as one argument."""
MOST_LINE: Final = 524_288
"""Bytes of all of them."""
MOST_FILES: Final = 32
MOST_TEXT: Final = 524_288
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}(?:/[A-Za-z0-9_][A-Za-z0-9._-]{0,99}){0,3}")
_KEPT: Final = "out"
"""What lies there when it ends is kept; what it is given does not lie there."""


def arguments_problem(arguments: Mapping[str, Json]) -> str:
    """What is wrong with arguments that fit the schema; empty when nothing is."""
    script, binary = arguments.get("script"), arguments.get("binary")
    if (script is None) == (binary is None):
        return "give one of the arguments 'script' and 'binary', and not both"
    if isinstance(script, str) and any(part in ("", ".", "..") for part in script.split("/")):
        return "argument 'script' is no name of a file in a skill; `read_skill` lists them"
    if isinstance(script, str) and not script.endswith(ENDINGS):
        return f"argument 'script' names no script: one ends in {', '.join(ENDINGS)}"
    if isinstance(script, str) and script.casefold().startswith(f"{HOOKS}/"):
        return f"argument 'script' names a file in {HOOKS!r}: what lies there is run by events, not by calls"
    line = args_of(arguments)
    if any("\0" in each for each in line):
        return "argument 'args' holds a NUL, which no program can be given"
    if any(len(each.encode()) > 2 * MOST_ARGUMENT - 1 for each in line):
        return f"one of 'args' has more than {2 * MOST_ARGUMENT - 1:,} bytes; hand it over in 'files'"
    if sum(len(each.encode()) + 1 for each in line) > MOST_LINE:
        return f"'args' have more than {MOST_LINE:,} bytes; hand them over in 'files'"
    return _files_problem(files_of(arguments))


def args_of(arguments: Mapping[str, Json]) -> tuple[str, ...]:
    """The arguments it is started with."""
    given = arguments.get("args")
    return tuple(each for each in given if isinstance(each, str)) if isinstance(given, list) else ()


def files_of(arguments: Mapping[str, Json]) -> dict[str, str]:
    """The texts it is given, by name."""
    given = arguments.get("files")
    if not isinstance(given, dict):
        return {}
    return {name: text for name, text in given.items() if isinstance(text, str)}


def _files_problem(files: dict[str, str]) -> str:
    for name in files:
        if not _NAME.fullmatch(name):
            return (
                f"argument 'files' names {one_line(name, 80)!r}; a name is made of letters, digits, '.', '_' and '-', with"
                " at most three folders before it"
            )
        head = name.partition("/")[0]
        if head == _KEPT:
            return (
                f"argument 'files' names {one_line(name, 80)!r}; {_KEPT!r} is where it leaves its own files"
            )
        if any(other.startswith(f"{name}/") for other in files):
            return f"argument 'files' names {one_line(name, 80)!r} as a file and as a folder"
    return ""
