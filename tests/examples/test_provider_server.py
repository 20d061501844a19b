"""The provider on this machine refuses what the real one refuses; otherwise an example that passes proves nothing."""

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from metier.testing import ProviderServer, ToolCall

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
USER = {"role": "user", "content": "Tea, please."}
READ = ToolCall("read_skill", {"name": "tea"})


def function(name: str = "read_skill", **other: Any) -> dict:
    return {"name": name, "description": "Reads.", "parameters": SCHEMA, **other}


def chat(*messages: dict, tools: list[dict] | None = None) -> dict:
    tools = [{"type": "function", "function": function()}] if tools is None else tools
    return {"model": "m", "messages": [USER, *messages], "tools": tools}


def responses(*items: dict, tools: list[dict] | None = None) -> dict:
    tools = [{"type": "function", "strict": False, **function()}] if tools is None else tools
    return {"model": "m", "input": [USER, *items], "tools": tools}


def messages(*later: dict, tools: list[dict] | None = None) -> dict:
    tools = [{"name": "read_skill", "input_schema": SCHEMA}] if tools is None else tools
    return {"model": "m", "max_tokens": 10, "messages": [USER, *later], "tools": tools}


def chat_calls(*ids: str) -> dict:
    made = [
        {"id": each, "type": "function", "function": {"name": "read_skill", "arguments": "{}"}}
        for each in ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


def chat_result(call_id: str) -> dict:
    return {"role": "tool", "tool_call_id": call_id, "content": "x"}


def call(call_id: str) -> dict:
    return {"type": "function_call", "call_id": call_id, "name": "read_skill", "arguments": "{}"}


def output(call_id: str) -> dict:
    return {"type": "function_call_output", "call_id": call_id, "output": "x"}


def uses(*ids: str) -> dict:
    made = [{"type": "tool_use", "id": each, "name": "read_skill", "input": {}} for each in ids]
    return {"role": "assistant", "content": made}


def told(*ids: str, before: tuple[dict, ...] = ()) -> dict:
    made = [{"type": "tool_result", "tool_use_id": each, "content": "x"} for each in ids]
    return {"role": "user", "content": [*before, *made]}


TEXT = {"type": "text", "text": "hm"}
BARE = {"name": "read_skill", "input_schema": SCHEMA}
ACCEPTED = [
    ("chat", chat()),
    ("chat", chat(chat_calls("a", "b"), chat_result("b"), chat_result("a"))),
    ("responses", responses()),
    ("responses", {"model": "m", "input": "Tea, please."}),
    ("responses", responses(call("a"), {"type": "reasoning"}, call("b"), output("a"), output("b"))),
    ("messages", messages()),
    ("messages", messages(uses("a", "b"), told("a", "b"))),
]
REFUSED = [
    ("chat", chat(chat_calls("a")), "'a' has 0 results"),
    ("chat", chat(chat_calls("a"), USER, chat_result("a")), "'a' has 0 results"),
    ("chat", chat(chat_calls("a", "b"), chat_result("a")), "'b' has 0 results"),
    ("chat", chat(chat_calls("a"), chat_result("a"), chat_result("a")), "'a' has 2 results"),
    ("chat", chat(chat_result("a")), "'a' answers no call"),
    ("chat", chat({"role": "tool", "content": "x"}), "tool_call_id: is required"),
    ("chat", chat({"role": "robot", "content": "x"}), "role: must be one of"),
    ("chat", chat({"role": "assistant", "content": None}), "content: must be"),
    ("chat", chat(tools=[function()]), "type: must be 'function'"),
    ("chat", chat(tools=[{"type": "function", "function": function("skills.read")}]), "must match"),
    ("chat", chat(tools=[{"type": "function", "function": function("r" * 65)}]), "must match"),
    ("chat", chat(tools=[{"type": "function", "function": function(parameters={})}]), "type is 'object'"),
    ("chat", chat(tools=[{"type": "function", "function": function(description="x" * 1025)}]), "longer than"),
    ("chat", chat(tools=[]), "at least one tool"),
    ("chat", {**chat(), "model": ""}, "model: is required"),
    ("chat", {**chat(), "stream": True}, "does not stream"),
    ("responses", responses(call("a")), "'a' has 0 results"),
    ("responses", responses(output("a"), call("a")), "answers no call before it"),
    ("responses", responses(call("a"), output("a"), output("a")), "'a' has 2 results"),
    ("responses", responses(call("a"), {**output("a"), "output": {}}), "output: must be"),
    ("responses", responses(tools=[{"type": "function", "function": function()}]), "name: must match"),
    ("responses", responses(tools=[{"type": "function", **function(strict=True)}]), "strict needs"),
    ("responses", {**responses(), "previous_response_id": "resp_9"}, "there is no response"),
    ("messages", messages(uses("a")), "'a' has 0 results"),
    ("messages", messages(uses("a"), USER, told("a")), "'a' has 0 results"),
    ("messages", messages(uses("a", "b"), told("a"), told("b")), "'b' has 0 results"),
    ("messages", messages(uses("a"), told("a", "a")), "'a' has 2 results"),
    ("messages", messages(told("a")), "'a' answers no call"),
    ("messages", messages(uses("a"), told("a", before=(TEXT,))), "must come first"),
    ("messages", messages({"role": "tool", "content": "x"}), "role: must be"),
    ("messages", messages({"role": "assistant", "content": [{"type": "text", "text": ""}]}), "not empty"),
    ("messages", messages(tools=[{"type": "function", "function": function()}]), "client tools only"),
    ("messages", messages(tools=[{**BARE, "name": "a/b"}]), "must match"),
    ("messages", messages(tools=[BARE, BARE]), "is taken"),
    (
        "messages",
        messages(tools=[{**BARE, "input_schema": {**SCHEMA, "anyOf": []}}]),
        "not allowed at the top",
    ),
    ("messages", messages(tools=[{"name": "x", "input_schema": {"type": "string"}}]), "type is 'object'"),
    ("messages", {**messages(), "max_tokens": None}, "max_tokens"),
    ("messages", {**messages(), "temperature": 1.0}, "temperature: is not taken"),
]
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


def provider_of(api: str) -> str:
    return "anthropic" if api == "messages" else "openai"


def post(
    server: ProviderServer, path: str, body: bytes | dict, headers: dict | None = None
) -> tuple[int, dict]:
    if headers is None:
        headers = {"Authorization": "Bearer test", "anthropic-version": "2026-10-21"}
    host = server.url.removeprefix("http://").removesuffix("/v1")
    connection = http.client.HTTPConnection(host, timeout=10)
    try:
        connection.request("POST", path, json.dumps(body) if isinstance(body, dict) else body, headers)
        answer = connection.getresponse()
        data = answer.read()
        return answer.status, json.loads(data) if data.startswith(b"{") else {}
    finally:
        connection.close()


def said(api: str, reply: dict) -> str:
    """What a refusal says, if it has exactly the shape of that provider's refusals."""
    if provider_of(api) == "anthropic":
        assert (reply["type"], reply["error"]["type"]) == ("error", "invalid_request_error")
    else:
        assert reply.keys() == {"error"}
        assert reply["error"]["type"] == "invalid_request_error"
    return reply["error"]["message"]


@pytest.mark.parametrize(("api", "body"), ACCEPTED)
def test_what_the_provider_takes_is_taken(api: str, body: dict) -> None:
    with ProviderServer(provider_of(api), script=["Here."]) as server:
        status, reply = post(server, PATHS[api], body)
    assert (status, "Here." in json.dumps(reply)) == (200, True)


@pytest.mark.parametrize(("api", "body", "reason"), REFUSED)
def test_what_the_provider_refuses_is_refused_and_costs_no_turn(api: str, body: dict, reason: str) -> None:
    with ProviderServer(provider_of(api), script=["Here."]) as server:
        status, reply = post(server, PATHS[api], body)
    assert status == 400
    assert reason in said(api, reply)
    assert [request.problem for request in server.requests] == [said(api, reply)]
    assert server.remaining == 1


@pytest.mark.parametrize(("api", "body"), ACCEPTED[::3])
def test_without_a_key_nobody_gets_in(api: str, body: dict) -> None:
    with ProviderServer(provider_of(api), script=["Here."]) as server:
        status, reply = post(server, PATHS[api], body, {"anthropic-version": "2026-10-21"})
        empty, _ = post(server, PATHS[api], body, {"Authorization": "Bearer "})
    assert (status, empty, server.remaining) == (401, 401, 1)
    assert "API key" in reply["error"]["message"]


def test_the_older_version_of_the_api_still_takes_a_temperature() -> None:
    headers = {"x-api-key": "test", "anthropic-version": "2023-06-01"}
    with ProviderServer("anthropic", script=["Here."]) as server:
        missing, _ = post(server, PATHS["messages"], messages(), {"x-api-key": "test"})
        older, _ = post(server, PATHS["messages"], {**messages(), "temperature": 1.0}, headers)
    assert (missing, older) == (400, 200)


def test_a_script_that_ended_is_said_so_and_never_repeated() -> None:
    with ProviderServer("openai", script=["Here."]) as server:
        answers = [post(server, PATHS["chat"], chat()) for _ in range(3)]
    assert [status for status, _ in answers] == [200, 400, 400]
    assert "no further turn" in said("chat", answers[2][1])


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/chat/completions", b"{", 400),
        ("/v1/chat/completions", b"[" * 100_000, 400),
        ("/v1/chat/completions", b'"text"', 400),
        ("/v1/chat/completions", b"\xff", 400),
        ("/v1/messages", b"{}", 404),
        ("/v1/chat/completions", b" " * 8_388_609, 413),
    ],
    ids=["cut", "deep", "text", "bytes", "path", "huge"],
)
def test_no_request_can_harm_the_server(path: str, body: bytes, status: int) -> None:
    with ProviderServer("openai", script=["Here."]) as server:
        try:
            assert post(server, path, body)[0] == status
        except (BrokenPipeError, ConnectionResetError):
            assert status == 413  # it does not read on, so the client may fail before it hears why
        assert post(server, PATHS["chat"], chat())[0] == 200


