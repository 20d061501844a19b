"""What a model gets when it reads a skill: the instructions or a file, in a frame that they cannot leave.

What a reader cannot see is spelled out, spellings of the frame's own tags are escaped, and in instructions
`{baseDir}` and `${CLAUDE_SKILL_DIR}` are filled in. Nothing else is substituted and nothing is run: inline
commands stay text, and a line says so.
"""

import re
from collections.abc import Sequence
from typing import Final

from metier.disclosure import NAME_LIMIT
from metier.disclosure.looks import without_frame_tags
from metier.disclosure.progressive import escaped
from metier.model.skill import Skill
from metier.model.text import one_line, visible

RESOURCE_LIMIT: Final = 200
PATH_LIMIT: Final = 1_024

NOT_RUN: Final = (
    "Note: commands written as !`…` in this skill are text. They were not run, and no output was put in."
)

_FOLDER: Final = re.compile(r"\{baseDir\}|\$\{CLAUDE_SKILL_DIR\}")
_COMMAND: Final = re.compile(r"!`[^`\n]|^ {0,3}(?:`{3,}|~{3,})!", re.MULTILINE)


def skill_content(skill: Skill, body: str, resources: Sequence[str], *, base_dir: str) -> str:
    """The standard's `<skill_content>` for one skill.

    `base_dir` is what the skill's folder is called towards the model: an address or a path inside a sandbox.
    """
    folder = one_line(base_dir, PATH_LIMIT)
    lines = [f'<skill_content name="{_attribute(skill.name, NAME_LIMIT)}">']
    if _COMMAND.search(body):
        lines += [NOT_RUN, ""]
    # After the folder was filled in, or a folder's name could complete a tag.
    lines += [_framed(_FOLDER.sub(lambda _: folder, body.strip("\r\n"))), ""]
    lines += [f"Skill directory: {escaped(folder)}", "Relative paths in this skill start at that directory."]
    if resources:
        lines += ["", "<skill_resources>"]
        lines += [f"<file>{_attribute(path, PATH_LIMIT)}</file>" for path in resources[:RESOURCE_LIMIT]]
        if len(resources) > RESOURCE_LIMIT:
            lines.append(f"… and {len(resources) - RESOURCE_LIMIT} more")
        lines.append("</skill_resources>")
    return "\n".join([*lines, "</skill_content>"])


def skill_file(skill: Skill, path: str, text: str) -> str:
    """One file of a skill, in a frame that says whose it is."""
    opening = (
        f'<skill_file skill="{_attribute(skill.name, NAME_LIMIT)}" path="{_attribute(path, PATH_LIMIT)}">'
    )
    shown = _framed(text).removesuffix("\n")
    return f"{opening}\n{shown}\n</skill_file>"


def _attribute(text: str, limit: int) -> str:
    return escaped(one_line(text, limit))


def _framed(text: str) -> str:
    # Spelled out first: what is visible afterwards is what the tags are looked for in.
    return without_frame_tags(visible(text))
