"""The settings an XBot skill declares, as a JSON Schema in which everything secret is marked `x-secret`.

A dotted key is a place inside an object, as `sensitive` has it. What says that something is secret and cannot be read is an
error: a secret must not become visible by a slip of the pen. A default for a secret is not kept.
"""

import re
from typing import Final

from metier.dialects.about import check_hidden
from metier.dialects.draft import Draft
from metier.dialects.settings_names import check_names
from metier.model.digest import Json, canonical
from metier.model.text import one_line

SECRET: Final = "x-secret"  # noqa: S105 (a word of the schema)
TYPES: Final = ("string", "number", "boolean", "select", "string_list")
_FIELD: Final = frozenset({"key", "label", "type", "help", "secret", "options", "placeholder"})
_PART: Final = r"(?!(?:__proto__|prototype|constructor)(?:\.|$))[A-Za-z0-9_-]{1,64}"
_KEY: Final = re.compile(rf"{_PART}(?:\.{_PART}){{0,7}}", re.ASCII)
_MOST: Final = 200


def settings(draft: Draft, value: Json) -> None:
    """Put the settings into the draft: the schema as a word, the defaults and unknown fields under `extra.settings`."""
    if value is None:
        return
    if not isinstance(value, dict):
        _bad(draft, "settings is no object; give it `defaults`, `schema` and `sensitive`, or leave it out")
        return
    kept: dict[str, Json] = {
        key: item for key, item in value.items() if key not in ("defaults", "schema", "sensitive")
    }
    if kept:
        listed = ", ".join(one_line(key, 40) for key in [*kept][:5])
        draft.note("unknown_field", "info", f"settings: {listed} is kept and shown, nothing more")
    root: dict[str, Json] = {"type": "object", "properties": {}}
    secrets = _schema(draft, root, value.get("schema"))
    secrets += _sensitive(draft, root, value.get("sensitive"))
    if root["properties"]:
        draft.words["settings_schema"] = root
    defaults = value.get("defaults")
    if isinstance(defaults, dict):
        kept["defaults"] = _without_secrets(draft, defaults, secrets)
    elif defaults is not None:
        _bad(draft, "settings.defaults is no object; give each setting by its name")
    check_names(draft, root, defaults)
    if kept:
        draft.extra["settings"] = kept


def _schema(draft: Draft, root: dict[str, Json], schema: Json) -> list[str]:
    """Fill `root` with the fields; returns the keys of the secret ones."""
    if schema is None:
        return []
    fields = schema.get("fields") if isinstance(schema, dict) else None
    if not isinstance(schema, dict) or not isinstance(fields, list):
        _bad(draft, "settings.schema has no list `fields`; give one, empty if there are none")
        return []
    if len(fields) > _MOST:
        _bad(draft, f"settings.schema has {len(fields)} fields and {_MOST} are the most")
        return []
    if isinstance(title := schema.get("title"), str):
        root["title"] = title
        check_hidden(draft, "settings.schema.title", title)
    elif title is not None:
        _bad(draft, "settings.schema.title is no text")
    secrets: list[str] = []
    for at, field in enumerate(fields, 1):
        found = _field(draft, at, field)
        if found is None:
            continue
        key, made = found
        if not _put(root, key.split("."), made):
            _bad(
                draft,
                f'settings.schema: "{key}" is given twice, or is both a value and an object; give each once',
            )
        if SECRET in made:
            secrets.append(key)
    return secrets


def _field(draft: Draft, at: int, field: Json) -> tuple[str, dict[str, Json]] | None:
    key = field.get("key") if isinstance(field, dict) else None
    if not isinstance(field, dict) or not isinstance(key, str) or not _KEY.fullmatch(key):
        _bad(
            draft,
            f"settings.schema: field {at} has no `key` of letters, digits, `_` and `-`, parted by single dots",
        )
        return None
    made: dict[str, Json] = {"title": key}
    match field.get("type"):
        case "select":
            options = _options(draft, key, field.get("options"))
            made["oneOf"] = options
        case "string_list":
            made |= {"type": "array", "items": {"type": "string"}}
        case "string" | "number" | "boolean" as kind:
            made["type"] = kind
        case _:
            _bad(draft, f'settings.schema: the type of "{key}" is none of {", ".join(TYPES)}')
            return None
    for name, word in (("label", "title"), ("help", "description"), ("placeholder", "x-placeholder")):
        if isinstance(text := field.get(name), str):
            made[word] = text
            check_hidden(draft, f"settings.schema: {name} of {key}", text)
        elif text is not None or name == "label":
            message = f'settings.schema: "{key}" has no `{name}` that is a text; write one'
            draft.note("field_text", "warning", message)
    match field.get("secret"):
        case True:
            made[SECRET] = True
        case False | None:
            pass
        case _:
            _bad(draft, f'settings.schema: `secret` of "{key}" is neither true nor false')
    if rest := [name for name in field if name not in _FIELD]:
        listed = ", ".join(one_line(name, 40) for name in rest[:5])
        draft.note("unknown_field", "info", f'settings.schema: {listed} of "{key}" is not read')
    return key, made


