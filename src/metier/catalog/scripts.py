"""Whether skills bring something to run besides their text: a look at the names in their folders, not at what is in them."""

import os
from collections.abc import Generator, Iterable
from itertools import islice
from typing import Final

from metier.model.in_skill import ENDINGS, HOOKS
from metier.model.skill import Skill
from metier.model.text import one_line

MOST_NAMES: Final = 5_000
"""Where there are more to look through, some of them will be scripts."""
_MOST_NAMED: Final = 20


def can_run_something(skills: Iterable[Skill]) -> bool:
    """Whether any of these is a skill without tools that declares a program or brings a script for models. Blocking."""
    prompts = [
        skill
        for skill in skills
        if not skill.tools and skill.model_may_invoke and skill.source != "community"
    ]
    if any(skill.permissions.binaries for skill in prompts):
        return True
    left = MOST_NAMES
    for skill in prompts:
        for folder, folders, files in os.walk(skill.location):
            if folder == skill.location:
                folders[:] = [name for name in folders if name != HOOKS]
            left -= len(folders) + len(files)
            if left < 0 or any(name.endswith(ENDINGS) for name in files):
                return True
    return False


def brings_code(folder: str) -> bool:
    """Whether anything in the folder of a skill is a script, or code of a hook, whoever may have it run. Blocking."""
    left = MOST_NAMES
    for _, folders, files in os.walk(folder):
        left -= len(folders) + len(files)
        if left < 0 or any(name.endswith(ENDINGS) for name in files):
            return True
    return False


def script_problem(skill: Skill, script: str) -> str:
    """Why the skill has no such script, with those it has; empty when it has it. `script` leads nowhere out of it. Blocking."""
    if not skill.location or os.path.isfile(os.path.join(skill.location, script)):
        return ""
    names = [one_line(name, 120) for name in islice(_scripts(skill.location), _MOST_NAMED)]
    others = f"its scripts are: {', '.join(names)}" if names else "it has no scripts"
    return f"the skill has no file {one_line(script, 120)!r}; {others}"


def _scripts(top: str) -> Generator[str]:
    """Names of scripts that can be called, in order."""
    left = MOST_NAMES
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(name for name in folders if folder != top or name != HOOKS)
        left -= len(folders) + len(files)
        if left < 0:
            return
        for name in sorted(files):
            if name.endswith(ENDINGS):
                yield os.path.relpath(os.path.join(folder, name), top)
