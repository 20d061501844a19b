"""Fields of a form that is made from a schema. Pure.

What a field sends is JSON whose every character is plain ASCII where text could be anything: what is made visible for the reader's
sake must not be what is sent.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias, final

from msgspec import Struct
from msgspec.structs import replace

from metier.model.digest import Json
from metier.model.text import one_line, visible

Kind: TypeAlias = Literal["line", "area", "secret", "select"]
LEFT_OUT: Final = "(left out)"
MOST_FIELDS: Final = 100
"""Beyond that a form is no help, and all of it is one field of JSON."""
_SHORT: Final = 200
"""A text that may be longer gets a field of several lines."""
_NUMBERS: Final = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
}
_SIZES: Final = (
    ("minLength", "maxLength", "character", "characters"),
    ("minItems", "maxItems", "of them", "of them"),
    ("minProperties", "maxProperties", "entry", "entries"),
)
_FORMATS: Final = {
    "date": "a date, such as 2026-01-31",
    "time": "a time of day, such as 14:30:00Z",
    "date-time": "a date and time, such as 2026-01-31T14:30:00Z",
    "duration": "a span of time, such as PT5M",
    "email": "a mail address",
    "uri": "an address, such as https://example.com/",
    "hostname": "the name of a machine",
    "uuid": "a UUID",
}
"""Others are called as the schema calls them."""
_BEYOND: Final = 10**15
"""A number beyond that bounds nothing that anybody types, and would only be long."""
_MOST_CHOICES: Final = 10


@final
class Option(Struct, frozen=True, kw_only=True):
    """One thing to choose."""

    label: str
    value: str
    """As JSON; empty for nothing at all."""
    chosen: bool = False


@final
class Field(Struct, frozen=True, kw_only=True):
    """One field, ready for a template."""

    label: str
    place: str
    """Where its value stands in what is sent: a JSON list of names."""
    kind: Kind = "line"
    sent_as: str = ""
    """`json`, `number`, `integer` or `lines`; empty for text as it is."""
    value: str = ""
    options: tuple[Option, ...] = ()
    rows: int = 3
    help: str = ""
    placeholder: str = ""
    required: bool = False
    optional: bool = False
    """Left out where it is empty."""
    changed: bool = False
    """Sent only where it was changed."""
    emptied: bool = False
    """Sent as nothing (null) where it was emptied."""

    @property
    def id(self) -> str:
        """Belongs to what the field sends, and not to where it stands: what somebody typed is never left under the words of another one
        when the schema changed under an open page."""
        about = "\0".join((self.place, self.kind, self.sent_as))
        return f"field-{hashlib.sha256(about.encode(errors='backslashreplace')).hexdigest()[:16]}"


def ascii_json(value: Json, *, indent: int | None = None) -> str:
    """`value` as JSON in which every character can be seen."""
    return json.dumps(value, ensure_ascii=True, indent=indent)


def is_plain(text: str) -> bool:
    """Whether what a person sees of it is what it is."""
    return visible(text) == text


def label_of(value: Json) -> str:
    """One choice, on one line."""
    return one_line(value if isinstance(value, str) else ascii_json(value), 120) or '""'


def fields_of(schema: Mapping[str, Json], given: Mapping[str, Json] | None = None) -> tuple[Field, ...]:
    """A field for each argument of a tool; one of JSON for all of them where they cannot be told apart.

    Args:
        given: what stands in them already.
    """
    below = schema.get("properties")
    names = below if isinstance(below, dict) else {}
    closed = schema.get("additionalProperties") is False
    apart = not any(each in schema for each in ("$ref", "allOf", "anyOf", "oneOf", "patternProperties"))
    if len(names) > MOST_FIELDS or not apart or (not names and not closed):
        start = ascii_json(dict(given or {}), indent=2)
        return (
            Field(
                label="Arguments, as JSON",
                place='["arguments"]',
                kind="area",
                sent_as="json",
                value=start,
                rows=6,
            ),
        )
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    return tuple(
        _field(
            name, node if isinstance(node, dict) else {}, needed=name in needed, given=(given or {}).get(name)
        )
        for name, node in names.items()
    )


def _field(name: str, node: dict[str, Json], *, needed: bool, given: Json) -> Field:
    about = node.get("description")
    field = Field(
        label=one_line(name, 120),
        place=ascii_json(["arguments", name]),
        help=_help(about if isinstance(about, str) else "", node),
        required=needed,
        optional=not needed,
    )
    return _typed(field, node, given)


def _typed(field: Field, node: dict[str, Json], given: Json) -> Field:
    choices = node.get("enum")
    kind = node.get("type")
    if isinstance(choices, list) and choices:
        return replace(field, kind="select", options=choices_of(choices, given, nothing=field.optional))
    if kind == "boolean":
        return replace(field, kind="select", options=choices_of([True, False], given, nothing=field.optional))
    if kind in ("integer", "number"):
        return replace(field, sent_as=kind, value="" if given is None else ascii_json(given))
    items = node.get("items")
    if kind == "array" and isinstance(items, dict) and items.get("type") == "string" and "enum" not in items:
        return replace(field, kind="area", sent_as="lines", placeholder="one on each line")
    if kind == "string":
        text = given if isinstance(given, str) else ""
        longest = node.get("maxLength")
        short = isinstance(longest, int) and longest <= _SHORT
        return replace(field, kind="line" if short else "area", value=text, rows=2)
    return replace(
        field,
        kind="area",
        sent_as="json",
        placeholder=json_of(node),
        value="" if given is None else ascii_json(given),
    )


def choices_of(values: Sequence[Json], chosen: Json, *, nothing: bool) -> tuple[Option, ...]:
    """What may be chosen; `nothing`: also nothing at all."""
    made = [
        Option(label=label_of(each), value=ascii_json(each), chosen=_same(each, chosen)) for each in values
    ]
    if nothing:
        made.insert(0, Option(label=LEFT_OUT, value="", chosen=chosen is None))
    return tuple(made)


def _same(one: Json, other: Json) -> bool:
    """As JSON has it: 1 is not true."""
    return type(one) is type(other) and one == other


def _help(about: str, node: dict[str, Json]) -> str:
    said = [one_line(about, 1_000)] if about else []
    if "default" in node:
        said.append(f"left out it is {one_line(ascii_json(node['default']), 120)}")
    return " · ".join([*said, *bounds_of(node)])


def bounds_of(node: Mapping[str, Json]) -> list[str]:
    """What a value has to be, in plain words, as far as the schema says it in these."""
    said = ["a whole number"] if node.get("type") == "integer" else []
    said += [
        words.format(ascii_json(bound))
        for key, words in _NUMBERS.items()
        if isinstance(bound := node.get(key), int | float) and _is_told(bound)
    ]
    for least, most, one, several in _SIZES:
        said += _sizes(node.get(least), node.get(most), one, several)
    if isinstance(form := node.get("format"), str):
        said.append(f"written as {_FORMATS.get(form) or one_line(form, 60)}")
    if isinstance(pattern := node.get("pattern"), str):
        said.append(f"fits the pattern {one_line(pattern, 200)}")
    if node.get("uniqueItems") is True:
        said.append("none of them twice")
    items = node.get("items")
    if isinstance(items, dict):
        said += [f"each {words}" for words in _of_each(items)]
    return said


def json_of(node: Mapping[str, Json]) -> str:
    """What is typed into a field of JSON: who never saw any does not know that a text stands in quotes."""
    shape = {"array": "[ … ]", "object": "{ … }"}.get(str(node.get("type")), "")
    return f"JSON: {shape or 'a text in quotes, a number, true, false, null, [ … ] or { … }'}"


def _of_each(items: dict[str, Json]) -> list[str]:
    """The same about what stands in a list. There is no field to choose it from, so the choices are told."""
    choices = items.get("enum")
    if not isinstance(choices, list) or not choices:
        return bounds_of({key: value for key, value in items.items() if key != "items"})
    shown = [one_line(ascii_json(each), 60) for each in choices[:_MOST_CHOICES]]
    more = f" and {len(choices) - _MOST_CHOICES} more" if len(choices) > _MOST_CHOICES else ""
    return [f"one of {', '.join(shown)}{more}"]


def _sizes(least: Json, most: Json, one: str, several: str) -> list[str]:
    return [
        f"at {word} {bound} {one if bound == 1 else several}"
        for word, bound in (("least", least), ("most", most))
        if isinstance(bound, int) and _is_told(bound)
    ]


def _is_told(bound: float) -> bool:
    return not isinstance(bound, bool) and abs(bound) < _BEYOND
