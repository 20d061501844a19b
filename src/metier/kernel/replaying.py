"""Other rules over the recorded past, as plain data and within bounds: so much time, and so many records."""

import time
from collections import Counter
from collections.abc import Iterator
from typing import Final, final

from msgspec import Struct

from metier.catalog.catalog import Catalog
from metier.catalog.function_names import outward
from metier.disclosure.read_skill import TOOL as READ_SKILL
from metier.errors import RecordError
from metier.gate.reachable import TAKES_AWAY
from metier.gate.replay import Known, Replay, Replayed
from metier.gate.rules import Rules
from metier.model.digest import Json
from metier.record.database import Database
from metier.record.judgements import judgements
from metier.record.search import record_at

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
    before: int = 0
    """Only records with a smaller number; 0 for all."""
    newest_first: bool = False
    seconds: float = MOST_SECONDS
    records: int = MOST_RECORDS


@final
class _Reach:
    """How far it came, and why no further."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._over = time.monotonic() + bounds.seconds
        self.looked_at = 0
        """Calls."""
        self.cut = ""
        self.through = 0

    def enough(self, seq: int) -> bool:
        """Whether record `seq` is no longer looked at."""
        if self.looked_at >= self._bounds.records:
            self.cut = "rows"
        elif self.through and time.monotonic() > self._over:  # so whoever goes on from there comes further
            self.cut = "time"
        else:
            self.through = seq
        return bool(self.cut)


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
    reach = _Reach(bounds)
    past = judgements(
        database,
        since=bounds.since or 0,
        until=bounds.until,
        before=bounds.before,
        newest_first=bounds.newest_first,
        enough=reach.enough,
    )
    for judgement, beside in past:
        reach.looked_at += 1
        found = replay.one(judgement, beside)
        state = found.state if found is not None else "unasked"
        counts[state] += 1
        if found is None or state == "same":
            continue
        if state == "otherwise":
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
        "cut": reach.cut,
        "through": reach.through,
        "through_at": _at(database, reach.through) if reach.cut else "",
    }


def _at(database: Database, seq: int) -> str:
    """When record `seq` was written; empty where that cannot be read."""
    with database.reading() as connection:
        try:
            found = record_at(connection, seq)
        except RecordError:  # it may be one that was passed over
            return ""
    return found.at if found is not None else ""


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
