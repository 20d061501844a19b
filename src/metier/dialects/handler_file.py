"""Files of a skill that its tools are run from: which paths are taken, and which language a file is written in. Pure."""

from typing import Final, Literal, TypeAlias

from metier.model.entry import PythonHandler, ScriptHandler
from metier.model.text import hidden

Language: TypeAlias = Literal["javascript", "typescript"]

LONGEST_PATH: Final = 400
LANGUAGES: Final[dict[str, Language]] = {
    ".js": "javascript",
    ".cjs": "javascript",
    ".mjs": "javascript",
    ".ts": "typescript",
    ".cts": "typescript",
    ".mts": "typescript",
}
PYTHON: Final = ".py"


def path_problem(path: str) -> str:
    """Why `path` cannot name a file inside a skill's folder; empty when it can."""
    if not path or len(path) > LONGEST_PATH:
        return f"has {len(path)} characters; write a path of 1 to {LONGEST_PATH}"
    if "\\" in path or hidden(path) or "\n" in path or "\t" in path:
        return "holds a backslash or a character that cannot be seen; write folders and files joined by /"
    if any(part in ("", ".", "..") for part in path.split("/")):
        return "does not stay plainly inside the skill's folder; write it as scripts/handler.js, without ./ or ../ or / in front"
    return ""


def suffix_of(path: str) -> str:
    """What a file's name ends in, with the dot; empty when it has no such end."""
    name = path.rpartition("/")[2]
    return name[name.rfind(".") :] if "." in name[1:] else ""


def handler_at(path: str) -> ScriptHandler | PythonHandler | None:
    """The handler in a file of the skill, in the language its name says; None when that is no language we run."""
    suffix = suffix_of(path)
    if suffix == PYTHON:
        return PythonHandler(path=path)
    language = LANGUAGES.get(suffix)
    return ScriptHandler(path=path, language=language) if language is not None else None
