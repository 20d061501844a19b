"""How skills stand, in words: what one may do, why it cannot be used, and what to do about it."""

import re
import sys
from typing import Final, final

from msgspec import Struct

from metier.catalog.catalog import Catalog
from metier.catalog.listed import UNASKED, UNREAD, Listed, Shown
from metier.catalog.requirements import install_hint
from metier.catalog.standing import CHANGED, NOT_TRUSTED, REVOKED
from metier.doors.http.console.words import Tone
from metier.doors.http.endpoint import NAME
from metier.model.permission_words import kinds, permissions
from metier.model.text import one_line

STATUS: Final[dict[Shown, tuple[str, Tone]]] = {
    "usable": ("can be used", "good"),
    "pending_approval": ("waits for trust", "wait"),
    "unavailable": ("lacks something", "wait"),
    "disabled": ("switched off", "plain"),
    "broken": ("refused", "bad"),
    "shadowed": ("shadowed by another", "plain"),
}
"""The one word of the catalog, as it is said to people, and how it looks."""
_LINKABLE: Final = re.compile(NAME, re.ASCII)
_LONGEST: Final = 600
_SHORT: Final = 200
_HERE: Final = {
    NOT_TRUSTED: "Nobody trusted it yet: look at what it may do, then say so on its page",
    CHANGED: "These are not the bytes that were trusted: its page shows what changed",
    REVOKED: "Its trust was taken back; on its page you can give it again",
    UNREAD: "It exists only as code and was not read yet: to trust it runs it in a sandbox without permissions, to read it",
    UNASKED: "The MCP server was not asked yet which tools it has: its page has it run with what it was granted, to ask it",
}
"""What others say with a command, where a page has a button for it."""


@final
class Reason(Struct, frozen=True, kw_only=True):
    """Why a skill cannot be used, or not all of it."""

    text: str
    hint: str = ""
    """How to get what is missing, as its author says it."""


@final
class Row(Struct, frozen=True, kw_only=True):
    """One skill in the list."""

    name: str
    path: str
    """Its page; empty where there is none: a name that no address can have, or one that another skill has."""
    description: str
    status: str
    tone: Tone
    reasons: list[Reason]
    may: str
    version: str
    dialect: str
    folder: str


def row(listed: Listed) -> Row:
    """One skill, for one line of the list."""
    skill, (status, tone) = listed.skill, STATUS[listed.shown]
    linked = _LINKABLE.fullmatch(listed.name) and not listed.shadowed_by
    return Row(
        name=listed.name,
        path=f"/skills/{listed.name}" if linked else "",
        description=one_line(skill.description, 200) if skill is not None else "",
        status=status,
        tone=tone,
        reasons=reasons(listed),
        may=_may_shortly(listed),
        version=one_line(skill.version, 40) if skill is not None else "",
        dialect=skill.dialect if skill is not None else "",
        folder=listed.folder,
    )


def reasons(listed: Listed) -> list[Reason]:
    """Why it cannot be used, or not all of it; empty where all is well."""
    if listed.missing and not (listed.skill is not None and listed.skill.why):
        return [
            Reason(
                text=one_line(str(error), _LONGEST),
                hint=one_line(install_hint(error.install, sys.platform), _LONGEST) if error.install else "",
            )
            for error in listed.missing
        ]
    why = listed.why or (listed.held_back if listed.shown == "usable" else "")
    return [Reason(text=one_line(_HERE.get(why, why), _LONGEST))] if why else []


def may_of(listed: Listed) -> str:
    """What it may do; empty where nobody knows before it was run. What a server may do its own file says."""
    skill = listed.skill
    known = skill is not None and (not listed.probe or skill.dialect == "mcp_server")
    return may(permissions(skill.permissions)) if skill is not None and known else ""


def _may_shortly(listed: Listed) -> str:
    """For a list. What is too long for it is not cut: the end could be what matters."""
    words = may_of(listed)
    if len(words) <= _SHORT or listed.skill is None:
        return words
    return f"{kinds(listed.skill.permissions)}: its page names them"


def may(words: str) -> str:
    """Permissions in words, without the signs for places that only Metier knows."""
    return words.replace("{workspace}", "workspace").replace("{baseDir}", "its own folder")


def named(catalog: Catalog, name: str) -> Listed | None:
    """The skill that answers to `name`, or else the first that was found under it."""
    return catalog.get(name) or next((each for each in catalog.listed if each.name == name), None)


def others(catalog: Catalog, listed: Listed) -> list[Listed]:
    """What else was found under its name, and is not used."""
    return [each for each in catalog.listed if each.name == listed.name and each.folder != listed.folder]
