"""Triggers and schedules that a skill's file declares. They do nothing until a person accepts them, exactly as they are shown."""

from typing import Final, Literal, TypeAlias, final

from msgspec import Struct

from metier.catalog.listed import Listed
from metier.doors.http.console.asked import Unanswered, asked
from metier.doors.http.endpoint import Asking
from metier.model.digest import Json

What: TypeAlias = Literal["triggers", "schedules"]
_BOTH: Final[tuple[What, ...]] = ("triggers", "schedules")
_MOST: Final = 50


@final
class One(Struct, frozen=True, kw_only=True):
    """One of them, as it would be kept."""

    definition: dict[str, Json]
    wider: str = ""
    """Why it cannot be accepted with the others; empty where it can."""

    @property
    def name(self) -> str:
        found = self.definition.get("name") or self.definition.get("id")
        return found if isinstance(found, str) else ""


@final
class Shown(Struct, frozen=True, kw_only=True):
    """What `triggers.declared` and `schedules.declared` answer."""

    digest: str = ""
    triggers: list[One] = []
    schedules: list[One] = []


@final
class Declared(Struct, frozen=True, kw_only=True):
    """All of one kind."""

    what: What
    rows: list[One]
    digest: str = ""
    """What is handed back with a yes; empty where nothing can be accepted."""
    problem: str = ""
    """Why nothing can."""


async def declared(asking: Asking, listed: Listed) -> list[Declared]:
    """What it declares of each kind."""
    return [found for what in _BOTH if (found := await _of(asking, listed, what)) is not None]


async def _of(asking: Asking, listed: Listed, what: What) -> Declared | None:
    written = listed.skill.extra.get(what) if listed.skill is not None else None
    rows = (
        [One(definition=each) for each in written if isinstance(each, dict)]
        if isinstance(written, list)
        else []
    )
    if not rows:
        return None
    if listed.shown != "usable":
        return Declared(
            what=what, rows=rows[:_MOST], problem="They can be accepted once the skill can be used"
        )
    found = await asked(asking, f"{what}.declared", {"skill": listed.name}, Shown)
    if isinstance(found, Unanswered):
        return Declared(what=what, rows=rows[:_MOST], problem=found.why)
    rows = found.triggers if what == "triggers" else found.schedules
    if all(each.wider for each in rows):
        return Declared(what=what, rows=rows[:_MOST], problem="None of them can be accepted as it is")
    return Declared(what=what, rows=rows[:_MOST], digest=found.digest)
