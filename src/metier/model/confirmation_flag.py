"""The argument `confirmed`: the caller's own word, beside what the tool is asked to do.

It is shown to models as part of every tool that needs it, taken out of the arguments before anything else looks at
them, and counts only as the JSON value `true`. Nothing else fills it in: no default of a schema, no setting, no context.
"""

from typing import Final

from metier.model.digest import Json
from metier.model.skill import Tool

FLAG: Final = "confirmed"
_SAYS: Final = "true only after the caller has been asked and has agreed to exactly this"


def confirmation_of(flag: object, *, acts: bool) -> bool:
    """Whether a manifest's `confirmation_required` means that the caller is asked.

    Who acts asks, unless the manifest says `false` as a JSON value: left out, null, or written otherwise is no opt-out.
    """
    return acts and flag is not False


def parameters_of(tool: Tool) -> dict[str, Json]:
    """The schema of the tool's arguments as models see it and calls are held to it: with the flag, where it needs one."""
    if tool.confirmation is None:
        return tool.parameters
    properties, required = tool.parameters.get("properties"), tool.parameters.get("required")
    named = properties if isinstance(properties, dict) else {}
    own = named.get(FLAG)
    says = own.get("description") if isinstance(own, dict) else None
    flag: dict[str, Json] = {"type": "boolean", "description": says if isinstance(says, str) else _SAYS}
    others = [name for name in required if name != FLAG] if isinstance(required, list) else []
    return {**tool.parameters, "properties": {**named, FLAG: flag}, "required": [*others, FLAG]}


def without_flag(arguments: dict[str, Json]) -> tuple[dict[str, Json], Json]:
    """The arguments without the flag, and what was given as it; an absent one is `false`."""
    if FLAG not in arguments:
        return arguments, False
    return {name: value for name, value in arguments.items() if name != FLAG}, arguments[FLAG]
