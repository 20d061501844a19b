"""The fields of the Agent Skills standard, and those that other programs have added to it.

Every field ends in a word of `Skill` or in `Skill.extra`. A field nobody is known to read is kept too, and said.
"""

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from metier.dialects import scalars
from metier.dialects.draft import Draft
from metier.model.digest import Json
from metier.model.skill import Activation, CommandDispatch
from metier.model.text import one_line

# fmt: off
KEPT: Final = frozenset({
    # Claude Code
    "when_to_use", "argument-hint", "arguments", "disallowed-tools", "model", "effort", "context", "agent",
    "background", "hooks", "paths", "shell",
    # Hermes
    "platforms", "environments", "prerequisites", "required_environment_variables", "setup",
    # OpenClaw's own notes, and what authors everywhere write
    "read_when", "summary", "author",
})
# fmt: on
"""Fields of other programs that are kept and shown as they are."""

LONGEST_COMPATIBILITY: Final = 500
LONGEST_TERM: Final = 200
_MOST: Final = {"keywords": 20, "exclude_keywords": 20, "tags": 10, "patterns": 5}
_TERMS: Final = {"keywords": "keywords", "triggers": "keywords", "tags": "tags"}
"""Top-level fields that say when a skill is wanted, and what they are to us."""


def apply(draft: Draft, fields: dict[str, Json], metadata: dict[str, Json]) -> None:
    """Put every top-level field into the draft."""
    terms: dict[str, list[str]] = {}
    for key, value in fields.items():
        if key in ("name", "description", "metadata"):
            continue
        if handler := _HANDLERS.get(key):
            handler(draft, key, value)
        elif key in _TERMS and not _is_table(value):
            terms.setdefault(_TERMS[key], []).extend(scalars.strings(value))
        elif key == "activation" and isinstance(value, dict):
            _activation(draft, terms, value)
        elif value is not None:
            draft.extra[key] = value
            if key not in KEPT:
                message = (
                    f'"{one_line(key, 60)}" is no field that Metier knows; it is kept and shown, nothing more'
                )
                draft.note("unknown_field", "info", message, key)
    if metadata:
        _metadata(draft, metadata, terms)
    if terms:
        draft.words["activation"] = _capped(draft, terms)
    if "command-dispatch" in fields or "command_dispatch" in fields:
        _command(draft)


def _metadata(draft: Draft, metadata: dict[str, Json], terms: dict[str, list[str]]) -> None:
    """What the standard's `metadata` holds for us: a version, and the tags of Hermes."""
    draft.extra["metadata"] = metadata
    hermes = metadata.get("hermes")
    if isinstance(hermes, dict) and (tags := scalars.strings(hermes.get("tags"))):
        terms.setdefault("tags", []).extend(tags)
    version = metadata.get("version")
    if version is not None and "version" not in draft.words:
        draft.words["version"] = _version(draft, version, r"(?m)^[ \t]+version:[ \t]*(.+)$")


def _text(draft: Draft, key: str, value: Json) -> None:
    if value is not None:
        draft.words[key] = draft.document.text(key)


def _homepage(draft: Draft, key: str, value: Json) -> None:
    if value is not None:
        draft.words.setdefault(key, draft.document.text(key))  # the openclaw block has the first word


def _compatibility(draft: Draft, key: str, value: Json) -> None:
    _text(draft, key, value)
    if len(draft.words.get(key, "")) > LONGEST_COMPATIBILITY:
        message = (
            f"compatibility has more than the {LONGEST_COMPATIBILITY} characters of the standard; shorten it"
        )
        draft.note("long_compatibility", "warning", message, key)


