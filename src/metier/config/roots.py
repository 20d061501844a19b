"""Where skills are looked for, in order of precedence, and which of these places the operator vouches for."""

import os
from typing import Final

from metier.config.settings import Root, RootKind

BUNDLED: Final = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "bundled")
"""What ships."""
USER_ROOTS: Final = (
    ".agents/skills",
    ".omniagent/skills",
    ".openclaw/skills",
    ".claude/skills",
    ".codex/skills",
)
PROJECT_ROOTS: Final = (
    "skills",
    ".skills",
    ".agents/skills",
    ".claude/skills",
    ".codex/skills",
    ".gemini/skills",
    "amber-skills",
    "brain/skills",
)


def roots(
    *,
    user: str,
    home: str,
    project: str,
    own: tuple[str, ...],
    theirs: tuple[str, ...],
    named: tuple[str, ...],
) -> tuple[tuple[Root, ...], list[str]]:
    """Every root, and what was passed over.

    Args:
        own: absolute, from the operator's file.
        theirs: from the project's file, relative to the project.
        named: from the command line or the calling program.
    """
    places: list[tuple[str, RootKind, bool]] = [(path, "extra", True) for path in named]
    places.append((os.path.join(home, "skills"), "user", True))
    own_places = {os.path.realpath(path) for path in (*named, *own, os.path.join(home, "skills"))}
    places.extend((os.path.join(user, path), "user", True) for path in USER_ROOTS)
    places.extend((os.path.join(project, path), "project", False) for path in PROJECT_ROOTS)
    places.extend((path, "extra", True) for path in own)
    places.extend((os.path.join(project, path), "extra", False) for path in theirs)
    places.append((BUNDLED, "bundled", True))
    inside = os.path.realpath(project).rstrip(os.sep) + os.sep
    found: dict[str, Root] = {}
    warnings: list[str] = []
    warnings.extend(
        f"there is no folder {path} to look for skills in"
        for path in (*named, *own)
        if not os.path.isdir(path)
    )
    for path, kind, trusted in places:
        real = os.path.realpath(path)
        problem = ""
        if any("\ud800" <= char <= "\udfff" for char in real):
            problem = f"{path!r} is not a UTF-8 path"
        elif not trusted and not real.startswith(inside):
            problem = f"{path} leads out of the project to {real}"
        if not problem:
            found.setdefault(real, Root(path=real, kind=kind, trusted=trusted, own=real in own_places))
        elif os.path.lexists(path):
            warnings.append(f"{problem}, so no skills are looked for there")
    return tuple(found.values()), warnings
