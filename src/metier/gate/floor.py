"""The deny floor: what no role, level, rule or grant lets a call do, and what no mode switches off.

- write what Metier decides by: its state (record, trust, keys, approvals) but for the workspace, its configuration and
  policy, the bytes of the skill itself, the folders whose skills are trusted at first use;
- read its secrets: its state but for the workspace, and every file that holds a secret;
- reach what of the workspace is no skill's: code, and for writing who the agent is;
- use a shell, an interpreter or a program made to start others, unless the operator named it;
- have an agent of the workspace run, but for the skill that ships with Metier for that: an agent may do what its skill may not.

It judges by names alone, those that were declared and those the disk has for our own places, so it can be asked before
anything is touched. A folder that holds what is protected is as good as the thing itself. Where a declared path really
leads is looked at once more when it runs.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from metier.gate.situation import NO_PERMISSIONS, Situation
from metier.model.call import ValidCall
from metier.model.entry import Command
from metier.model.ground import Ground
from metier.model.interpreters import is_interpreter
from metier.model.permission import BASE_DIR, WORKSPACE
from metier.model.reserved_operations import reserved
from metier.model.text import one_line
from metier.model.verdict import Verdict
from metier.model.workspace import why_kept

CONFIGURATION: Final = "metier.toml"
OWN_RUN: Final = "operator.run"
"""`metier run`: every program it may use was typed in for this one run."""
_UNTOUCHED: Final = Verdict.abstain("touches nothing that no call may touch")


def floor(valid: ValidCall, situation: Situation) -> Verdict:
    """Whether the call could do what none may."""
    ground, needs, skill = situation.ground, valid.permissions, valid.skill
    if needs == NO_PERMISSIONS and not isinstance(valid.tool.entry, Command):
        return _UNTOUCHED
    reasons = (
        *(why for path in sorted(needs.writes) if (why := _why_unwritable(path, ground))),
        *(why for path in sorted(needs.reads) if (why := _why_unreadable(path, ground))),
        *_programs(valid, ground),
        *reserved(needs.operations, skill.name if skill is not None and skill.source == "bundled" else ""),
    )
    if not reasons:
        return _UNTOUCHED
    verdict = Verdict.deny(reasons[0])
    for reason in reasons[1:]:
        verdict |= Verdict.deny(reason)
    return verdict


def _why_unwritable(path: str, ground: Ground) -> str:
    shown = one_line(path, 200)
    head = path.partition("/")[0]
    if head == BASE_DIR:
        return f"{shown!r} cannot be written: a skill never changes the bytes it is trusted for"
    if CONFIGURATION in path.casefold().split("/"):
        return f"{shown!r} cannot be written: Metier decides by it"
    if (inside := _inside(path, ground)) is not None:
        why = why_kept(inside, writes=True)
        return f"{shown!r} cannot be written: {why}" if why else ""
    for places, why in (
        ((ground.state,), "Metier's own state lies there"),
        (ground.decides_by, "Metier decides by what lies there"),
        (ground.trusted_roots, "the skills there are trusted"),
        (ground.secret_files, "a secret lies there"),
    ):
        if _meets(path, places, ground):
            return f"{shown!r} cannot be written: {why}"
    return ""


def _why_unreadable(path: str, ground: Ground) -> str:
    if path.partition("/")[0] == BASE_DIR:
        return ""
    if (inside := _inside(path, ground)) is not None:
        why = why_kept(inside, writes=False)
        return f"{one_line(path, 200)!r} cannot be read: {why}" if why else ""
    for places, why in (
        ((ground.state,), "Metier's own state lies there"),
        (ground.secret_files, "a secret lies there"),
    ):
        if _meets(path, places, ground):
            return f"{one_line(path, 200)!r} cannot be read: {why}"
    return ""


def _programs(valid: ValidCall, ground: Ground) -> Iterator[str]:
    """Each shell or interpreter that nobody named."""
    if _typed_in(valid):
        return
    entry = valid.tool.entry
    own = frozenset(entry.argv[:1]) if isinstance(entry, Command) else frozenset[str]()
    for name in sorted(valid.permissions.binaries | own):
        if is_interpreter(name) and name not in ground.interpreters:
            yield (
                f"{one_line(name, 80)!r} runs whatever it is told; to let skills be granted it, the operator names it "
                "in [binaries] interpreters of his metier.toml"
            )


def _typed_in(valid: ValidCall) -> bool:
    tool = valid.tool
    human = valid.call.principal.kind == "human" and valid.skill is None
    return human and tool.name == OWN_RUN and tool.audience == "operator"


def _inside(path: str, ground: Ground) -> str | None:
    """The way from the workspace on; None for what lies elsewhere."""
    head, _, rest = path.partition("/")
    if head == WORKSPACE:
        return rest
    places = _spelled((ground.workspace,), ground)
    return next((path[len(place) :] for place in places if _below(path, place)), None)


def _meets(path: str, places: Iterable[str], ground: Ground) -> bool:
    """Whether `path` is, lies in, or holds one of the places. Letter case does not tell two places apart."""
    folded = path.casefold()
    spelled = (place.casefold() for place in _spelled(places, ground))
    return any(_below(folded, place) or _below(place, folded) for place in spelled)


def _spelled(places: Iterable[str], ground: Ground) -> Iterator[str]:
    """Each place as it is written and as it really lies."""
    for place in places:
        if place:
            yield place
            if place in ground.links:
                yield ground.links[place]


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
