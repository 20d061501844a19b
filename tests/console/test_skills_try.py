"""Trying a tool from the console: a form from its schema, and a call like any other."""

import json
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from machine import write_skill
from metier.doors.http.console.settings_form import Settings, form_of
from metier.doors.http.console.skills_fields import fields_of
from metier.model.job import Report
from seen_page import Form, Seen, visiting
from serve_kit import Premises


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    made = Premises(tmp_path, monkeypatch)
    made.box._report = Report(ending="returned", value={"success": True, "outputs": {}})
    return made


def call(page: Seen) -> Form:
    return page.form("Call it")


def test_a_tool_is_called_with_what_was_typed_into_its_form(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            page = await owner.see("/skills/fs_write/try")
            form = call(page)
            assert [place for place in form.fields if len(place) > 1] == [
                ("arguments", each) for each in ("path", "content", "overwrite")
            ]
            assert "Nobody is asked about what you do yourself" in page.live.text
            done = await owner.send(form, path="memory/tea.md", content="tea", overwrite=True)
            assert done["outcome"] == "completed", done
            (job,) = premises.box.jobs
            assert job.arguments["path"].endswith("/workspace/memory/tea.md")
            assert (job.arguments["content"], job.arguments["overwrite"]) == ("tea", True)

    anyio.run(main)


def test_the_owner_can_have_it_judged_as_a_call_of_an_agent(premises: Premises) -> None:
    premises.person("opal", "operator")

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner, visiting(house, "opal") as opal:
            form = call(await owner.see("/skills/fs_write/try"))
            done = await owner.send(form, path="memory/tea.md", content="tea", as_agent=True)
            assert done["outcome"] == "pending" and not premises.box.jobs
            assert ("as_agent",) in form.fields
            assert ("as_agent",) not in call(await opal.see("/skills/fs_write/try")).fields

    anyio.run(main)


def test_who_may_not_call_it_is_told_which_right_it_takes(premises: Premises) -> None:
    premises.person("vera", "viewer")

    async def main() -> None:
        async with premises.serving() as house, visiting(house, "vera") as vera:
            page = await vera.see("/skills/fs_read/try")
            assert not page.forms and "skills:execute" in page.live.text

    anyio.run(main)


def test_a_skill_of_instructions_can_be_read_and_one_that_cannot_be_used_says_so(premises: Premises) -> None:
    write_skill(premises.machine.project / "skills" / "waits")

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            page = await owner.see("/skills/writing-skills/try")
            form = call(page)
            name = form.fields["arguments", "name"]
            assert (form.body()["tool"], name.get("value")) == ("read_skill", "writing-skills")
            done = await owner.send(form, name="writing-skills")
            assert done["outcome"] == "completed" and "writing-skills" in json.dumps(done["value"])
            assert "will be refused" in (await owner.see("/skills/waits/try")).live.text
            await owner.see("/skills/waits/try?tool=nothing", 404)
            await owner.see("/skills/nothing-is-called-that/try", 404)

    anyio.run(main)


def fields(**properties: Any) -> dict[str, Any]:
    made = fields_of(
        {"type": "object", "properties": properties, "required": ["need"], "additionalProperties": False}
    )
    return {json.loads(each.place)[-1]: each for each in made}


def test_each_kind_of_argument_has_a_field_of_its_own() -> None:
    made = fields(
        need={"type": "string", "maxLength": 80, "description": "Which"},
        text={"type": "string"},
        many={"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
        share={"type": "number"},
        yes={"type": "boolean"},
        mode={"enum": ["a", 1, None, "b\u202e"]},
        names={"type": "array", "items": {"type": "string"}},
        any={"type": ["string", "null"]},
        deep={"type": "object"},
    )
    kinds = {name: (each.kind, each.sent_as, each.optional) for name, each in made.items()}
    assert kinds == {
        "need": ("line", "", False), "text": ("area", "", True), "many": ("line", "integer", True), "share": ("line", "number", True),
        "yes": ("select", "", True), "mode": ("select", "", True), "names": ("area", "lines", True), "any": ("area", "json", True),
        "deep": ("area", "json", True),
    }  # fmt: skip
    assert made["need"].required and made["need"].help == "Which · at most 80 characters"
    assert made["many"].help == "left out it is 3 · a whole number · at least 1 · at most 9"
    assert [each.value for each in made["yes"].options] == ["", "true", "false"]
    assert [each.value for each in made["mode"].options] == ["", '"a"', "1", "null", r'"b\u202e"']


@pytest.mark.parametrize(
    "schema",
    [{"type": "object"}, {"$ref": "#/x", "properties": {"a": {}}}, {"anyOf": [], "properties": {"a": {}}},
     {"properties": {f"a{number}": {} for number in range(101)}}],
)  # fmt: skip
def test_arguments_that_cannot_be_told_apart_are_one_field_of_json(schema: dict[str, Any]) -> None:
    (field,) = fields_of(schema)
    assert (field.place, field.sent_as, json.loads(field.value)) == ('["arguments"]', "json", {})


def test_a_tool_without_arguments_has_no_fields() -> None:
    assert fields_of({"type": "object", "properties": {}, "additionalProperties": False}) == ()


def test_the_name_of_an_argument_is_sent_as_it_is_and_shown_as_it_can_be_seen() -> None:
    odd = '__proto__"]\u202e<b>'
    (field,) = fields(**{odd: {"type": "string"}}).values()
    assert json.loads(field.place) == ["arguments", odd] and field.place.isascii()
    assert "\u202e" not in field.label


def test_arguments_and_settings_say_their_bounds_in_the_same_words() -> None:
    node: dict[str, Any] = {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 2}
    found: dict[str, Any] = {
        "ok": True,
        "schema": {
            "fields": [{"key": "need", "type": "json"}],
            "json_schema": {"properties": {"need": node}},
        },
    }
    (setting,) = form_of(msgspec.convert(found, Settings)).fields
    argument = fields(need=node)["need"]
    assert argument.help == setting.help == "at least 2 of them · each a whole number · each at least 1"
    assert argument.placeholder == setting.placeholder == "JSON: [ … ]"


def test_why_a_skill_cannot_be_tried_is_a_sentence_of_its_own(premises: Premises) -> None:
    write_skill(premises.machine.project / "skills" / "waits")

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            text = (await owner.see("/skills/waits/try")).live.text
            assert "then say so on its page. What to do about it" in text

    anyio.run(main)
