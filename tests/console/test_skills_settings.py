"""The settings of a skill as a form, from the schema that the skill gives them."""

import json
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from machine import write_skill
from metier.doors.http.console.settings_form import Settings, form_of
from metier.kernel.settings_shape import Shape
from seen_page import Form, Seen, visiting
from serve_kit import Premises
from settings_kit import BOT, TOKEN, Desk

SECRET = "a-secret-of-mine"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": "The <b>pot",
    "properties": {
        "size": {"type": "integer", "title": "Size", "description": "In cups", "default": 4, "minimum": 1},
        "kind": {"title": "Kind", "enum": ["green", "black", "x\u202ey"], "default": "black"},
        "hot": {"type": "boolean", "title": "Hot"},
        "label": {"type": "string", "title": "Label", "x-placeholder": "what stands on it"},
        "guests": {"type": "array", "items": {"type": "string"}, "title": "Guests"},
        "key": {"type": "string", "title": "Key", "x-secret": True},
        "more": {"type": "object", "title": "More"},
        "deep": {"type": "object", "properties": {"er": {"type": "string", "title": "Deeper"}}},
    },
}


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    made = Premises(tmp_path, monkeypatch)
    write_skill(made.machine.skills / "pot", metadata=json.dumps({"metier": {"settings": SCHEMA}}))
    write_skill(made.machine.skills / "plain")
    return made


def keep(page: Seen) -> Form:
    return page.form("Keep what I changed")


def field(page: Seen, name: str) -> Any:
    (found,) = [node for place, node in keep(page).fields.items() if place == ("patch", name)]
    return found


def chosen(node: Any) -> str:
    (found,) = [each for each in node.all("option") if each.get("selected") is not None]
    return found.text


def label(page: Seen, name: str) -> str:
    id = field(page, name).get("id")
    (found,) = [each for each in page.all("label") if each.get("for") == id]
    return found.text


