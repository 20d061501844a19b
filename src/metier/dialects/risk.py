"""How much a tool can do at worst. A manifest may say that it is more than this, never that it is less. Pure.

What code or a program that can reach somebody does there is known to nobody but its author, so it acts.
"""

from typing import Final, Literal, TypeAlias

from msgspec.structs import replace

from metier.dialects.shell_words import PLACE
from metier.model.entry import Command, Entry, HttpRequest, InlineCode, RemoteTool
from metier.model.interpreters import is_interpreter
from metier.model.lone_programs import is_lone
from metier.model.permission import BASE_DIR, PermissionSet
from metier.model.skill import Tool
from metier.model.trust_level import reaches

Effect: TypeAlias = Literal["read", "act"]
Risk: TypeAlias = Literal["low", "medium", "high"]

RISKS: Final[tuple[Risk, ...]] = ("low", "medium", "high")
ONLY_LOOK: Final = frozenset({"memory.search", "agents.status"})
"""Operations that change nothing; every other one has something done."""
_ONLY_ASK: Final = frozenset({"GET", "HEAD"})


def acts(entry: Entry, permissions: PermissionSet, *, network: bool = False) -> str:
    """By what a tool can change something somewhere, whatever it says of itself; empty when it cannot.

    Args:
        network: whether it asks for hosts that the operator will name.
    """
    if _sends(entry, permissions, network=network):
        return "can send to other machines"
    if permissions.writes:
        return "may write files"
    if permissions.channels:
        return "may send messages"
    if operations := permissions.operations - ONLY_LOOK:
        return f"may have {', '.join(sorted(operations))} done"
    return ""


def default_risk(*, effect: Effect, entry: Entry, permissions: PermissionSet, network: bool = False) -> Risk:
    """To read is low and to act is medium.

    High is what nobody can foresee or take back: code written in a manifest, shells and interpreters, a program that is
    given an argument and may start others, writing outside the skill's own folder, changing something over the network.
    """
    if (
        _runs_anything(entry, permissions)
        or _writes_elsewhere(permissions)
        or _sends(entry, permissions, network=network)
    ):
        return "high"
    return "low" if effect == "read" and not acts(entry, permissions, network=network) else "medium"


def raised(declared: Risk, default: Risk) -> Risk:
    """The higher of the two."""
    return declared if RISKS.index(declared) > RISKS.index(default) else default


def as_act(tool: Tool) -> Tool:
    """A tool that says it only reads, as one that acts: agents have it from the level on from which they may act."""
    low = reaches("suggest", tool.minimum_trust)
    return replace(tool, effect="act", minimum_trust="supervised_auto" if low else tool.minimum_trust)


def _runs_anything(entry: Entry, permissions: PermissionSet) -> bool:
    if isinstance(entry, InlineCode) or any(map(is_interpreter, permissions.binaries)):
        return True
    if not isinstance(entry, Command):
        return False
    # What a program makes of an argument is known of few: to most it may be an order to start another one.
    told = any(map(PLACE.search, entry.argv[1:])) and not is_lone(entry.argv[0])
    return told or is_interpreter(entry.argv[0])


def _writes_elsewhere(permissions: PermissionSet) -> bool:
    return any(path.partition("/")[0] != BASE_DIR for path in permissions.writes)


def _sends(entry: Entry, permissions: PermissionSet, *, network: bool) -> bool:
    if isinstance(entry, HttpRequest):
        return entry.method.upper() not in _ONLY_ASK
    # A server that runs here reaches what it was granted, like any other program; another one is elsewhere already.
    elsewhere = isinstance(entry, RemoteTool) and (entry.reached is None or bool(entry.reached.url))
    return network or bool(permissions.hosts) or elsewhere
