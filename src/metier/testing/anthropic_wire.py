"""Anthropic's Messages API, as far as text and client tools go."""

from collections.abc import Iterator
from typing import Any, Final

from metier.testing.script import Turn, calls_of
from metier.testing.shapes import answer_problems, field, is_text, items, name_problems, schema_problems

_VERSIONS: Final = ("2023-06-01", "2026-10-21")
_SAMPLING: Final = ("temperature", "top_p", "top_k")
_COMBINERS: Final = ("oneOf", "anyOf", "allOf")


def error(message: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    """A refusal in Anthropic's shape."""
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_0"}


def version_problems(version: str | None, body: Any) -> Iterator[str]:
    """What the named version of the API would refuse, beyond what all of them do."""
    if version not in _VERSIONS:
        yield f"anthropic-version: the header must be one of {', '.join(_VERSIONS)}"
    for name in _SAMPLING:
        if version != _VERSIONS[0] and field(body, name) is not None:
            yield f"{name}: is not taken since version {_VERSIONS[1]}"


def messages_problems(body: Any) -> Iterator[str]:
    """What the Messages API would refuse."""
    if not is_text(field(body, "model")):
        yield "model: is required"
    limit = field(body, "max_tokens")
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        yield "max_tokens: must be a whole number of at least 1"
    if field(body, "stream"):
        yield "stream: this server does not stream"
    if not isinstance(field(body, "system"), str | list | None):
        yield "system: must be a text or an array of blocks"
    yield from _tools_problems(items(field(body, "tools")))
    messages = items(field(body, "messages"))
    if not messages or field(messages[0], "role") != "user":
        yield "messages: must be an array that begins with a message of the user"
    asked: list[Any] = []
    for index, message in enumerate(messages):
        place = f"messages.{index}"
        yield from _message_problems(message, place)
        blocks = items(field(message, "content"))
        answered = [field(b, "tool_use_id") for b in blocks if field(b, "type") == "tool_result"]
        yield from answer_problems(asked, answered, place)
        if any(field(b, "type") != "tool_result" for b in blocks[: len(answered)]):
            yield f"{place}.content: results of tools must come first"
        asked = [field(b, "id") for b in blocks if field(b, "type") == "tool_use"]
    yield from answer_problems(asked, [], f"messages.{len(messages)}")


def messages_reply(body: Any, turn: Turn, number: int) -> dict[str, Any]:
    """The scripted turn as a message."""
    content: list[dict[str, Any]] = [
        {"type": "tool_use", "id": f"toolu_{number}_{index}", "name": call.name, "input": call.arguments}
        for index, call in enumerate(calls_of(turn))
    ]
    if isinstance(turn, str):
        content.append({"type": "text", "text": turn})
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": field(body, "model"),
        "content": content,
        "stop_reason": "end_turn" if isinstance(turn, str) else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _tools_problems(tools: list[Any]) -> Iterator[str]:
    names: set[str] = set()
    for index, tool in enumerate(tools):
        place, schema = f"tools.{index}", field(tool, "input_schema")
        if field(tool, "type") not in (None, "custom"):
            yield f"{place}.type: this server knows client tools only"
        yield from name_problems(field(tool, "name"), f"{place}.name")
        if field(tool, "name") in names:
            yield f"{place}.name: is taken by another tool"
        names.add(field(tool, "name"))
        yield from schema_problems(schema, f"{place}.input_schema")
        for key in _COMBINERS:
            if field(schema, key) is not None:
                yield f"{place}.input_schema: {key} is not allowed at the top"


def _message_problems(message: Any, place: str) -> Iterator[str]:
    role, content = field(message, "role"), field(message, "content")
    if role not in ("user", "assistant", "system"):
        yield f"{place}.role: must be 'user', 'assistant' or 'system'"
    if not is_text(content) and not items(content):
        yield f"{place}.content: must be a text or an array of blocks, and not empty"
    for index, block in enumerate(items(content)):
        at = f"{place}.content.{index}"
        match field(block, "type"), role:
            case "text", _:
                if not is_text(field(block, "text")):
                    yield f"{at}.text: must be a text, and not empty"
            case "tool_use", "assistant":
                yield from name_problems(field(block, "name"), f"{at}.name")
                if not is_text(field(block, "id")) or not isinstance(field(block, "input"), dict):
                    yield f"{at}: needs an id and an object as input"
            case "tool_result", "user":
                if not isinstance(field(block, "content"), str | list | None):
                    yield f"{at}.content: must be a text or an array of blocks"
                if not isinstance(field(block, "is_error"), bool | None):
                    yield f"{at}.is_error: must be a boolean"
            case kind, _:
                yield f"{at}.type: {kind!r} is nothing that {role!r} can send here"
