"""What a file of a skill is called: one name for one file, whoever speaks of it.

A model is told `skill://NAME` for the folder of a skill and writes paths as the instructions do. What it meant is settled
here, before anybody judges the call, so that a rule about a file cannot be got around by another spelling of it.
"""

from typing import Final

from metier.model.skill import Skill

_SCHEME: Final = "skill://"
_TOLD: Final = "SKILL.md"
"""What a model is told that the manifest is called; the file may be spelled otherwise."""


def base_dir(skill: Skill) -> str:
    """How a skill's folder is called towards a model: a name that `read_skill` understands, no path of this machine."""
    from urllib.parse import quote

    return _SCHEME + quote(skill.name, safe="")


def path_in(skill: Skill, given: str) -> str:
    """The name by which the skill's bundle lists the file that `given` means.

    Settling a settled one changes nothing. What can be no name in a bundle (`..`, an empty part, an address of another
    skill) stays as it is, and so is the name of no file.
    """
    return path_of(skill.name, skill.manifest, given)


def path_of(name: str, manifest: str, given: str) -> str:
    """The same for a skill of which no more is known than this."""
    from urllib.parse import quote

    own = f"{_SCHEME}{quote(name, safe='')}/"
    inside = given.removeprefix(own) if given.startswith(_SCHEME) else given
    parts = [part for part in inside.split("/") if part != "."]
    if not parts or "" in parts or ".." in parts:
        return given
    path = "/".join(parts)
    return manifest if path == _TOLD else path
