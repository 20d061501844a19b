"""A form for the settings of a skill, from the schema that the skill gives them. Pure.

Only what was changed is sent. A secret is never in the page: it is said whether one is set, and what is typed takes its place.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, final

from msgspec import Struct
from msgspec.structs import replace

from metier.doors.http.console.skills_fields import (
    Field,
    Option,
    ascii_json,
    bounds_of,
    is_plain,
    json_of,
    label_of,
)
from metier.model.digest import Json
from metier.model.text import one_line

NOT_SET: Final = "(not set)"
_NOTHING: Final = "null"
_LONG: Final = 80


@final
class Choice(Struct, frozen=True, kw_only=True):
    """One thing that may be chosen, as the schema has it."""

    label: Json
    value: Json


@final
class SettingField(Struct, frozen=True, kw_only=True):
    """One setting, as `settings.get_skill` describes it for a form."""

    key: str
    label: str = ""
    type: str = "string"
    help: str = ""
    placeholder: str = ""
    secret: bool = False
    options: list[Choice] = []
    default: Json = None


@final
class SettingsSchema(Struct, frozen=True, kw_only=True):
    """Which settings there are."""

    title: str = ""
    fields: list[SettingField] = []
    json_schema: dict[str, Json] = {}


@final
class Settings(Struct, frozen=True, kw_only=True):
    """What `settings.get_skill` answers."""

    ok: bool
    settings: dict[str, Json] = {}
    masked: dict[str, bool] = {}
    schema: SettingsSchema = SettingsSchema()


@final
class Secret(Struct, frozen=True, kw_only=True):
    """A secret that is set, and can be forgotten."""

    label: str
    place: str


@final
class Said(Struct, frozen=True, kw_only=True):
    """What the schema says of one setting beside what a form is told of it."""

    node: dict[str, Json] = {}
    needed: bool = False
    within: str = ""
    """It is needed once anything is set below this place; empty where that is not so."""


@final
class Form(Struct, frozen=True, kw_only=True):
    """The whole form."""

    title: str
    fields: list[Field]
    secrets: list[Secret]
    open: bool
    """Whether the skill also takes settings that its schema does not name."""


def form_of(found: Settings) -> Form:
    """The form for these settings, in the order of the schema."""
    extra = found.schema.json_schema
    said, labels = dict(_said(extra)), _labels(found.schema.fields)
    fields = [
        _field(
            each,
            value_at(found.settings, each.key),
            said.get(each.key) or Said(),
            label=labels[each.key],
            is_set=found.masked.get(each.key, False),
        )
        for each in found.schema.fields
    ]
    secrets = [
        Secret(label=labels[each.key], place=_place(each.key))
        for each in found.schema.fields
        if each.secret and found.masked.get(each.key, False)
    ]
    return Form(
        title=found.schema.title,
        fields=fields,
        secrets=secrets,
        open=any(
            bool(extra.get(each))
            for each in ("additionalProperties", "patternProperties", "unevaluatedProperties")
        ),
    )


def value_at(settings: Mapping[str, Json], key: str) -> Json:
    """What stands at a dotted place; None where nothing does. A name may have dots in it."""
    if key in settings:
        return settings[key]
    head, dot, rest = key.partition(".")
    while dot:
        below = settings.get(head)
        if isinstance(below, dict):
            return value_at(below, rest)
        more, dot, rest = rest.partition(".")
        head = f"{head}.{more}"
    return None


def _said(schema: Mapping[str, Json], place: str = "", *, needed: bool = True) -> Iterator[tuple[str, Said]]:
    """Every place in the schema, by its dotted name. `needed`: whether it is so that what surrounds them is there."""
    below, required = schema.get("properties"), schema.get("required")
    for name, each in below.items() if isinstance(below, dict) else ():
        node = each if isinstance(each, dict) else {}
        key = f"{place}.{name}" if place else name
        here = isinstance(required, list) and name in required
        yield key, Said(node=node, needed=here and needed, within=place if here and not needed else "")
        yield from _said(node, key, needed=here and needed)


def _labels(fields: list[SettingField]) -> dict[str, str]:
    """What each is called. Two that are called the same are told apart by their places."""
    called = {each.key: one_line(each.label or each.key, 200) for each in fields}
    many = Counter(called.values())
    return {
        key: label if many[label] == 1 else f"{label} ({one_line(key, 200)})" for key, label in called.items()
    }


def _field(each: SettingField, value: Json, said: Said, *, label: str, is_set: bool) -> Field:
    field = Field(
        label=label,
        place=_place(each.key),
        help=_help(each, said, label),
        placeholder=one_line(each.placeholder, 200),
        required=said.needed,
        changed=True,
    )
    if each.secret:
        words = "set; leave it empty to keep it" if is_set else "not set"
        as_text = "" if each.type in ("string", "select") else "json"
        return replace(field, kind="secret", sent_as=as_text, placeholder=words, changed=False, optional=True)
    if each.type == "select":
        return replace(
            field, kind="select", options=_options([(one.label, one.value) for one in each.options], value)
        )
    if each.type == "boolean":
        return replace(field, kind="select", options=_options([("yes", True), ("no", False)], value))
    if (
        each.type == "number"
        and (value is None or isinstance(value, int | float))
        and not isinstance(value, bool)
    ):
        return replace(
            field, sent_as="number", value="" if value is None else ascii_json(value), emptied=True
        )
    if each.type == "string" and (value is None or (isinstance(value, str) and is_plain(value))):
        text = value or ""
        area = "\n" in text or len(text) > _LONG
        return replace(field, kind="area" if area else "line", value=text, emptied=value is None)
    if each.type == "string_list" and (lines := _lines(value)) is not None:
        words = field.placeholder or "one on each line"
        return replace(field, kind="area", sent_as="lines", value=lines, placeholder=words)
    text = "" if value is None else ascii_json(value, indent=2)
    rows = min(20, max(3, text.count("\n") + 1))
    return replace(
        field,
        kind="area",
        sent_as="json",
        value=text,
        rows=rows,
        emptied=True,
        placeholder=json_of(said.node),
    )


def _options(choices: list[tuple[Json, Json]], value: Json) -> tuple[Option, ...]:
    """Nothing, what may be chosen, and what is there though it may not."""
    now = ascii_json(value)
    made = [Option(label=NOT_SET, value=_NOTHING)]
    made += [Option(label=label_of(label), value=ascii_json(each)) for label, each in choices]
    if now not in {each.value for each in made}:
        made.append(Option(label=f"{label_of(value)} (no longer a choice)", value=now))
    return tuple(replace(each, chosen=each.value == now) for each in made)


def _lines(value: Json) -> str | None:
    """A list of texts, one on each line; None where that would not give the same list back."""
    if value is None:
        return ""
    if not isinstance(value, list):
        return None
    texts = [each for each in value if isinstance(each, str)]
    same = len(texts) == len(value) and all(each.strip() == each != "" and "\n" not in each for each in texts)
    return "\n".join(texts) if same and all(map(is_plain, texts)) else None


def _place(key: str) -> str:
    return ascii_json(["patch", key])


def _help(each: SettingField, said: Said, label: str) -> str:
    words = [one_line(each.help, 1_000)] if each.help else []
    key = one_line(each.key, 200)
    if label != key and not label.endswith(f"({key})"):
        words.append(key)
    if said.within:
        words.append(f"needed once anything of {one_line(said.within, 200)} is set")
    if each.default is not None:
        words.append(f"by default {one_line(ascii_json(each.default), 120)}")
    return " · ".join([*words, *bounds_of(said.node)])
