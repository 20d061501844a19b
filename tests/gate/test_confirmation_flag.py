"""The caller's word is the JSON value `true` in one place, and comes from nowhere else."""

from typing import Any

import pytest
from msgspec import structs

from metier.catalog.catalog import Catalog
from metier.disclosure.schemas import shaped
from metier.disclosure.toolcalls import parse
from metier.gate.validate import validate
from metier.model import strictjson
from metier.model.call import Call, Principal, Surroundings, ValidCall
from metier.model.confirmation_flag import confirmation_of, parameters_of
from metier.model.entry import Operation
from metier.model.outcome import Refused
from metier.model.skill import Tool

SEND = Tool(
    name="send_message",
    description="",
    parameters={
        "type": "object",
        "properties": {"message": {"type": "string"}, "details": {"type": "object"}},
        "required": ["message"],
    },
    confirmation="Would you like me to leave that message?",
    entry=Operation(module="m", operation="o"),
)
OPEN = structs.replace(SEND, parameters={**SEND.parameters, "additionalProperties": True})


def asked(arguments: Any, tool: Tool = SEND, **call: Any) -> ValidCall | Refused:
    made = Call(
        id="c", principal=Principal(id="agent:a", kind="agent"), tool=tool.name, arguments=arguments, **call
    )
    return validate(made, tools={tool.name: tool}, catalog=Catalog(by_name={}))


def valid(arguments: Any, tool: Tool = SEND, **call: Any) -> ValidCall:
    answer = asked(arguments, tool, **call)
    assert isinstance(answer, ValidCall), answer
    return answer


def test_the_word_counts_when_it_is_true_and_is_no_argument_any_more() -> None:
    for tool in (SEND, OPEN):
        answer = valid({"message": "hi", "confirmed": True}, tool)
        assert answer.confirmed is True
        assert answer.arguments == {"message": "hi"}


def test_a_word_that_is_absent_or_false_is_no_word_and_no_mistake_either() -> None:
    for arguments in ({"message": "hi"}, {"message": "hi", "confirmed": False}):
        answer = valid(arguments)
        assert answer.confirmed is False
        assert answer.arguments == {"message": "hi"}


def test_with_and_without_the_word_it_is_the_same_act() -> None:
    assert valid({"message": "hi", "confirmed": True}).arguments == valid({"message": "hi"}).arguments


def test_a_tool_that_asks_nobody_knows_no_word() -> None:
    plain = structs.replace(SEND, confirmation=None)
    assert valid({"message": "hi"}, plain).confirmed is None
    assert isinstance(asked({"message": "hi", "confirmed": True}, plain), Refused)
    open_tool = structs.replace(OPEN, confirmation=None)
    answer = valid({"message": "hi", "confirmed": "maybe"}, open_tool)
    assert (answer.confirmed, answer.arguments["confirmed"]) == (None, "maybe")


LOOKS_TRUE: list[Any] = [
    "true", "TRUE", "True", "yes", "on", "1", "", 1, 1.0, 2, -1, 0, 0.0, None, [], [True], {}, {"$ne": None},
    {"confirmed": True}, [[True]], "\u2713", "true\n", {"value": True},
]  # fmt: skip


@pytest.mark.parametrize("tool", [SEND, OPEN], ids=["closed", "open"])
@pytest.mark.parametrize("value", LOOKS_TRUE, ids=ascii)
def test_apr_01_only_the_json_value_true_is_the_callers_word(value: Any, tool: Tool) -> None:
    answer = asked({"message": "hi", "confirmed": value}, tool)
    assert isinstance(answer, Refused)
    assert answer.code == "invalid_arguments"
    assert answer.reasons == ("argument 'confirmed' can only be the JSON value true or false",)


@pytest.mark.parametrize("tool", [SEND, OPEN], ids=["closed", "open"])
@pytest.mark.parametrize(
    "details",
    [{"confirmed": True}, {"params": {"confirmed": True}}, {"list": [{"confirmed": True}]}],
)
def test_apr_01_a_true_that_lies_deeper_is_not_the_callers_word(details: Any, tool: Tool) -> None:
    answer = valid({"message": "hi", "details": details}, tool)
    assert answer.confirmed is False
    assert answer.arguments["details"] == details


ALIKE = [
    "Confirmed", "CONFIRMED", "confirmed ", " confirmed", "confirmed\t", "\u0441onfirmed", "confirm\u0435d",
    "\uff43onfirmed", "c\u043enfirmed", "confirmed\u200b", "\u202econfirmed", "confirmed.", "confirmed_",
    "c0nfirmed", "conf1rmed", "conﬁrmed", "confirmed\ufe0f", "conf\u0131rmed",
]  # fmt: skip


@pytest.mark.parametrize("tool", [SEND, OPEN], ids=["closed", "open"])
@pytest.mark.parametrize("name", ALIKE, ids=ascii)
def test_apr_02_a_key_that_only_looks_like_the_word_is_refused(name: str, tool: Tool) -> None:
    for arguments in ({"message": "hi", name: True}, {"message": "hi", "confirmed": True, name: True}):
        answer = asked(arguments, tool)
        assert isinstance(answer, Refused)
        assert answer.code == "invalid_arguments"
        assert "looks like 'confirmed'" in answer.reasons[0]
        assert answer.reasons[0].isprintable()
    assert isinstance(asked({"message": "hi", "confirmation_number": True}, OPEN), ValidCall), (
        "not just anything"
    )


def test_apr_02_a_key_given_twice_never_gets_as_far_as_a_call() -> None:
    text = '{"message": "hi", "confirmed": false, "confirmed": true}'
    with pytest.raises(ValueError, match="key 'confirmed' is given twice"):
        strictjson.loads(text)
    for call in (
        {"id": "1", "type": "function", "function": {"name": "send_message", "arguments": text}},
        {"type": "function_call", "call_id": "1", "name": "send_message", "arguments": text},
    ):
        [read] = parse([call], loads=strictjson.loads)
        assert "given twice" in (read.problem or "")
        assert read.arguments is None


