"""Holds what a process was told against what the record says, and both against what really ran."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable
from typing import Any

from metier.record.verify import verify

Told = tuple[str, ...]
"""`done CALL`, `refused CALL`, `pending APPROVAL CALL`, `approved APPROVAL`, `denied APPROVAL`."""


def records_of(path: str) -> list[dict[str, Any]]:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return [json.loads(body) for (body,) in connection.execute("SELECT body FROM audit ORDER BY seq")]
    finally:
        connection.close()


class Judge:
    """Of one state folder, over as many rounds as it lives."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.head: tuple[int, str] | None = None
        self.told: list[Told] = []
        self.interrupted: set[int] = set()

    def problems(self, told: Iterable[Told], ran: list[str]) -> list[str]:
        """Everything that is not as it was promised, `told` being new since the last time."""
        self.told += told
        found = verify(self.path, expected=self.head)
        if not found.ok:
            return [f"verify: {found.problem} at {found.first_bad}"]
        self.head = (found.records, found.head)
        records = records_of(self.path)
        self.interrupted = set(found.open_intents)
        return [*unkept(self.told, records), *ungated(ran, records), *unnamed(records, self.interrupted)]


def unkept(told: Iterable[Told], records: list[dict[str, Any]]) -> list[str]:
    """What somebody was told and the record does not know."""
    ended = {(each["event"], each.get("call_id", "")) for each in records}
    decided = {(each["event"], each.get("approval", "")) for each in records}
    wanted = {
        "done": lambda call: [("skill_execution_started", call), ("skill_executed", call)],
        "refused": lambda call: [("skill_execution_blocked", call)],
    }
    words = {"pending": "skill_approval_queued", "approved": "skill_approved", "denied": "skill_rejected"}
    problems: list[str] = []
    for what, id, *_ in told:
        missing = (
            [each for each in wanted[what](id) if each not in ended]
            if what in wanted
            else [(words[what], id)] * ((words[what], id) not in decided)
        )
        problems += [f"told {what} {id}, and no {event} is recorded" for event, _ in missing]
    return problems


def ungated(ran: list[str], records: list[dict[str, Any]]) -> list[str]:
    """What ran twice, without a record, or without the word it needed."""
    problems = [f"{call} ran {times} times" for call, times in Counter(ran).items() if times > 1]
    begun = {each["call_id"]: each for each in records if each["event"] == "skill_execution_started"}
    asked = {
        each["call_id"]: each["approval"] for each in records if each["event"] == "skill_approval_queued"
    }
    yes = {each["approval"] for each in records if each["event"] == "skill_approved"}
    no = {each["approval"] for each in records if each["event"] == "skill_rejected"}
    for call in ran:
        if call not in begun:
            problems.append(f"{call} ran, and no intent is recorded")
        elif call in asked and (begun[call].get("evidence") != asked[call] or asked[call] not in yes - no):
            problems.append(f"{call} ran, and nobody said yes")
    spent = Counter(each.get("evidence", "") for each in begun.values())
    return problems + [f"{id} was used twice" for id in asked.values() if spent[id] > 1]


def unnamed(records: list[dict[str, Any]], interrupted: set[int]) -> list[str]:
    """Calls that were begun and have no outcome, where the verification does not name them."""
    begun = {each["seq"] for each in records if each["event"] == "skill_execution_started"}
    over = {
        each.get("about") for each in records if each["event"] in ("skill_executed", "skill_execution_error")
    }
    return [f"record {seq} has no outcome, and is not named" for seq in sorted((begun - over) ^ interrupted)]
