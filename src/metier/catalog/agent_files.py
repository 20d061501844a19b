"""Agents of the workspace: one file each in `brain/agents`, a program (`.py`, `.ts`) or a text with instructions (`.md`).

What lies there is found by its name alone and read once; links, and files with a second name, are no agents. Blocking.
"""

import os
from hashlib import sha256
from typing import Final, Literal, TypeAlias, final

from msgspec import Struct

from metier.dialects import frontmatter
from metier.model.diagnostic import Diagnostic
from metier.model.digest import Json
from metier.model.text import one_line
from metier.openfile import read_small

WHERE: Final = "brain/agents"
MAX_BYTES: Final = 1_048_576
Language: TypeAlias = Literal["python", "typescript"]
LANGUAGES: Final[dict[str, Language]] = {".py": "python", ".ts": "typescript"}
TEXT: Final = ".md"
MOST_SKILLS: Final = 64
_FIELDS: Final = frozenset({"name", "description", "model", "skills"})


@final
class AgentFile(Struct, frozen=True, kw_only=True):
    """An agent as it lies there."""

    name: str
    ending: str
    data: bytes

    @property
    def digest(self) -> str:
        """Of its bytes."""
        return f"sha256:{sha256(self.data).hexdigest()}"


@final
class Instructed(Struct, frozen=True, kw_only=True):
    """An agent that is a text: a model with instructions, and the skills it may use."""

    instructions: str
    model: str = ""
    """Empty: the operator's."""
    skills: tuple[str, ...] = ()


def find_agent(workspace: str, name: str) -> AgentFile | str:
    """The agent of this name, or why there is none."""
    folder = os.path.join(os.path.realpath(workspace), *WHERE.split("/"))
    if os.path.realpath(folder) != folder:
        return f"{WHERE} of the workspace is a link, and agents are not looked for elsewhere"
    endings = [each for each in (*LANGUAGES, TEXT) if os.path.lexists(os.path.join(folder, name + each))]
    if not endings:
        return f"there is no agent {one_line(name, 64)!r}: {WHERE} holds no such .py, .ts or .md file"
    if len(endings) > 1:
        return f"there are several agents {one_line(name, 64)!r} ({', '.join(endings)}); keep one of them"
    found = read_small(os.path.join(folder, name + endings[0]), most=MAX_BYTES)
    if isinstance(found, Diagnostic):
        return f"the agent {one_line(name, 64)!r} cannot be used: {found.message}"
    return AgentFile(name=name, ending=endings[0], data=found[0])


def read_instructions(data: bytes) -> Instructed | str:
    """What a text says of its agent, or what is wrong with it. Nothing is left out in silence."""
    document = frontmatter.read(data)
    if document.fields is None:
        return "; ".join(each.message for each in document.diagnostics) or "its frontmatter cannot be read"
    fields = document.fields
    if unknown := sorted(fields.keys() - _FIELDS):
        known = ", ".join(sorted(_FIELDS))
        return f"its frontmatter says {one_line(unknown[0], 60)!r}, which is none of {known}"
    model, skills = fields.get("model") or "", _names(fields.get("skills"))
    if not isinstance(model, str) or not (model.isascii() and model.isprintable()) or len(model) > 200:
        return "`model` in its frontmatter is no name of a model"
    if skills is None:
        return f"`skills` in its frontmatter is no list of at most {MOST_SKILLS} names"
    instructions = frontmatter.body(data)
    if not instructions.strip():
        return "it has no instructions; write below its frontmatter what it is to do"
    return Instructed(instructions=instructions, model=model, skills=skills)


def _names(value: Json) -> tuple[str, ...] | None:
    """A list of names, also one written in a line with commas."""
    given: list[Json] = (
        [*value.split(",")] if isinstance(value, str) else value if isinstance(value, list) else []
    )
    names = [each.strip() for each in given if isinstance(each, str)]
    if len(names) != len(given) or len(names) > MOST_SKILLS or not isinstance(value, str | list | None):
        return None
    return tuple(dict.fromkeys(filter(None, names)))
