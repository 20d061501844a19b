"""Tools in the providers' shapes, under names that find their way back."""

import json
import re
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.disclosure import schemas
from metier.disclosure.schemas import Names, shaped
from metier.model.entry import Operation
from metier.model.skill import Tool

ENTRY = Operation(module="skills", operation="read")
PARAMETERS = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
WEATHER = Tool(
    name="weather/now", description="The weather now.", parameters=PARAMETERS, effect="read", entry=ENTRY,
    returns={"type": "object", "properties": {"celsius": {"type": "number"}}},
)  # fmt: skip
SEND = Tool(
    name="channels.send", description="Send\u200b it.", parameters={}, returns={"type": "string"}, entry=ENTRY
)
GRANT = Tool(name="trust.grant", description="", parameters={}, audience="operator", entry=ENTRY)
TOOLS = [WEATHER, SEND, GRANT]


def tool(name: str) -> Tool:
    return Tool(name=name, description="", parameters={}, entry=ENTRY)


def test_openai_chat_shape() -> None:
    assert shaped(TOOLS, "openai") == [
        {"type": "function", "function": {"name": "weather__now", "description": "The weather now.", "parameters": PARAMETERS}},
        {
            "type": "function",
            "function": {
                "name": "channels__send",
                "description": r"Send\u{200b} it.",
                "parameters": {"type": "object", "properties": {}},
            },
        },
    ]  # fmt: skip


def test_openai_responses_shape_is_flat_and_says_that_it_is_not_strict() -> None:
    assert shaped([WEATHER], "openai_responses") == [
        {
            "type": "function",
            "name": "weather__now",
            "description": "The weather now.",
            "parameters": PARAMETERS,
            "strict": False,
        }
    ]


def test_anthropic_shape() -> None:
    assert shaped([WEATHER], "anthropic") == [
        {"name": "weather__now", "description": "The weather now.", "input_schema": PARAMETERS}
    ]


def test_mcp_shape() -> None:
    assert shaped(TOOLS, "mcp") == [
        {
            "name": "weather__now",
            "description": "The weather now.",
            "inputSchema": PARAMETERS,
            "outputSchema": {"type": "object", "properties": {"celsius": {"type": "number"}}},
            "annotations": {"readOnlyHint": True},
        },
        {
            "name": "channels__send",
            "description": r"Send\u{200b} it.",
            "inputSchema": {"type": "object", "properties": {}},
            "annotations": {"readOnlyHint": False},
        },
    ]


@pytest.mark.parametrize("shape", ["openai", "openai_responses", "anthropic", "mcp"])
def test_tools_for_operators_never_appear(shape: schemas.Shape) -> None:
    assert schemas.shaped([GRANT], shape) == []
    assert "trust__grant" not in Names.of(TOOLS).internal
    twin = Tool(name=WEATHER.name, description="", parameters={}, audience="operator", entry=ENTRY)
    assert schemas.shaped([twin, WEATHER], shape) == schemas.shaped([WEATHER], shape)


def test_a_long_description_is_cut_where_one_sees_it() -> None:
    [shown] = shaped([Tool(name="a", description="x" * 5_000, parameters={}, entry=ENTRY)], "anthropic")
    assert shown["description"] == "x" * 1_023 + "…"


def test_changing_what_was_handed_out_does_not_change_the_tool() -> None:
    [shown] = shaped([WEATHER], "anthropic")
    shown["input_schema"]["properties"]["name"]["type"] = "number"
    shown["input_schema"]["required"].clear()
    assert PARAMETERS == {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def test_a_taken_name_is_not_shown_twice() -> None:
    tools = [tool("a/b"), tool("a.b"), tool("A/b"), tool("a/b"), tool("c")]
    names = Names.of(tools)
    assert names.outward == {"a/b": "a__b", "c": "c"}
    assert names.internal == {"a__b": "a/b", "c": "c"}
    assert [shown["name"] for shown in shaped(tools, "mcp")] == ["a__b", "c"]


@given(st.lists(st.text(max_size=90) | st.text(st.sampled_from("aA._/-é"), max_size=4)))
def test_every_shown_name_is_accepted_and_finds_its_way_back(given_names: list[str]) -> None:
    tools = [tool(name) for name in given_names]
    names = Names.of(tools)
    for name, out in names.outward.items():
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", out)
        assert names.internal[out] == name
    assert len(names.outward) == len(names.internal)
    assert [shown["name"] for shown in shaped(tools, "mcp")] == list(names.internal)


def test_the_providers_own_types_accept_the_shapes() -> None:
    chat = pytest.importorskip("openai.types.chat")
    responses = pytest.importorskip("openai.types.responses")
    anthropic = pytest.importorskip("anthropic.types")
    mcp = pytest.importorskip("mcp_types")
    from pydantic import TypeAdapter

    for i in range(2):
        TypeAdapter(chat.ChatCompletionFunctionToolParam).validate_python(shaped(TOOLS, "openai")[i])
        TypeAdapter(responses.FunctionToolParam).validate_python(shaped(TOOLS, "openai_responses")[i])
        TypeAdapter(anthropic.ToolParam).validate_python(shaped(TOOLS, "anthropic")[i])
        shown = mcp.Tool.model_validate(shaped(TOOLS, "mcp")[i])
        assert shown.annotations.read_only_hint is (TOOLS[i].effect == "read")
        assert shown.input_schema["type"] == "object"


@pytest.mark.parametrize("shape", ["openai", "openai_responses", "anthropic", "mcp"])
def test_inj_02_no_text_of_a_schema_reaches_a_model_with_characters_that_nobody_sees(shape: Any) -> None:
    unseen = "\U000e0049\U000e0067"  # tags, which spell a text that models read
    spoiled = {
        "type": "object",
        "properties": {
            f"city{unseen}": {"description": f"Where.{unseen}", "enum": [f"Rome{unseen}"]},
            "day": {"title": f"Day\u202e{unseen}", "examples": [{"a": f"x{unseen}"}]},
        },
    }
    tool = Tool(
        name="weather/now",
        description="",
        parameters=cast("Any", spoiled),
        returns=cast("Any", spoiled),
        entry=ENTRY,
    )
    said = json.dumps(shaped([tool], shape), ensure_ascii=False)
    assert "\U000e0049" not in said and "\u202e" not in said
    assert said.count(r"\\u{e0049}") >= 5, "what was there can be seen"
    assert "\U000e0049" in json.dumps(tool.parameters, ensure_ascii=False), (
        "what calls are checked against stays"
    )
