"""A call made for a request: cancelled when who asked goes away, or made once for each key and its answer kept."""

import logging
import secrets
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Annotated, Final, TypeVar

import anyio
import msgspec
from anyio import to_thread
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from metier.doors.http.endpoint import Asking, as_json
from metier.doors.http.idempotency import WAITS, Once, key_in, still_running
from metier.doors.http.problem import Refusal
from metier.doors.http.room import runs_for
from metier.errors import StateError
from metier.gate.roles import needed
from metier.model.approval import Approval
from metier.model.digest import Json
from metier.model.outcome import Outcome, Pending, Refused
from metier.model.role import EXECUTE
from metier.record.approvals import find
from metier.record.audit import has_begun
from metier.record.calls import calls_under_way
from metier.record.late import is_owed
from metier.record.registered import since_of
from metier.runtime.as_raised import as_raised
from metier.runtime.asked import name_of
from metier.runtime.once import call_once

MOST_WAIT: Final = 300.0
Wait = Annotated[float, Meta(ge=0, le=MOST_WAIT)]
_T = TypeVar("_T")
_log: Final = logging.getLogger("metier.http")


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

    async def call(id: str, at_once: float) -> Outcome:
        runs_for(asking.request.scope, id)
        return await call_once(
            asking.runtime, tool, arguments, id=id, wait=at_once, waits=wait > 0, unattended=unattended
        )

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
            if isinstance(outcome, Refused) and await _owed(asking, waits):
                outcome = await call(
                    once.call_id, 0.0
                )  # it ran where it was approved, and the gate gives what came of it
            elif isinstance(outcome, Refused) and await _began(asking, waits):
                outcome = _ran_already(waits)  # he was given what came of it, and this is no no that is kept
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
    """How it ends, if somebody decided by now, or does within `wait` seconds.

    Raises:
        Refusal: for what was asked with another token or session, and has not run.
    """
    found = await to_thread.run_sync(find, asking.serving.engine.state.database, waits.approval_id)
    if found is not None and found.state in ("pending", "approved") and not is_asked_here(asking, found):
        raise asked_elsewhere()
    if wait > 0:
        return await asking.runtime.wait_for(waits, wait)
    if found is not None and found.state == "pending":
        return waits
    return await asking.runtime.resume(waits.approval_id)


def is_asked_here(asking: Asking, found: Approval) -> bool:
    """Whether who asks now is who asked then: the same principal, with the same token or session. What another one is given is kept for
    nobody, and who asked would ask anew, and have it run twice."""
    identity = asking.identity
    return (found.principal, found.session) == (identity.principal.id, identity.session)


def asked_elsewhere() -> Refusal:
    """For who asks about what another token or session of his asked."""
    return Refusal(
        409,
        "asked_elsewhere",
        "it was asked with another token or session, so it is taken up with that one",
        remedy="Come with the token or session that asked, or ask for it yourself: that is a request of its own",
    )


async def _owed(asking: Asking, waits: Pending) -> bool:
    """Whether it ran, and who asked was not given yet how it ended."""
    database, principal = asking.serving.engine.state.database, asking.identity.principal.id
    return await to_thread.run_sync(is_owed, database, waits.approval_id, principal)


async def _began(asking: Asking, waits: Pending) -> bool:
    """Whether what waited began, whoever took it up."""

    def read() -> bool:
        with asking.serving.engine.state.database.reading() as connection:
            return has_begun(connection, waits.call_id, 1)

    return await to_thread.run_sync(read)


def _ran_already(waits: Pending) -> Refused:
    return Refused(
        call_id=waits.call_id,
        code="already_begun",
        reasons=("it was approved and taken up, and what came of it was given before",),
        remedy=f"Nothing runs twice; GET /api/v1/calls/{waits.call_id} says what became of it",
    )


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
    with as_raised():
        async with anyio.create_task_group() as tasks:

            async def gone() -> None:
                while (await request.receive())["type"] != "http.disconnect":
                    pass
                tasks.cancel_scope.cancel()

            tasks.start_soon(gone)
            ended.append(await act())
            tasks.cancel_scope.cancel()
    if not ended:
        raise Refusal(409, "gone", "who asked went away", remedy="With an Idempotency-Key it would go on")
    return ended[0]
