"""A shell action of a friday skill, without a shell: one program, its arguments, and the folders it may use.

The line is taken apart once, when it is read. A `{{name}}` place is one whole argument and never the program. Folders
are absolute, or lie below the workspace; what is not named cannot be touched.
"""

import re
from typing import Final

from metier.dialects import friday_places
from metier.dialects.command_places import place_problem
from metier.dialects.friday_part import Part
from metier.dialects.shell_words import PLACE, NoWords, split
from metier.dialects.tool_words import BINARY, PLAIN_BINARY
from metier.dialects.written_secrets import looks_secret
from metier.model.digest import Json
from metier.model.entry import Command
from metier.model.permission import BASE_DIR, OWN_FOLDER, WORKSPACE, PermissionSet
from metier.model.text import hidden, one_line

LONGEST_COMMAND: Final = 2_000
LONGEST_PATH: Final = 1_000
_PATTERN: Final = re.compile(r"[*?\[\]$`]|^~")


def command(part: Part, schema: dict[str, Json]) -> tuple[Command, PermissionSet] | None:
    """The command and what it needs, or None after an error."""
    line = part.text("command", LONGEST_COMMAND, needed=True)
    argv = _argv(part, schema, line) if line else ()
    allowed = part.texts("allowedPaths", LONGEST_PATH, bounds=True)
    bounds = None if allowed is None else [_folder(part, path, "allowedPaths") for path in allowed]
    written = part.text("cwd", LONGEST_PATH)
    cwd = _folder(part, written, "cwd") if written else ""
    if cwd and bounds is not None and not any(_below(cwd, bound) for bound in bounds):
        message = "`cwd` lies in none of the `allowedPaths`; name one there that holds it"
        part.note("bad_path", "error", message)
    if not part.sound or not argv:
        return None
    used = [cwd] if bounds is None else bounds
    paths = frozenset(path for path in used if path)
    # A skill's own folder is what was trusted: it is read, never written.
    writes = frozenset(path for path in paths if path.partition("/")[0] != BASE_DIR)
    needs = PermissionSet(binaries=frozenset({argv[0]}), reads=paths, writes=writes)
    return Command(argv=argv, cwd=cwd), OWN_FOLDER | needs


def _argv(part: Part, schema: dict[str, Json], line: str) -> tuple[str, ...]:
    words = split(line)
    if isinstance(words, NoWords):
        message = f"the command is refused: {words.why}; one program with its arguments is all it can be"
        part.note("shell_refused", "error", message)
        return ()
    argv = tuple(map(friday_places.tidy, words))
    program = one_line(argv[0], 60)
    if PLACE.search(argv[0]):
        message = f"no argument may choose the program ({program!r}); name it"
        part.note("place_refused", "error", message)
    elif not BINARY.fullmatch(argv[0]):
        part.note("shell_refused", "error", f"{program!r} is no program by its plain name; {PLAIN_BINARY}")
    for word in argv[1:]:
        _check_word(part, schema, word)
    if message := place_problem(argv):
        part.note("place_refused", "error", message)
    if looks_secret(line):
        message = (
            "the command seems to hold a credential in plain sight, which every user of the machine can see"
        )
        part.note("credential_written", "warning", message)
    return argv


def _check_word(part: Part, schema: dict[str, Json], word: str) -> None:
    if PLACE.fullmatch(word):
        friday_places.check(part, schema, word, "the command")
    elif PLACE.search(word):
        message = f"a place must be an argument of its own, and {one_line(word, 60)!r} holds more; put a blank around it"
        part.note("place_refused", "error", message)


def _folder(part: Part, written: str, key: str) -> str:
    """The folder as a permission names it; empty after an error."""
    shown = f"`{key}`: {one_line(written, 80)!r}"
    path = written.rstrip("/") if written.strip("/") else ""
    if not path:
        part.note("bad_path", "error", f"{shown} is the whole machine; name the folders that are needed")
        return ""
    if PLACE.search(path) or _PATTERN.search(path) or hidden(path) or not path.isprintable():
        message = (
            f"{shown} is no plain path; write it without places, patterns, variables, ~ or unseen characters"
        )
        part.note("bad_path", "error", message)
        return ""
    parts = path.split("/")
    if ".." in parts:
        part.note("bad_path", "error", f"{shown} leads upward by `..`; write where it leads")
        return ""
    head = parts[0] if parts[0] in ("", BASE_DIR, WORKSPACE) else None
    rest = [each for each in (parts if head is None else parts[1:]) if each not in ("", ".")]
    if head is None and any("{" in each or "}" in each for each in parts[:1]):
        message = f"{shown} begins with what is neither {BASE_DIR} nor {WORKSPACE}"
        part.note("bad_path", "error", message)
        return ""
    if head == "" and not rest:
        part.note("bad_path", "error", f"{shown} is the whole machine; name the folders that are needed")
        return ""
    return "/".join([WORKSPACE if head is None else head, *rest])


def _below(path: str, folder: str) -> bool:
    return bool(folder) and (path == folder or path.startswith(f"{folder}/"))
