"""Which hooks there are: those of skills that can be used and that a person gave his word for.

To be used is no such word. A hook sees every call of every other skill, so what merely lies in one of the operator's folders, where
other programs put skills too, brings none. A hook is `hooks/<name>/handler.ts` (or `.js`) with a HOOK.md beside it that says on
which events it is fired; `hooks/openclaw/handler.ts` needs none and is fired on all of them. Both are read from the snapshot of
the bytes that were trusted.
"""

import os
from typing import Final, final

from msgspec import Struct

from metier.catalog.bundle import BundleStore, Snapshot
from metier.catalog.catalog import Catalog
from metier.errors import BundleError
from metier.hooks.hook_text import TYPES, Said, said_in, wanted
from metier.model.in_skill import HOOKS
from metier.model.skill import Skill

TEXT: Final = "HOOK.md"
_HANDLERS: Final = ("handler.ts", "handler.js")
_NEEDS_NO_TEXT: Final = "openclaw"
MOST: Final = 16
"""Hooks of one skill. Each event would start as many runs."""


@final
class Hook(Struct, frozen=True, kw_only=True):
    """One hook of a skill."""

    skill: str
    file: str
    """Below the skill's folder; empty where there is none to run."""
    export: str = "default"
    events: frozenset[str] = frozenset()
    """`type:action`, or a type alone for every event of it."""
    problem: str = ""
    """Why it is not fired; empty when it is."""
    broken: bool = False
    """Whether something is wrong with it. One that is switched off, or wants what does not happen here, is not."""

    def wants(self, event: str) -> bool:
        """Whether it is fired on `event`, written `type:action`."""
        return not self.problem and wanted(self.events, event)


def installed(catalog: Catalog, bundles: BundleStore) -> tuple[Hook, ...]:
    """Every hook of a trusted skill, those that are not fired with the reason. Blocking."""
    found: list[Hook] = []
    for listed in catalog.by_name.values():
        skill = listed.skill
        if skill is None or listed.shown != "usable" or not listed.entrusted:
            continue
        if os.path.isdir(os.path.join(listed.folder, HOOKS)):
            found += _of(skill, bundles)
    return tuple(found)


def untrusted(catalog: Catalog) -> tuple[str, ...]:
    """Skills that can be used and bring hooks, none of which is fired, because nobody gave his word for them. Blocking."""
    return tuple(
        listed.name
        for listed in catalog.by_name.values()
        if listed.shown == "usable"
        and not listed.entrusted
        and os.path.isdir(os.path.join(listed.folder, HOOKS))
    )


def _of(skill: Skill, bundles: BundleStore) -> list[Hook]:
    try:
        snapshot = bundles.open(skill.digest)
        if snapshot is None:
            return [
                _broken(skill, "the copy of its trusted bytes is gone; `metier skills trust` makes it anew")
            ]
        return hooks_in(skill, snapshot)
    except BundleError as error:
        return [_broken(skill, error.message)]


def hooks_in(skill: Skill, snapshot: Snapshot) -> list[Hook]:
    """The hooks that these bytes of a skill bring.

    Raises:
        BundleError: when the snapshot is not what it should be.
    """
    folders: dict[str, set[str]] = {}
    for file in snapshot.files:
        top, _, rest = file.path.partition("/")
        folder, _, name = rest.partition("/")
        if top == HOOKS and name and "/" not in name:
            folders.setdefault(folder, set()).add(name)
    made: list[Hook] = []
    for folder, names in sorted(folders.items()):
        if TEXT not in names and folder != _NEEDS_NO_TEXT:
            continue
        if len(made) == MOST:
            return [*made, _broken(skill, f"it has more than {MOST} hooks, and the others are not fired")]
        text = snapshot.read(f"{HOOKS}/{folder}/{TEXT}") if TEXT in names else None
        said = Said(events=TYPES) if text is None else said_in(text)
        handler = next((each for each in _HANDLERS if each in names), "")
        lacks = "" if handler else f"{HOOKS}/{folder} has neither {' nor '.join(_HANDLERS)}"
        made.append(
            Hook(
                skill=skill.name,
                file=f"{HOOKS}/{folder}/{handler}" if handler else "",
                export=said.export,
                events=said.events,
                problem=said.problem or lacks,
                broken=not said.meant and bool(said.problem or lacks),
            )
        )
    return made


def _broken(skill: Skill, why: str) -> Hook:
    return Hook(skill=skill.name, file="", problem=why, broken=True)
