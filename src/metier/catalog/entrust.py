"""A person's word for the bytes of a skill: the one way by which somebody, at whatever door, lets a skill in.

Letting in what runs something is creating it here, whoever wrote it. So besides the right to trust it takes `skills:create`.
"""

from typing import TYPE_CHECKING

from metier.catalog.hold import bind
from metier.catalog.listed import Listed
from metier.catalog.scripts import brings_code
from metier.model.call import Bytes
from metier.model.role import CREATE, TRUST
from metier.model.skill import Skill
from metier.record.decider import Decider, rights_now
from metier.record.trust import TrustStore

if TYPE_CHECKING:
    from metier.record.database import Database


def entrust(listed: Listed, skill: Skill, found: Bytes, *, database: "Database", by: Decider) -> str:
    """Trust exactly these bytes on the word of `by`; gives why that was not done, empty when it was.

    Args:
        skill: as the bytes themselves declare it.
    """
    if by.kind != "human":
        return f"only people trust skills, and {by.id!r} is not one"
    with database.reading() as connection:
        rights = rights_now(connection, by)
    for right in (TRUST, CREATE) if _runs(listed, skill) else (TRUST,):
        if right not in rights:
            return f"{by.id!r} lacks the right {right!r}, which it takes to let this skill in"
    bind(listed, skill, found, trust=TrustStore(database), how="operator", by=by.id)
    return ""


def _runs(listed: Listed, skill: Skill) -> bool:
    """Whether there is anything in it besides text."""
    declares = skill.tools or skill.hooks or skill.permissions.binaries
    return bool(declares or listed.probe) or brings_code(listed.folder)
