"""The folders of the workspace that no skill is given, whatever it declares and whoever grants it. Pure."""

from typing import Final

CODE: Final = frozenset({"brain", "packages", "apps", "node_modules"})
"""They hold what is run: no skill reads or writes them."""
IDENTITY: Final = frozenset({"persona"})
"""They say who the agent is: they are read, and never written."""


def why_kept(inside: str, *, writes: bool) -> str:
    """Why a path from the workspace on is not given; empty when it may be. To read all of it means all but the code, to write
    all of it would be to write that too."""
    first = inside.strip("/").partition("/")[0]
    folded = first.casefold()
    if folded in CODE:
        return f"no skill gets {', '.join(sorted(CODE))} of the workspace"
    if writes and folded in IDENTITY:
        return f"{first!r} of the workspace is only read, because it says who the agent is"
    if writes and not first:
        return "the workspace as a whole holds what is run; name the folders that are needed"
    return ""
