"""What settings a skill has: every place in them, which of these are secret, and how a form shows them. Pure.

The schema is a JSON Schema of the skill's own. Where it says of any part that it is secret and that part cannot be told from what
surrounds it (inside a list, a choice, a reference), all of what surrounds it is secret.
"""

from copy import deepcopy
from typing import Final, cast, final

import msgspec

from metier.dialects.xbot_settings import SECRET
from metier.gate.schema import problem_with
from metier.kernel.settings_marks import DEFINITIONS, Marks, says_secret
from metier.model.digest import Json
from metier.model.skill import Skill
from metier.model.text import one_line
from metier.record.redact import masked

Path = tuple[str, ...]
MOST_SETTINGS: Final = 1_000
_TOO_MANY: Final = f"it has more than {MOST_SETTINGS:,} settings or defaults, which is the most"
_OPEN: Final = ("additionalProperties", "patternProperties", "unevaluatedProperties")
_WORDS: Final = {"title": "label", "description": "help", "x-placeholder": "placeholder"}


@final
class Shape:
    """The settings of one skill, as it declares them."""

    def __init__(self, skill: Skill) -> None:
        """Raises ValueError where two places in them have one name, or there are too many."""
        declared = skill.settings_schema or {"type": "object", "properties": {}}
        given = _defaults(skill)
        if len(given) > MOST_SETTINGS:  # before anything is made of them
            raise ValueError(_TOO_MANY)
        self.schema = _with_inferred(declared, given)
        self.leaves: dict[Path, dict[str, Json]] = {}
        self.secret: set[Path] = set()
        self._inner: dict[Path, dict[str, Json]] = {}
        marks = Marks(self.schema)
        top = {name: item for name, item in self.schema.items() if name not in (*DEFINITIONS, "properties")}
        self._all_secret = marks.inside(top)
        self._walk(self.schema, (), marks)
        if len(self.leaves) > MOST_SETTINGS:
            raise ValueError(_TOO_MANY)
        if len({dotted(path) for path in self.leaves}) < len(self.leaves):
            raise ValueError("two of its settings have the same dotted name; its author gives one another")
        self.defaults = {**self._declared_defaults(), **given}

    @property
    def there(self) -> bool:
        """Whether there is anything to set."""
        return bool(self.leaves) or any(self.schema.get(each) for each in _OPEN)

    def is_secret(self, path: Path) -> bool:
        """Whether what stands at exactly this place is secret, as a whole."""
        return path in self.secret or (self._all_secret and len(path) == 1)

    def hides(self, path: Path) -> bool:
        """Whether what stands at this place is secret, or lies inside of what is."""
        return any(self.is_secret(path[:size]) for size in range(1, len(path) + 1))

    def is_inner(self, path: Path) -> bool:
        """Whether there are places of their own below it."""
        return path in self._inner and not self.is_secret(path)

    def named(self, key: str, below: Path) -> Path:
        """The place that `key` means below another: a name with dots in it is a way down, unless it is a name."""
        node = self._inner.get(below)
        known = node.get("properties") if node is not None else None
        if "." not in key or (isinstance(known, dict) and key in known):
            return (key,)
        return tuple(key.split("."))

    def known(self, value: dict[str, Json]) -> dict[str, Json]:
        """`value` without what the schema does not know: another version of the skill may have had it."""
        return self._known(value, ())

    def problem(self, value: dict[str, Json]) -> str:
        """The first thing wrong with these settings, or nothing. No value is quoted. What is not set is no problem."""
        try:
            found = problem_with(_not_required(self.schema), value)
        except ValueError as error:
            return f"the schema of its settings cannot be used: {error}"
        found = found.removeprefix("argument ").replace("known to this tool", "known to this skill")
        return masked((f"setting {found}",))[0] if found else ""

    def fields(self) -> list[dict[str, Json]]:
        """The settings as a form shows them, in the order of the schema."""
        return [_field(dotted(path), node, secret=self.hides(path)) for path, node in self.leaves.items()]

    def _declared_defaults(self) -> dict[str, Json]:
        """What the schema itself says is the default of its settings. What stands at an outer place comes first; secrets have none."""
        made: dict[str, Json] = {}
        for path, node in (*self._inner.items(), *self.leaves.items()):
            if "default" in node and not self.hides(path):
                _fill(made, path, node["default"])
        for path in self.secret:
            _drop(made, path)
        return {} if self._all_secret else made

    def _walk(self, node: dict[str, Json], path: Path, marks: Marks) -> None:
        below = node.get("properties")
        rest = {name: item for name, item in node.items() if name not in ("properties", *DEFINITIONS)}
        hidden = bool(path) and marks.inside(rest)
        if path and (hidden or not isinstance(below, dict) or not below):
            self.leaves[path] = node
            if hidden:
                self.secret.add(path)
            return
        self._inner[path] = node
        for name, each in below.items() if isinstance(below, dict) else ():
            self._walk(each if isinstance(each, dict) else {}, (*path, name), marks)

    def _known(self, value: dict[str, Json], path: Path) -> dict[str, Json]:
        node = self._inner.get(path, {})
        below = node.get("properties")
        names = below if isinstance(below, dict) else {}
        is_open = any(node.get(each) for each in _OPEN)
        kept: dict[str, Json] = {}
        for name, item in value.items():
            here = (*path, name)
            if name not in names and not is_open:
                continue
            kept[name] = self._known(item, here) if isinstance(item, dict) and self.is_inner(here) else item
        return kept


