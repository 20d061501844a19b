"""The record: looked through, one record alone, and whether nothing of it was changed."""

import re
from typing import Annotated, Final, final

from anyio import to_thread
from msgspec import Meta, Struct
from msgspec.structs import asdict

from metier.doors.http.console.page import Page
from metier.doors.http.console.story import Step, step, told
from metier.doors.http.console.words import Line, line
from metier.doors.http.endpoint import Asking
from metier.doors.http.problem import not_found
from metier.model.digest import Json
from metier.model.exact import laid_out
from metier.model.role import READ_AUDIT
from metier.record.audit import AuditLog
from metier.record.chain import Record
from metier.record.events import EVENTS
from metier.record.search import Query, record_at, search

_ON_A_PAGE: Final = 50
Text = Annotated[str, Meta(max_length=200)]
_MOMENT: Final = re.compile(
    r"([0-9]{1,15}|[0-9]{4}-[0-9]{2}(-[0-9]{2}([T ][0-9]{2}(:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?Z?)?)?)?"
)
"""A record's number, or a time of UTC as far as it is known: a year and a month at least."""
_DAY: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})?")


@final
class Wanted(Struct, frozen=True, kw_only=True):
    """What is looked for; what is left empty asks for nothing."""

    text: Text = ""
    tool: Text = ""
    skill: Text = ""
    principal: Text = ""
    event: Text = ""
    since: Text = ""
    until: Text = ""
    looks: bool = False
    """With what people only looked at."""
    before: Annotated[str, Meta(max_length=15, pattern=r"^[0-9]*$")] = ""
    """Only records with a smaller number: the next page."""


async def _found(asking: Asking) -> dict[str, object]:
    wanted: Wanted = asking.query
    odd = [each for each in (wanted.since, wanted.until) if not _MOMENT.fullmatch(each.strip())]
    database = asking.serving.engine.state.database
    until: int | str = int(wanted.before) - 1 if wanted.before else _moment(wanted.until)
    query = Query(
        text=wanted.text,
        tool=wanted.tool,
        skill=wanted.skill,
        principal=wanted.principal,
        event=wanted.event,
        since=_moment(wanted.since) or 0,
        until=until,
        part=True,
        looks=wanted.looks,
    )

    def read() -> tuple[list[Line], int]:
        records = [] if odd else search(database, query, _ON_A_PAGE)[::-1]
        return told(records), AuditLog(database).head()[0]

    lines, size = await to_thread.run_sync(read)
    kept = {
        name: "true" if value is True else value
        for name, value in asdict(wanted).items()
        if value and name != "before"
    }
    more = lines[-1].record.seq if len(lines) == _ON_A_PAGE else 0
    return {
        "lines": lines,
        "wanted": wanted,
        "size": size,
        "odd": odd,
        "days": all(_DAY.fullmatch(each.strip()) for each in (wanted.since, wanted.until)),
        "events": sorted(EVENTS),
        "kept": kept,
        "more": more,
    }


def _moment(text: str) -> int | str:
    """A record's number, or a time as records have it."""
    text = text.strip().replace(" ", "T").removesuffix("Z")
    return int(text) if text.isascii() and text.isdigit() and len(text) != 4 else text


async def _one(asking: Asking) -> dict[str, object]:
    database = asking.serving.engine.state.database

    def read() -> Step | None:
        with database.reading() as connection:
            found = record_at(connection, int(asking.given["seq"]))
        said = None if found is None else line(found, began=True)
        return None if said is None else step(AuditLog(database), said)

    if (made := await to_thread.run_sync(read)) is None:
        raise not_found("there is no record of that number")
    return {"step": made, "fields": _fields(made.line.record)}


def _fields(record: Record) -> list[tuple[str, str]]:
    """Everything that stands in it."""
    said: dict[str, Json] = asdict(record)
    return [(name, _field(value)) for name, value in said.items() if value not in ("", None, (), {}, [])]


def _field(value: Json) -> str:
    return value if isinstance(value, str) else laid_out(list(value) if isinstance(value, tuple) else value)


_RIGHT: Final = (READ_AUDIT,)
PAGES: Final = (
    Page(
        path="/record",
        template="record.html",
        title="Record",
        shows=_found,
        menu="Record",
        right=_RIGHT,
        query=Wanted,
        told=("approval", "call", "skills", "runtime", "people", "policy", "host", "record"),
    ),
    Page(
        path="/record/{seq}",
        template="one_record.html",
        title="One record",
        shows=_one,
        menu="Record",
        right=_RIGHT,
    ),
)
