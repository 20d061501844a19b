"""`package.json`, as far as it says what a package is called and which file of it is loaded. Nothing is run, and no path leads
out of the package."""

import re
from typing import Final, final

from msgspec import Struct

from metier.model import strictjson
from metier.model.digest import Json
from metier.model.text import one_line

MAX_BYTES: Final = 262_144
NAME: Final = re.compile(r"(?:@[a-z0-9][a-z0-9._~-]*/)?[a-z0-9][a-z0-9._~-]*", re.ASCII)
_LONGEST_NAME: Final = 214
_FILE: Final = re.compile(r"(?:[A-Za-z0-9_@-][A-Za-z0-9_@.-]*/)*[A-Za-z0-9_@-][A-Za-z0-9_@.-]*", re.ASCII)
_CODE: Final = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts")
_TYPES: Final = (".d.ts", ".d.mts", ".d.cts")
_CONDITIONS: Final = ("deno", "node", "import", "module-sync", "default")
"""Those that hold for who imports a package; `require` and what only bundlers know do not, so nobody tries out another file than
the one that is loaded here."""


@final
class Package(Struct, frozen=True, kw_only=True):
    """What a package says about itself."""

    name: str
    entry: str
    """The file that is loaded, inside the package."""


def read(data: bytes) -> Package | str:
    """The package, or why it cannot be one."""
    if len(data) > MAX_BYTES:
        return f"package.json has {len(data)} bytes and {MAX_BYTES} are the most"
    try:
        fields = strictjson.loads(data)
    except ValueError as error:
        return f"package.json is no strict JSON: {one_line(str(error), 200)}"
    if not isinstance(fields, dict):
        return "package.json is JSON, but no object"
    name = fields.get("name")
    if not isinstance(name, str) or not is_name(name):
        return "package.json gives no name that a package can have; write `name`"
    entry = _entry(fields)
    if entry is None:
        return "package.json names no file that is loaded; write `main` with a file of the package"
    problem = path_problem(entry)
    return problem or Package(name=name, entry=entry.removeprefix("./"))


def is_name(name: str) -> bool:
    """Whether a package can be called that; such a name is also a path below `node_modules` and leads nowhere else."""
    return len(name) <= _LONGEST_NAME and NAME.fullmatch(name) is not None


def path_problem(path: str) -> str:
    """Why a path is not one of a file in the package that can be loaded; empty when it is."""
    shown = one_line(path, 80)
    parts = path.removeprefix("./").split("/")
    if ".." in parts or path.startswith(("/", "~", "\\")) or ":" in path:
        return f'package.json loads "{shown}", which is not inside the package; name a file of the package'
    if not _FILE.fullmatch("/".join(parts)):
        return f'package.json loads "{shown}", which is no plain path of a file in the package'
    if not path.endswith(_CODE) or path.endswith(_TYPES):
        return f'package.json loads "{shown}", which is neither JavaScript nor TypeScript'
    return ""


def _entry(fields: dict[str, Json]) -> str | None:
    """`exports`, where there is one, decides alone; else `main`, else `index.js`."""
    if "exports" in fields:
        return _exported(fields["exports"], 0)
    given = fields.get("main")
    if isinstance(given, str) and given:
        return given if given.endswith(_CODE) or "." in given.rpartition("/")[2] else f"{given}.js"
    return "index.js" if given in (None, "") else None


def _exported(given: Json, depth: int) -> str | None:
    """What `exports` says for the package itself, in its short form or by conditions."""
    if isinstance(given, str):
        return given
    if isinstance(given, list):
        return next((found for each in given if (found := _exported(each, depth + 1))), None)
    if not isinstance(given, dict) or depth > 8:
        return None
    if "." in given:
        return _exported(given["."], depth + 1)
    # The order of the package counts, as it does for everybody else who reads such a file.
    for condition, inner in given.items():
        if condition in _CONDITIONS and (found := _exported(inner, depth + 1)):
            return found
    return None