def test_mistakes_in_a_test_are_said_at_once() -> None:
    with pytest.raises(ValueError, match="they are: openai, anthropic"):
        ProviderServer("closedai", script=[])
    with pytest.raises(ValueError, match="as an object"):
        ProviderServer("anthropic", script=[[READ, ToolCall("read_skill", "{")]])
    with pytest.raises(RuntimeError, match="with block"):
        _ = ProviderServer("openai", script=[]).url


@pytest.fixture
def openai_at() -> Iterator[Any]:
    openai = pytest.importorskip("openai")
    clients = []

    def made(server: ProviderServer) -> Any:
        clients.append(openai.OpenAI(base_url=server.url, api_key="test", max_retries=0))
        return clients[-1]

    yield made
    for client in clients:
        client.close()


def test_openais_sdk_finds_its_own_types_in_the_answers(openai_at: Any) -> None:
    from openai.types.chat import ChatCompletion
    from openai.types.responses import Response

    with ProviderServer("openai", script=[[READ, READ], "Here.", READ, "Here."]) as server:
        client = openai_at(server)
        chats = [client.chat.completions.create(**chat()) for _ in range(2)]
        answers = [client.responses.create(**responses()) for _ in range(2)]
    for each in chats:
        ChatCompletion.model_validate(each.model_dump(exclude_unset=True))
    for each in answers:
        Response.model_validate(each.model_dump(exclude_unset=True))
    ids = [each.id for each in chats[0].choices[0].message.tool_calls]
    assert len(set(ids)) == 2
    assert (chats[1].choices[0].message.content, answers[1].output_text) == ("Here.", "Here.")
    assert json.loads(answers[0].output[0].arguments) == {"name": "tea"}


