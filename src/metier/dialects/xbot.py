"""The contract of an XBot skill: who it is, its settings, what it may do and which functions of its life it has.

A contract exists only as code, so it is run in a sandbox to be read, and what it exported comes here as JSON, with functions
told as `has_on_enable` and `has_on_disable`. A Python package has the same contract. What does not keep to it is refused.
"""

import re
from typing import Final

from metier.dialects.about import LONGEST_DESCRIPTION, check_hidden
from metier.dialects.compiled import Compiled, finished, refused
from metier.dialects.draft import Draft
from metier.dialects.frontmatter import Document
from metier.dialects.names import name_problem
from metier.dialects.xbot_settings import settings
from metier.model import strictjson
from metier.model.diagnostic import Diagnostic
from metier.model.digest import Json
from metier.model.permission import OWN_FOLDER, PermissionSet
from metier.model.skill import Source
from metier.model.text import hidden, one_line

FIELDS: Final = frozenset(
    {"id", "version", "name", "description", "settings", "capabilities"}
    | {"has_on_enable", "has_on_disable", "legacy"}
)  # fmt: skip
_ID: Final = re.compile(r"(?:@[A-Za-z0-9][A-Za-z0-9._~-]*/)?[A-Za-z0-9][A-Za-z0-9._~-]*", re.ASCII)
_WORD: Final = r"[A-Za-z][A-Za-z0-9_-]{0,63}"
_OPERATION: Final = re.compile(rf"{_WORD}\.{_WORD}", re.ASCII)
_CHANNEL: Final = re.compile(_WORD, re.ASCII)
_LONGEST_VERSION: Final = 100
_MOST: Final = 500


def of_contract(fields: dict[str, Json], *, manifest: str, location: str, source: Source) -> Compiled:
    """The skill of a contract. Its own id is kept as `key`; its name is that id as a plain word."""
    try:
        strictjson.check(fields)
    except ValueError as error:
        message = f"what the package exports is no contract: {one_line(str(error), 200)}"
        return refused(
            (Diagnostic(code="bad_export", severity="error", message=message),), "", "", dialect="xbot"
        )
    draft = Draft(Document(fields=fields))
    draft.words["location"] = location
    draft.words["source"] = source
    name = _identity(draft, fields)
    description = _described(draft, fields)
    legacy = _flag(draft, fields, "legacy")
    _version(draft, fields, legacy)
    if legacy:
        _legacy(draft, fields)
    else:
        _hooks(draft, fields)
        _capabilities(draft, fields.get("capabilities"))
    settings(draft, fields.get("settings"))
    for key, value in fields.items():
        if key not in FIELDS and value is not None:
            draft.extra[key] = value
            message = (
                f'"{one_line(key, 60)}" is no field that Metier knows; it is kept and shown, nothing more'
            )
            draft.note("unknown_field", "info", message)
    return finished(draft, name, description, "xbot", manifest)


def plain_name(identity: str) -> str:
    """The name of the skill with this id: `@scope/name` becomes `scope-name`, for a name is part of a path."""
    return identity.removeprefix("@").replace("/", "-")


def _identity(draft: Draft, fields: dict[str, Json]) -> str:
    given = fields.get("id")
    if not isinstance(given, str) or not given:
        _bad(draft, "the contract has no `id`; export `skill` with the name of the package as its id")
        return ""
    name = plain_name(given)
    problem = name_problem(name)
    if not problem and not _ID.fullmatch(given):
        problem = "it is no name of a package, such as `my-skill` or `@me/my-skill`"
    if problem:
        _bad(draft, f'the id "{one_line(given, 80)}" is refused: {problem}')
    draft.words["key"] = given
    return name


def _version(draft: Draft, fields: dict[str, Json], legacy: bool) -> None:
    given = fields.get("version")
    if isinstance(given, str) and given.strip() and len(given) <= _LONGEST_VERSION and not hidden(given):
        draft.words["version"] = given.strip()
    elif given is not None or not legacy:
        message = f"the contract has no `version` of at most {_LONGEST_VERSION} characters; export one, such as 1.0.0"
        _bad(draft, message)


