"""`SKILL_MANIFEST.json`: a root that has one offers only the folders it names.

It is read before anything else in the root. Malformed or empty means nothing of that root; for a folder that
is not named nothing is opened.
"""

import os
from typing import Final, final

from msgspec import Struct

from metier.dialects.names import name_problem
from metier.model import strictjson
from metier.model.diagnostic import Diagnostic
from metier.openfile import read_small

FILE: Final = "SKILL_MANIFEST.json"


@final
class Allowlist(Struct, frozen=True, kw_only=True):
    """What the manifest of one root says."""

    names: tuple[str, ...] | None
    """Folders that may be looked at; None when the root has no manifest."""
    problem: Diagnostic | None = None


def read(root: str) -> Allowlist:
    """The allowlist of `root`. Anything wrong with it means that nothing is approved."""
    found = read_small(os.path.join(root, FILE), most=strictjson.MAX_BYTES)
    if isinstance(found, Diagnostic):
        return Allowlist(names=None) if found.code == "missing" else _nothing(found.message)
    try:
        tree = strictjson.loads(found[0])
    except ValueError as error:
        return _nothing(f"it is not strict JSON: {error}")
    names = tree.get("approvedSkills") if isinstance(tree, dict) else None
    if not isinstance(names, list) or not names:
        return _nothing("approvedSkills is missing or empty; list the folders that may be loaded")
    approved: list[str] = []
    for name in names:
        problem = name_problem(name) if isinstance(name, str) else "it is not a string"
        if problem or not isinstance(name, str):
            return _nothing(f"approvedSkills holds {name!r}: {problem}")
        approved.append(name)
    return Allowlist(names=tuple(dict.fromkeys(approved)))


def _nothing(reason: str) -> Allowlist:
    message = f"{FILE} approves nothing, so no skill of this root is loaded: {reason}"
    return Allowlist(
        names=(), problem=Diagnostic(code="allowlist_invalid", severity="error", message=message)
    )
