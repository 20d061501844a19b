"""The text for a model: the list of skills within a budget, or the instructions themselves."""

from collections.abc import Callable
from typing import TypeAlias, final

from msgspec import Struct

from metier.catalog.catalog import Catalog, Listed
from metier.config.settings import Settings
from metier.model.skill import Skill

Body: TypeAlias = Callable[[Listed], str | None]
"""The instructions of a skill, from its snapshot; None when it may not be used after all."""


@final
class Wanted(Struct, frozen=True, kw_only=True):
    """How the text should be made. None means: as configured."""

    message: str | None = None
    full: bool = False
    system: str = ""
    most: int | None = None
    budget: int | None = None
    include_unavailable: bool = False


@final
class Made(Struct, frozen=True, kw_only=True):
    """The text, which skills it shows, and which it had to leave out."""

    text: str
    names: tuple[str, ...]
    dropped: tuple[str, ...] = ()


def prompt(catalog: Catalog, settings: Settings, wanted: Wanted, *, body: Body | None) -> Made:
    """Make the text. Only a large catalog is searched by the message; a small one is shown whole."""
    states = {"usable", "unavailable"} if wanted.include_unavailable else {"usable"}
    listed = {
        each.name: each
        for each in catalog.by_name.values()
        if each.shown in states and each.skill is not None and each.skill.model_may_invoke
    }
    skills = [each.skill for each in listed.values() if each.skill is not None]
    most = settings.prompt.max_skills if wanted.most is None else wanted.most
    if wanted.message is not None and most and len(skills) > most:
        from metier.disclosure.selection import select

        skills = [choice.skill for choice in select(skills, wanted.message, limit=most)]
    if wanted.full and body is not None:
        return _full(skills, listed, wanted, most, body)
    from metier.disclosure.progressive import available_skills

    budget = settings.prompt.budget if wanted.budget is None else wanted.budget
    made = available_skills(skills, budget=budget)
    dropped = set(made.dropped)
    names = tuple(skill.name for skill in skills if skill.name not in dropped)
    return Made(text=made.text, names=names, dropped=made.dropped)


def _full(skills: list[Skill], listed: dict[str, Listed], wanted: Wanted, most: int, body: Body) -> Made:
    from metier.disclosure.injection import InjectConfig, Page, inject

    pages: list[Page] = []
    for skill in skills:
        if most and len(pages) >= most:
            break
        if (text := body(listed[skill.name])) is not None:
            pages.append(Page(skill, text, True))
    text = inject(wanted.system, pages, InjectConfig(max_skills=0))
    names = tuple(page.skill.name for page in pages)
    return Made(
        text=text, names=names, dropped=tuple(skill.name for skill in skills if skill.name not in names)
    )
