"""Every skill that was found: how it stands, why it cannot be used, and what it may do. Found by a word, a status or a dialect."""

from collections import Counter
from typing import Annotated, Final, Literal, final, get_args
from urllib.parse import urlencode

from anyio import to_thread
from msgspec import Meta, Struct

from metier.catalog.catalog import Catalog
from metier.catalog.listed import Listed, Shown
from metier.doors.http.console.page import Page
from metier.doors.http.console.skills_words import KINDS, Row, row
from metier.doors.http.endpoint import Asking
from metier.model.role import READ_AUDIT
from metier.model.skill import Dialect

ON_A_PAGE: Final = 50
_NOTES: Final = 10
DIALECTS: Final[tuple[str, ...]] = get_args(Dialect)


@final
class Which(Struct, frozen=True, kw_only=True):
    """Which of them. Left empty, all."""

    q: Annotated[str, Meta(max_length=200)] = ""
    """In the name or the description; of either case."""
    status: Shown | Literal[""] = ""
    dialect: Dialect | Literal[""] = ""
    page: Annotated[int, Meta(ge=1, le=100_000)] = 1


@final
class Found(Struct, frozen=True, kw_only=True):
    """One page of the list."""

    rows: list[Row]
    many: int
    counts: dict[Shown, int]
    """How many there are of each status, whatever else is looked for."""


def found(catalog: Catalog, which: Which) -> Found:
    """What fits, by name. Blocking."""
    word = which.q.strip().casefold()

    def fits(each: Listed) -> bool:
        skill = each.skill
        if which.status and each.shown != which.status:
            return False
        if which.dialect and (skill is None or skill.dialect != which.dialect):
            return False
        about = skill.description if skill is not None else ""
        return not word or word in each.name.casefold() or word in about.casefold()

    fitting = sorted((each for each in catalog.listed if fits(each)), key=lambda each: each.name)
    begin = (which.page - 1) * ON_A_PAGE
    return Found(
        rows=[row(each) for each in fitting[begin : begin + ON_A_PAGE]],
        many=len(fitting),
        counts=dict(Counter(each.shown for each in catalog.listed)),
    )


def _address(which: Which) -> str:
    """Of this list, but for the page."""
    asked = {"q": which.q, "status": which.status, "dialect": which.dialect}
    return "/skills?" + "".join(f"{urlencode({name: value})}&" for name, value in asked.items() if value)


async def _list(asking: Asking) -> dict[str, object]:
    which: Which = asking.query
    await asking.serving.engine.refresh()  # what another process trusted a moment ago
    catalog = asking.runtime.catalog
    shown = await to_thread.run_sync(found, catalog, which)
    return {
        "found": shown,
        "which": which,
        "all": len(catalog.listed),
        "kinds": KINDS,
        "dialects": DIALECTS,
        "notes": catalog.notes[:_NOTES],
        "more_notes": max(0, len(catalog.notes) - _NOTES),
        "pages": -(-shown.many // ON_A_PAGE),
        "more": _address(which),
    }


PAGES: Final = (
    Page(
        path="/skills",
        template="skills.html",
        title="Skills",
        shows=_list,
        menu="Skills",
        right=(READ_AUDIT,),
        query=Which,
        told=("skills",),
    ),
)
