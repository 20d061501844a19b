"""Triggers and schedules that a skill's own file declares. They are nobody's until a person accepts them."""

from metier.catalog.catalog import Catalog
from metier.kernel.operation import OperationError
from metier.model.digest import Json
from metier.model.text import one_line

_UNUSABLE = "E_SKILLS_UNAVAILABLE"
_NOTHING = "E_SKILLS_NOTHING_DECLARED"


def declared_by(catalog: Catalog, skill: str, what: str) -> list[dict[str, Json]]:
    """The `what` (`triggers` or `schedules`) that `skill` declares, each with its action named in full.

    Raises:
        OperationError: where there is no such skill, it cannot be used, or it declares none.
    """
    listed = catalog.get(skill)
    shown = one_line(skill, 60)
    if listed is None or listed.skill is None:
        raise OperationError(_UNUSABLE, f"there is no skill {shown!r}")
    if listed.shown != "usable":
        raise OperationError(
            _UNUSABLE,
            f"{shown!r} cannot be used ({one_line(listed.why or listed.shown, 200)}); trust it first",
        )
    found = listed.skill.extra.get(what)
    rows = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    if not rows:
        raise OperationError(_NOTHING, f"{shown!r} declares no {what}")
    return [_named(each, skill, number, what) for number, each in enumerate(rows, 1)]


def _named(each: dict[str, Json], skill: str, number: int, what: str) -> dict[str, Json]:
    """With the skill's name on it. An action is the skill's own, whatever its file says of others."""
    plain = {key: value for key, value in each.items() if key not in ("id", "skill", "name", "description")}
    if isinstance(when := plain.pop("schedule", None), dict):  # when it is due, written as a map of its own
        plain |= when
    name = each.get("name") or each.get("id") or f"{what[:-1]} {number}"
    if "tool" in plain:
        raise OperationError(
            _NOTHING,
            f"{one_line(skill, 60)!r}: its {what} may set off its own actions (`actionId`), no other tool",
        )
    return {**plain, "name": f"{skill}: {name}"[:100], "skill": skill}
