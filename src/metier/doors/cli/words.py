"""Permissions and findings in plain words."""

from collections.abc import Mapping

from metier.catalog.listed import Listed
from metier.catalog.requirements import install_hint
from metier.model.diagnostic import Diagnostic
from metier.model.permission import PermissionSet
from metier.model.program import OperatorProgram
from metier.model.text import one_line


def withheld(name: str, lacks: PermissionSet) -> str:
    """What a skill may not do yet, and what it takes."""
    what = permissions(lacks).removesuffix("; no network")
    return f"{what}; `metier skills trust {one_line(name, 80)}` grants it"


def permissions(granted: PermissionSet) -> str:
    """What a set allows, as one would say it."""
    parts = [
        (granted.reads, "read"),
        (granted.writes, "write"),
        (granted.binaries, "run"),
        (granted.env, "see the variables"),
        (granted.secrets, "use the secrets"),
        (granted.operations, "call"),
        (granted.channels, "send to"),
    ]
    said = [f"{verb} {one_line(', '.join(sorted(names)))}" for names, verb in parts if names]
    said.append(f"reach {one_line(', '.join(sorted(granted.hosts)))}" if granted.hosts else "no network")
    return "; ".join(said).replace("{baseDir}", "its own folder")


def programs(granted: PermissionSet, named: Mapping[str, OperatorProgram]) -> list[str]:
    """What the operator's own programs in a set are, a line each. What such a program may touch, the skill itself may not."""
    return [f"{one_line(name)} is {named[name].in_words}" for name in sorted(granted.binaries & named.keys())]


def finding(found: Diagnostic) -> str:
    """One diagnostic on one line."""
    place = f"line {found.line}: " if found.line else ""
    return f"{found.severity}: {place}{one_line(found.message)} [{found.code}]"


def advice(each: Listed, platform: str) -> list[str]:
    """What to do about a skill that is not usable."""
    said = [one_line(each.why)] if each.why and not each.missing else []
    for error in each.missing:
        hint = install_hint(error.install, platform) if error.install else ""
        if hint and not hint.startswith("its author says"):
            hint = f"get it with: {hint}"
        said.append("; ".join(part for part in (one_line(str(error)), hint) if part))
    return said
