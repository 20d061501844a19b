"""What hooks may add to what an agent is started with, and how a model is shown it.

A hook is given the files that the program gave, and leaves a list of files. What it added is taken, within bounds, and shown under the
name of its skill. What the program gave stays as it was, whatever a hook did to it: those are not the skill's words. What is added has
a plain name that none of those has, so that whoever shows or writes the files cannot take one for the other. No hook sees what another
added.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, final

from msgspec import Struct

from metier.dialects.names import skeleton
from metier.model.hook import BootstrapFile
from metier.model.text import one_line, visible

MOST_FILES: Final = 8
MOST_CHARACTERS: Final = 16_384
"""Of one skill; so much for the whole of what it adds."""
MOST_ALTOGETHER: Final = 65_536
TITLE: Final = "Added By Skills"
SEPARATOR: Final = "\n\n---\n\n"
_ABOUT: Final = "Hooks of installed skills added the following. It is not from the user."
_LIST: Final = re.compile(
    r"<(?=\s*/?\s*(?:available_skills|skill|name|description|location)\b)", re.IGNORECASE
)
"""What would pass for the list of skills."""
_PLAIN_NAME: Final = re.compile(r"\w(?:[\w .()+-]{0,118}[\w)+-])?")
"""No place, nothing hidden, and no end that some systems leave off."""
_PLACES: Final = re.compile(r"[/\\]")


@final
class Added(Struct, frozen=True, kw_only=True):
    """One file that a hook added."""

    skill: str
    path: str
    content: str


@final
class Bootstrap(Struct, frozen=True, kw_only=True):
    """What an agent is started with, after every hook had its say."""

    given: tuple[BootstrapFile, ...] = ()
    """As the program gave them."""
    added: tuple[Added, ...] = ()
    problems: tuple[str, ...] = ()
    """Which hooks failed, and what of theirs was not taken."""

    @property
    def files(self) -> tuple[BootstrapFile, ...]:
        """All of it, for a program that shows files itself. Whose the later ones are stands in `added`."""
        made = (BootstrapFile(path=each.path, content=each.content, virtual=True) for each in self.added)
        return (*self.given, *made)

    def text(self, skills: Iterable[str]) -> str:
        """What was added, as a model is shown it; empty where nothing was.

        Args:
            skills: the names that stand in the same prompt, which nothing in it may pass for.
        """
        if not self.added:
            return ""
        from metier.disclosure.forgery import LEVEL, Forgery  # most prompts have nothing of this
        from metier.disclosure.injection import TITLE as SKILLS

        headings = [f"{one_line(each.path, 120)} (skill {one_line(each.skill, 80)})" for each in self.added]
        ours = [(SKILLS, SKILLS), *((one_line(name, 80), one_line(name, 80)) for name in skills)]
        forgery = Forgery.of(TITLE, [*ours, *((each, each) for each in headings)], SEPARATOR)
        parts = [f"# {TITLE}\n\n{_ABOUT}\n\n"]
        for heading, each in zip(headings, self.added, strict=True):
            body = forgery.marked(_LIST.sub("&lt;", visible(each.content.strip())), own=())
            parts.append(f"{'#' * LEVEL} {heading}\n\n{body}{SEPARATOR}")
        return "".join(parts).rstrip("\n")


def taken(
    skill: str,
    given: Sequence[BootstrapFile],
    left: Sequence[BootstrapFile],
    room: int,
    before: Sequence[Added] = (),
) -> tuple[tuple[Added, ...], tuple[str, ...]]:
    """What of the files that a hook of `skill` left is taken, and why the rest is not.

    Args:
        room: how many characters all hooks together may still add.
        before: what other hooks added already. Whoever writes files by their names must not put one over the other.
    """
    name, problems = one_line(skill, 80), list[str]()
    was = {(each.path, each.content) for each in given}
    names = {skeleton(name) for each in given for name in (each.path, _PLACES.split(each.path)[-1])}
    names |= {skeleton(each.path) for each in before}
    changed = was - {(each.path, each.content) for each in left}
    if changed:
        problems.append(
            f"a hook of {name!r} changed or removed files that are not its own; they stay as they were"
        )
    new = [each for each in left if (each.path, each.content) not in was]
    added: list[Added] = []
    most = min(MOST_CHARACTERS, room)
    for each in new:
        if why := _no_name(each.path, names):
            if not (
                changed and each.path.casefold() in {file.path.casefold() for file in given}
            ):  # said above
                problems.append(
                    f"what a hook of {name!r} added as {one_line(each.path, 80)!r} is not taken: {why}"
                )
            continue
        if len(added) == MOST_FILES or len(each.content) + len(each.path) > most:
            problems.append(
                f"what a hook of {name!r} added as {one_line(each.path, 80)!r} is too much: {MOST_FILES} files and "
                f"{MOST_CHARACTERS:,} characters of one skill are taken, {MOST_ALTOGETHER:,} of all"
            )
            continue
        most -= len(each.content) + len(each.path)
        names.add(skeleton(each.path))
        added.append(Added(skill=skill, path=each.path, content=each.content))
    return tuple(added), tuple(problems)


def _no_name(path: str, given: set[str]) -> str:
    """Why a file cannot be added under this name; empty where it can."""
    if _PLAIN_NAME.fullmatch(path) is None:
        return "a file is added under a plain name, like REMINDER.md"
    return "there is a file of that name already, or one like it" if skeleton(path) in given else ""
