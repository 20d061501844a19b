"""Calls: made, looked at, cancelled. Each goes through the whole gate, as the principal that the door let in.

A client that goes away takes its call with it, as at every door; a call that was made with a key goes on, and whoever asks again
with the same key gets its answer.
"""

import logging
import secrets
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Annotated, Final, Literal, TypeVar, final

import anyio
import msgspec
from anyio import to_thread
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from metier.doors.http.endpoint import Asking, Endpoint, as_json, forbidden
from metier.doors.http.idempotency import WAITS, Once, key_in, still_running
from metier.doors.http.problem import Refusal, not_found
from metier.errors import StateError
from metier.gate.roles import needed
from metier.model.digest import Json
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.model.role import EXECUTE, READ_AUDIT, STEER
from metier.model.text import one_line
from metier.record.approvals import find
from metier.record.calls import UnderWay, calls_under_way, cancel
from metier.record.chain import Record
from metier.record.database import Database
from metier.record.registered import since_of
from metier.record.search import of_call
from metier.runtime.asked import name_of
from metier.runtime.once import call_once

MOST_WAIT: Final = 300.0
Wait = Annotated[float, Meta(ge=0, le=MOST_WAIT)]
_T = TypeVar("_T")
_log: Final = logging.getLogger("metier.http")


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


@final
class CallState(Struct, frozen=True, kw_only=True):
    """How a call stands, as the record has it."""

    call_id: str
    state: Literal["pending", "approved", "running", "completed", "failed", "refused", "interrupted"]
    tool: str
    skill: str
    principal: str
    began_at: str
    ended_at: str
    code: str
    reasons: tuple[str, ...]
    approval: str
    """The request for somebody's word that it waits, or waited, for."""


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
    return await made(asking, body.tool, body.arguments, wait=body.wait, unattended=body.unattended)


async def made(
    asking: Asking,
    tool: str,
    arguments: dict[str, Json],
    *,
    wait: float = 0.0,
    unattended: bool = False,
    said: dict[str, Json] | None = None,
) -> Response:
    """Call `tool`, once for each key.

    Args:
        said: the arguments as they came, where secrets in them were sealed since; sealed twice they are not the same.
    """

    async def call(id: str, wait: float) -> Outcome:
        return await call_once(asking.runtime, tool, arguments, id=id, wait=wait, unattended=unattended)

    key = key_in(asking.request)
    if key is None:
        return answer(await while_there(asking.request, lambda: call(f"call_{secrets.token_hex(12)}", wait)))
    once = await to_thread.run_sync(_once, asking, key)
    asked = msgspec.json.encode(
        {"tool": tool, "arguments": arguments if said is None else said, "unattended": unattended},
        order="deterministic",
    )
    digest = await to_thread.run_sync(lambda: once.digest_of(asked, slowly=said is not None))
    kept = asking.serving.kept
    with kept.alone(once):
        before = await kept.begin(once, digest)
        waits: Pending | None = None
        if before.answered is not None:
            if right_for(asking, tool) not in await asking.rights():
                return answer(await call(once.call_id, 0.0))  # the gate says so, and what is kept stays
            if before.answered.status != WAITS:
                replayed = {"idempotency-replayed": "true"}
                return Response(
                    before.answered.body, before.answered.status, replayed, media_type="application/json"
                )
            waits = msgspec.json.decode(before.answered.body, type=Pending)
            outcome = await decided(asking, waits, wait)
        else:
            outcome = await call(once.call_id, 0.0)
            if isinstance(outcome, Pending):
                waits = outcome
                await keep(asking, once.principal, outcome)
                outcome = await asking.runtime.wait_for(outcome, wait) if wait > 0 else outcome
        if isinstance(outcome, Refused) and outcome.code in _ELSEWHERE and await _runs(asking, once.call_id):
            raise still_running()
        with anyio.CancelScope(shield=True):
            await keep(asking, once.principal, outcome)
            if (
                isinstance(outcome, Refused)
                and outcome.code not in _ELSEWHERE
                and before.new
                and waits is None
            ):
                with _told_all_the_same(outcome):
                    await kept.forget(once)  # what did not begin may be asked for again with the same key
    return answer(outcome)


