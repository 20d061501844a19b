"""What bringing tools means for the skill as a whole: the same for every SKILL.md that brings any."""

import re
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from metier.dialects.draft import Draft
from metier.model.permission import OWN_FOLDER, PermissionSet
from metier.model.requirement import NOTHING, Requirements
from metier.model.skill import Tool

LONGEST_TIMEOUT: Final = 300.0
"""In seconds: no tool is given more."""
BINARY: Final = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9_.+@][A-Za-z0-9_.+@-]{0,127}", re.ASCII)
PLAIN_BINARY: Final = "write the plain name of one program, such as jq; where it lies is for the operator to say, under [binaries] in metier.toml"


def bring(draft: Draft, tools: tuple[Tool, ...], wide: PermissionSet, required: Requirements) -> None:
    """Put the tools into the draft, beside what other blocks of the file said.

    Args:
        wide: what the skill may touch beyond what its tools may.
        required: what must be there for the skill to be usable.
    """
    together: PermissionSet = draft.words.get("permissions", OWN_FOLDER) | OWN_FOLDER | wide
    for tool in tools:
        together = together | tool.permissions
    draft.words["tools"] = tools
    draft.words["permissions"] = together
    known: Requirements = draft.words.get("requirements", NOTHING)
    joined = replace(
        known,
        binaries=_joined(known.binaries, required.binaries),
        any_binaries=_joined(known.any_binaries, required.any_binaries),
        env=_joined(known.env, required.env),
        config=_joined(known.config, required.config),
        os=_joined(known.os, required.os),
        always=known.always or required.always,
    )
    if joined != NOTHING:
        draft.words["requirements"] = joined


def _joined(first: Iterable[str], second: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))
