"""Settings by the word of a JSON Schema: what a reference makes secret, what is the default, and what becomes secret later."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from metier.kernel.settings_marks import Marks
from metier.kernel.settings_shape import Shape
from metier.model.digest import Json
from metier.model.skill import Skill
from settings_kit import BOT, MASK, Desk

KEY: dict[str, Json] = {"type": "string", "x-secret": True}
UNITS: dict[str, Json] = {"type": "string", "enum": ["metric", "imperial"]}
CANARY = "canary-by-reference-91"


def shaped(properties: dict[str, Any], **more: Any) -> Skill:
    schema: dict[str, Json] = {"type": "object", "properties": properties, **more}
    return Skill(name=BOT, description="", dialect="metier", settings_schema=schema)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Any]:
    desks: list[Desk] = []

    def made(skill: Skill) -> Desk:
        desks.append(Desk(tmp_path / "state", skill))
        return desks[-1]

    yield made
    for each in desks:
        each.close()


def test_sec_01_what_refers_to_a_secret_setting_is_sealed_and_masked_like_it(opened: Any) -> None:
    desk = opened(
        shaped({"api_key": KEY, "second": {"$ref": "#/properties/api_key"}, "open": {"type": "string"}})
    )
    desk.set({"second": CANARY, "open": "plain-value-of-the-control"}, skill=BOT)
    assert desk.get(skill=BOT)["settings"] == {"second": MASK, "open": "plain-value-of-the-control"}
    assert desk.revealed("second", BOT) == CANARY
    assert CANARY.encode() not in desk.everything()
    assert b"plain-value-of-the-control" in desk.everything(), "control: what is not secret lies in the clear"


@pytest.mark.parametrize(
    ("place", "more"),
    [
        ({"$ref": "#/properties/api_key"}, {}),
        ({"$ref": "#"}, {}),
        ({"type": "array", "items": {"$ref": "#/properties/api_key"}}, {}),
        ({"anyOf": [{"type": "null"}, {"$ref": "#/properties/api_key"}]}, {}),
        ({"$ref": "#/properties/group"}, {"group": {"properties": {"key": KEY}}}),
        ({"$ref": "#/properties/group/properties/name"}, {"group": {"x-secret": True, "properties": {"name": UNITS}}}),
        (
            {"$ref": "#/properties/group/properties/name"},
            {"group": {"properties": {"name": UNITS}, "additionalProperties": KEY}},
        ),
        ({"$ref": "#/properties/b"}, {"b": {"$ref": "#/properties/c"}, "c": {"$ref": "#/properties/api_key"}}),
        ({"$ref": "#key"}, {}),
        ({"$ref": "#/properties/api%5Fkey"}, {}),
        ({"$ref": "#/nowhere"}, {}),
        ({"$ref": "https://example.org/schema"}, {}),
        ({"$dynamicRef": "#key"}, {}),
        ({"$recursiveRef": "#"}, {}),
        ({"$ref": 7}, {}),
        ({"properties": {"inner": UNITS}, "allOf": [{"$ref": "#/properties/api_key"}]}, {}),
    ],
)  # fmt: skip
def test_sec_01_a_reference_that_leads_to_a_secret_or_nobody_knows_where_is_secret(
    place: dict[str, Any], more: dict[str, Any]
) -> None:
    assert Shape(shaped({"api_key": KEY, "place": place, **more})).is_secret(("place",))
    nothing = Shape(shaped({"api_key": UNITS, "place": UNITS}))
    assert not nothing.is_secret(("place",)), "control"


def test_sec_01_two_that_refer_to_each_other_are_both_secret_if_one_is() -> None:
    a: dict[str, Json] = {"properties": {"b": {"$ref": "#/$defs/b"}, "key": KEY}}
    b: dict[str, Json] = {"properties": {"a": {"$ref": "#/$defs/a"}}}
    for first, second in (("a", "b"), ("b", "a")):
        places = {"one": {"$ref": f"#/$defs/{first}"}, "two": {"$ref": f"#/$defs/{second}"}}
        shape = Shape(shaped(places, **{"$defs": {"a": a, "b": b}}))
        assert shape.secret == {("one",), ("two",)}


def test_a_reference_beside_a_secret_is_as_plain_as_what_it_leads_to() -> None:
    definitions: dict[str, Json] = {"units": UNITS, "key": KEY, "tree": {"items": {"$ref": "#/$defs/tree"}}}
    places: dict[str, Json] = {
        "units": {"$ref": "#/$defs/units"},
        "tree": {"$ref": "#/$defs/tree"},
        "choice": {"oneOf": [{"$ref": "#/$defs/units"}, {"$ref": "#/properties/list/anyOf/0"}]},
        "list": {"anyOf": [{"type": "integer"}, {"type": "array"}]},
        "key": {"$ref": "#/$defs/key"},
    }
    assert Shape(shaped(places, **{"$defs": definitions})).secret == {("key",)}


def test_where_nothing_is_secret_no_reference_is() -> None:
    assert not Shape(shaped({"place": {"$ref": "#units"}}, **{"$defs": {"u": {"$anchor": "units"}}})).secret


def test_so_many_references_that_nobody_can_follow_them_are_all_secret() -> None:
    def schema(many: int) -> dict[str, Json]:
        all_of: list[Json] = [{"type": "string"}] * many
        wide: dict[str, Json] = {f"d{number}": {"allOf": all_of} for number in range(300)}
        places: dict[str, Json] = {name: {"$ref": f"#/$defs/{name}"} for name in wide}
        return {"$defs": wide, "properties": {"key": KEY, **places}}

    assert not Marks(schema(10)).inside({"$ref": "#/$defs/d1"}), "control: these can be followed"
    assert Marks(schema(400)).inside({"$ref": "#/$defs/d1"})


# Defaults


def test_defaults_of_a_json_schema_are_used_and_never_go_over_what_is_stored(opened: Any) -> None:
    first = shaped({"mode": {"type": "string", "default": "q"}, "days": {"type": "integer", "default": 3}})
    desk = opened(first)
    assert desk.get(skill=BOT)["settings"] == {"mode": "q", "days": 3}
    desk.set({"days": 5}, skill=BOT)
    desk.skills[BOT] = shaped(
        {"mode": {"type": "string", "default": "z"}, "days": {"type": "integer", "default": 9}}
    )
    desk.prepare(desk.skills[BOT])
    assert desk.get(skill=BOT)["settings"] == {"mode": "q", "days": 5}
    desk.ask("settings.reset_skill", skill_id=BOT)
    assert desk.get(skill=BOT)["settings"] == {"mode": "z", "days": 9}


def test_the_default_of_an_object_comes_before_those_of_its_members_and_one_that_does_not_fit_is_left_out(
    opened: Any,
) -> None:
    web: dict[str, Json] = {
        "type": "object",
        "properties": {
            "host": {"type": "string", "default": "a"},
            "port": {"type": "integer", "default": 80},
        },
        "default": {"host": "b"},
    }
    desk = opened(
        shaped({"web": web, "wrong": {"type": "integer", "default": "seven"}, "a.b": {"default": 1}})
    )
    assert desk.get(skill=BOT)["settings"] == {"web": {"host": "b", "port": 80}, "a.b": 1}


def test_sec_01_a_secret_has_no_default_wherever_that_stands(opened: Any) -> None:
    secret: dict[str, Json] = {**KEY, "default": CANARY}
    group: dict[str, Json] = {
        "type": "object",
        "properties": {"key": KEY, "name": {"type": "string"}},
        "default": {"key": CANARY, "name": "n"},
    }
    desk = opened(
        shaped({"key": secret, "group": group, "same": {"$ref": "#/properties/key", "default": CANARY}})
    )
    desk.prepare(desk.skills[BOT])
    assert desk.get(skill=BOT, include_masked=True)["settings"] == {"group": {"name": "n"}}
    assert desk.get(skill=BOT, include_masked=True)["masked"] == {}
    assert CANARY.encode() not in desk.everything()
    whole = Shape(shaped({"a": {"type": "string", "default": CANARY}}, additionalProperties=KEY))
    assert whole.defaults == {}


# What becomes secret


def test_sec_01_what_a_newer_version_says_is_secret_is_sealed_when_skills_are_loaded(opened: Any) -> None:
    desk = opened(shaped({"token": {"type": "string"}, "mode": {"type": "string"}}))
    desk.set({"token": CANARY, "mode": "m"}, skill=BOT)
    assert CANARY in (desk.row() or ""), "control: it was no secret"
    anyio.run(desk.settings.seal_anew)
    assert CANARY in (desk.row() or ""), "and while it is none it stays"
    desk.skills[BOT] = shaped({"token": KEY, "mode": {"type": "string"}})
    anyio.run(desk.settings.seal_anew)
    assert desk.row() == '{"mode":"m"}'
    assert desk.revealed("token", BOT) == CANARY
    assert desk.get(skill=BOT)["settings"] == {"token": MASK, "mode": "m"}


def test_one_row_that_cannot_be_read_keeps_no_other_from_being_sealed(opened: Any) -> None:
    desk = opened(shaped({"token": {"type": "string"}}))
    desk.set({"token": CANARY}, skill=BOT)
    desk.skills["broken"] = Skill(
        name="broken", description="", dialect="metier", settings_schema={"type": "object"}
    )
    with desk.store.writing() as connection:
        for name in ("a-stranger", "broken"):
            connection.execute("INSERT INTO settings VALUES (?, '[not settings', 0, 'x')", (name,))
    desk.skills[BOT] = shaped({"token": KEY})
    anyio.run(desk.settings.seal_anew)
    assert desk.row() == "{}"
