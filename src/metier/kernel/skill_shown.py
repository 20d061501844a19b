"""A skill that lives as others are told of it: the record of XBot, in its words."""

from typing import Final, cast

from metier.catalog.listed import Listed
from metier.kernel.skill_record import Life
from metier.model.digest import Json
from metier.model.skill import Skill

LEGACY: Final = (
    "it exports `registerSkill`, which is deprecated and has no capabilities; export `skill` instead"
)
NOT_YET: Final = "it is enabled, and not started yet; `metier host` runs it"
ENDING: Final = "what was started before that is being ended"
NOT_TOLD: Final = "`metier skills living` tells the operator why"
_MOST: Final = 100


def shown(listed: Listed, life: Life, *, enabled: bool, modules: list[str], why: bool) -> Json:
    """The record. Only a skill that could live now is `loaded`; of all others it is said why not, where `why` says so."""
    skill = listed.skill
    status, error = life.status, life.error
    if listed.shown != "usable":
        status = "disabled" if listed.shown == "disabled" else "error"
        error = f"{listed.why}; {ENDING}" if life.status == "loaded" else listed.why
    elif not enabled:
        status = "disabled"
    elif status == "disabled" and not error:
        error = NOT_YET
    record: dict[str, Json] = {
        "id": (skill.key if skill is not None else "") or listed.name,
        "name": listed.name,
        "version": skill.version if skill is not None else "",
        "enabled": enabled,
        "status": status,
        "error": (error if why else NOT_TOLD) if error else None,
        "source": skill.source if skill is not None else None,
        "modules_registered": [*modules] if status == "loaded" else [],
        "settings_meta": _settings_meta(skill) if skill is not None else None,
        "capabilities": _capabilities(skill) if skill is not None else None,
        "actions": _list(skill, "actions"),
        "intents": _list(skill, "intents"),
        "warnings": [LEGACY] if skill is not None and skill.extra.get("legacy") is True else [],
    }
    if skill is not None and skill.description:
        record["description"] = skill.description
    return record


def intents_of(listed: Listed) -> list[Json]:
    """What the skill says it can be asked for, with its id."""
    skill = listed.skill
    if skill is None:
        return []
    id = skill.key or skill.name
    return [{**each, "skill_id": id} for each in _list(skill, "intents") if isinstance(each, dict)]


def _settings_meta(skill: Skill) -> Json:
    kept = skill.extra.get("settings")
    defaults = kept.get("defaults") if isinstance(kept, dict) else None
    if skill.settings_schema is None and defaults is None:
        return None
    return {"schema": skill.settings_schema, "defaults": defaults}


def _capabilities(skill: Skill) -> Json:
    return {
        "kernel_ops": cast("list[Json]", sorted(skill.permissions.operations)),
        "channels": cast("list[Json]", sorted(skill.permissions.channels)),
        "network": skill.asks_network,
    }


def _list(skill: Skill | None, name: str) -> list[Json]:
    value = skill.extra.get(name) if skill is not None else None
    return value[:_MOST] if isinstance(value, list) else []
