"""One skill: how it stands, what it may do, what changed since it was trusted, and what it did last."""

from typing import Final, final

from anyio import to_thread
from msgspec import Struct, field

from metier.doors.http.console.asked import Unanswered, asked
from metier.doors.http.console.page import Page
from metier.doors.http.console.skills_bytes import digest_now, file_text, kept
from metier.doors.http.console.skills_declared import declared
from metier.doors.http.console.skills_review import Review
from metier.doors.http.console.skills_words import (
    STATUS,
    ended,
    may,
    may_of,
    named,
    others,
    reasons,
    row,
    status_of,
)
from metier.doors.http.console.words import Line, line
from metier.doors.http.endpoint import Asking
from metier.doors.http.problem import not_found
from metier.model.role import READ_AUDIT
from metier.record.newest import newest
from metier.record.search import Query, search

LAST_CALLS: Final = 10
LOOKED_BACK: Final = 20_000
"""So many records are searched for its last calls. The record has no index by skill, and a page is not worth reading all of it."""
_MOST_TOOLS: Final = 50
_MOST_FILES: Final = 50


@final
class Life(Struct, frozen=True, kw_only=True):
    """How a skill that lives fares, as `skills.info` tells it."""

    id: str
    enabled: bool = False
    status: str = ""
    error: str | None = None
    modules: list[str] = field(default_factory=list, name="modules_registered")


async def _one(asking: Asking) -> dict[str, object]:
    engine, name = asking.serving.engine, asking.given["skill"]
    await engine.refresh()
    listed = named(engine.seen.catalog, name)
    if listed is None:
        raise not_found("no skill of that name was found here")
    review = await asked(asking, "skills.review", {"name": name}, Review)
    listed = named(engine.seen.catalog, name) or listed  # the review may have read it anew
    skill = listed.skill
    life: Life | Unanswered | None = None
    if skill is not None and skill.dialect == "xbot":
        life = await asked(asking, "skills.info", {"skill_id": name}, Life)
    if isinstance(life, Life) and not life.enabled:
        listed = ended(listed)  # the catalog may be of before that, or of a configuration that still names it
    off = engine.seen.trusts.disabled.get(name)
    status, tone = status_of(listed) if off is None else STATUS["disabled"]
    answered = review if isinstance(review, Review) else None
    tools = answered.tools if answered is not None else []
    digest = answered.digest if answered is not None else ""
    digest = digest or await to_thread.run_sync(digest_now, asking, listed)
    return {
        "name": name,
        "listed": listed,
        "skill": skill,
        "status": status,
        "tone": tone,
        "reasons": reasons(listed, "below") if off is None else [],
        "review": answered,
        "unanswered": review.why if isinstance(review, Unanswered) else "",
        "other_bytes": answered is not None and answered.folder != listed.folder,
        "digest": digest,
        "manifest": await to_thread.run_sync(file_text, kept(asking, digest), listed.manifest),
        "may": may_of(listed),
        "reads": may,
        "switched_off": off,
        "life": life if isinstance(life, Life) else None,
        "life_unanswered": life.why if isinstance(life, Unanswered) else "",
        "others": [row(each) for each in others(engine.seen.catalog, listed)[:_MOST_FILES]],
        "tools": tools[:_MOST_TOOLS],
        "tools_many": len(tools),
        "declared": await declared(asking, listed),
        "most_files": _MOST_FILES,
        "calls": await to_thread.run_sync(_last_calls, asking, name),
        "looked_back": LOOKED_BACK,
    }


def _last_calls(asking: Asking, name: str) -> list[Line]:
    """How its last calls ended, newest first. Blocking."""
    database = asking.serving.engine.state.database
    since = max(0, newest(database) - LOOKED_BACK)
    # Each call has a beginning and an end; only the end is told.
    records = search(database, Query(skill=name, since=since), 3 * LAST_CALLS)
    told = [made for each in reversed(records) if each.call_id and (made := line(each)) is not None]
    return told[:LAST_CALLS]


PAGES: Final = (
    Page(
        path="/skills/{skill}",
        template="skill.html",
        title="A skill",
        shows=_one,
        menu="Skills",
        right=(READ_AUDIT,),
        told=("skills",),
    ),
)