def test_openais_sdk_raises_its_own_error_for_a_refusal(openai_at: Any) -> None:
    from openai import BadRequestError

    with ProviderServer("openai", script=["Here."]) as server:
        client = openai_at(server)
        with pytest.raises(BadRequestError, match="'a' has 0 results"):
            client.chat.completions.create(**chat(chat_calls("a")))


def test_a_response_can_be_continued_by_its_id(openai_at: Any) -> None:
    from openai import BadRequestError

    with ProviderServer("openai", script=[READ, "Here."]) as server:
        client = openai_at(server)
        first = client.responses.create(model="m", input="Tea, please.")
        with pytest.raises(BadRequestError, match="has 0 results"):
            client.responses.create(model="m", previous_response_id=first.id, input="And?")
        answer = output(first.output[0].call_id)
        second = client.responses.create(model="m", previous_response_id=first.id, input=[answer])
    assert second.output_text == "Here."


def test_anthropics_sdk_finds_its_own_types_in_the_answers() -> None:
    anthropic = pytest.importorskip("anthropic")
    from anthropic.types import Message

    with (
        ProviderServer("anthropic", script=[READ, "Here."]) as server,
        anthropic.Anthropic(base_url=server.url, api_key="test", max_retries=0) as client,
    ):
        answers = [client.messages.create(**messages()) for _ in range(2)]
        with pytest.raises(anthropic.BadRequestError, match="'a' has 0 results"):
            client.messages.create(**messages(uses("a")))
    for each in answers:
        Message.model_validate(each.model_dump(exclude_unset=True))
    assert (answers[0].stop_reason, answers[0].content[0].input) == ("tool_use", {"name": "tea"})
    assert (answers[1].stop_reason, answers[1].content[0].text) == ("end_turn", "Here.")
