"""A provider's tool calls in, its result messages out.

`parse` reads the provider's own objects or plain dicts: single calls, lists of them, whole messages and whole
responses. What a model wrote badly becomes a `problem` of that call, never an exception. `results` answers
every call, in order, in the shape it came in. What a tool returned passes as it is.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, TypeAlias, assert_never, cast, final

from msgspec import Struct, json

from metier.disclosure.schemas import Shape
from metier.model.answer import told
from metier.model.digest import Json
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.model.skill import Answer
from metier.model.text import one_line

Loads: TypeAlias = Callable[[str], Json]
"""Strict JSON, raising ValueError with a reason a model can use."""

Came: TypeAlias = Shape | Literal["openai_function"]
"""The shape of a call; the last is OpenAI's old message with a single `function_call`, which has no id."""

_WAIT: Final = "Nothing ran yet. Do not repeat the call; tell the user that a person has to decide first."
_KINDS: Final[dict[type, str]] = {
    str: "a string",
    list: "an array",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


@final
class Asked(Struct, frozen=True, kw_only=True):
    """One call as a model wrote it."""

    id: str
    name: str
    arguments: Json = None
    problem: str | None = None
    """Why it cannot be run as it is; then the arguments mean nothing."""
    shape: Came


def parse(tool_calls: object, *, loads: Loads) -> list[Asked]:
    """All calls in `tool_calls`, in order; text, thoughts and other parts of a message are passed over.

    Raises:
        TypeError: when it is nothing that a provider sends, which is a mistake in the calling program.
    """
    given = _items(tool_calls) if _is_list(tool_calls) else [tool_calls]
    found = [_call(part, loads) for thing in given for part in _parts(thing)]
    return [call for call in found if call is not None]


def results(
    asked: Sequence[Asked], outcomes: Sequence[Outcome], answers: Sequence[Answer] | None = None
) -> list[dict[str, Json]]:
    """The messages that answer `asked`, one outcome for each call, in order.

    Args:
        answers: the shape in which the tool of each call answers; any value as it is when absent.

    Anthropic wants all results in one user message; the others take one message for each.
    """
    messages: list[dict[str, Json]] = []
    blocks: list[Json] = []
    shapes: Sequence[Answer] = ("value",) * len(asked) if answers is None else answers
    for call, outcome, answer in zip(asked, outcomes, shapes, strict=True):
        text, failed = content(outcome, answer), not isinstance(outcome, Completed)
        if said := ran_before(outcome):
            text = f"{text}\n\n{said}"
        match call.shape:
            case "openai":
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
            case "openai_function":
                messages.append({"role": "function", "name": call.name, "content": text})
            case "openai_responses":
                messages.append({"type": "function_call_output", "call_id": call.id, "output": text})
            case "anthropic":
                if not blocks:
                    messages.append({"role": "user", "content": blocks})
                blocks.append(
                    {"type": "tool_result", "tool_use_id": call.id, "content": text, "is_error": failed}
                )
            case "mcp":
                messages.append(_mcp_result(outcome, text, failed))
            case _:
                assert_never(call.shape)
    return messages


def content(outcome: Outcome, answer: Answer = "value") -> str:
    """How a call ended, as text for a model: the value, or a JSON object with `error` and `message`; or what the tool's
    dialect promises."""
    if answer != "value":
        return _json(told(outcome, answer))
    match outcome:
        case Completed(value=str(text)):
            return _sendable(text)
        case Completed(value=value):
            return _json(value)
        case Refused(code="confirmation_required", prompt=prompt):
            message = "; ".join(outcome.reasons)
            asked: dict[str, Json] = {"requires_confirmation": True, "prompt": prompt}
            return _json({**asked, "error": outcome.code, "message": message, "remedy": outcome.remedy})
        case Refused():
            return _trouble(outcome.code, "; ".join(outcome.reasons), outcome.remedy)
        case Failed():
            return _trouble(outcome.code, outcome.message, "")
        case Pending():
            return _trouble("pending_approval", "; ".join(outcome.reasons), _WAIT, outcome.approval_id)
        case _:
            assert_never(outcome)


def ran_before(outcome: Outcome) -> str:
    """What a model is told besides where it ran when it was asked before, and not now; empty where it ran now, or nothing did."""
    earlier = outcome.earlier if isinstance(outcome, Completed | Failed) else None
    return _sendable(earlier.text) if earlier is not None else ""


def _trouble(code: str, message: str, remedy: str, approval_id: str = "") -> str:
    said = {"error": code, "message": message, "remedy": remedy, "approval_id": approval_id}
    return _json({key: value for key, value in said.items() if value})


def _mcp_result(outcome: Outcome, text: str, failed: bool) -> dict[str, Json]:
    result: dict[str, Json] = {"content": [{"type": "text", "text": text}]}
    # Clients before 2026-07-28 refuse structured content that is not an object.
    if isinstance(outcome, Completed) and isinstance(outcome.value, dict):
        result["structuredContent"] = outcome.value
    result["isError"] = failed
    return result


def _json(value: Json) -> str:
    try:
        return json.encode(value).decode()
    except UnicodeEncodeError:
        from json import dumps  # escapes a lone surrogate, which no UTF-8 message could carry

        return dumps(value, separators=(",", ":"))


def _sendable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def _parts(thing: object) -> list[object]:
    """The parts of a message or response among which the calls are; a call is its own only part."""
    if thing is None:
        return []
    choices = _get(thing, "choices")
    if choices is not None:
        return [part for choice in _items(choices)[:1] for part in _parts(_get(choice, "message"))]
    calls = _get(thing, "tool_calls")
    if _is_old(thing):
        return [thing, *_items(calls)]
    if calls is not None:
        return _items(calls)
    if _get(thing, "output") is not None and _get(thing, "type") is None:
        return _items(_get(thing, "output"))
    if _get(thing, "role") is not None:
        return _items(_get(thing, "content"))
    return [thing]


def _call(part: object, loads: Loads) -> Asked | None:
    """The call in one part, or None when the part is something else."""
    kind, function = _get(part, "type"), _get(part, "function")
    if _is_old(part):
        old = _get(part, "function_call")
        return _asked("openai_function", None, _get(old, "name"), _get(old, "arguments"), loads)
    if kind == "function" or (kind is None and function is not None):
        return _asked("openai", _get(part, "id"), _get(function, "name"), _get(function, "arguments"), loads)
    if kind == "custom":
        # It must be answered all the same: the API refuses a conversation with an unanswered call.
        problem = "this is a free-form call; every tool here takes a JSON object"
        name = _word(_get(_get(part, "custom"), "name"))
        return Asked(id=_word(_get(part, "id")), name=name, problem=problem, shape="openai")
    if kind == "function_call":
        arguments = _get(part, "arguments")
        return _asked("openai_responses", _get(part, "call_id"), _get(part, "name"), arguments, loads)
    if kind == "tool_use":
        return _asked("anthropic", _get(part, "id"), _get(part, "name"), _get(part, "input"), loads)
    if kind is None and _get(part, "method") == "tools/call":
        params = _get(part, "params")
        return _asked("mcp", _get(part, "id"), _get(params, "name"), _get(params, "arguments"), loads)
    if kind is None and isinstance(_get(part, "name"), str):
        return _asked("mcp", None, _get(part, "name"), _get(part, "arguments"), loads)
    if isinstance(kind, str):
        return None
    raise TypeError(
        f"a {type(part).__name__} is no tool call that Metier knows; pass the provider's message, its response"
        " or its list of tool calls"
    )


def _is_old(thing: object) -> bool:
    """Whether it is a message in which OpenAI's models called a function before there were tool calls."""
    return _get(thing, "role") is not None and _get(thing, "function_call") is not None


def _asked(shape: Came, call_id: object, name: object, arguments: object, loads: Loads) -> Asked:
    value, problem = _arguments(arguments, loads)
    if not isinstance(name, str) or not name:
        problem = "the call names no tool"
    return Asked(id=_word(call_id), name=_word(name), arguments=value, problem=problem, shape=shape)


def _arguments(raw: object, loads: Loads) -> tuple[Json, str | None]:
    """The arguments, or the reason why there are none. Models send nothing at all to tools without parameters."""
    if raw is None or raw == "":
        return {}, None
    value = raw
    if isinstance(raw, str):
        try:
            value = loads(raw)
        except (ValueError, RecursionError) as error:
            return None, f"the arguments are not valid JSON: {one_line(str(error), 300)}"
    if not isinstance(value, Mapping):
        kind = _KINDS.get(cast("type", type(value)), "something else")
        return None, f"the arguments must be a JSON object, not {kind}"
    return dict(cast("Mapping[str, Json]", value)), None


def _get(thing: object, key: str) -> object:
    """A field of a dict or of an SDK's object alike."""
    if isinstance(thing, Mapping):
        return cast("Mapping[str, object]", thing).get(key)
    return cast("object", getattr(thing, key, None))


def _is_list(thing: object) -> bool:
    return isinstance(thing, Sequence) and not isinstance(thing, str | bytes)


def _items(thing: object) -> list[object]:
    return list(cast("Sequence[object]", thing)) if _is_list(thing) else []


def _word(thing: object) -> str:
    return thing if isinstance(thing, str) else str(thing) if isinstance(thing, int) else ""