def _version(draft: Draft, value: Json, pattern: str) -> str:
    """As written: `1.10` is not 1.1."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        found = re.search(pattern, draft.document.block)
        written = found[1].partition(" #")[0].strip(scalars.SPACE) if found else ""
        return written if written[:1] in "0123456789.+-" and written else scalars.number_text(value)
    return scalars.text(value).strip(scalars.SPACE)


def _top_version(draft: Draft, key: str, value: Json) -> None:
    if value is not None:
        draft.words[key] = _version(draft, value, r"(?m)^version:[ \t]*(.+)$")


def _allowed_tools(draft: Draft, key: str, value: Json) -> None:
    draft.words["proposed_tools"] = tool_names(value)


def tool_names(value: Json) -> tuple[str, ...]:
    """`Bash(git log:*) Read, Edit` or a list, as one name a tool; what stands in parentheses stays together."""
    if isinstance(value, list):
        return tuple(scalars.strings(value))
    if not isinstance(value, str):
        return ()
    if "(" not in value:
        return tuple(value.replace(",", " ").split())
    names: list[str] = []
    depth = 0
    name = ""
    for letter in value:
        depth = max(depth + (letter == "(") - (letter == ")"), 0)
        if not depth and (letter == "," or letter in scalars.SPACE):
            names.append(name)
            name = ""
        else:
            name += letter
    return tuple(each for each in (*names, name.strip(scalars.SPACE)) if each)


def _flag(draft: Draft, key: str, value: Json) -> None:
    """Who may start it. Unreadable means the default, as in OpenClaw, and is said."""
    found = scalars.boolean(value)
    if found is None:
        if value is not None:
            shown = one_line(scalars.text(value), 40)
            draft.note(
                "bad_boolean",
                "warning",
                f'{key} says neither yes nor no ("{shown}"); write true or false',
                key,
            )
        return
    if key == "user-invocable":
        draft.words["user_may_invoke"] = found
    else:
        draft.words["model_may_invoke"] = not found


def _command(draft: Draft) -> None:
    document = draft.document

    def said(name: str) -> str:
        return document.text(f"command-{name}") or document.text(f"command_{name.replace('-', '_')}")

    if said("dispatch").lower() != "tool":
        message = "command-dispatch knows only `tool`; the command goes to the model as usual"
        draft.note("bad_command", "warning", message, "command-dispatch")
    elif not said("tool"):
        message = "command-dispatch: tool needs command-tool; the command goes to the model as usual"
        draft.note("bad_command", "warning", message, "command-dispatch")
    else:
        if said("arg-mode").lower() not in ("", "raw"):
            draft.note(
                "bad_command",
                "warning",
                "command-arg-mode knows only `raw`, which is used",
                "command-arg-mode",
            )
        draft.words["command"] = CommandDispatch(tool=said("tool"))


def _keep(draft: Draft, key: str, value: Json) -> None:
    """Read together with `command-dispatch`; alone it means nothing and is kept."""
    draft.extra[key] = value


def _is_table(value: Json) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(item, dict | list) for item in value)
    )


def _activation(draft: Draft, terms: dict[str, list[str]], value: dict[str, Json]) -> None:
    rest: dict[str, Json] = {}
    for key, item in value.items():
        if key in _MOST and not _is_table(item):
            terms.setdefault(key, []).extend(scalars.strings(item))
        else:
            rest[key] = item
    if rest:
        draft.extra["activation"] = rest
        shown = ", ".join(one_line(key, 40) for key in [*rest][:5])
        draft.note(
            "unknown_field", "info", f"activation: {shown} is kept and shown, nothing more", "activation"
        )


def _capped(draft: Draft, terms: dict[str, list[str]]) -> Activation:
    """At most so many terms of such a length: they are compared with every message."""
    kept: dict[str, tuple[str, ...]] = {}
    for kind, found in terms.items():
        unique = list(dict.fromkeys(found))
        short = [term for term in unique if len(term) <= LONGEST_TERM]
        if len(short) != len(unique) or len(short) > _MOST[kind]:
            message = f"of {len(unique)} {kind} the first {_MOST[kind]} of at most {LONGEST_TERM} characters are used"
            draft.note("too_many_terms", "warning", message)
        kept[kind] = tuple(short[: _MOST[kind]])
    return Activation(**kept)


_Handler: TypeAlias = Callable[[Draft, str, Json], None]
_HANDLERS: Final[dict[str, _Handler]] = {
    "license": _text,
    "compatibility": _compatibility,
    "homepage": _homepage,
    "version": _top_version,
    "allowed-tools": _allowed_tools,
    "user-invocable": _flag,
    "disable-model-invocation": _flag,
    **dict.fromkeys(
        (f"command{joint}{name}" for joint in "-_" for name in ("dispatch", "tool", f"arg{joint}mode")), _keep
    ),
}
