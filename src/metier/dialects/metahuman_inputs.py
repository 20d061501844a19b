"""What a MetaHuman manifest says of its inputs and outputs, as JSON Schemas, and which check an input has to pass.

A `validation` is one of four names, or a function that does nothing but ask one of them. Any other function is code; it counts only where the implementation is known to export it by name, and is
refused otherwise: a check is never left out.
"""

import re
from collections.abc import Collection
from typing import Final, cast, final, get_args

from msgspec import Struct

from metier.dialects.about import check_hidden
from metier.dialects.draft import Draft
from metier.model.digest import Json
from metier.model.skill import Check
from metier.model.text import one_line

TYPES: Final = ("string", "number", "boolean", "object", "array")
_KNOWN: Final = frozenset({"type", "required", "description", "validation"})
_NAME: Final = re.compile(r"(?!__proto__$)[A-Za-z0-9_$.-]{1,64}", re.ASCII)
_WORD: Final = r"[A-Za-z_$][A-Za-z0-9_$]*"
_LONGEST_FUNCTION: Final = 500
_TYPED: Final = r"(?:\s*:\s*[A-Za-z]+)?"
_ASKS: Final = re.compile(
    rf"(?:(?:\(\s*(?P<a>{_WORD}){_TYPED}\s*,?\s*\){_TYPED}|(?P<b>{_WORD}))\s*=>"
    rf"|(?:function\b\s*)?(?:{_WORD})?\s*\(\s*(?P<c>{_WORD}){_TYPED}\s*,?\s*\){_TYPED}(?=\s*\{{))"
    rf"\s*(?P<block>\{{\s*return\s+)?(?P<check>{_WORD})\(\s*(?P<given>{_WORD})\s*\)\s*;?\s*(?(block)\}}\s*;?)",
    re.ASCII,
)


@final
class Inputs(Struct, frozen=True, kw_only=True):
    """What a call may be given."""

    parameters: dict[str, Json]
    checks: dict[str, Check] = {}
    validator: str = ""
    """Name of the function that is given all inputs first; empty when there is none."""


def check_of(validation: str) -> Check | None:
    """The named check that `validation` asks for, and nothing else; None when it is other code."""
    if validation in get_args(Check):
        return cast(Check, validation)
    found = _ASKS.fullmatch(validation.strip()) if len(validation) <= _LONGEST_FUNCTION else None
    if found is None or found["check"] not in get_args(Check):
        return None
    parameter = found["a"] or found["b"] or found["c"]
    # A parameter of that name hides the check, and what is called then is the value.
    return cast(Check, found["check"]) if found["given"] == parameter != found["check"] else None


def inputs(draft: Draft, value: Json, exports: Collection[str]) -> Inputs:
    """The schema and checks; what is wrong is said."""
    if not isinstance(value, dict):
        message = "inputs is no object; write `{}` or one object for each input, by its name"
        draft.note("bad_inputs", "error", message, '"inputs"')
        value = {}
    properties: dict[str, Json] = {}
    required: list[Json] = []
    checks: dict[str, Check] = {}
    validators: set[str] = set()
    for name, given in value.items():
        described = _described(draft, "inputs", name, given)
        if described is None:
            continue
        properties[name], fields = described
        if _is_required(draft, name, fields):
            required.append(name)
        match _validation(draft, name, fields, exports):
            case "":
                pass
            case found if found in get_args(Check):
                checks[name] = cast(Check, found)
            case found:
                validators.add(found)
    if len(validators) > 1:
        listed = ", ".join(sorted(validators))
        message = (
            f"inputs name several functions as validation ({listed}); let one of them look at all inputs"
        )
        draft.note("bad_validation", "error", message, '"validation"')
    schema: dict[str, Json] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    return Inputs(parameters=schema, checks=checks, validator=min(validators, default=""))


