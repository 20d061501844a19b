"""What a HOOK.md says: on which events its hook is fired, which function it is, and why it is not fired after all.

It is read as a SKILL.md is, and by OpenClaw's words: `metadata.openclaw {events, export, os, requires}`, and `enabled` above it.
What a hook needs and is never given here (a program, a variable) keeps it from being fired, with the reason.
"""

import sys
from typing import Final, final

from msgspec import Struct

from metier.dialects.frontmatter import read
from metier.dialects.metadata import metadata_of
from metier.dialects.openclaw import NAMESPACES, block_of
from metier.dialects.scalars import strings
from metier.model.digest import Json
from metier.model.text import one_line

TYPES: Final = frozenset({"agent", "tool", "message"})
FIRED: Final = ("agent:bootstrap", "tool:before", "tool:after", "message:received", "message:sent")
"""What happens here. A hook may also name a type alone, which means every event of it."""
_NEVER_GIVEN: Final = ("bins", "anyBins", "env")
_MOST_NAMED: Final = 120


@final
class Said(Struct, frozen=True, kw_only=True):
    """What stands there."""

    events: frozenset[str] = frozenset()
    export: str = "default"
    problem: str = ""
    """Why the hook is not fired; empty when it is."""
    meant: bool = False
    """Whether that is as its author means it, and nothing is wrong with it."""


def said_in(data: bytes) -> Said:
    """What a HOOK.md of these bytes says."""
    document = read(data)
    if document.fields is None:
        why = "; ".join(each.message for each in document.diagnostics)
        return Said(problem=f"its HOOK.md cannot be read: {one_line(why, 200)}")
    found = block_of(metadata_of(document, frozenset(NAMESPACES)).openclaw)
    block = found[1] if found is not None else {}
    events = frozenset(strings(block.get("events")))
    export = block.get("export", "default")
    if not isinstance(export, str) or not export.isidentifier():
        return Said(events=events, problem="its HOOK.md names an export that is no name of a function")
    if document.fields.get("enabled") in (False, "false"):
        return Said(events=events, problem="its HOOK.md says that it is not enabled", meant=True)
    problem = _problem(block, events)
    if not problem and not any(wanted(events, each) for each in FIRED):
        problem = f"of its events ({_names(sorted(events))}) none happens here; these do: {', '.join(FIRED)}"
        return Said(events=events, problem=problem, meant=True)
    return Said(events=events, export=export, problem=problem)


def wanted(events: frozenset[str], event: str) -> bool:
    """Whether a hook that names `events` is fired on `event`, written `type:action`."""
    return event in events or event.partition(":")[0] in events


def _problem(block: dict[str, Json], events: frozenset[str]) -> str:
    systems = strings(block.get("os"))
    if systems and sys.platform not in systems:
        return f"it is for {_names(systems)} only"
    requires = block.get("requires")
    needs = requires if isinstance(requires, dict) else {}
    missing = tuple(name for key in _NEVER_GIVEN for name in strings(needs.get(key)))
    if missing:
        return f"it needs {_names(missing)}, and no hook is given a program or a variable"
    return "" if events else "its HOOK.md names no events (metadata.openclaw.events)"


def _names(several: tuple[str, ...] | list[str]) -> str:
    return one_line(", ".join(several), _MOST_NAMED)
