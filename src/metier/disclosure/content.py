"""What a model gets when it reads a skill: the instructions in a wrapper that they cannot leave.

Only spellings of the wrapper's own tag are changed in a body, and `{baseDir}` and `${CLAUDE_SKILL_DIR}` are
filled in. Nothing else is substituted and nothing is run: inline commands stay text, and a line says so.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

from metier.disclosure import NAME_LIMIT
from metier.disclosure.progressive import escaped
from metier.model.skill import Skill
from metier.model.text import INVISIBLE, one_line

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
    lines = [f'<skill_content name="{escaped(one_line(skill.name, NAME_LIMIT))}">']
    if _COMMAND.search(body):
        lines += [NOT_RUN, ""]
    # After the folder was filled in, or a folder's name could complete a tag.
    lines += [_wrapper().sub("&lt;", _FOLDER.sub(lambda _: folder, body.strip("\r\n"))), ""]
    lines += [f"Skill directory: {escaped(folder)}", "Relative paths in this skill start at that directory."]
    if resources:
        lines += ["", "<skill_resources>"]
        lines += [
            f"<file>{escaped(one_line(path, PATH_LIMIT))}</file>" for path in resources[:RESOURCE_LIMIT]
        ]
        if len(resources) > RESOURCE_LIMIT:
            lines.append(f"… and {len(resources) - RESOURCE_LIMIT} more")
        lines.append("</skill_resources>")
    return "\n".join([*lines, "</skill_content>"])


@cache  # takes milliseconds to build, and only somebody who reads a skill needs it
def _wrapper() -> re.Pattern[str]:
    """The start of the wrapper's tag, with spaces and unseen characters anywhere in it."""
    gap = rf"(?:\s|{INVISIBLE.pattern})*+"  # possessive: the two overlap, and backtracking would explode
    return re.compile(rf"<(?={gap}(?:/{gap})?{gap.join('skill_content')})", re.IGNORECASE)
