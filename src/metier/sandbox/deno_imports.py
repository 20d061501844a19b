"""Which module a name in an import leads to. Skills written for MetaHuman import its types from where they lay in their own
repository; a stored copy lies elsewhere, so for such a skill that one place is mapped to types of ours. Packages that a skill brings
are found by their names; what has a name of ours is ours.

The engine resolves a relative name against the importing file before it asks the map, so the map has to name the place as the
stored copy sees it, and differs from skill to skill.
"""

import json
import os
import re
from functools import cache
from typing import Final
from urllib.parse import quote

from metier.model.entry import ScriptHandler
from metier.model.job import Job
from metier.sandbox.deno_packages import own_packages

TYPES: Final = "metahuman_skills.ts"
_MOST_BYTES: Final = 1_048_576
_CORE: Final = re.compile(rb"""["']((?:\.\./){1,32}packages/core/src/skills(?:\.js|\.ts)?)["']""")
_MOST_NAMES: Final = 8


def import_map(job: Job, guest: str) -> str:
    """The map for a job, as the engine is told it: our own file, or one made for this skill."""
    own = f"{guest}/import_map.json"
    names = _core_names(job)
    packages = own_packages(job.bundle) if job.bundle else {}
    if not names and not packages:
        return own
    imports, scopes = _absolute(own, guest)
    folder = os.path.dirname(os.path.join(job.bundle, _path(job)))
    types = _address(f"{guest}/{TYPES}")
    wanted = {_address(os.path.normpath(os.path.join(folder, name))): types for name in names}
    return f"data:application/json,{quote(json.dumps({'imports': {**packages, **wanted, **imports}, 'scopes': scopes}))}"


def _core_names(job: Job) -> list[str]:
    """The names by which the skill's own file asks for those types."""
    if not isinstance(job.entry, ScriptHandler) or not job.bundle or not job.entry.path.endswith(".ts"):
        return []
    try:
        with open(os.path.join(job.bundle, job.entry.path), "rb") as file:
            data = file.read(_MOST_BYTES)
    except OSError:
        return []  # whoever starts it says so
    return sorted({found.decode() for found in _CORE.findall(data)})[:_MOST_NAMES]


def _path(job: Job) -> str:
    return job.entry.path if isinstance(job.entry, ScriptHandler) else ""


@cache
def _absolute(path: str, guest: str) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Our own map with whole addresses: one that lies in no file has nothing to be relative to."""
    with open(path, encoding="utf-8") as file:
        written = json.load(file)

    def whole(place: str) -> str:
        return _address(f"{guest}/{place[2:]}") if place.startswith("./") else place

    imports: dict[str, str] = {name: whole(place) for name, place in written["imports"].items()}
    scopes: dict[str, dict[str, str]] = {
        whole(scope): {name: whole(place) for name, place in inside.items()}
        for scope, inside in written["scopes"].items()
    }
    return imports, scopes


def _address(path: str) -> str:
    return f"file://{quote(path)}"
