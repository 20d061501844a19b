"""The text for a model: the list of skills within a budget, or the instructions themselves.

Whatever is not in the text is named with the reason. Only a large catalog is searched by the message; when
nothing in it fits, the list is shown after all, because names are better than nothing.
"""

from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias, final

from msgspec import Struct

from metier.catalog.catalog import Catalog
from metier.catalog.listed import Listed
from metier.config.settings import Settings
from metier.model.skill import Skill

Body: TypeAlias = Callable[[Listed], str | None]
"""The instructions of a skill, from its snapshot; None when it may not be used after all."""

Reason: TypeAlias = Literal["message", "limit", "room", "taken", "unusable"]
"""Why a skill is not in the text: it does not fit the message, it was one too many, the budget was used up,
another skill is shown under its name, or its instructions may not be used after all."""

FITTING: Final = "These skills were chosen because their words fit the user's message.\n"
NONE_FITS: Final = "No skill's words fit the user's message, so this list was not narrowed down.\n"


@final
class Wanted(Struct, frozen=True, kw_only=True):
    """How the text should be made. None means: as configured."""

    message: str | None = None
    full: bool = False
    system: str = ""
    """Put before everything else."""
    most: int | None = None
    """The list has a limit only when this says so."""
    budget: int | None = None
    """For the list only: instructions are shown whole or not at all."""
    include_unavailable: bool = False


@final
class Made(Struct, frozen=True, kw_only=True):
    """The text, which skills it shows, and which it does not."""

    text: str
    names: tuple[str, ...]
    left_out: dict[Reason, tuple[str, ...]] = {}
    """The names it does not show, by reason."""

    @property
    def dropped(self) -> tuple[str, ...]:
        """Every name that could have been in the text and is not."""
        return tuple(name for names in self.left_out.values() for name in names)


def prompt(catalog: Catalog, settings: Settings, wanted: Wanted, *, body: Body | None) -> Made:
    """Make the text."""
    states = {"usable", "unavailable"} if wanted.include_unavailable else {"usable"}
    listed = {
        each.name: each
        for each in catalog.by_name.values()
        if each.shown in states and each.skill is not None and each.skill.model_may_invoke
    }
    skills = [each.skill for each in listed.values() if each.skill is not None]
    most = settings.prompt.max_skills if wanted.most is None else wanted.most
    budget = settings.prompt.budget if wanted.budget is None else wanted.budget
    full = body if wanted.full else None
    if wanted.message is None or not most or len(skills) <= most:
        if full is not None:
            return _full(skills, listed, wanted.system, most, full)
        return _list(skills, wanted.system, wanted.most or 0, budget)

    from metier.disclosure.selection import select

    fitting = [choice.skill for choice in select(skills, wanted.message, limit=len(skills))]
    if not fitting:
        return _list(skills, wanted.system, wanted.most or 0, budget, why=NONE_FITS)
    names = {skill.name for skill in fitting}
    unfit = tuple(skill.name for skill in skills if skill.name not in names)
    if full is not None:
        return _full(fitting, listed, wanted.system, most, full, unfit=unfit)
    return _list(fitting, wanted.system, most, budget, why=FITTING, unfit=unfit)


def _list(
    skills: Sequence[Skill],
    system: str,
    most: int,
    budget: int,
    *,
    why: str = "",
    unfit: tuple[str, ...] = (),
) -> Made:
    from metier.disclosure.progressive import Narrowed, available_skills

    shown = skills[:most] if most else skills
    made = available_skills(shown, budget=budget, narrowed=Narrowed(len(skills) + len(unfit), why))
    too_many = tuple(skill.name for skill in skills[len(shown) :])
    return Made(
        text=f"{system}\n\n{made.text}" if system and made.text else system or made.text,
        names=made.names,
        left_out=_told({"message": unfit, "limit": too_many, "room": made.no_room, "taken": made.taken}),
    )


def _full(
    skills: Sequence[Skill],
    listed: dict[str, Listed],
    system: str,
    most: int,
    body: Body,
    *,
    unfit: tuple[str, ...] = (),
) -> Made:
    from metier.disclosure.injection import InjectConfig, Page, inject

    pages: list[Page] = []
    unusable: list[str] = []
    too_many: list[str] = []
    for skill in skills:
        if most and len(pages) >= most:
            too_many.append(skill.name)
        elif (text := body(listed[skill.name])) is None:
            unusable.append(skill.name)
        else:
            pages.append(Page(skill, text))
    return Made(
        text=inject(system, pages, InjectConfig(max_skills=0)),
        names=tuple(page.skill.name for page in pages),
        left_out=_told({"message": unfit, "limit": tuple(too_many), "unusable": tuple(unusable)}),
    )


def _told(names: dict[Reason, tuple[str, ...]]) -> dict[Reason, tuple[str, ...]]:
    return {reason: found for reason, found in names.items() if found}