def _described(draft: Draft, fields: dict[str, Json]) -> str:
    """What is shown of it; both words may be missing."""
    found: dict[str, str] = {}
    for key in ("name", "description"):
        given = fields.get(key)
        if isinstance(given, str):
            found[key] = given.strip()
            check_hidden(draft, key, given)
        elif given is not None:
            _bad(draft, f"`{key}` is no text; write one, or leave it out")
    if name := found.get("name"):
        draft.extra["name"] = name
    description = found.get("description") or found.get("name", "")
    if len(description) > LONGEST_DESCRIPTION:
        message = f"the description has {len(description)} characters, {LONGEST_DESCRIPTION} are allowed; shorten it"
        draft.note("long_description", "warning", message)
    return description


def _hooks(draft: Draft, fields: dict[str, Json]) -> None:
    enable = _flag(draft, fields, "has_on_enable")
    disable = _flag(draft, fields, "has_on_disable")
    if not enable:
        _bad(draft, "the contract has no function `onEnable` (`on_enable` in Python); a skill begins there")
    draft.words["hooks"] = ("onEnable", "onDisable") if disable else ("onEnable",)


def _legacy(draft: Draft, fields: dict[str, Json]) -> None:
    """Of the old form only its one function counts: nothing that it declares gives it anything."""
    draft.words["hooks"] = ("registerSkill",)
    draft.extra["legacy"] = True
    message = (
        "it exports `registerSkill`, which is deprecated and has no capabilities; export `skill` instead"
    )
    draft.note("legacy_skill", "warning", message)
    if (given := fields.get("capabilities")) not in (None, {}):
        draft.extra["capabilities"] = given
        draft.note(
            "unknown_field", "info", "capabilities of the old form are kept and shown, and give nothing"
        )


def _capabilities(draft: Draft, given: Json) -> None:
    if given is None:
        return
    if not isinstance(given, dict):
        _bad(
            draft,
            "capabilities is no object; give it `kernel_ops`, `channels` and `network`, or leave it out",
        )
        return
    operations = _names(
        draft, given, "kernel_ops", _OPERATION, "an operation is written module.op, each by its name"
    )
    channels = _names(draft, given, "channels", _CHANNEL, "a channel is one plain name")
    if _flag(draft, given, "network"):
        draft.words["asks_network"] = True
    draft.words["permissions"] = OWN_FOLDER | PermissionSet(operations=operations, channels=channels)
    if rest := {key: item for key, item in given.items() if key not in ("kernel_ops", "channels", "network")}:
        draft.extra["capabilities"] = rest
        listed = ", ".join(one_line(key, 40) for key in [*rest][:5])
        draft.note("unknown_field", "info", f"capabilities: {listed} is kept and shown, and gives nothing")


def _names(
    draft: Draft, given: dict[str, Json], key: str, pattern: re.Pattern[str], rule: str
) -> frozenset[str]:
    value = given.get(key)
    if value is None:
        return frozenset()
    if not isinstance(value, list) or len(value) > _MOST:
        _bad(draft, f"capabilities.{key} is no list of at most {_MOST} names")
        return frozenset()
    found: set[str] = set()
    for name in value:
        if isinstance(name, str) and pattern.fullmatch(name):
            found.add(name)
        else:
            shown = f'"{one_line(name, 60)}"' if isinstance(name, str) else "what is no text"
            _bad(draft, f"capabilities.{key}: {shown} is refused: {rule}, and none means all")
    return frozenset(found)


def _flag(draft: Draft, given: dict[str, Json], key: str) -> bool:
    match given.get(key):
        case True:
            return True
        case False | None:
            return False
        case _:
            _bad(draft, f"`{key}` is neither true nor false")
            return False


def _bad(draft: Draft, message: str) -> None:
    draft.note("bad_export", "error", message)
