"""Other rules over the recorded past, as plain data and within bounds: so much time, and so many records."""

import time
from collections import Counter
from collections.abc import Iterator
from typing import Final, final

from msgspec import Struct

from metier.catalog.catalog import Catalog
from metier.catalog.function_names import outward
from metier.disclosure.read_skill import TOOL as READ_SKILL
from metier.gate.reachable import TAKES_AWAY
from metier.gate.replay import Known, Replay, Replayed
from metier.gate.rules import Rules
from metier.model.digest import Json
from metier.record.database import Database
from metier.record.judgements import judgements

MOST_SECONDS: Final = 10.0
MOST_RECORDS: Final = 100_000
"""Calls of the past that are looked at."""
MOST_CALLS: Final = 500
"""That are told one by one; all are counted."""


@final
class Bounds(Struct, frozen=True, kw_only=True):
    """How far it goes."""

    since: str = ""
    until: str = ""
    """As records have times, or the beginning of one; a day is all of that day."""
    seconds: float = MOST_SECONDS
    records: int = MOST_RECORDS


def known_tools(catalog: Catalog) -> Iterator[tuple[str, Known]]:
    """What is known of today's tools. Those of the owner himself are made for each run."""
    for name in TAKES_AWAY:  # no skill has such a name
        yield name, Known(told=outward(name), takes_away=True)
    yield READ_SKILL.name, Known.of(READ_SKILL)
    for listed in catalog.listed:
        for tool in listed.skill.tools if listed.skill else ():
            yield tool.name, Known.of(tool)
    yield "operator.run", Known(told=outward("operator.run"))


def replayed(database: Database, rules: Rules, catalog: Catalog, bounds: Bounds) -> dict[str, Json]:
    """How the calls of the past would have ended. Blocking.

    Raises:
        StateError: when the record cannot be read.
    """
    replay = Replay(rules, dict(known_tools(catalog)))
    counts: Counter[str] = Counter()
    kinds: Counter[tuple[str, ...]] = Counter()
    calls: list[Json] = []
    over, cut, through = time.monotonic() + bounds.seconds, "", 0
    for judgement, beside in judgements(database, since=bounds.since or 0):
        if bounds.until and judgement.at[: len(bounds.until)] > bounds.until:
            break
        if counts.total() >= bounds.records or time.monotonic() > over:
            cut = "rows" if counts.total() >= bounds.records else "time"
            break
        through, found = judgement.seq, replay.one(judgement, beside)
        counts[found.state if found is not None else "unasked"] += 1
        if found is None or found.state == "same":
            continue
        if found.state == "otherwise":
            kinds[_was(found), *_would_be(found)] += 1
        if len(calls) < MOST_CALLS:
            calls.append(_call(found))
    judged = counts["same"] + counts["otherwise"] + counts["undecidable"]
    told: dict[str, Json] = {name: counts[name] for name in ("same", "otherwise", "undecidable", "unasked")}
    return {
        "summary": {"judged": judged, **told},
        "kinds": [
            {"from": kind[0], "to": [*kind[1:]], "calls": number} for kind, number in kinds.most_common()
        ],
        "calls": calls,
        "calls_left_out": counts["otherwise"] + counts["undecidable"] - len(calls),
        "cut": cut,
        "through": through,
    }


def _was(found: Replayed) -> str:
    return "" if found.before is None else found.before.name.lower()


def _would_be(found: Replayed) -> list[str]:
    return [each.name.lower() for each in found.after]


def _call(found: Replayed) -> Json:
    past = found.judgement
    return {
        "seq": past.seq,
        "at": past.at,
        "call_id": past.call_id,
        "tool": past.tool,
        "skill": past.skill,
        "principal": past.principal,
        "approval": past.approval,
        "state": found.state,
        "was": _was(found) or None,
        "would_be": [*_would_be(found)],
        "rules": [*found.rules],
        "unknown": [*found.unknown],
    }
