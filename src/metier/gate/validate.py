"""Call → ValidCall: the tool exists, the skill it concerns is known, the arguments fit the schema.

What comes out is parsed back from its canonical bytes, so what is bound, shown and run is one and the same.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Final, cast

import msgspec

from metier.catalog.catalog import Catalog
from metier.gate.schema import problem_with
from metier.model import strictjson
from metier.model.call import Call, ValidCall
from metier.model.digest import Json, canonical
from metier.model.outcome import Refused
from metier.model.skill import Skill, Tool
from metier.model.text import one_line

_CONTROL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\(?:u00[01][0-9a-f]|[bf])|\x7f")
"""RFC 8785 escapes C0 characters; all but tab and line ends are refused."""


def validate(call: Call, *, tools: Mapping[str, Tool], catalog: Catalog) -> ValidCall | Refused:
    """The call with arguments that can be relied on, or why there is none."""
    tool = tools.get(call.tool)
    if tool is None:
        return Refused(
            call_id=call.id,
            code="unknown_tool",
            reasons=(f"there is no tool {one_line(call.tool, 80)!r}",),
            remedy=_nearest(call.tool, tools) or f"Tools are: {', '.join(sorted(tools)[:20])}",
        )
    arguments = _arguments(call.arguments, tool)
    if isinstance(arguments, str):
        remedy = f"Send a JSON object that fits the schema of {tool.name!r}"
        return Refused(call_id=call.id, code="invalid_arguments", reasons=(arguments,), remedy=remedy)
    skill: Skill | None = None
    if tool.subject:
        given = arguments.get(tool.subject)
        name = given if isinstance(given, str) else ""
        found = catalog.get(name)
        if found is None or found.skill is None:
            return Refused(
                call_id=call.id,
                code="unknown_skill",
                reasons=(f"there is no skill {one_line(name, 80)!r}",),
                remedy=_nearest(name, catalog.by_name)
                or "`metier skills list` shows all, `metier skills check` why one is missing",
            )
        skill = found.skill
    return ValidCall(call=call, tool=tool, arguments=arguments, skill=skill, permissions=tool.permissions)


def _arguments(given: Json, tool: Tool) -> dict[str, Json] | str:
    if not isinstance(given, dict):
        return "arguments must be a JSON object"
    try:
        strictjson.check(given)
        data = canonical(given)
    except ValueError as error:
        return f"arguments are not strict JSON: {error}"
    if len(data) > strictjson.MAX_BYTES:
        return f"arguments have {len(data):,} bytes; at most {strictjson.MAX_BYTES:,} are taken"
    if _CONTROL.search(data):
        return "arguments hold a control character other than tab and line ends"
    arguments = cast("dict[str, Json]", msgspec.json.decode(data))
    try:
        return problem_with(tool.parameters, arguments) or arguments
    except ValueError as error:
        return f"{tool.name!r} cannot be called: {error}"


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name[:200], list(known), n=1)
    return f"Did you mean {near[0]!r}?" if near else ""
