"""How skills stand, in words: what one may do, why it cannot be used, and what to do about it."""

import re
import shlex
import sys
from typing import Final, final

from msgspec import Struct
from msgspec.structs import replace

from metier.catalog.catalog import Catalog
from metier.catalog.listed import UNASKED, UNREAD, Listed, Shown
from metier.catalog.requirements import install_hint
from metier.catalog.standing import CHANGED, NOT_TRUSTED, REVOKED
from metier.dialects.mcp_server import WAITS
from metier.doors.http.console.words import Tone
from metier.doors.http.endpoint import NAME
from metier.model.permission_words import kinds, permissions
from metier.model.requirement import RequirementError
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
KINDS: Final[dict[Shown, tuple[str, str]]] = {
    "usable": ("can be used", "can be used"),
    "pending_approval": ("waits for trust", "wait for trust"),
    "unavailable": ("lacks something", "lack something"),
    "disabled": ("off", "off"),
    "broken": ("refused", "refused"),
    "shadowed": ("shadowed by another", "shadowed by others"),
}
"""The same of one and of several. Off is also what nobody started."""
ENDED: Final = "somebody said that it shall not live"
"""Why a skill does not live that its configuration, or an older look at it, has as one that does."""
_NO_ADDRESS: Final = (
    "It has no page here, because no address can have its name: names in addresses begin with a letter or digit and have only letters, "
    "digits and . _ @ - in them, 80 at most. Give it another name"
)
_LINKABLE: Final = re.compile(NAME, re.ASCII)
_LONGEST: Final = 600
_SHORT: Final = 200
_MOST_LACKED: Final = 3
"""Of what a skill lacks, in the list."""
_HERE: Final = {
    NOT_TRUSTED: ("Nobody trusted it yet", "look at what it may do, then say so {where}"),
    CHANGED: ("These are not the bytes that were trusted", "what changed is shown {where}"),
    REVOKED: ("Its trust was taken back", "it can be given again {where}"),
    WAITS: ("An MCP server is run only once it is trusted", "what it may do is shown {where}"),
    UNREAD: (
        "It exists only as code and was not read yet",
        "to trust it runs it in a sandbox without permissions, to read it",
    ),
    UNASKED: (
        "The MCP server was not asked yet which tools it has",
        "a button {where} has it run with what it was granted, to ask it",
    ),
    ENDED: ("Somebody said that it shall not live", "a button {where} starts it"),
}
"""What others say with a command, where a page has a button for it: what is so, and what to do."""
_NOT_STARTED: Final = re.compile(
    r".* (?:(?P<ships>ships with Metier) and is not enabled; `metier skills start .*|is not named in \[xbot\] enabled)"
)
"""A package that is there to live, and that nobody has live (`catalog.xbot_shipped`, `catalog.xbot_packages`)."""


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
    commands: list[str]
    """What to run at a terminal, where it has no page for its name."""
    may: str
    version: str
    dialect: str
    folder: str
    ships: bool
    """It is Metier's own and was never run, so nobody need know where it lies."""


def row(listed: Listed) -> Row:
    """One skill, for one line of the list."""
    skill, (status, tone) = listed.skill, status_of(listed)
    has_page = _LINKABLE.fullmatch(listed.name) is not None
    return Row(
        name=listed.name,
        path=f"/skills/{listed.name}" if has_page and not listed.shadowed_by else "",
        description=one_line(skill.description, 200) if skill is not None else "",
        status=status,
        tone=tone,
        reasons=_in_short(reasons(listed)) if has_page else _without_page(listed),
        commands=[] if has_page or listed.shadowed_by else _commands(listed),
        may=_may_shortly(listed, "its page names them" if has_page else "`metier skills info` names them"),
        version=one_line(skill.version, 40) if skill is not None else "",
        dialect=skill.dialect if skill is not None else "",
        folder=listed.folder,
        ships=listed.root.kind == "bundled" and is_not_started(listed),
    )


def status_of(listed: Listed) -> tuple[str, Tone]:
    """How it stands, and how that looks."""
    return ("not started", "plain") if is_not_started(listed) else STATUS[listed.shown]


def is_not_started(listed: Listed) -> bool:
    """Whether it only takes somebody who starts it: nobody switched it off."""
    off = listed.shown == "disabled"
    return off and (listed.why == ENDED or _NOT_STARTED.fullmatch(listed.why) is not None)