_ELSEWHERE: Final = frozenset({"already_begun", "approval_void"})
"""So a call is refused that ran already, or runs."""
_OVER: Final = frozenset({"approval_denied", "approval_expired", "approval_void"})
"""So a call is refused that somebody was asked about, and that will not run."""


async def keep(asking: Asking, principal: str, outcome: Outcome) -> None:
    """Keep the answer for who asks again with the same key, if there was one: what waits, and how it ended. Other refusals are not kept,
    since nothing ran."""
    if isinstance(outcome, Refused) and outcome.code not in _OVER:
        return
    response = answer(outcome)
    with _told_all_the_same(outcome):
        await asking.serving.kept.keep(principal, outcome.call_id, response.status_code, bytes(response.body))


@contextmanager
def _told_all_the_same(outcome: Outcome) -> Generator[None]:
    """What came of a call is told to who asked, also where it cannot be kept for when he asks again. That it ran, the record knows."""
    try:
        yield
    except StateError as error:
        _log.warning("the answer to call %s cannot be kept: %s", outcome.call_id, error.message)


def right_for(asking: Asking, tool: str) -> str:
    """The right that calling this takes, by whichever name it is asked for."""
    engine = asking.serving.engine
    found = engine.kernel.tools(engine.seen.tools).get(engine.seen.internal(name_of(tool)))
    return needed(found) if found is not None else EXECUTE


def _once(asking: Asking, key: str) -> Once:
    """Blocking."""
    id = asking.identity.principal.id
    with asking.serving.engine.state.database.reading() as connection:
        return Once(principal=id, since=since_of(connection, id)[1], key=key)


async def decided(asking: Asking, waits: Pending, wait: float) -> Outcome:
    """How it ends, if somebody decided by now, or does within `wait` seconds."""
    if wait > 0:
        return await asking.runtime.wait_for(waits, wait)
    found = await to_thread.run_sync(find, asking.serving.engine.state.database, waits.approval_id)
    if found is not None and found.state == "pending":
        return waits
    return await asking.runtime.resume(waits.approval_id)


async def _runs(asking: Asking, call_id: str) -> bool:
    """Whether some process runs it."""
    under_way = await to_thread.run_sync(calls_under_way, asking.serving.engine.state.database)
    return any(each.call_id == call_id and each.process is not None for each in under_way)


def answer(outcome: Outcome) -> Response:
    """How it ended. Whatever the gate says is an answer and no fault of the request."""
    if isinstance(outcome, Pending):
        return as_json(outcome, 202, {"location": f"/api/v1/approvals/{outcome.approval_id}"})
    return as_json(outcome)


async def while_there(request: Request, act: Callable[[], Awaitable[_T]]) -> _T:
    """What comes of it; a client that goes away cancels what it asked for, and that is recorded."""
    ended: list[_T] = []
    try:
        async with anyio.create_task_group() as tasks:

            async def gone() -> None:
                while (await request.receive())["type"] != "http.disconnect":
                    pass
                tasks.cancel_scope.cancel()

            tasks.start_soon(gone)
            ended.append(await act())
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise
    if not ended:
        raise Refusal(409, "gone", "who asked went away")
    return ended[0]


async def _listed(asking: Asking) -> UnderWayList:
    found = await to_thread.run_sync(calls_under_way, asking.serving.engine.state.database)
    everything = (
        bool({READ_AUDIT, STEER} & await asking.rights()) and asking.identity.principal.kind == "human"
    )
    mine = asking.identity.principal.id
    return UnderWayList(calls=[each for each in found if everything or each.principal == mine])


async def _state(asking: Asking) -> CallState:
    state = await to_thread.run_sync(state_of, asking.serving.engine.state.database, asking.given["call"])
    if state is None:
        raise not_found()
    if state.principal != asking.identity.principal.id and not await _may_read(asking):
        raise not_found()
    return state


async def _may_read(asking: Asking) -> bool:
    return asking.identity.principal.kind == "human" and READ_AUDIT in await asking.rights()


