"""The settings of a skill, as a form."""

from typing import Final, final

from anyio import to_thread
from msgspec import Struct

from metier.doors.http.console.asked import Unanswered, asked
from metier.doors.http.console.page import Page
from metier.doors.http.console.settings_form import Form, Settings, form_of
from metier.doors.http.console.skills_words import named
from metier.doors.http.endpoint import Asking
from metier.doors.http.problem import not_found
from metier.model.digest import Json
from metier.model.role import READ_AUDIT

_MANY: Final = 20
"""A form with more fields than that has its button at the top as well."""


@final
class Seen(Struct, frozen=True, kw_only=True):
    """What he comes from."""

    kept: bool = False
    """Something was kept a moment ago."""


async def _settings(asking: Asking) -> dict[str, object]:
    name = asking.given["skill"]
    listed = named(asking.runtime.catalog, name)
    if listed is None:
        raise not_found("no skill of that name was found here")
    wanted: dict[str, Json] = {"skill_id": name, "include_schema": True, "include_masked": True}
    found = await asked(asking, "settings.get_skill", wanted, Settings)
    form: Form | None = None
    if isinstance(found, Settings) and found.ok:
        form = await to_thread.run_sync(form_of, found)
    query: Seen = asking.query
    return {
        "name": name,
        "kept": query.kept,
        "unread": listed.probe,
        "form": form,
        "many": _MANY,
        "unanswered": found.why if isinstance(found, Unanswered) else "",
    }


PAGES: Final = (
    Page(
        path="/skills/{skill}/settings",
        template="skill_settings.html",
        title="Settings of a skill",
        shows=_settings,
        menu="Skills",
        right=(READ_AUDIT,),
        query=Seen,
        told=("settings", "skills"),
    ),
)