def dotted(path: Path) -> str:
    """A place as people and skills write it."""
    return ".".join(path)


def _fill(node: dict[str, Json], path: Path, value: Json) -> None:
    """Put `value` at that place unless something stands there."""
    if not path:
        node.update(deepcopy(value) if isinstance(value, dict) else {})
        return
    for name in path[:-1]:
        below = node.setdefault(name, {})
        if not isinstance(below, dict):
            return
        node = below
    if path[-1] not in node:
        node[path[-1]] = deepcopy(value)


def _drop(node: dict[str, Json], path: Path) -> None:
    for name in path[:-1]:
        below = node.get(name)
        if not isinstance(below, dict):
            return
        node = below
    node.pop(path[-1], None)


def _defaults(skill: Skill) -> dict[str, Json]:
    kept = skill.extra.get("settings")
    found = kept.get("defaults") if isinstance(kept, dict) else None
    return found if isinstance(found, dict) else {}


def _with_inferred(schema: dict[str, Json], defaults: dict[str, Json]) -> dict[str, Json]:
    """A skill may give defaults and no schema for them: then they say what there is."""
    below = schema.get("properties")
    names = below if isinstance(below, dict) else {}
    if any(each in schema for each in ("$ref", "allOf", "anyOf", "oneOf", *_OPEN)):
        return schema
    made = dict(names)
    for name, value in defaults.items():
        if name not in made:
            head, _, rest = name.partition(".")
            if not rest:
                made[name] = _inferred(value)
            elif head not in made:
                made[head] = _with_inferred({"type": "object", "properties": {}}, {rest: value})
            elif isinstance(found := made[head], dict):
                made[head] = _with_inferred(found, {rest: value})
        elif isinstance(found := made[name], dict) and "properties" in found:
            if isinstance(value, dict):
                made[name] = _with_inferred(found, value)
            elif value is not None and says_secret(found):
                made[name] = {SECRET: True}  # what is sensitive is said to lie inside of something else
    return {**schema, "properties": made}


def _inferred(value: Json) -> Json:
    match value:
        case bool():
            return {"type": "boolean"}
        case int() | float():
            return {"type": "number"}
        case str():
            return {"type": "string"}
        case list():
            return {"type": "array"}
        case dict() if value:
            return _with_inferred({"type": "object", "properties": {}}, value)
        case _:
            return {}


def _not_required(schema: dict[str, Json]) -> dict[str, Json]:
    """Settings are given one after the other, so none is required while they are written."""
    made: dict[str, Json] = {name: item for name, item in schema.items() if name != "required"}
    if isinstance(below := made.get("properties"), dict):
        made["properties"] = {
            name: _not_required(each) if isinstance(each, dict) else each for name, each in below.items()
        }
    return made


def _field(key: str, node: dict[str, Json], *, secret: bool) -> dict[str, Json]:
    made: dict[str, Json] = {"key": key, "label": key, "type": _type(node)}
    for word, name in _WORDS.items():
        if isinstance(text := node.get(word), str):
            made[name] = one_line(text, 1_000)
    if secret:
        made["secret"] = True
    if made["type"] == "select":
        made["options"] = _options(node)
    if "default" in node and not secret:
        made["default"] = node["default"]
    return made


def _type(node: dict[str, Json]) -> str:
    if _options(node):
        return "select"
    kind = node.get("type")
    items = node.get("items")
    if kind == "array" and isinstance(items, dict) and items.get("type") == "string":
        return "string_list"
    if kind == "integer":
        return "number"
    return kind if kind in ("string", "number", "boolean") else "json"


def _options(node: dict[str, Json]) -> list[Json]:
    """What may be chosen: `oneOf` with a constant each, or `enum`."""
    choice = node.get("oneOf")
    if (
        isinstance(choice, list)
        and choice
        and all(isinstance(each, dict) and "const" in each for each in choice)
    ):
        rows = cast("list[dict[str, Json]]", choice)
        return [{"label": each.get("title", _shown(each["const"])), "value": each["const"]} for each in rows]
    listed = node.get("enum")
    if isinstance(listed, list):
        return [{"label": _shown(each), "value": each} for each in listed]
    return []


def _shown(value: Json) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
