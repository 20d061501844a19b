"""What a call needs that runs something of a skill: all that the skill is permitted, and the program it names. Blocking: whether
the script is there is looked at before anybody is asked about it.

A shell or an interpreter that a skill declares is not among it, unless the operator named it or the call asks for that very
one: its scripts are started by one of our own choosing, for that script alone, and what nobody may have would refuse them.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from metier.catalog.scripts import script_problem
from metier.model.digest import Json
from metier.model.ground import Ground
from metier.model.in_skill import arguments_problem
from metier.model.interpreters import is_interpreter
from metier.model.permission import OWN_FOLDER, PermissionSet
from metier.model.skill import Skill


def needed_in(skill: Skill, arguments: Mapping[str, Json], ground: Ground) -> PermissionSet | str:
    """What the call needs, or what is wrong with it."""
    if skill.tools:
        names = ", ".join(tool.name for tool in skill.tools[:10])
        return f"skill {skill.name!r} brings tools of its own; call one of these: {names}"
    if problem := arguments_problem(arguments):
        return problem
    script = arguments.get("script")
    if isinstance(script, str) and (problem := script_problem(skill, script)):
        return problem
    binary = arguments.get("binary")
    asked = frozenset({binary}) if isinstance(binary, str) else frozenset[str]()
    own = skill.permissions
    given = {name for name in own.binaries if not is_interpreter(name) or name in ground.interpreters}
    try:
        return OWN_FOLDER | replace(own, binaries=frozenset(given | asked))
    except ValueError as error:
        return f"argument 'binary': {error}"
