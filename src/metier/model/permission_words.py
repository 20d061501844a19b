"""Permissions in plain words, the same at every door.

Whoever wrote the skill chose the names in them. One that could be read as words of ours, or go on a sentence of ours, stands in quotes.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from metier.model.exact import quoted
from metier.model.permission import PermissionSet
from metier.model.program import OperatorProgram
from metier.model.text import one_line

_PLAIN: Final = re.compile(r"[A-Za-z0-9._/{}@:*+~-]+", re.ASCII)
_OWN_FOLDER: Final = "{baseDir}"
_PLACES: Final = {_OWN_FOLDER: "its own folder", "{workspace}": "the workspace"}
_KINDS: Final = (
    ("hosts", "reach", "host"),
    ("writes", "write", "place"),
    ("reads", "read", "place"),
    ("binaries", "run", "program"),
    ("env", "see the variables", "variable"),
    ("secrets", "use the secrets", "secret"),
    ("operations", "call", "operation"),
    ("channels", "send to", "channel"),
)
"""What leads out of this machine, or changes something, comes first."""


def permissions(granted: PermissionSet) -> str:
    """What a set allows, as one would say it."""
    said = [f"{verb} {', '.join(map(_name, names))}" for names, verb, _ in _allowed(granted)]
    return "; ".join(said if granted.hosts else [*said, "no network"])


def in_quotes(granted: Mapping[str, Sequence[str]]) -> str:
    """The same for somebody who decides by it: every name stands in quotes, and what stands in none is ours. What is not known here is said
    as it is called."""
    known = [(kind, verb) for kind, verb, _ in _KINDS]
    later = [(kind, kind) for kind in granted if kind not in dict(known)]
    said = [f"{verb} {_placed(granted[kind])}" for kind, verb in [*known, *later] if granted.get(kind)]
    return "; ".join(said if granted.get("hosts") else [*said, "no network"])


def kinds(granted: PermissionSet) -> str:
    """The same without the names, where there is no room for all of them: a part of them would be what the skill wants to be read."""
    said = [
        f"{verb} ({len(names)} {thing}{'s' * (len(names) > 1)})" for names, verb, thing in _allowed(granted)
    ]
    return "; ".join(said if granted.hosts else [*said, "no network"])


def programs(granted: PermissionSet, named: Mapping[str, OperatorProgram]) -> list[str]:
    """What the operator's own programs in a set are, a line or two each. What such a program may touch, the skill itself may not."""
    said: list[str] = []
    for name in sorted(granted.binaries & named.keys()):
        said.append(f"{one_line(name)} is {named[name].in_words}")
        if begun_with := named[name].begun_with:
            said.append(f"{one_line(name)} is begun with: {begun_with}")
    return said


def _allowed(granted: PermissionSet) -> list[tuple[list[str], str, str]]:
    found = [(sorted(getattr(granted, kind)), verb, thing) for kind, verb, thing in _KINDS]
    return [each for each in found if each[0]]


def _name(name: str) -> str:
    said = name if _PLAIN.fullmatch(name) else quoted(name)
    return said.replace(_OWN_FOLDER, _PLACES[_OWN_FOLDER])


def _placed(names: Sequence[str]) -> str:
    """Those that lie at one of the places Metier has signs for come last, after the place: what follows is there."""
    said = [quoted(each) for each in names if not _at_a_place(each)]
    for sign, place in _PLACES.items():
        if sign in names:
            said.append(place)
        if inside := [quoted(each.removeprefix(f"{sign}/")) for each in names if each.startswith(f"{sign}/")]:
            said.append(f"in {place} {', '.join(inside)}")
    return ", ".join(said)


def _at_a_place(name: str) -> bool:
    return any(name == sign or name.startswith(f"{sign}/") for sign in _PLACES)
