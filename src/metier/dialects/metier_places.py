"""`{{name}}`: a place in a command or a request that an argument of the call will fill. Pure."""

import re
from typing import Final

from metier.model.digest import Json
from metier.model.text import one_line

PLACE: Final = re.compile(r"\{\{\s*([^{}\s]+)\s*\}\}")
SECRET: Final = "secret:"  # noqa: S105  a prefix
_ELSEWHERE: Final = frozenset({"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties"})


def place_problem(template: str, parameters: dict[str, Json]) -> str:
    """Why the places of `template` cannot be filled by a call with these parameters; empty when they can."""
    if "{{" in PLACE.sub("", template) or "}}" in PLACE.sub("", template):
        return "has braces that name no argument; write {{name}}"
    for name in PLACE.findall(template):
        if name.startswith(SECRET):
            return f"names the secret {one_line(name.removeprefix(SECRET), 40)}; secrets stand at the end of a header only"
        if not _is_known(name, parameters):
            return f'has a place for "{one_line(name, 40)}", which is none of the parameters; add it to them'
    return ""


def _is_known(name: str, parameters: dict[str, Json]) -> bool:
    properties = parameters.get("properties")
    if isinstance(properties, dict) and name in properties:
        return True
    # What a schema takes from elsewhere is known only where it is used.
    return not _ELSEWHERE.isdisjoint(parameters) or parameters.get("additionalProperties") not in (
        None,
        False,
    )