def ended(listed: Listed) -> Listed:
    """`listed`, as one that somebody ended."""
    if listed.skill is None or listed.shown != "usable":
        return listed
    return replace(listed, skill=replace(listed.skill, status="disabled", why=ENDED))


def reasons(listed: Listed, where: str = "on its page") -> list[Reason]:
    """Why it cannot be used, or not all of it, and what it lacks besides; empty where all is well.

    Args:
        where: the buttons are, for who reads this.
    """
    fact, deed = _said(listed)
    words = f"{fact}: {deed.format(where=where)}" if deed else fact
    return [*([Reason(text=one_line(words, _LONGEST))] if words else []), *_lacks(listed)]


def _said(listed: Listed) -> tuple[str, str]:
    """What keeps it from being used but for what it lacks, and what is done about it here."""
    if _only_lacks(listed):
        return "", ""
    why = listed.why or (listed.held_back if listed.shown == "usable" else "")
    if is_not_started(listed) and why != ENDED:
        found = _NOT_STARTED.fullmatch(why)
        ships = found is not None and found["ships"]
        fact = "It ships with Metier, and nobody started it" if ships else "Nobody started it"
        return fact, "a button {where} does that"
    return _HERE.get(why, (why, ""))


def _only_lacks(listed: Listed) -> bool:
    return listed.shown == "unavailable" and bool(listed.missing) and not listed.probe


def _lacks(listed: Listed) -> list[Reason]:
    """What the machine has not. Of what is held back for another reason too it is said that this is not all."""
    still = "" if _only_lacks(listed) else "It would still lack something: "
    return [_lack(each, still) for each in listed.missing]


def _lack(error: RequirementError, still: str) -> Reason:
    hint = one_line(install_hint(error.install, sys.platform), _LONGEST) if error.install else ""
    return Reason(text=one_line(f"{still}{error}", _LONGEST), hint=hint)


def _in_short(every: list[Reason]) -> list[Reason]:
    """For a list: one may lack more than anybody reads there."""
    more = len(every) - 1 - _MOST_LACKED
    if more <= 0:
        return every
    return [*every[: 1 + _MOST_LACKED], Reason(text=f"It lacks {more} more: its page names all")]


def _without_page(listed: Listed) -> list[Reason]:
    """The same where there is no page, and why there is none."""
    if listed.shadowed_by:
        return reasons(listed)
    fact = _said(listed)[0]
    said = [Reason(text=one_line(fact, _LONGEST))] if fact else []
    way = ", or look at it and decide at a terminal:" if _commands(listed) else ""
    return [*said, *_lacks(listed), Reason(text=f"{_NO_ADDRESS}{way}")]


def _commands(listed: Listed) -> list[str]:
    """What does at a terminal what a page would; none for a name that nobody can type as he sees it."""
    name = listed.name
    if one_line(name) != name:
        return []
    given = f"-- {shlex.quote(name)}" if name.startswith("-") else shlex.quote(name)
    deeds = ["info"]
    if listed.shown == "pending_approval" or listed.probe:
        deeds.append("trust")
    if is_not_started(listed):
        deeds.append("start")
    return [f"metier skills {each} {given}" for each in deeds]


def may_of(listed: Listed) -> str:
    """What it may do; empty where nobody knows before it was run. What a server may do its own file says."""
    skill = listed.skill
    known = skill is not None and (not listed.probe or skill.dialect == "mcp_server")
    return may(permissions(skill.permissions)) if skill is not None and known else ""


def _may_shortly(listed: Listed, where: str) -> str:
    """For a list. What is too long for it is not cut: the end could be what matters."""
    words = may_of(listed)
    if len(words) <= _SHORT or listed.skill is None:
        return words
    return f"{kinds(listed.skill.permissions)}: {where}"


def may(words: str) -> str:
    """Permissions in words, without the signs for places that only Metier knows."""
    return words.replace("{workspace}", "workspace").replace("{baseDir}", "its own folder")


def named(catalog: Catalog, name: str) -> Listed | None:
    """The skill that answers to `name`, or else the first that was found under it."""
    return catalog.get(name) or next((each for each in catalog.listed if each.name == name), None)


def others(catalog: Catalog, listed: Listed) -> list[Listed]:
    """What else was found under its name, and is not used."""
    return [each for each in catalog.listed if each.name == listed.name and each.folder != listed.folder]
