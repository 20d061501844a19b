"""What a client says about itself among the arguments of an operation is thrown away: who asks is known, and never said.

Where arguments are there to be kept, that would lose something without a word. There it is refused instead.
"""

from typing import Final, cast

from metier.model.claims import CLAIMS
from metier.model.digest import Json

_KEPT: Final[dict[str, str]] = {
    "settings.set_skill": "patch",
    "skills.state_set": "value",
    "triggers.create": "trigger",
    "schedules.create": "schedule",
}
"""By operation: the argument that is kept as it is."""


def without_claims(arguments: dict[str, Json]) -> dict[str, Json]:
    """The arguments without these members, at any depth. They are strict JSON already, so that depth is bounded."""
    return cast("dict[str, Json]", _without(arguments))


def claim_in_kept(tool: str, arguments: dict[str, Json]) -> str:
    """Why these arguments of an operation would not be kept as they are, or nothing. No value is quoted."""
    kept = _KEPT.get(tool, "")
    found = _first(arguments.get(kept)) if kept else ""
    if not found:
        return ""
    words = ", ".join(sorted(CLAIMS))
    return (
        f"argument {kept!r} holds a member {found!r}, and it would be lost: members called {words} are thrown away from what an "
        "operation is given; give it another name"
    )


def _first(value: Json) -> str:
    if isinstance(value, dict):
        for name, each in value.items():
            if found := name if name in CLAIMS else _first(each):
                return found
    elif isinstance(value, list):
        for each in value:
            if found := _first(each):
                return found
    return ""


def _without(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _without(each) for name, each in value.items() if name not in CLAIMS}
    if isinstance(value, list):
        return [_without(each) for each in value]
    return value