def outputs(draft: Draft, value: Json) -> dict[str, Json] | None:
    """What a run returns; none of it has to be there, and None when nothing is declared."""
    if value is None:
        message = "there are no outputs, so what it returns is not checked; write what each of them is"
        draft.note("missing_field", "warning", message)
        return None
    if not isinstance(value, dict):
        message = "outputs is no object; write `{}` or one object for each output, by its name"
        draft.note("bad_outputs", "error", message, '"outputs"')
        return None
    properties: dict[str, Json] = {}
    for name, given in value.items():
        if (described := _described(draft, "outputs", name, given)) is not None:
            properties[name] = described[0]
    return {"type": "object", "properties": properties}


def _described(
    draft: Draft, where: str, name: str, given: Json
) -> tuple[dict[str, Json], dict[str, Json]] | None:
    """Schema and fields of one input or output; None when it cannot be used, which is said."""
    shown = f"{where}.{one_line(name, 60)}"
    problem = ""
    if not _NAME.fullmatch(name):
        problem = "its name is not made of at most 64 letters, digits, `_`, `-`, `.` and `$`"
    elif not isinstance(given, dict):
        problem = 'it is no object; write { "type": …, "required": …, "description": … }'
    elif given.get("type") not in TYPES:
        problem = f"its type is none of {', '.join(TYPES)}"
    elif not isinstance(given.get("description", ""), str):
        problem = "its description is no text"
    if problem or not isinstance(given, dict):
        if where == "inputs":
            draft.note("bad_inputs", "error", f"{shown} is refused: {problem}", f'"{name}"')
        else:
            draft.note("bad_outputs", "error", f"{shown} is refused: {problem}", f'"{name}"')
        return None
    text = given.get("description")
    schema: dict[str, Json] = {"type": given["type"]}
    if isinstance(text, str) and text.strip():
        schema["description"] = text.strip()
        check_hidden(draft, f"{shown}.description", text)
    else:
        message = f"{shown} has no description; a model cannot know what is meant"
        draft.note("missing_field", "warning", message, f'"{name}"')
    _unknown(draft, where, name, given)
    return schema, given


def _unknown(draft: Draft, where: str, name: str, given: dict[str, Json]) -> None:
    known = _KNOWN if where == "inputs" else frozenset({"type", "description"})
    if rest := {key: item for key, item in given.items() if key not in known}:
        kept = draft.extra.setdefault(where, {})
        if isinstance(kept, dict):
            kept[name] = rest
        listed = ", ".join(one_line(key, 40) for key in [*rest][:5])
        message = f"{where}.{one_line(name, 60)}: {listed} is no word of this dialect; it is kept and restricts nothing"
        draft.note("unknown_field", "info", message, f'"{name}"')


def _is_required(draft: Draft, name: str, fields: dict[str, Json]) -> bool:
    match fields.get("required"):
        case bool() as said:
            return said
        case None:
            message = f"inputs.{name} does not say whether it is required, so it is; write true or false"
            draft.note("missing_field", "warning", message, f'"{name}"')
        case _:
            message = f"inputs.{name} is refused: `required` is neither true nor false"
            draft.note("bad_inputs", "error", message, f'"{name}"')
    return True


def _validation(draft: Draft, name: str, fields: dict[str, Json], exports: Collection[str]) -> str:
    """Name of a check, or of an exported function; empty when there is none, or none that can be used."""
    given = fields.get("validation")
    if given is None and "validation" not in fields:
        return ""
    if isinstance(given, str):
        if check := check_of(given):
            if fields.get("type") != "string":
                message = f"inputs.{name}: {check} looks at a text, but the type is {fields.get('type')}; make it string"
                draft.note("bad_validation", "error", message, f'"{name}"')
            return check
        if given in exports:
            return given
        shown = f'"{one_line(given, 80)}" is '
    else:
        shown = "what is given is "
    message = (
        f"inputs.{name}.validation cannot be applied: {shown}none of {', '.join(get_args(Check))}, no function that only"
        " asks one of them, and no name that the implementation is known to export; without it no call would be checked"
    )
    draft.note("bad_validation", "error", message, f'"{name}"')
    return ""
