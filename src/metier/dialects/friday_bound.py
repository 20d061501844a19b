"""`allowedPermissions`: the most a friday skill may be given. It grants nothing; an action that needs more is refused.

Two vocabularies stand in one list. Rights are those of F.R.I.D.A.Y.'s roles (`skills:execute`); permissions name one
thing each (`host:api.example.com`, `binary:git`, `read:/path`, `write:/path`, `secret:NAME`). A list that speaks of one
of the two bounds that one; an empty list, and one without a word that is understood, allows nothing.
"""

from typing import Final

from metier.dialects.friday_part import Part
from metier.model.permission import OWN_FOLDER, WORKSPACE, PermissionSet
from metier.model.skill import Tool
from metier.model.text import one_line

EXECUTE: Final = "skills:execute"
RIGHTS: Final = frozenset({"skills:create", EXECUTE, "skills:approve", "skills:marketplace"})
LONGEST: Final = 500
_KINDS: Final = {
    "binary": "binaries",
    "read": "reads",
    "write": "writes",
    "host": "hosts",
    "env": "env",
    "secret": "secrets",
    "operation": "operations",
    "channel": "channels",
}
_PATHS: Final = ("reads", "writes")


def check(whole: Part, tools: tuple[Tool, ...]) -> None:
    """Refuse every action that needs more than the list allows, where there is one."""
    words = whole.texts("allowedPermissions", LONGEST, bounds=True)
    if words is None:
        return
    rights = RIGHTS.intersection(words)
    named = [word for word in words if word not in RIGHTS]
    bound = OWN_FOLDER
    for word in named:
        bound = bound | _permission(whole, word)
    nothing = not rights and not named
    for tool in tools:
        action = tool.name.rpartition("/")[2]
        if (rights and EXECUTE not in rights) or nothing:
            message = (
                f"allowedPermissions does not name {EXECUTE}, so the action {action} may not run; add it"
            )
            whole.note("beyond_allowed", "error", message, "allowedPermissions")
        elif named and (beyond := tool.permissions.beyond(bound)):
            missing = ", ".join(f'"{one_line(each, 80)}"' for each in _spelled(beyond)[:5])
            message = (
                f"the action {action} needs more than allowedPermissions names; add {missing}, or remove it"
            )
            whole.note("beyond_allowed", "error", message, "allowedPermissions")


def _permission(whole: Part, word: str) -> PermissionSet:
    """The one thing that `word` names; nothing, and said, when it is not understood."""
    kind, _, thing = word.partition(":")
    name = _KINDS.get(kind.strip().lower())
    thing = thing.strip()
    if name in _PATHS and thing and not thing.startswith(("/", "{")):
        thing = f"{WORKSPACE}/{thing}"
    if name and thing:
        try:
            return PermissionSet(**{name: frozenset({thing.rstrip("/") or thing})})
        except ValueError:
            pass  # a path that is not in normal form, or a pattern
    message = (
        f'"{one_line(word, 60)}" in allowedPermissions allows nothing; write {", ".join(sorted(_KINDS))} with a colon and'
        " the one thing meant, such as host:api.example.com"
    )
    whole.note("unknown_permission", "warning", message, "allowedPermissions")
    return PermissionSet()


def _spelled(permissions: PermissionSet) -> list[str]:
    singular = {plural: kind for kind, plural in _KINDS.items()}
    return [
        f"{singular[name]}:{each}" for name, all_of_it in permissions.plain().items() for each in all_of_it
    ]
