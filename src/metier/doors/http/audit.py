"""The record: looked through, one by one, and verified. For people who have the right to read it."""

from typing import Annotated, Final, final

from anyio import to_thread
from msgspec import Meta, Struct

from metier.doors.http.endpoint import Asking, Endpoint
from metier.doors.http.problem import Refusal, not_found
from metier.model.digest import Json
from metier.model.role import READ_AUDIT
from metier.record.audit import AuditLog
from metier.record.chain import Record
from metier.record.search import Query, of_call, record_at, search
from metier.record.verify import Verification, verify

Text = Annotated[str, Meta(max_length=200)]
When = Annotated[str, Meta(max_length=32, pattern=r"^[0-9TZ:.-]*$")]


@final
class Wanted(Struct, frozen=True, kw_only=True):
    """What is looked for. What is not given asks for nothing; all that is given must hold."""

    text: Text = ""
    tool: Text = ""
    skill: Text = ""
    principal: Text = ""
    event: Text = ""
    call_id: Text = ""
    since: When = ""
    """A record's number, or a time in UTC, or the beginning of one."""
    until: When = ""
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 50


@final
class Records(Struct, frozen=True, kw_only=True):
    """Newest last."""

    records: list[Record]


@final
class Kept(Struct, frozen=True, kw_only=True):
    """A record, and what was kept beside it."""

    record: Record
    kept: dict[str, Json]


@final
class Call(Struct, frozen=True, kw_only=True):
    """Every record of one call, oldest first."""

    records: list[Kept]


async def _search(asking: Asking) -> Records:
    wanted: Wanted = asking.query
    query = Query(
        text=wanted.text,
        tool=wanted.tool,
        skill=wanted.skill,
        principal=wanted.principal,
        event=wanted.event,
        call_id=wanted.call_id,
        since=_when(wanted.since) or 0,
        until=_when(wanted.until),
    )
    database = asking.serving.engine.state.database
    return Records(records=await to_thread.run_sync(search, database, query, wanted.limit))


def _when(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 and text != "" else text


async def _one(asking: Asking) -> Kept:
    def read() -> Kept | None:
        database = asking.serving.engine.state.database
        with database.reading() as connection:
            found = record_at(connection, int(asking.given["seq"]))
        return None if found is None else Kept(record=found, kept=AuditLog(database).kept(found))

    if (found := await to_thread.run_sync(read)) is None:
        raise not_found()
    return found


async def _of_call(asking: Asking) -> Call:
    def read() -> list[Kept]:
        database = asking.serving.engine.state.database
        with database.reading() as connection:
            found = of_call(connection, asking.given["call"])
        log = AuditLog(database)
        return [Kept(record=each, kept=log.kept(each)) for each in found]

    if not (records := await to_thread.run_sync(read)):
        raise not_found()
    return Call(records=records)


async def _verify(asking: Asking) -> Verification:
    """One at a time: it reads everything."""
    limiter = asking.serving.verifying
    if limiter.available_tokens < 1:
        raise Refusal(
            503,
            "busy",
            "the record is being verified already",
            remedy="Ask again when that is done",
            retry_after="5",
        )
    database = asking.serving.engine.seen.settings.database
    return await to_thread.run_sync(verify, database, limiter=limiter)


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/v1/audit",
        about="Find records; without conditions the newest. Newest last.",
        does=_search,
        people=True,
        right=(READ_AUDIT,),
        query=Wanted,
        answer=Records,
    ),
    Endpoint(
        method="GET",
        path="/api/v1/audit/verify",
        about="Check that no record was changed, removed, swapped or cut off.",
        does=_verify,
        people=True,
        right=(READ_AUDIT,),
        answer=Verification,
        problems=(503,),
    ),
    Endpoint(
        method="GET",
        path="/api/v1/audit/records/{seq}",
        about="One record, with what was kept beside it.",
        does=_one,
        people=True,
        right=(READ_AUDIT,),
        answer=Kept,
        problems=(404,),
    ),
    Endpoint(
        method="GET",
        path="/api/v1/audit/calls/{call}",
        about="Every record of one call.",
        does=_of_call,
        people=True,
        right=(READ_AUDIT,),
        answer=Call,
        problems=(404,),
    ),
)