def _options(draft: Draft, key: str, options: Json) -> list[Json]:
    made: list[Json] = []
    seen: set[bytes] = set()
    for option in options if isinstance(options, list) else []:
        if not isinstance(option, dict) or "value" not in option or not isinstance(option.get("label"), str):
            _bad(draft, f'settings.schema: an option of "{key}" has no `label` and `value`')
            continue
        value = option["value"]
        if (spelled := canonical(value)) in seen:
            _bad(draft, f'settings.schema: two options of "{key}" have the same value; remove one')
        seen.add(spelled)
        made.append({"const": value, "title": option["label"]})
    if not made:
        _bad(draft, f'settings.schema: "{key}" is a select without options; list them as {{ label, value }}')
    return made


def _put(node: dict[str, Json], parts: list[str], leaf: dict[str, Json]) -> bool:
    """Whether there was room for `leaf` at that place."""
    for part in parts[:-1]:
        below = node["properties"]
        found = (
            below.setdefault(part, {"type": "object", "properties": {}}) if isinstance(below, dict) else None
        )
        if not isinstance(found, dict) or "properties" not in found:
            return False
        node = found
    below = node["properties"]
    if not isinstance(below, dict) or parts[-1] in below:
        return False
    below[parts[-1]] = leaf
    return True


def _sensitive(draft: Draft, root: dict[str, Json], value: Json) -> list[str]:
    """Mark every sensitive place; returns them."""
    if value is None:
        return []
    if not isinstance(value, list):
        _bad(draft, "settings.sensitive is no list of dotted paths")
        return []
    if len(value) > _MOST:
        _bad(draft, f"settings.sensitive has {len(value)} paths and {_MOST} are the most")
        return []
    found: list[str] = []
    for path in value:
        if not isinstance(path, str) or not _KEY.fullmatch(path):
            shown = one_line(path, 60) if isinstance(path, str) else "one"
            _bad(
                draft,
                f'settings.sensitive: "{shown}" is no path of plain names parted by dots; nothing could be masked',
            )
            continue
        _mark(root, path.split("."))
        found.append(path)
    return found


def _mark(node: dict[str, Json], parts: list[str]) -> None:
    """Mark the place, or the value that holds it: what lies inside a text cannot be masked alone."""
    for at, part in enumerate(parts, 1):
        below = node.get("properties")
        if not isinstance(below, dict):
            break
        new: dict[str, Json] = {} if at == len(parts) else {"type": "object", "properties": {}}
        found = below.setdefault(part, new)
        if isinstance(found, dict):
            node = found
    node[SECRET] = True


def _without_secrets(draft: Draft, defaults: dict[str, Json], secrets: list[str]) -> dict[str, Json]:
    for path in dict.fromkeys(secrets):
        defaults, gone = _without(defaults, path.split("."))
        if gone:
            message = (
                f'settings.defaults: "{path}" is secret, so its default is not kept; the operator sets it'
            )
            draft.note("secret_default", "warning", message)
    return defaults


def _without(node: dict[str, Json], parts: list[str]) -> tuple[dict[str, Json], bool]:
    """`node` without what is at that place, and whether something was there that was not empty."""
    gone = False
    for many in range(1, len(parts) + 1):
        key, rest = ".".join(parts[:many]), parts[many:]
        if key not in node:
            continue
        value = node[key]
        if rest and isinstance(value, dict):
            below, lost = _without(value, rest)
            node = {**node, key: below}
            gone |= lost
        elif value not in (None, "", [], {}):
            node = {name: item for name, item in node.items() if name != key}
            gone = True
    return node, gone


def _bad(draft: Draft, message: str) -> None:
    draft.note("bad_export", "error", message)
