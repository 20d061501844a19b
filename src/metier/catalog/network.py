"""Skills that ask for the network without saying where to: they get the hosts the operator names, and none otherwise."""

from collections.abc import Mapping

from msgspec.structs import replace

from metier.config.settings import SkillEntry
from metier.model.permission import PermissionSet
from metier.model.skill import Skill


def hosts_for(skill: Skill, entries: Mapping[str, SkillEntry]) -> frozenset[str]:
    """What the operator lets `skill` reach; nothing where it did not ask.

    A grant belongs to a name. The settings key is what a file says, and could be another skill's name; that of an XBot package
    is its own, spelled as its registry has it.
    """
    own = (skill.key, skill.name) if skill.dialect == "xbot" else (skill.name,)
    entry = next((entries[name] for name in own if name in entries), None)
    return entry.hosts if skill.asks_network and entry is not None else frozenset()


def with_hosts(skill: Skill, hosts: frozenset[str]) -> Skill:
    """The skill with these hosts among what it and each of its tools may touch."""
    if not hosts:
        return skill
    more = PermissionSet(hosts=hosts)
    tools = tuple(replace(tool, permissions=tool.permissions | more) for tool in skill.tools)
    return replace(skill, permissions=skill.permissions | more, tools=tools)
