"""The `metadata.amber` block: one function a voice agent may call, its handler, and what the handler may touch.

A permission that is left out is not given, a confirmation that is left out is asked for, and a flag counts only as true or
false. No file is opened here: that the handler is `handler.js` is taken for granted where the block names no other.
"""

import re
from typing import Final

from metier.dialects.block_fields import Fields, kind, shown
from metier.dialects.draft import Draft
from metier.dialects.handler_file import LANGUAGES, PYTHON, handler_at, path_problem
from metier.dialects.risk import acts as can_act
from metier.dialects.risk import default_risk
from metier.dialects.tool_words import BINARY, LONGEST_TIMEOUT, PLAIN_BINARY, bring
from metier.model.confirmation_flag import confirmation_of
from metier.model.digest import Json
from metier.model.entry import PythonHandler, ScriptHandler
from metier.model.permission import OWN_FOLDER, PermissionSet
from metier.model.requirement import Requirements
from metier.model.skill import Limits, Tool
from metier.model.text import one_line

HANDLER: Final = "handler.js"
OPERATOR: Final = "operator"
"""The one channel of this dialect. Who that is, the operator's configuration says."""
GATEWAY_POST: Final = "gateway.post"
DEFAULT_TIMEOUT_MS: Final = 5_000
LONGEST_TIMEOUT_MS: Final = LONGEST_TIMEOUT * 1_000
LONGEST_DESCRIPTION: Final = 8_000
LONGEST_PROMPT: Final = 1_000
_CAPABILITY: Final = re.compile("read|act")
_SAY_WHAT: Final = 'write ["read"], ["act"] or ["read", "act"]'
_FUNCTION: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}", re.ASCII)
_BLOCK: Final = "metadata.amber"


def apply(draft: Draft, block: Json, name: str) -> None:
    """Put the one tool of an Amber skill into the draft, and say what is wrong with the block.

    Args:
        name: of the skill.
    """
    given = Fields(draft, _BLOCK, block)
    if not isinstance(block, dict):
        return
    if not draft.document.text("name"):
        draft.note(
            "amber_default", "warning", "there is no name; the folder's name is taken, write `name: …`"
        )
    capabilities = _capabilities(given)
    asked = given.inner("permissions") if block.get("permissions") is not None else None
    permissions, network = _permissions(asked) if asked is not None else (OWN_FOLDER, False)
    entry = _handler(given)
    acts = "act" in capabilities or bool(can_act(entry, permissions, network=network))
    function = given.inner("function_schema")
    outward = function.word("name", _FUNCTION, "a name of 1 to 64 letters, digits, _ and -")
    tool = Tool(
        name=f"{name}/{outward}",
        outward=outward,
        skill=name,
        description=_description(draft, function),
        parameters=_parameters(draft, function),
        answer="amber",
        sanitize=True,
        effect="act" if "act" in capabilities else "read",
        risk=default_risk(
            effect="act" if acts else "read", entry=entry, permissions=permissions, network=network
        ),
        minimum_trust="supervised_auto" if acts else "observe",
        confirmation=_confirmation(draft, given, acts=acts),
        permissions=permissions,
        limits=Limits(timeout=_timeout(draft, given)),
        entry=entry,
    )
    bring(draft, (tool,), OWN_FOLDER, Requirements(binaries=tuple(sorted(permissions.binaries))))
    if network:
        draft.words["asks_network"] = True
    _keep(draft, given, {"permissions": asked, "function_schema": function})


def _capabilities(given: Fields) -> frozenset[str]:
    if "capabilities" not in given:
        given.wrong("capabilities", f"is missing; {_SAY_WHAT}")
        return frozenset()
    found = given.texts("capabilities", _CAPABILITY, _SAY_WHAT)
    if not found:
        given.wrong("capabilities", f"says nothing that is known; {_SAY_WHAT}")
    return frozenset(found)


