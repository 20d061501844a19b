"""Putting a question to the person at the client: at once where the protocol has it so, else as a result that asks for more."""

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio
import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from metier.doors.mcp.questions import SECONDS, Question, Said

if TYPE_CHECKING:
    from metier.doors.mcp.peer import Context

_KEY: Final = "answer"
_FIELD: Final = "go_ahead"
_SCHEMA: Final[types.ElicitRequestedSchema] = {
    "type": "object",
    "properties": {
        _FIELD: {
            "type": "boolean",
            "title": "Go ahead",
            "description": "Yes, do exactly this. Left as it is: no.",
            "default": False,
        }
    },
    "required": [_FIELD],
}


def can_ask(ctx: "Context") -> bool:
    """Whether this client shows its person a form."""
    declared = ctx.session.client_capabilities
    ways = declared.elicitation if declared is not None else None
    if ways is None or (ways.form is None and ways.url is not None):
        return False
    return in_two(ctx) or ctx.session.can_send_request


def in_two(ctx: "Context") -> bool:
    """Whether question and answer are two requests."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


async def ask_now(ctx: "Context", message: str, gone: "anyio.Event | None" = None) -> Said:
    """The answer. One that never comes is none; nor does any come once the client has `gone`."""
    said: Said = "nothing"
    with anyio.move_on_after(SECONDS) as waiting:

        async def leave() -> None:
            if gone is not None:
                await gone.wait()
                waiting.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leave)
            with suppress(MCPError, ValidationError):
                said = _said(
                    await ctx.session.elicit_form(message, _SCHEMA, related_request_id=ctx.request_id)
                )
            tasks.cancel_scope.cancel()
    return said


def ask_by_result(message: str, question: Question) -> types.InputRequiredResult:
    """The question as a result. The boundary seals what it carries."""
    form = types.ElicitRequest(
        params=types.ElicitRequestFormParams(message=message, requested_schema=_SCHEMA)
    )
    return types.InputRequiredResult(
        input_requests={_KEY: form}, request_state=msgspec.json.encode(question).decode()
    )


def question_in(params: types.CallToolRequestParams) -> Question | None:
    """What an answer says it belongs to; None where there is none that could be ours."""
    try:
        return msgspec.json.decode(params.request_state or "", type=Question)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def said_in(params: types.CallToolRequestParams) -> Said:
    """The answer that came with a request. Nothing but a plain yes is one."""
    given = (params.input_responses or {}).get(_KEY)
    return _said(given) if isinstance(given, types.ElicitResult) else "nothing"


def _said(answer: types.ElicitResult) -> Said:
    if answer.action == "cancel":
        return "nothing"
    yes = answer.action == "accept" and answer.content is not None and answer.content.get(_FIELD) is True
    return "yes" if yes else "no"