def test_a_form_is_made_from_the_schema_with_labels_help_types_and_what_is_set(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            page = await owner.see("/skills/pot/settings")
            assert "The <b>pot" in page.all("h2")[0].text and not page.live.all("b")
            order = [place[1] for place in keep(page).fields]
            assert order == ["size", "kind", "hot", "label", "guests", "key", "more", "deep.er"]
            assert [label(page, each) for each in ("size", "deep.er")] == ["Size", "Deeper"]
            size = field(page, "size")
            assert (size.get("value"), size.get("data-as"), size.get("data-changed")) == ("4", "number", "")
            help = page.id(size.get("aria-describedby")).text
            assert "In cups" in help and "by default 4" in help
            assert chosen(field(page, "kind")) == "black" and chosen(field(page, "hot")) == "(not set)"
            assert [each.text for each in field(page, "kind").all("option")][-1] == r"x\u{202e}y"
            assert [json.loads(each.get("value")) for each in field(page, "kind").all("option")] == [
                None, "green", "black", "x\u202ey",
            ]  # fmt: skip
            assert field(page, "label").get("placeholder") == "what stands on it"
            assert (field(page, "guests").tag, field(page, "guests").get("data-as")) == ("textarea", "lines")
            assert field(page, "more").get("data-as") == "json"
            assert "no settings" in (await owner.see("/skills/plain/settings")).live.text

    anyio.run(main)


def test_what_was_typed_is_kept_and_a_wrong_value_is_refused_with_the_reason(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            form = keep(await owner.see("/skills/pot/settings"))
            assert (form.post, form.method) == ("/api/v1/settings/pot", "PATCH")
            given = {
                "size": 7,
                "kind": "green",
                "hot": True,
                "guests": ["Ann", "Bo"],
                "deep.er": "x\ny",
                "label": "a\u200bb",
            }
            done = await owner.send(form, **given)
            assert (done["outcome"], done["value"]["ok"]) == ("completed", True), done
            page = await owner.see("/skills/pot/settings?kept=true")
            assert "Kept." in page.live.text and field(page, "size").get("value") == "7"
            assert (chosen(field(page, "kind")), chosen(field(page, "hot"))) == ("green", "yes")
            assert field(page, "guests").whole.strip("\n") == "Ann\nBo"
            assert field(page, "deep.er").tag == "textarea"  # else a browser would take the line's end away
            # What cannot be seen would be sent as it is shown: such a text is JSON, in which it can be written.
            unseen = field(page, "label")
            assert (unseen.get("data-as"), json.loads(unseen.whole)) == ("json", "a\u200bb")
            wrong = await owner.send(form, size=0)
            assert wrong["outcome"] == "failed" and "size" in wrong["value"]["message"]
            await owner.send(page.form("Put everything back"))
            assert field(await owner.see("/skills/pot/settings"), "size").get("value") == "4"

    anyio.run(main)


def test_sec_01_a_secret_is_never_in_the_page_and_it_is_said_whether_it_is_set(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            page = await owner.see("/skills/pot/settings")
            key = field(page, "key")
            assert (key.get("type"), key.get("value"), key.get("placeholder")) == ("password", "", "not set")
            assert "Forget" not in str([each.words for each in page.forms])
            await owner.send(keep(page), key=SECRET)
            answer = await owner.it.get("/skills/pot/settings")
            assert SECRET not in answer.text
            page = Seen(answer.text)
            key = field(page, "key")
            assert key.get("value") == "" and (key.get("placeholder") or "").startswith("set;")
            assert key.get("data-optional") is not None  # left empty it stays as it is
            assert (await owner.send(page.form("Forget this secret")))["outcome"] == "completed"
            assert field(await owner.see("/skills/pot/settings"), "key").get("placeholder") == "not set"

    anyio.run(main)


def test_who_may_not_write_settings_has_no_form_to_send(premises: Premises) -> None:
    premises.person("opal", "operator")
    premises.person("wes", "viewer", "agent")
    premises.person("vera", "viewer")

    async def main() -> None:
        async with (
            premises.serving() as house,
            visiting(house, "opal") as opal,
            visiting(house, "wes") as wes,
        ):
            theirs = keep(await opal.see("/skills/pot/settings"))
            page = await wes.see("/skills/pot/settings")
            assert not page.forms and "settings:write" in page.live.text and "In cups" in page.live.text
            assert page.all("fieldset")[0].get("disabled") is not None
            done = await wes.send(theirs, size=9)
            assert (done["outcome"], done["code"]) == ("refused", "forbidden")
            async with visiting(
                house, "vera"
            ) as vera:  # reading them is an operation, with a right of its own
                page = await vera.see("/skills/pot/settings")
                assert (
                    not page.forms and "skills:execute" in page.live.text and "In cups" not in page.live.text
                )

    anyio.run(main)


def test_the_fields_of_a_contract_become_a_form_as_they_are_declared(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "home")
    desk.ask("settings.set_skill", skill_id=BOT, patch={"bot_token": TOKEN, "mode": "webhook"})
    answer = desk.ask("settings.get_skill", skill_id=BOT, include_schema=True, include_masked=True)
    form = form_of(msgspec.convert(answer, Settings))
    assert form.title == "The bot" and TOKEN not in repr(form)
    shown = [(each.label, each.kind, each.sent_as) for each in form.fields]
    assert shown == [
        ("Token", "secret", ""), ("Mode", "select", ""), ("Timeout", "line", "number"), ("Start by itself", "select", ""),
        ("Admins", "area", "lines"), ("Address", "line", ""), ("Secret", "secret", ""),
    ]  # fmt: skip
    token, mode, timeout, *_, hook = form.fields
    assert (
        "From BotFather" in token.help
        and token.placeholder.startswith("set;")
        and hook.placeholder == "not set"
    )
    assert [(each.label, each.chosen) for each in mode.options] == [
        ("(not set)", False), ("Polling", False), ("Webhook", True),
    ]  # fmt: skip
    assert (timeout.place, timeout.value) == ('["patch", "polling.timeout_sec"]', "30")
    assert [each.label for each in form.secrets] == ["Token"]
    assert Shape(desk.skills[BOT]).fields()[0]["key"] == "bot_token"


def test_a_value_that_is_no_longer_a_choice_is_shown_and_not_changed_by_looking() -> None:
    found: dict[str, Any] = {
        "ok": True,
        "settings": {"kind": 1, "a.b": "x", "a": {"c": True}},
        "schema": {"fields": [
            {"key": "kind", "type": "select", "options": [{"label": "yes", "value": True}]},
            {"key": "a.b", "type": "string"}, {"key": "a.c", "type": "boolean"},
        ]},
    }  # fmt: skip
    kind, dotted, deep = form_of(msgspec.convert(found, Settings)).fields
    assert [each.label for each in kind.options if each.chosen] == ["1 (no longer a choice)"]  # 1 is not true
    assert dotted.value == "x" and [each.label for each in deep.options if each.chosen] == ["yes"]


BOUNDED: dict[str, Any] = {
    "type": "object",
    "required": ["place", "polling"],
    "properties": {
        "place": {"type": "string", "minLength": 2, "maxLength": 40, "pattern": "^[a-z]+$", "title": "Place"},
        "many": {"type": "integer", "minimum": 1, "maximum": 5, "default": 2},
        "share": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5},
        "when": {"type": "string", "format": "date-time"},
        "key": {"type": "string", "x-secret": True, "minLength": 1},
        "kinds": {
            "type": "array",
            "items": {"type": "string", "enum": ["a", "b"]},
            "maxItems": 1,
            "uniqueItems": True,
        },
        "polling": {
            "type": "object",
            "required": ["timeout"],
            "properties": {"timeout": {"type": "number", "title": "Timeout"}},
        },
        "webhook": {
            "type": "object",
            "required": ["url"],
            "properties": {
                "url": {"type": "string", "format": "uri"},
                "timeout": {"type": "number", "title": "Timeout"},
            },
        },
        "rows": {"type": "array", "items": {"type": "object"}},
        "any": {"type": ["string", "null"]},
    },
}


def bounded(premises: Premises) -> None:
    write_skill(premises.machine.skills / "jug", metadata=json.dumps({"metier": {"settings": BOUNDED}}))


def told(page: Seen, name: str) -> str:
    """What stands below the field, for who sees it and for who has it read out."""
    by = field(page, name).get("aria-describedby")
    return page.id(by).text if by else ""


def test_a_setting_says_that_it_is_needed_and_which_bounds_hold(premises: Premises) -> None:
    bounded(premises)

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            page = await owner.see("/skills/jug/settings")
            order = [place[1] for place in keep(page).fields]
            needed = [each for each in order if "(needed)" in label(page, each)]
            assert needed == ["place", "polling.timeout"]
            assert (
                told(page, "place")
                == "place · at least 2 characters · at most 40 characters · fits the pattern ^[a-z]+$"
            )
            assert told(page, "many") == "by default 2 · a whole number · at least 1 · at most 5"
            assert told(page, "share") == "more than 0 · a multiple of 0.5"
            assert told(page, "when") == "written as a date and time, such as 2026-01-31T14:30:00Z"
            assert told(page, "key") == "at least 1 character"
            assert told(page, "kinds") == 'at most 1 of them · none of them twice · each one of "a", "b"'
            # What is needed only with others is not said to be needed.
            assert told(page, "webhook.url").startswith("needed once anything of webhook is set · written as")

    anyio.run(main)


def test_a_bound_that_is_shown_is_a_bound_that_holds(premises: Premises) -> None:
    bounded(premises)
    wrong: dict[str, Any] = {"place": "A", "many": 6, "share": 0, "kinds": ["c"]}

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            form = keep(await owner.see("/skills/jug/settings"))
            for name, value in wrong.items():
                done = await owner.send(form, **{name: value})
                assert done["outcome"] == "failed" and name in done["value"]["message"], (name, done)
            right = {"place": "hall", "many": 5, "share": 1.5, "kinds": ["a"]}
            assert (await owner.send(form, **right))["outcome"] == "completed"

    anyio.run(main)


def test_two_settings_that_are_called_the_same_are_told_apart_and_json_says_what_it_takes(
    premises: Premises,
) -> None:
    bounded(premises)

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            page = await owner.see("/skills/jug/settings")
            assert label(page, "polling.timeout") == "Timeout (polling.timeout) (needed)"
            assert label(page, "webhook.timeout") == "Timeout (webhook.timeout)"
            assert label(page, "place") == "Place (needed)"
            assert field(page, "rows").get("placeholder") == "JSON: [ … ]"
            assert "a text in quotes" in (field(page, "any").get("placeholder") or "")
            await owner.send(keep(page), key=SECRET)
            page = await owner.see("/skills/jug/settings")
            (forget,) = [each for each in page.all("button") if "Forget" in each.text]
            assert page.id(forget.get("aria-describedby") or "").text == "key"

    anyio.run(main)


def test_a_hundred_settings_have_a_field_with_a_name_each_and_a_button_at_both_ends(
    premises: Premises,
) -> None:
    many = {f"field-{number:03}": {"type": "string", "title": f"Field {number}"} for number in range(100)}
    schema = {"metier": {"settings": {"type": "object", "properties": many}}}
    write_skill(premises.machine.skills / "wide", metadata=json.dumps(schema))

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            page = await owner.see("/skills/wide/settings")
            assert len(keep(page).fields) == 100
            assert len({label(page, name) for name in many}) == 100
            assert keep(page).words.count("Keep what I changed") == 2
            assert keep(await owner.see("/skills/pot/settings")).words.count("Keep what I changed") == 1

    anyio.run(main)


def test_bounds_that_are_none_are_not_told_and_none_of_them_breaks_the_page() -> None:
    odd: dict[str, Any] = {
        "type": "integer",
        "minimum": 10**5_000,
        "maximum": "9",
        "minLength": True,
        "maxLength": 10**5_000,
        "format": "x\u202ey",
        "pattern": 7,
        "items": {"enum": list(range(12)), "items": {"minimum": 1}},
    }
    found: dict[str, Any] = {
        "ok": True,
        "schema": {
            "fields": [{"key": "odd", "type": "json"}, {"key": "bare", "type": "string"}],
            "json_schema": {"properties": {"odd": odd, "bare": True}, "required": "odd"},
        },
    }
    first, bare = form_of(msgspec.convert(found, Settings)).fields
    choices = ", ".join(map(str, range(10)))
    assert first.help == rf"a whole number · written as x\u{{202e}}y · each one of {choices} and 2 more"
    assert (bare.help, bare.required, first.required) == ("", False, False)
