"""Permissions in plain words, the same at every door.

Whoever wrote the skill chose the names in them. One that could be read as words of ours, or go on a sentence of ours, stands in quotes.
"""

import re
from collections.abc import Mapping
from typing import Final

from metier.model.exact import quoted
from metier.model.permission import PermissionSet
from metier.model.program import OperatorProgram
from metier.model.text import one_line

_PLAIN: Final = re.compile(r"[A-Za-z0-9._/{}@:*+~-]+", re.ASCII)
_OWN_FOLDER: Final = "{baseDir}"
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
    return said.replace(_OWN_FOLDER, "its own folder")