def _permissions(asked: Fields) -> tuple[PermissionSet, bool]:
    """What the handler may touch, and whether it wants hosts that only the operator can name."""
    permissions = PermissionSet(
        binaries=frozenset(asked.texts("local_binaries", BINARY, PLAIN_BINARY)),
        channels=frozenset({OPERATOR} if asked.flag("telegram") else ()),
        operations=frozenset({GATEWAY_POST} if asked.flag("openclaw_action") else ()),
        reads=OWN_FOLDER.reads,
    )
    return permissions, asked.flag("network")


def _confirmation(draft: Draft, given: Fields, *, acts: bool) -> str | None:
    """What the caller is asked first; None when nobody is."""
    written = "confirmation_required" in given
    flag = given.take("confirmation_required")
    prompt = given.text("confirmation_prompt", most=LONGEST_PROMPT, default="")
    if written and not isinstance(flag, bool):
        message = f"{_BLOCK}: confirmation_required is {shown(flag)} and says neither yes nor no; write true or false"
        draft.note("bad_boolean", "warning", message, "metadata")
    if not written and acts:
        message = f"{_BLOCK}: confirmation_required is left out, so the caller is asked before it acts"
        draft.note("confirmation_assumed", "info", message, "metadata")
    if flag is True and not acts:
        message = f"{_BLOCK}: confirmation_required is for acts; this skill only reads, and nobody is asked"
        draft.note("confirmation_unused", "info", message, "metadata")
    return prompt.strip() if confirmation_of(flag, acts=acts) else None


def _timeout(draft: Draft, given: Fields) -> float:
    """In seconds."""
    if "timeout_ms" not in given:
        message = f"{_BLOCK}: there is no timeout_ms; {DEFAULT_TIMEOUT_MS} is taken"
        draft.note("amber_default", "warning", message, "metadata")
    found = given.number(
        "timeout_ms", most=LONGEST_TIMEOUT_MS, default=DEFAULT_TIMEOUT_MS, unit="milliseconds"
    )
    return found / 1_000


def _handler(given: Fields) -> ScriptHandler | PythonHandler:
    usual = ScriptHandler(path=HANDLER, language="javascript")
    keys = [key for key in ("handler", "entry") if key in given]
    if len(keys) == 2:
        given.wrong("handler and entry", "both name the file of the handler; write one of them")
    found = usual
    for key in keys:
        path = given.take(key)
        if not isinstance(path, str):
            given.wrong(key, f"is {kind(path)}; write the name of a file of the skill, such as {HANDLER}")
        elif problem := path_problem(path):
            given.wrong(key, problem)
        elif (named := handler_at(path)) is None:
            ends = ", ".join((*LANGUAGES, PYTHON))
            given.wrong(key, f"is {shown(path)}; handlers are files that end in {ends}")
        else:
            found = named
    return found


def _description(draft: Draft, function: Fields) -> str:
    """As the manifest has it: it is what makes a model call the function, and how."""
    if "description" not in function:
        message = f"{_BLOCK}: function_schema has no description; the skill's own is taken"
        draft.note("amber_default", "warning", message, "metadata")
        return draft.document.text("description")
    return function.text("description", most=LONGEST_DESCRIPTION)


def _parameters(draft: Draft, function: Fields) -> dict[str, Json]:
    if "parameters" not in function:
        message = f"{_BLOCK}: function_schema has no parameters, so it takes no arguments"
        draft.note("amber_default", "warning", message, "metadata")
    return function.schema("parameters") or {"type": "object", "properties": {}}


def _keep(draft: Draft, given: Fields, inside: dict[str, Fields | None]) -> None:
    """What the dialect does not know stays with the skill, and is said."""
    left: dict[str, Json] = {key: value for key, value in given.rest().items() if value is not None}
    names = [*left]
    for key, fields in inside.items():
        if fields is not None and fields.rest():
            left[key] = fields.rest()
            names += [f"{key}.{each}" for each in fields.rest()]
    if left:
        draft.extra["amber"] = left
        listed = ", ".join(f'"{one_line(each, 60)}"' for each in names[:5])
        message = (
            f"{_BLOCK}: {listed} is nothing that Metier knows; it is kept and shown, and permits nothing"
        )
        draft.note("unknown_field", "info", message, "metadata")
