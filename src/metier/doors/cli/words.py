"""Permissions and findings in plain words."""

from metier.catalog.listed import Listed
from metier.catalog.requirements import install_hint
from metier.model.diagnostic import Diagnostic
from metier.model.permission import PermissionSet
from metier.model.permission_words import permissions, programs
from metier.model.text import one_line

__all__ = ("advice", "finding", "permissions", "programs", "withheld")


def withheld(name: str, lacks: PermissionSet) -> str:
    """What a skill may not do yet, and what it takes."""
    what = permissions(lacks).removesuffix("; no network")
    return f"{what}; `metier skills trust {one_line(name, 80)}` grants it"


def finding(found: Diagnostic) -> str:
    """One diagnostic on one line."""
    place = f"line {found.line}: " if found.line else ""
    return f"{found.severity}: {place}{one_line(found.message)} [{found.code}]"


def advice(each: Listed, platform: str) -> list[str]:
    """What to do about a skill that is not usable, or not all of it."""
    said = [one_line(each.why)] if each.why and not each.missing else []
    if each.held_back and each.shown == "usable":
        said.append(each.held_back)
    for error in each.missing:
        hint = install_hint(error.install, platform) if error.install else ""
        if hint and not hint.startswith("its author says"):
            hint = f"get it with: {hint}"
        said.append("; ".join(part for part in (one_line(str(error)), hint) if part))
    return said