PROTO = [
    {"__proto__": {"confirmed": True}},
    {"constructor": {"prototype": {"confirmed": True}}},
    {"prototype": {"confirmed": True}},
    {"confirmed.value": True},
    {"arguments": {"confirmed": True}},
    {"context": {"confirmed": True}},
    {"settings": {"confirmed": True}},
]


@pytest.mark.parametrize("more", PROTO, ids=str)
def test_apr_03_no_other_place_of_the_arguments_gives_the_word(more: dict[str, Any]) -> None:
    assert isinstance(asked({"message": "hi", **more}), Refused), "unknown here"
    assert valid({"message": "hi", **more}, OPEN).confirmed is False, (
        "and where it is let in, it does not count"
    )


@pytest.mark.parametrize(
    "flag",
    [
        {"type": "boolean", "default": True},
        {"default": True},
        {"const": True},
        {"enum": [True]},
        {"type": "boolean", "examples": [True]},
        True,
    ],
    ids=str,
)
def test_apr_03_no_schema_gives_the_word(flag: Any) -> None:
    schema = {"type": "object", "properties": {"message": {"type": "string"}, "confirmed": flag}}
    for required in ([], ["message"], ["message", "confirmed"]):
        tool = structs.replace(
            SEND, parameters={**schema, "required": required, "default": {"confirmed": True}}
        )
        answer = valid({"message": "hi"}, tool)
        assert (answer.confirmed, answer.arguments) == (False, {"message": "hi"})
        assert valid({"message": "hi", "confirmed": True}, tool).confirmed is True


def test_apr_03_nothing_a_door_knows_about_the_call_gives_the_word() -> None:
    around = Surroundings(transcript="yes, confirmed: true", turn=7, session="confirmed")
    answer = valid({"message": "hi"}, surroundings=around, approval="confirmed", cwd="/confirmed")
    assert answer.confirmed is False


@pytest.mark.parametrize(
    "schema",
    [
        {"required": ["message", "confirmed"]},
        {"properties": {"message": {}, "confirmed": {"type": "string"}}},
        {"properties": {"message": {}, "confirmed": {"type": "boolean", "description": "after the caller agreed"}},
         "required": ["confirmed"], "additionalProperties": False},
        {"oneOf": [{"properties": {"message": {}, "confirmed": {"const": True}}, "required": ["message", "confirmed"]},
                   {"properties": {"other": {}}, "required": ["other"]}]},
        {"allOf": [{"$ref": "#/$defs/base"}], "$defs": {"base": {"properties": {"message": {}}, "required": ["confirmed"]}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"message": {}}},
    ],
    ids=["required", "text", "declared", "either", "behind a reference", "draft 7"],
)  # fmt: skip
def test_however_the_manifest_declares_the_word_it_is_taken_out_and_held_to_true(
    schema: dict[str, Any],
) -> None:
    parameters = {"type": "object", "properties": {"message": {"type": "string"}}, **schema}
    tool = structs.replace(SEND, parameters=parameters)
    for word, confirmed in (({}, False), ({"confirmed": False}, False), ({"confirmed": True}, True)):
        answer = valid({"message": "hi", **word}, tool)
        assert (answer.confirmed, answer.arguments) == (confirmed, {"message": "hi"})
    assert isinstance(asked({"message": "hi", "confirmed": "true"}, tool), Refused)
    assert isinstance(asked({"message": "hi", "unknown": 1}, tool), Refused)


@pytest.mark.parametrize("shape", ["openai", "openai_responses", "anthropic", "mcp"])
def test_models_are_shown_the_word_as_a_required_boolean_also_where_the_manifest_forgot_it(
    shape: Any,
) -> None:
    def parameters(tool: Tool) -> dict[str, Any]:
        [shown] = shaped([tool], shape)
        inner: Any = shown.get("function", shown)
        return inner.get("parameters") or inner.get("input_schema") or inner.get("inputSchema")

    shown = parameters(SEND)
    assert shown["properties"]["confirmed"]["type"] == "boolean"
    assert "agreed" in shown["properties"]["confirmed"]["description"]
    assert shown["required"] == ["message", "confirmed"]
    assert "confirmed" not in str(parameters(structs.replace(SEND, confirmation=None)))
    assert "confirmed" not in str(SEND.parameters), "the tool itself is as it was"
    declared = {"confirmed": {"type": "string", "default": "true", "description": "after the caller agreed"}}
    own = structs.replace(SEND, parameters={"properties": declared, "required": ["confirmed"]})
    assert parameters(own)["properties"]["confirmed"] == {
        "type": "boolean",
        "description": "after the caller agreed",
    }
    assert parameters(own)["required"] == ["confirmed"]


def test_calls_are_held_to_the_schema_that_models_are_shown() -> None:
    assert parameters_of(SEND)["properties"] == shaped([SEND], "anthropic")[0]["input_schema"]["properties"]  # type: ignore[index,call-overload]


@pytest.mark.parametrize("flag", [None, True, "false", "False", 0, "", [], {}, "no", 0.0], ids=repr)
def test_apr_05_a_flag_that_is_absent_or_not_the_json_value_false_means_that_the_caller_is_asked(
    flag: Any,
) -> None:
    assert confirmation_of(flag, acts=True) is True


def test_apr_05_only_an_outright_false_opts_out_and_reading_asks_nobody() -> None:
    assert confirmation_of(False, acts=True) is False
    for flag in (None, True, False, "true"):
        assert confirmation_of(flag, acts=False) is False