def state_of(database: Database, call_id: str) -> CallState | None:
    """What became of a call; None where the record has none. Blocking."""
    with database.reading() as connection:
        records = [each for each in of_call(connection, call_id) if each.event in _STATES]
    if not records:
        return None
    # Asked for again, what began is refused, or even asked about anew. That says nothing of what became of it.
    begun = next(
        (at for at, each in enumerate(records) if each.event == "skill_execution_started"), len(records)
    )
    records = records[:begun] + [each for each in records[begun:] if each.event in _RAN]
    last = records[-1]
    state = _STATES[last.event]
    if last.event == "skill_execution_started":
        under_way = next((each for each in calls_under_way(database) if each.call_id == call_id), None)
        state = "running" if under_way is not None and under_way.process is not None else "interrupted"
    elif last.event == "skill_approval_queued":
        found = find(database, last.approval)
        state = _WAITING.get(found.state if found is not None else "", "refused")
    began = next((each.at for each in records if each.event == "skill_execution_started"), "")
    return _shown(records, last, state, began)


_STATES: Final[dict[str, Literal["pending", "running", "completed", "failed", "refused"]]] = {
    "skill_approval_queued": "pending",
    "skill_execution_started": "running",
    "skill_executed": "completed",
    "skill_execution_error": "failed",
    "skill_execution_blocked": "refused",
}
_RAN: Final = frozenset({"skill_execution_started", "skill_executed", "skill_execution_error"})
_WAITING: Final[dict[str, Literal["pending", "approved", "refused"]]] = {
    "pending": "pending",
    "approved": "approved",
}


def _shown(records: list[Record], last: Record, state: str, began: str) -> CallState:
    ended = last.at if state in ("completed", "failed", "refused") else ""
    return CallState(
        call_id=last.call_id,
        state=state,  # type: ignore[arg-type]
        tool=last.tool,
        skill=last.skill,
        principal=last.principal,
        began_at=began,
        ended_at=ended,
        code=last.code,
        reasons=last.reasons,
        approval=next((each.approval for each in reversed(records) if each.approval), ""),
    )


async def _cancel(asking: Asking) -> Cancelled:
    database, call_id = asking.serving.engine.state.database, asking.given["call"]
    under_way = await to_thread.run_sync(calls_under_way, database)
    found = next((each for each in under_way if each.call_id == call_id), None)
    me, rights = asking.identity.principal, await asking.rights()
    mine = found is not None and found.principal == me.id
    if found is None or not (mine or (me.kind == "human" and {READ_AUDIT, STEER} & rights)):
        raise not_found("no such call is running")
    needs = frozenset({EXECUTE, right_for(asking, found.tool), STEER}) if mine else frozenset({STEER})
    if not needs & rights:
        raise forbidden(*sorted(needs))
    done = await to_thread.run_sync(lambda: cancel(database, call_id, by=me.id))
    return Cancelled(call_id=call_id, cancelled=done)


@final
class Asked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A provider's own tool calls."""

    tool_calls: list[Json] | dict[str, Json]
    """A list of them, or the message or response that holds them. At most 128 of one message run."""


@final
class Answers(Struct, frozen=True, kw_only=True):
    """What to send back to the model, in the provider's own shape and in the same order."""

    messages: list[dict[str, Json]]


async def _handle(asking: Asking) -> Answers:
    body: Asked = asking.body
    if key_in(asking.request) is not None:
        raise Refusal(
            400,
            "bad_idempotency_key",
            "a key names one call, and here there may be many: they would all be made again",
            remedy="Leave the key out, or make each call at /api/v1/calls with a key of its own",
        )
    try:
        return Answers(
            messages=await while_there(asking.request, lambda: asking.runtime.handle(body.tool_calls))
        )
    except TypeError as error:  # before anything is asked for
        raise Refusal(409, "no_tool_calls", one_line(str(error), 300)) from None


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
        about="The calls under way: your own, or all of them for a person who may read the record.",
        does=_listed,
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
        about="Answer a provider's tool calls with its own result messages, each through the gate.",
        does=_handle,
        body=Asked,
        answer=Answers,
        problems=(409,),
    ),
)
