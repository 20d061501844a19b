"""Calls: made, looked at, cancelled. Each goes through the whole gate, as the principal that the door let in.

A client that goes away takes its call with it, as at every door; a call that was made with a key goes on, and whoever asks again
with the same key gets its answer.
"""

from typing import Annotated, Final, final

from anyio import to_thread
from msgspec import Meta, Struct
from starlette.responses import Response

from metier.doors.http.as_agent import made_as_agent
from metier.doors.http.call_state import CallState, state_of
from metier.doors.http.endpoint import Asking, Endpoint, forbidden
from metier.doors.http.idempotency import key_in
from metier.doors.http.making import Wait, made, right_for, while_there
from metier.doors.http.problem import Refusal, not_found
from metier.model.digest import Json
from metier.model.outcome import Completed, Failed, Pending, Refused
from metier.model.role import EXECUTE, READ_AUDIT, STEER
from metier.model.text import one_line
from metier.record.calls import UnderWay, calls_under_way, cancel


@final
class NewCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool that is to be called."""

    tool: Annotated[str, Meta(min_length=1, max_length=200)]
    """By the name it has inside, or as a model is told it."""
    arguments: dict[str, Json] = {}
    wait: Wait = 0.0
    """Seconds to wait for somebody's word, where it takes one."""
    unattended: bool = False
    """Nobody is there to be asked."""
    as_agent: bool = False
    """For the owner, who is asked about nothing that he does himself: ask as an agent of his would, and see what it meets."""


@final
class UnderWayList(Struct, frozen=True, kw_only=True):
    """Calls that began and have no outcome yet."""

    calls: list[UnderWay]


@final
class Cancelled(Struct, frozen=True, kw_only=True):
    """What was asked for."""

    call_id: str
    cancelled: bool


async def _make(asking: Asking) -> Response:
    body: NewCall = asking.body
    if body.as_agent:
        return await made_as_agent(asking, body.tool, body.arguments, body.wait, body.unattended)
    return await made(asking, body.tool, body.arguments, wait=body.wait, unattended=body.unattended)


async def _listed(asking: Asking) -> UnderWayList:
    found = await to_thread.run_sync(calls_under_way, asking.serving.engine.state.database)
    everything = await asking.sees_all(READ_AUDIT, STEER)
    shown = [each for each in found if everything or asking.is_his(each.principal, each.on_behalf_of)]
    return UnderWayList(calls=shown)


async def _state(asking: Asking) -> CallState:
    state = await to_thread.run_sync(state_of, asking.serving.engine.state.database, asking.given["call"])
    if state is None:
        raise not_found()
    if not asking.is_his(state.principal, state.on_behalf_of) and not await asking.sees_all(
        READ_AUDIT, STEER
    ):
        raise not_found()
    return state


async def _cancel(asking: Asking) -> Cancelled:
    database, call_id = asking.serving.engine.state.database, asking.given["call"]
    under_way = await to_thread.run_sync(calls_under_way, database)
    found = next((each for each in under_way if each.call_id == call_id), None)
    me, rights = asking.identity.principal, await asking.rights()
    mine = found is not None and asking.is_his(found.principal, found.on_behalf_of)
    if found is None or not (mine or await asking.sees_all(READ_AUDIT, STEER)):
        raise not_found("no such call is running")
    needs = frozenset({EXECUTE, right_for(asking, found.tool), STEER}) if mine else frozenset({STEER})
    if not needs & rights:
        raise forbidden(*sorted(needs))
    done = await to_thread.run_sync(lambda: cancel(database, call_id, by=me.id, token=me.token))
    return Cancelled(call_id=call_id, cancelled=done)


@final
class Asked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A provider's own tool calls."""

    tool_calls: list[Json] | dict[str, Json]
    """A list of them, or the message or response that holds them. At most 128 of one message run."""
    wait: Wait = 0.0
    """Seconds each of them waits for somebody's word, where it takes one. They wait at the same time."""


@final
class Answers(Struct, frozen=True, kw_only=True):
    """What to send back to the model, in the provider's own shape and in the same order."""

    messages: list[dict[str, Json]]


async def _handle(asking: Asking) -> Answers:
    body: Asked = asking.body
    if (
        asking.identity.principal.kind == "human"
    ):  # as at /mcp: what a person does himself nobody is asked about
        raise Refusal(
            403,
            "forbidden",
            "what answers a model is a program, and you came as a person",
            remedy="Register an agent with `metier principals add`, and make a token for it",
        )
    if key_in(asking.request) is not None:
        raise Refusal(
            400,
            "bad_idempotency_key",
            "a key names one call, and here there may be many: they would all be made again",
            remedy="Leave the key out, or make each call at /api/v1/calls with a key of its own",
        )
    try:
        handled = await while_there(
            asking.request, lambda: asking.runtime.handle(body.tool_calls, wait=body.wait)
        )
        return Answers(messages=handled)
    except TypeError as error:  # before anything is asked for
        raise Refusal(
            409,
            "no_tool_calls",
            one_line(str(error), 300),
            remedy="Send the tool calls, the message or the response as the provider gave it",
        ) from None


ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path="/api/v1/calls",
        about="Call a tool through the whole gate. A refusal is an answer; 202 means that somebody has to decide first.",
        does=_make,
        body=NewCall,
        answer=Completed | Refused | Failed,
        answers={202: Pending},
        problems=(409,),
        headers=("Idempotency-Key",),
    ),
    Endpoint(
        method="GET",
        path="/api/v1/calls",
        about="The calls under way: made by you or for you, or all of them for a person who may read the record or end calls.",
        does=_listed,
        right=(EXECUTE, READ_AUDIT, STEER),
        answer=UnderWayList,
    ),
    Endpoint(
        method="GET",
        path="/api/v1/calls/{call}",
        about="How a call stands, or ended.",
        does=_state,
        answer=CallState,
        problems=(404,),
    ),
    Endpoint(
        method="POST",
        path="/api/v1/calls/{call}/cancel",
        about="Have a running call ended, whichever process runs it.",
        does=_cancel,
        answer=Cancelled,
        problems=(404,),
    ),
    Endpoint(
        method="POST",
        path="/api/v1/handle",
        about="Answer a provider's tool calls with its own result messages, each through the gate. For agents: a model is no person.",
        does=_handle,
        by=("token",),
        body=Asked,
        answer=Answers,
        problems=(409,),
    ),
)
