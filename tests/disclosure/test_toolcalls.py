"""The providers' calls in, their answers out; the SDKs themselves are the judges of both shapes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.disclosure.toolcalls import Asked, content, parse, results
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused

DONE = Completed(call_id="c", value={"ok": True})


def calls(given: object) -> list[Asked]:
    return parse(given, loads=json.loads)


def openai_call(
    call_id: str = "call_1", name: str = "read_skill", arguments: object = '{"name":"pdf"}'
) -> dict:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def asked(shape, call_id: str = "call_1") -> Asked:
    return Asked(id=call_id, name="read_skill", arguments={"name": "pdf"}, shape=shape)


RESPONSES_CALL = {
    "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read_skill", "arguments": '{"name":"pdf"}',
}  # fmt: skip
ANTHROPIC_CALL = {"type": "tool_use", "id": "call_1", "name": "read_skill", "input": {"name": "pdf"}}
OLD_CALL = {"name": "read_skill", "arguments": '{"name":"pdf"}'}
MCP_CALL = {"name": "read_skill", "arguments": {"name": "pdf"}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([openai_call()], asked("openai")),
        (openai_call(), asked("openai")),
        ({"role": "assistant", "content": None, "tool_calls": [openai_call()]}, asked("openai")),
        ({"choices": [{"message": {"role": "assistant", "tool_calls": [openai_call()]}}]}, asked("openai")),
        ([{"role": "assistant", "content": "x", "tool_calls": [openai_call()]}], asked("openai")),
        ([openai_call(arguments={"name": "pdf"})], asked("openai")),
        ([RESPONSES_CALL], asked("openai_responses")),
        (
            {"object": "response", "output": [{"type": "reasoning"}, RESPONSES_CALL]},
            asked("openai_responses"),
        ),
        ([ANTHROPIC_CALL], asked("anthropic")),
        (
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "text", "text": "x"}, ANTHROPIC_CALL],
            },
            asked("anthropic"),
        ),
        ({"role": "assistant", "content": None, "function_call": OLD_CALL}, asked("openai_function", "")),
        (
            {"choices": [{"message": {"role": "assistant", "function_call": OLD_CALL, "tool_calls": None}}]},
            asked("openai_function", ""),
        ),
        (MCP_CALL, asked("mcp", "")),
        ({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": MCP_CALL}, asked("mcp", "7")),
    ],
)
def test_a_call_is_found_in_every_wrapping(given: object, expected: Asked) -> None:
    assert calls(given) == [expected]


@pytest.mark.parametrize(
    "given",
    [
        None,
        [],
        {"role": "assistant", "content": "Hello"},
        {"role": "assistant", "content": None, "tool_calls": None},
        {"choices": []},
        {"object": "response", "output": [{"type": "message", "role": "assistant", "content": []}]},
        [
            {"type": "text", "text": "x"},
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        ],
        [{"type": "mcp_call", "id": "m", "name": "x", "arguments": "{}", "output": "y"}],
    ],
)
def test_a_message_without_calls_has_none(given: object) -> None:
    assert calls(given) == []


@pytest.mark.parametrize("given", ["read_skill", 5, {}, {"foo": 1}, [["nested"]]])
def test_what_no_provider_sends_is_a_mistake_of_the_program(given: object) -> None:
    with pytest.raises(TypeError, match="pass the provider's message"):
        calls(given)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ('{"name": ', "not valid JSON"),
        ("[1]", "not an array"),
        ("null", "not null"),
        ("7", "not a number"),
        ([], "not an array"),
        ("[" * 100_000, "not valid JSON"),
    ],
)
def test_bad_arguments_are_a_problem_of_that_call_only(arguments: object, reason: str) -> None:
    bad, good = calls([openai_call("a", arguments=arguments), openai_call("b")])
    assert bad.arguments is None
    assert reason in (bad.problem or "")
    assert (good.id, good.problem) == ("b", None)


@pytest.mark.parametrize("nothing", ["", None])
def test_no_arguments_at_all_mean_an_empty_object(nothing: object) -> None:
    [call] = calls([openai_call(arguments=nothing)])
    assert (call.arguments, call.problem) == ({}, None)


def test_the_given_reader_decides_what_json_is() -> None:
    def strict(text: str):
        raise ValueError("duplicate key \u202e'a'")

    [call] = parse([openai_call()], loads=strict)
    assert call.problem == r"the arguments are not valid JSON: duplicate key \u{202e}'a'"


def test_a_call_without_a_name_or_in_free_form_still_gets_an_answer() -> None:
    custom = {"id": "call_2", "type": "custom", "custom": {"name": "grep", "input": "x"}}
    found = calls([openai_call(name=""), custom])
    assert [call.problem for call in found] == [
        "the call names no tool",
        "this is a free-form call; every tool here takes a JSON object",
    ]
    assert [message["tool_call_id"] for message in results(found, [DONE, DONE])] == ["call_1", "call_2"]


@pytest.mark.parametrize("part", [{"type": "function"}, {"type": "function", "function": None}])
def test_a_call_that_holds_nothing_still_gets_an_answer(part: dict) -> None:
    found = calls([{**part, "id": "call_1"}, openai_call("call_2")])
    assert [call.problem for call in found] == ["the call names no tool", None]
    assert [message["tool_call_id"] for message in results(found, [DONE, DONE])] == ["call_1", "call_2"]


def test_an_old_call_is_answered_in_its_old_shape() -> None:
    bad = {"role": "assistant", "content": None, "function_call": {"name": "read_skill", "arguments": "{"}}
    both = {"role": "assistant", "function_call": OLD_CALL, "tool_calls": [openai_call()]}
    assert results(calls(both), [DONE, DONE]) == [
        {"role": "function", "name": "read_skill", "content": '{"ok":true}'},
        {"role": "tool", "tool_call_id": "call_1", "content": '{"ok":true}'},
    ]
    assert ["not valid JSON" in (call.problem or "") for call in calls(bad)] == [True]
    assert [call.problem for call in calls({"role": "assistant", "function_call": {}})] == [
        "the call names no tool"
    ]


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Completed(call_id="c", value="text as it is <b>\n"), "text as it is <b>\n"),
        (Completed(call_id="c", value={"a": [1, None, "é"]}), '{"a":[1,null,"é"]}'),
        (Completed(call_id="c", value=None), "null"),
        (Completed(call_id="c", value="\ud800x"), "\\ud800x"),
        (Completed(call_id="c", value=["\ud800"]), '["\\ud800"]'),
        (
            Refused(call_id="c", code="not_trusted", reasons=("not trusted", "really"), remedy="Run it."),
            '{"error":"not_trusted","message":"not trusted; really","remedy":"Run it."}',
        ),
        (
            Failed(call_id="c", code="not_found", message="no such file"),
            '{"error":"not_found","message":"no such file"}',
        ),
        (
            Pending(call_id="c", approval_id="ap1", reasons=("writes",)),
            '{"error":"pending_approval","message":"writes","remedy":"Nothing ran yet. Do not repeat the call; tell'
            ' the user that a person has to decide first.","approval_id":"ap1"}',
        ),
    ],
)
def test_every_end_of_a_call_can_be_read_by_a_model(outcome: Outcome, expected: str) -> None:
    assert content(outcome) == expected


REFUSED = Refused(call_id="c", code="forbidden", reasons=("no",))
SAID = '{"error":"forbidden","message":"no"}'


def test_openai_wants_one_tool_message_for_each_call() -> None:
    assert results([asked("openai", "a"), asked("openai", "b")], [DONE, REFUSED]) == [
        {"role": "tool", "tool_call_id": "a", "content": '{"ok":true}'},
        {"role": "tool", "tool_call_id": "b", "content": SAID},
    ]


def test_responses_want_one_output_item_for_each_call() -> None:
    assert results([asked("openai_responses", "a")], [REFUSED]) == [
        {"type": "function_call_output", "call_id": "a", "output": SAID}
    ]


def test_anthropic_wants_all_results_in_one_user_message() -> None:
    assert results([asked("anthropic", "a"), asked("anthropic", "b")], [DONE, REFUSED]) == [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": '{"ok":true}', "is_error": False},
                {"type": "tool_result", "tool_use_id": "b", "content": SAID, "is_error": True},
            ],
        }
    ]


def test_mcp_wants_content_and_for_objects_the_structure_too() -> None:
    text = Completed(call_id="c", value="hello")
    assert results([asked("mcp")] * 3, [DONE, text, REFUSED]) == [
        {
            "content": [{"type": "text", "text": '{"ok":true}'}],
            "structuredContent": {"ok": True},
            "isError": False,
        },
        {"content": [{"type": "text", "text": "hello"}], "isError": False},
        {"content": [{"type": "text", "text": SAID}], "isError": True},
    ]


def test_a_call_without_an_outcome_is_noticed() -> None:
    with pytest.raises(ValueError, match="zip"):
        results([asked("openai")], [])
    assert results([], []) == []


@given(
    st.lists(
        st.tuples(st.text(), st.text(min_size=1), st.dictionaries(st.text(), st.integers() | st.text())),
        max_size=5,
    )
)
def test_every_call_is_read_and_answered_in_order(wanted: list) -> None:
    texts = [Completed(call_id="c", value=f"answer {i}") for i in range(len(wanted))]
    for shape, made in {
        "openai": [openai_call(i, name, json.dumps(a)) for i, name, a in wanted],
        "openai_responses": [
            {"type": "function_call", "call_id": i, "name": name, "arguments": json.dumps(a)}
            for i, name, a in wanted
        ],
        "anthropic": [{"type": "tool_use", "id": i, "name": name, "input": a} for i, name, a in wanted],
    }.items():
        found = calls(made)
        assert [(call.id, call.name, call.arguments, call.problem, call.shape) for call in found] == [
            (i, name, a, None, shape) for i, name, a in wanted
        ]
        answers = results(found, texts)
        answers = answers[0]["content"] if shape == "anthropic" and answers else answers
        ids = [a.get("tool_call_id", a.get("call_id", a.get("tool_use_id"))) for a in answers]
        assert ids == [i for i, _, _ in wanted]
        assert [a.get("content", a.get("output")) for a in answers] == [text.value for text in texts]


def test_openais_own_objects_and_types_agree() -> None:
    chat = pytest.importorskip("openai.types.chat")
    responses = pytest.importorskip("openai.types.responses")
    from openai.types.responses.response_input_param import FunctionCallOutput
    from pydantic import TypeAdapter

    message = {"role": "assistant", "content": None, "tool_calls": [openai_call()]}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    completion = chat.ChatCompletion.model_validate(
        {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    )
    for given_object in (completion, completion.choices[0].message, completion.choices[0].message.tool_calls):
        assert calls(given_object) == [asked("openai")]
    old = chat.ChatCompletionMessage.model_validate(
        {"role": "assistant", "content": None, "function_call": OLD_CALL}
    )
    assert calls(old) == [asked("openai_function", "")]
    item = responses.ResponseFunctionToolCall.model_validate(RESPONSES_CALL)
    response = responses.Response.model_construct(object="response", output=[item])
    assert calls(response) == calls([item]) == [asked("openai_responses")]

    TypeAdapter(chat.ChatCompletionToolMessageParam).validate_python(results([asked("openai")], [DONE])[0])
    TypeAdapter(chat.ChatCompletionFunctionMessageParam).validate_python(results(calls(old), [DONE])[0])
    TypeAdapter(FunctionCallOutput).validate_python(results([asked("openai_responses")], [DONE])[0])


def test_anthropics_own_objects_and_types_agree() -> None:
    types = pytest.importorskip("anthropic.types")
    from pydantic import TypeAdapter

    message = types.Message.model_validate(
        {
            "id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use",
            "content": [{"type": "text", "text": "Let me look."}, ANTHROPIC_CALL],
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
    )  # fmt: skip
    assert calls(message) == calls(message.content) == [asked("anthropic")]
    TypeAdapter(types.MessageParam).validate_python(results([asked("anthropic")], [DONE])[0])


def test_mcps_own_objects_and_types_agree() -> None:
    types = pytest.importorskip("mcp_types")
    params = types.CallToolRequestParams.model_validate(MCP_CALL)
    assert calls(params) == calls(types.CallToolRequest(params=params)) == [asked("mcp", "")]
    answer = types.CallToolResult.model_validate(results([asked("mcp")], [REFUSED])[0])
    assert answer.is_error
    assert answer.content[0].text == SAID
