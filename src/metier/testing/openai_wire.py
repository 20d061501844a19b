"""OpenAI's Chat Completions and Responses, as far as text and function tools go."""

from collections.abc import Iterator
from typing import Any, Final, cast

from metier.testing.script import Turn, calls_of
from metier.testing.shapes import answer_problems, field, is_text, items, name_problems, schema_problems

DESCRIPTION_LIMIT: Final = 1_024
_ROLES: Final = ("system", "developer", "user", "assistant", "tool")
_USAGE: Final = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
_RESPONSES_USAGE: Final = {
    "input_tokens": 1,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 1,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 2,
}


def error(message: str, code: str | None = None) -> dict[str, Any]:
    """A refusal in OpenAI's shape."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}


def chat_problems(body: Any) -> Iterator[str]:
    """What Chat Completions would refuse."""
    yield from _common_problems(body)
    for index, tool in enumerate(items(field(body, "tools"))):
        place = f"tools[{index}]"
        if field(tool, "type") != "function":
            yield f"{place}.type: must be 'function'"
        yield from _function_problems(field(tool, "function"), f"{place}.function")
    messages = items(field(body, "messages"))
    if not messages:
        yield "messages: must be an array with at least one message"
    at = 0
    while at < len(messages):
        place, calls = f"messages[{at}]", field(messages[at], "tool_calls")
        yield from _message_problems(messages[at], place)
        at += 1
        answers: list[Any] = []
        while at < len(messages) and field(messages[at], "role") == "tool":
            yield from _message_problems(messages[at], f"messages[{at}]")
            answers.append(field(messages[at], "tool_call_id"))
            at += 1
        yield from answer_problems([field(call, "id") for call in items(calls)], answers, place)


def chat_reply(body: Any, turn: Turn, number: int) -> dict[str, Any]:
    """The scripted turn as a chat completion."""
    calls = [
        {
            "id": f"call_{number}_{index}",
            "type": "function",
            "function": {"name": call.name, "arguments": call.text},
        }
        for index, call in enumerate(calls_of(turn))
    ]
    message: dict[str, Any] = {"role": "assistant", "content": turn if isinstance(turn, str) else None}
    message["refusal"] = None
    if calls:
        message["tool_calls"] = calls
    finish = "tool_calls" if calls else "stop"
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": field(body, "model"),
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": _USAGE,
    }


def responses_problems(body: Any) -> Iterator[str]:
    """What the Responses API would refuse."""
    yield from _common_problems(body)
    for index, tool in enumerate(items(field(body, "tools"))):
        if field(tool, "type") != "function":
            yield f"tools[{index}].type: must be 'function'"
        yield from _function_problems(tool, f"tools[{index}]")
    given = field(body, "input")
    if not is_text(given) and not items(given):
        yield "input: must be a text or an array with at least one item"
    asked: list[Any] = []
    answered: list[Any] = []
    for index, item in enumerate(items(given)):
        place = f"input[{index}]"
        match field(item, "type"):
            case "function_call":
                yield from name_problems(field(item, "name"), f"{place}.name")
                yield from _text_problems(item, place, "call_id", "arguments")
                asked.append(field(item, "call_id"))
            case "function_call_output":
                if field(item, "call_id") not in asked:
                    yield f"{place}: output for {field(item, 'call_id')!r} answers no call before it"
                if not isinstance(field(item, "output"), str | list):
                    yield f"{place}.output: must be a text or an array"
                answered.append(field(item, "call_id"))
            case None | "message":
                if field(item, "role") not in _ROLES[:4]:
                    yield f"{place}.role: must be one of {', '.join(_ROLES[:4])}"
                if not isinstance(field(item, "content"), str | list):
                    yield f"{place}.content: must be a text or an array"
            case _:
                pass
    yield from answer_problems(asked, answered, "input")


def responses_reply(body: Any, turn: Turn, number: int) -> dict[str, Any]:
    """The scripted turn as a response."""
    output: list[dict[str, Any]] = [
        {
            "type": "function_call",
            "id": f"fc_{number}_{index}",
            "call_id": f"call_{number}_{index}",
            "name": call.name,
            "arguments": call.text,
            "status": "completed",
        }
        for index, call in enumerate(calls_of(turn))
    ]
    if isinstance(turn, str):
        content: list[dict[str, Any]] = [{"type": "output_text", "text": turn, "annotations": []}]
        output.append(
            {
                "type": "message",
                "id": f"msg_{number}",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
        )
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": field(body, "instructions"),
        "model": field(body, "model"),
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": field(body, "previous_response_id"),
        "tool_choice": "auto",
        "tools": items(field(body, "tools")),
        "usage": _RESPONSES_USAGE,
    }


def _common_problems(body: Any) -> Iterator[str]:
    if not is_text(field(body, "model")):
        yield "model: is required"
    if field(body, "stream"):
        yield "stream: this server does not stream"
    if field(body, "tools") is not None and not items(field(body, "tools")):
        yield "tools: must be an array with at least one tool"


def _function_problems(function: Any, place: str) -> Iterator[str]:
    yield from name_problems(field(function, "name"), f"{place}.name")
    description = field(function, "description")
    if description is not None and not isinstance(description, str):
        yield f"{place}.description: must be a text"
    if len(description or "") > DESCRIPTION_LIMIT:
        yield f"{place}.description: is longer than {DESCRIPTION_LIMIT} characters"
    schema = field(function, "parameters")
    if schema is not None:
        yield from schema_problems(schema, f"{place}.parameters")
    if field(function, "strict") is True:
        names = cast("dict[str, Any]", field(schema, "properties") or {})
        if field(schema, "additionalProperties") is not False or set(items(field(schema, "required"))) != set(
            names
        ):
            yield f"{place}.parameters: strict needs additionalProperties false and every property required"


def _message_problems(message: Any, place: str) -> Iterator[str]:
    role, content, calls = field(message, "role"), field(message, "content"), field(message, "tool_calls")
    if role not in _ROLES:
        yield f"{place}.role: must be one of {', '.join(_ROLES)}"
    if calls is not None and (role != "assistant" or not items(calls)):
        yield f"{place}.tool_calls: must be an array with at least one call of an assistant"
    if not isinstance(content, str | list) and not calls:
        yield f"{place}.content: must be a text or an array"
    if role == "tool" and not is_text(field(message, "tool_call_id")):
        yield f"{place}.tool_call_id: is required"
    for index, call in enumerate(items(calls)):
        at = f"{place}.tool_calls[{index}]"
        if field(call, "type") != "function":
            yield f"{at}.type: must be 'function'"
        yield from _text_problems(call, at, "id")
        yield from name_problems(field(field(call, "function"), "name"), f"{at}.function.name")
        yield from _text_problems(field(call, "function"), f"{at}.function", "arguments")


def _text_problems(thing: Any, place: str, *keys: str) -> Iterator[str]:
    for key in keys:
        if not isinstance(field(thing, key), str):
            yield f"{place}.{key}: must be a text"
