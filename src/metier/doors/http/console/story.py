"""One call's whole story: what was asked, what the gate said and why, on whose word it ran, where, what it asked for meanwhile, and what came of it."""

import json
from typing import Final, final
from urllib.parse import urlencode

import msgspec
from anyio import to_thread
from msgspec import Struct

from metier.doors.http.console.page import Page
from metier.doors.http.console.words import Line, line
from metier.doors.http.endpoint import Asking
from metier.doors.http.problem import not_found
from metier.model.digest import Json
from metier.model.exact import laid_out, quoted
from metier.model.guarantee import MEANING
from metier.model.outcome import Attempt, Request, Run
from metier.model.permission_words import in_quotes
from metier.model.role import READ_AUDIT
from metier.record.audit import AuditLog
from metier.record.chain import Record
from metier.record.search import story_of

_PROMISES: Final[dict[str, str]] = {each.value: meaning for each, meaning in MEANING.items()}
_INNER: Final = 200
_LONGEST_ADDRESS: Final = 6_000
_AT_MOST: Final = 50
"""Of what a run asked for or was refused; how many more there were is said."""


@final
class Seen(Struct, frozen=True, kw_only=True):
    """What the sandbox saw of a run, in words."""

    cost: str
    asked: list[str]
    """Of the host, over the bridge."""
    refused: list[str]
    violations: list[str]
    more: int
    """Further ones that are not listed."""


@final
class Step(Struct, frozen=True, kw_only=True):
    """One record of a story, with what was kept beside it."""

    line: Line
    kept: dict[str, str]
    """Laid out to be read."""
    same: dict[str, int]
    """What is as it was kept with an earlier record, and its number."""
    gone: list[str]
    """What was there and is not kept: too large, erased, or never meant to be."""
    may: str
    seen: Seen | None
    promised: list[str]
    """What the sandbox kept to."""


async def _story(asking: Asking) -> dict[str, object]:
    database, call = asking.serving.engine.state.database, asking.given["call"]

    def read() -> tuple[list[Step], list[Line], str]:
        with database.reading() as connection:
            records, inner = story_of(connection, call)
        log = AuditLog(database)
        steps: list[Step] = []
        for each in told(records):
            steps.append(step(log, each, steps))
        return steps, told(inner[:_INNER]), _asked_again(log, records)

    steps, inner, again = await to_thread.run_sync(read)
    if not steps:
        raise not_found("there is no record of such a call")
    return {"steps": steps, "inner": inner, "call": call, "first": steps[0].line.record, "again": again}


def told(records: list[Record]) -> list[Line]:
    """Each of them in words."""
    return [made for each in records if (made := line(each, began=True)) is not None]


def step(log: AuditLog, told: Line, before: list[Step] | None = None) -> Step:
    """One record with what was kept beside it. What stands with one of those `before` in the same words is only named."""
    found = dict(log.kept(told.record))
    gone = [name for name in told.record.payloads if name not in found]
    may, seen = _may(found), _seen(found)
    texts = {name: laid_out(value) for name, value in found.items()}
    same: dict[str, int] = {}
    for each in before or ():
        for name in texts.keys() & each.kept.keys():
            if texts[name] == each.kept[name]:
                same.setdefault(name, each.line.record.seq)
    return Step(
        line=told,
        kept={name: text for name, text in texts.items() if name not in same},
        same=same,
        gone=gone,
        may=may,
        seen=seen,
        promised=[_PROMISES.get(each, each) for each in told.record.guarantees],
    )


def _may(found: dict[str, Json]) -> str:
    """What it was allowed, in words; what has another shape is left where it is, to be shown as it is."""
    try:
        may = in_quotes(msgspec.convert(found["permissions"], dict[str, list[str]]))
    except (KeyError, msgspec.ValidationError):
        return ""
    del found["permissions"]
    return may


def _seen(found: dict[str, Json]) -> Seen | None:
    try:
        run = msgspec.convert(found["run"], Run)
    except (KeyError, msgspec.ValidationError):
        return None
    del found["run"]
    listed = (run.requests, run.denials, run.violations)
    return Seen(
        cost=_cost(run),
        asked=[_request(each) for each in run.requests[:_AT_MOST]],
        refused=[_attempt(each) for each in run.denials[:_AT_MOST]],
        violations=[_attempt(each) for each in run.violations[:_AT_MOST]],
        more=run.requests_unlisted + sum(max(len(each) - _AT_MOST, 0) for each in listed),
    )


def _cost(run: Run) -> str:
    said = [f"{run.seconds:.2f} s", f"{run.cpu_seconds:.2f} s of a processor"]
    if run.memory_bytes:
        said.append(f"{run.memory_bytes / 1_000_000:.1f} MB of memory")
    if run.output_bytes:
        said.append(
            f"{run.output_bytes:,} bytes of output{', of which not all was kept' if run.truncated else ''}"
        )
    if run.fuel is not None:
        said.append(f"{run.fuel:,} of fuel")
    return ", ".join(said)


def _request(each: Request) -> str:
    return (
        f"{each.method}{f' {quoted(each.detail)}' if each.detail else ''}: {each.answer}{_often(each.count)}"
    )


def _attempt(each: Attempt) -> str:
    return f"{each.kind} {quoted(each.detail)}{_often(each.count)}"


def _often(count: int) -> str:
    return f", {count:,} times" if count > 1 else ""


def _asked_again(log: AuditLog, records: list[Record]) -> str:
    """Where every layer says what it would to the same call today; empty where what was asked is not kept, or too long for an address."""
    for each in records:
        if each.tool and (arguments := log.kept(each).get("arguments")) is not None:
            question = {"tool": each.tool, "who": each.principal, "arguments": json.dumps(arguments)}
            address = f"/policy/explain?{urlencode(question)}"
            return address if len(address) <= _LONGEST_ADDRESS else ""
    return ""


PAGES: Final = (
    Page(
        path="/record/calls/{call}",
        template="story.html",
        title="One call",
        shows=_story,
        menu="Record",
        right=(READ_AUDIT,),
        told=("approval", "call"),
    ),
)
