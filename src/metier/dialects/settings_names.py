"""Settings that could never be set, because of what they are called. Who writes the skill is told when it is read."""

from metier.dialects.draft import Draft
from metier.model.claims import CLAIMS
from metier.model.digest import Json


def check_names(draft: Draft, schema: Json, defaults: Json = None) -> None:
    """Say which settings have a name that is thrown away from what operations are given.

    Args:
        defaults: of XBot's; they can name settings that the schema does not.
    """
    found = _named(schema) | _members(defaults)
    if found:
        listed = ", ".join(f'"{name}"' for name in sorted(found))
        message = (
            f"settings: {listed} cannot be set: members of that name are thrown away from whatever an operation is given, since "
            "clients say by them who they are; give it another name"
        )
        draft.note("lost_setting", "warning", message)


def _named(schema: Json) -> frozenset[str]:
    """Among the properties of a schema, however deep."""
    if isinstance(schema, list):
        return frozenset[str]().union(*map(_named, schema))
    if not isinstance(schema, dict):
        return frozenset()
    properties = schema.get("properties")
    own = CLAIMS.intersection(properties) if isinstance(properties, dict) else frozenset[str]()
    return own.union(*map(_named, schema.values()))


def _members(value: Json) -> frozenset[str]:
    """Among the members of a value, however deep."""
    if isinstance(value, list):
        return frozenset[str]().union(*map(_members, value))
    if not isinstance(value, dict):
        return frozenset()
    own = frozenset(part for name in value for part in name.split(".") if part in CLAIMS)
    return own.union(*map(_members, value.values()))
