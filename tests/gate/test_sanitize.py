"""Amber's way with text: what a router would take away is taken away, and nothing else becomes allowed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from metier.catalog.catalog import Catalog
from metier.gate.sanitize import LONGEST
from metier.gate.validate import validate
from metier.model.call import Call, Principal, ValidCall
from metier.model.entry import Operation
from metier.model.outcome import Refused
from metier.model.skill import Tool

C0 = "".join(chr(code) for code in range(0x20) if chr(code) not in "\t\n\r")
MESSAGE = Tool(
    name="send_message",
    description="",
    parameters={
        "type": "object",
        "properties": {
            "message": {"type": "string"},
            "long": {"type": "string", "maxLength": 3_000},
            "short": {"type": "string", "maxLength": 5},
            "lines": {"type": "array", "items": {"type": "string", "maxLength": 1_200}},
            "pair": {"prefixItems": [{}, {"maxLength": 1_100}], "items": {"maxLength": 1_300}},
            "either": {"anyOf": [{"type": "string", "maxLength": 1_500}, {"type": "integer"}]},
            "named": {"$ref": "#/$defs/text"},
            "deep": {"type": "object", "properties": {"note": {"allOf": [{"$ref": "#/$defs/text"}]}}},
            "open": {"type": "object", "additionalProperties": {"maxLength": 2_000}},
            "kind": {"enum": ["urgent", "normal"]},
            "count": {"type": "integer"},
            "loop": {"$ref": "#/$defs/loop"},
        },
        "$defs": {
            "text": {"type": "string", "maxLength": 4_000},
            "loop": {"anyOf": [{"$ref": "#/$defs/loop"}, {"type": "string", "maxLength": 1_050}]},
        },
    },
    sanitize=True,
    entry=Operation(module="m", operation="o"),
)


def asked(arguments: Any, tool: Tool = MESSAGE) -> ValidCall | Refused:
    call = Call(id="c", principal=Principal(id="agent:a", kind="agent"), tool=tool.name, arguments=arguments)
    return validate(call, tools={tool.name: tool}, catalog=Catalog(by_name={}))


def cleaned(**arguments: Any) -> dict[str, Any]:
    answer = asked(arguments)
    assert isinstance(answer, ValidCall), answer
    return answer.arguments


def test_control_characters_are_taken_out_and_tabs_and_line_ends_stay() -> None:
    text = f"a{C0}b\tc\r\nd"
    assert cleaned(message=text) == {"message": "ab\tc\r\nd"}
    assert cleaned(lines=[text, "x"], deep={"note": text}) == {
        "deep": {"note": "ab\tc\r\nd"},
        "lines": ["ab\tc\r\nd", "x"],
    }


def test_without_the_amber_way_the_same_call_is_refused() -> None:
    answer = asked({"message": "a\x07b"}, structs.replace(MESSAGE, sanitize=False))
    assert isinstance(answer, Refused)
    assert "control character" in answer.reasons[0]


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ({"message": "x" * 5_000}, 1_000),
        ({"long": "x" * 5_000}, 3_000),
        ({"named": "x" * 5_000}, 4_000),
        ({"loop": "x" * 5_000}, 1_050),
        ({"either": "x" * 5_000}, 1_500),
    ],
)
def test_text_is_cut_at_a_thousand_characters_or_where_the_schema_allows_more(
    arguments: dict[str, str], kept: int
) -> None:
    [text] = cleaned(**arguments).values()
    assert len(text) == kept


def test_every_place_has_its_own_length() -> None:
    text = "x" * 9_000
    made = cleaned(
        lines=[text, text], pair=[text, text, text], deep={"note": text}, open={"a": text}, message=text
    )
    assert [len(each) for each in made["lines"]] == [1_200, 1_200]
    assert [len(each) for each in made["pair"]] == [1_000, 1_100, 1_300]
    assert (len(made["deep"]["note"]), len(made["open"]["a"]), len(made["message"])) == (4_000, 2_000, 1_000)


def test_a_thousand_characters_are_not_a_thousand_bytes() -> None:
    assert cleaned(message="\U0001f9c0" * 1_001) == {"message": "\U0001f9c0" * LONGEST}


def test_what_is_taken_away_does_not_count() -> None:
    assert cleaned(message="\x00" * 5_000 + "x" * 1_000) == {"message": "x" * 1_000}


def test_a_length_the_schema_makes_smaller_is_for_the_schema_to_refuse() -> None:
    answer = asked({"short": "x" * 6})
    assert isinstance(answer, Refused)
    assert answer.reasons == ("argument 'short' is too long",)
    assert cleaned(short="x\x00\x01" * 5) == {"short": "xxxxx"}


def test_it_comes_before_the_schema_is_asked() -> None:
    assert cleaned(kind="ur\x00gent") == {"kind": "urgent"}


def test_arrays_stay_arrays_and_numbers_numbers() -> None:
    given = {"count": 3, "lines": ["a", "b"], "open": {"x": [1, None, True, "c"]}}
    assert cleaned(**given) == given


@pytest.mark.parametrize(
    "arguments",
    [
        {"message": "\ud800"},
        {"message": "\x7f"},
        {"message\x00": "x"},
        {"open": {"a\x01": "x"}},
        {"message": float("nan")},
        {"count": 2**53},
        {"message": "x" * 1_048_577},
        {"unknown": "x"},
        {"message": ["x"]},
    ],
    ids=ascii,
)
def test_nothing_else_is_loosened(arguments: dict[str, Any]) -> None:
    answer = asked(arguments)
    assert isinstance(answer, Refused)
    assert answer.code == "invalid_arguments"


def test_a_schema_that_cannot_be_used_is_told_before_anything_is_cut() -> None:
    broken = structs.replace(MESSAGE, parameters={"properties": {"message": {"$ref": "#/nowhere"}}})
    answer = asked({"message": "x" * 2_000}, broken)
    assert isinstance(answer, Refused)
    assert "cannot be called" in answer.reasons[0]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_what_comes_out_is_the_text_without_c0_and_no_more_than_it_may_be(text: str) -> None:
    answer = asked({"message": text})
    if "\x7f" in text:
        assert isinstance(answer, Refused)
        return
    assert isinstance(answer, ValidCall)
    assert answer.arguments["message"] == "".join(each for each in text if each not in C0)[:LONGEST]
