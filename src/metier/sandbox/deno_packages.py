"""Packages that a skill brings in its own `node_modules`: by which name which of its files is imported.

The engine looks for packages only where it could also fetch them, which it never may here. So the names are told to it. Only what lies
at the top of `node_modules` has a name, and only files of the skill are named. One that is written as CommonJS is required, and what
it exports is the default export.
"""

import json
import os
from collections.abc import Iterator
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from metier.dialects.package_file import MAX_BYTES, is_name
from metier.model import strictjson
from metier.model.diagnostic import Diagnostic
from metier.model.digest import Json
from metier.openfile import read_small

FOLDER: Final = "node_modules"
_MOST_PACKAGES: Final = 256
_MOST_TEXT: Final = 65_536
"""Of all names and addresses; they stand in one argument of a command line."""
_CONDITIONS: Final = ("deno", "import", "module-sync", "node", "default", "require")
_COMMON_JS: Final = (
    "import {{ createRequire }} from 'node:module';\nexport default createRequire({top})({name});\n"
)


def own_packages(bundle: str) -> dict[str, str]:
    """By the name that code imports: the address of what is meant."""
    top = os.path.join(bundle, FOLDER)
    try:
        return dict(_named(bundle, os.lstat(top).st_mtime_ns))
    except OSError:
        return {}  # most skills bring none


@lru_cache(maxsize=64)
def _named(bundle: str, _changed: int) -> dict[str, str]:
    named: dict[str, str] = {}
    room = _MOST_TEXT
    for name, folder in _packages(os.path.join(bundle, FOLDER)):
        found = _entries(name, folder, bundle)
        room -= sum(len(quote(each)) + len(quote(place)) for each, place in found.items())
        if room < 0:
            break
        named.update(found)
    return named


def _packages(top: str) -> Iterator[tuple[str, str]]:
    """Name and folder of each."""
    count = 0
    for name in sorted(os.listdir(top)):
        scoped = sorted(os.listdir(os.path.join(top, name))) if _is_scope(top, name) else None
        for each in (name,) if scoped is None else (f"{name}/{inner}" for inner in scoped):
            folder = os.path.join(top, each)
            # A name that could be read as an address might stand for a file of ours.
            if not is_name(each) or not os.path.isfile(os.path.join(folder, "package.json")):
                continue
            count += 1
            if count > _MOST_PACKAGES:
                return
            yield each, folder


def _is_scope(top: str, name: str) -> bool:
    return name.startswith("@") and os.path.isdir(os.path.join(top, name))


def _entries(name: str, folder: str, bundle: str) -> dict[str, str]:
    found = read_small(os.path.join(folder, "package.json"), most=MAX_BYTES, hard_links=False)
    if isinstance(found, Diagnostic):
        return {}
    try:
        said = strictjson.loads(found[0])
    except ValueError:
        return {}
    if not isinstance(said, dict):
        return {}
    exports, is_module = said.get("exports"), said.get("type") == "module"
    made: dict[str, str] = {}
    for point, place in _points(exports, said):
        file = _file(folder, place)
        if file:
            spelled = name + point.removeprefix(".")
            made[spelled] = _address(spelled, file, bundle, is_module=is_module)
    if exports is None:
        made[f"{name}/"] = f"file://{quote(folder)}/"
    return made


def _points(exports: Json, said: dict[str, Json]) -> Iterator[tuple[str, Json]]:
    """What the package lets be imported, and the file for it, as it is written there."""
    if exports is None:
        main = said.get("main")
        yield ".", main if isinstance(main, str) else "index"
        return
    several = exports if isinstance(exports, dict) and any(each.startswith(".") for each in exports) else None
    for point, place in ((".", exports),) if several is None else several.items():
        if point == "." or (point.startswith("./") and "*" not in point):
            yield point, _chosen(place, 0)


def _chosen(place: Json, depth: int) -> Json:
    """Of what is named under conditions, the one that holds here."""
    if isinstance(place, dict) and depth < 8:
        held = next((place[each] for each in place if each in _CONDITIONS), None)
        return _chosen(held, depth + 1)
    return place


def _file(folder: str, place: Json) -> str:
    """The file that is meant; empty where there is none in the package."""
    if not isinstance(place, str) or not place:
        return ""
    whole = os.path.normpath(os.path.join(folder, place))
    if not whole.startswith(f"{folder}/"):
        return ""
    tries = (whole, *(whole + end for end in (".js", ".mjs", ".cjs", "/index.js")))
    return next((each for each in tries if os.path.isfile(each)), "")


def _address(name: str, file: str, bundle: str, *, is_module: bool) -> str:
    if file.endswith((".mjs", ".mts", ".ts")) or (is_module and not file.endswith(".cjs")):
        return f"file://{quote(file)}"
    top = json.dumps(f"file://{quote(bundle)}/{FOLDER}/")
    return f"data:text/javascript,{quote(_COMMON_JS.format(top=top, name=json.dumps(name)))}"
