"""The yes to one act, taken up through the whole pipeline: whatever of the act is another by then, nothing runs.

`test_fingerprint.py` gives ten thousand changed acts to the fingerprint by hand. Here some hundred go the whole way, so that it
counts, too, what each stage hands to the fingerprint.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import structs

import metier.gate.desk as desk
import metier.gate.terms as terms
from metier.gate.fingerprint import fingerprint
from metier.gate.rules import Names, Rule, Rules
from metier.model.approval import Approval
from metier.model.call import Call, ValidCall
from metier.model.outcome import Completed, Outcome, Pending, Refused
from metier.model.permission import PermissionSet
from metier.model.skill import Limits, Tool
from metier.model.verdict import Decision
from metier.pipeline import House, run
from metier.record.approvals import stored_call
from parlour import AGENT, Parlour, tool

ANYTHING: dict[str, Any] = {"type": "object", "additionalProperties": True}
GIVEN: dict[str, Any] = {"id": 7, "folder": "notes"}
OTHER = "agent:other"


def code(outcome: Outcome | None) -> str:
    return outcome.code if isinstance(outcome, Refused) else type(outcome).__name__


def asked_in(top: Path, *, replaces: Tool | None = None) -> tuple[Parlour, Pending, Call]:
    """A room, what was asked in the folder `here` and approved, and the call that waits to be taken up."""
    (top / "here").mkdir()
    room = Parlour(top, replaces or tool(risk="high"))
    arguments = None if replaces is None else dict(GIVEN)
    asked = room.call(arguments=arguments, cwd=str(top / "here"))
    assert isinstance(asked, Pending), asked
    assert isinstance(room.decided(asked), Approval)
    stored = stored_call(room.database, asked.approval_id)
    assert stored is not None
    return room, asked, stored


# --- the working directory


def replaced(top: Path, stored: Call) -> Call:
    """Another folder lies under the name."""
    (top / "here").rename(top / "moved")
    (top / "here").mkdir()
    return stored


def elsewhere(top: Path, stored: Call) -> Call:
    (top / "there").mkdir()
    return structs.replace(stored, cwd=str(top / "there"))


def nowhere(_top: Path, stored: Call) -> Call:
    return structs.replace(stored, cwd=None)


def by_a_link(top: Path, stored: Call) -> Call:
    """The name leads to another folder."""
    (top / "here").rename(top / "moved")
    (top / "there").mkdir()
    (top / "here").symlink_to("there")
    return stored


CHANGES: dict[str, Callable[[Path, Call], Call]] = {
    "another folder of the same name": replaced,
    "another folder": elsewhere,
    "no folder": nowhere,
    "a link of the same name": by_a_link,
}


@pytest.mark.parametrize("change", CHANGES)
def test_apr_10_what_was_approved_in_one_folder_is_void_in_another(tmp_path: Path, change: str) -> None:
    room, asked, stored = asked_in(tmp_path)
    outcome = anyio.run(run, CHANGES[change](tmp_path, stored), room.house)
    assert code(outcome) == "approval_void", outcome
    assert room.ran == []
    assert room.events(asked) == ["skill_approval_queued", "skill_approved", "skill_execution_blocked"]


def test_apr_10_in_the_folder_it_was_approved_in_it_runs(tmp_path: Path) -> None:
    room, _, stored = asked_in(tmp_path)
    assert (stored.principal.id, stored.cwd) == (AGENT, str(tmp_path / "here"))
    assert code(anyio.run(run, stored, room.house)) == "Completed"


@pytest.mark.parametrize("change", [each for each in CHANGES if "link" not in each])  # links are bound twice
def test_apr_10_a_yes_that_is_bound_to_no_folder_runs_in_every_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    def unbound(authorized: Any, *, cwd: str, **more: Any) -> str:
        return fingerprint(authorized, cwd="", **more)

    for place in (desk, terms):  # that both leave it out is what no look at the fingerprint alone shows
        monkeypatch.setattr(place, "fingerprint", unbound)
    room, _, stored = asked_in(tmp_path)
    assert code(anyio.run(run, CHANGES[change](tmp_path, stored), room.house)) == "Completed"


# --- some hundred changed acts


class Acts:
    """Ways in which a stored act becomes another: of the call, of the tool, of what decides."""

    def __init__(self, top: Path, room: Parlour, stored: Call, chance: random.Random) -> None:
        self.top, self.room, self.stored, self.chance = top, room, stored, chance
        self.tool = room.tools[stored.tool]

    @property
    def word(self) -> str:
        return f"{self.chance.getrandbits(64):x}"

    def __iter__(self) -> Iterator[tuple[str, Call, House]]:
        """One of each: what is another, and the call with the house it is taken up in."""
        for name, call in self._calls().items():
            yield name, call, self.room.house
        for name, other in self._tools().items():
            house = self._house(granted=other.permissions)  # as if all of it had been granted
            yield name, self.stored, structs.replace(house, tools={other.name: other})
        yield "rules", self.stored, self._house(rules=self._rules())

    def _calls(self) -> dict[str, Call]:
        stored, word = self.stored, self.word
        who, around = stored.principal, stored.surroundings
        folder = self.top / word
        folder.mkdir()
        fields: dict[str, dict[str, Any]] = {
            "arguments": {"arguments": self._arguments()},
            "call": {"id": f"call_{word}"},
            "attempt": {"attempt": self.chance.randrange(2, 1_000)},
            "parent": {"parent": f"call_{word}"},
            "session": {"surroundings": structs.replace(around, session=word)},
            "cwd": {"cwd": str(folder)},
            "principal": {"principal": structs.replace(who, id=OTHER)},
            "stranger": {"principal": structs.replace(who, id=f"agent:{word}")},
            "behalf": {"principal": structs.replace(who, on_behalf_of=f"human:{word}")},
            "kind": {"principal": structs.replace(who, kind=self.chance.choice(["human", "skill"]))},
        }
        return {name: structs.replace(stored, **each) for name, each in fields.items()}

    def _arguments(self) -> dict[str, Any]:
        chance, word, given = self.chance, self.word, dict(GIVEN)
        place = chance.randrange(len(given["folder"]) + 1)
        put = chance.choice([" ", "\u200b", "x", "\n", "\u0301", word])
        others: list[dict[str, Any]] = [
            {**given, "id": chance.choice([chance.randrange(8, 10**9), -7, 7.5, "7", [7], None, True])},
            {**given, "folder": given["folder"][:place] + put + given["folder"][place:]},
            {**given, word: chance.choice([None, 0, "", [], {}])},
            {"folder": given["folder"], chance.choice(["Id", "id ", "\u0456d"]): 7},
            {chance.choice(["id", "folder"]): 7},
            {word: given},
            {},
        ]
        return chance.choice(others)

    def _tools(self) -> dict[str, Tool]:
        kind = self.chance.choice(["binaries", "hosts", "env", "secrets", "operations", "channels"])
        fields: dict[str, dict[str, Any]] = {
            "description": {"description": self.word},
            "limits": {"limits": Limits(timeout=float(self.chance.randrange(1, 29)))},
            "permissions": {"permissions": PermissionSet(**{kind: frozenset({self.word})})},
        }
        return {name: structs.replace(self.tool, **each) for name, each in fields.items()}

    def _rules(self) -> Rules:
        names = {"tool": Names(exact=frozenset({self.tool.name}))}
        rule = Rule(number=1, decision=Decision.ASK, because=self.word, names=names)
        return Rules(rules=(rule,), digest=self.word)

    def _house(self, **facts: Any) -> House:
        async def look(valid: ValidCall) -> Any:
            return structs.replace(await self.room.look(valid), **facts)

        return structs.replace(self.room.house, look=look)


BOUND = frozenset(
    [
        "arguments",
        "call",
        "attempt",
        "parent",
        "session",
        "cwd",
        "principal",
        "description",
        "limits",
        "permissions",
        "rules",
    ]
)
"""What nothing but the yes itself stands in the way of."""


def test_apr_08_none_of_some_hundred_changed_acts_runs_on_the_yes_to_another(tmp_path: Path) -> None:
    room, asked, stored = asked_in(tmp_path, replaces=tool(risk="high", parameters=ANYTHING))
    room.add(OTHER, "agent")
    acts = Acts(tmp_path, room, stored, random.Random(20_261_115))  # noqa: S311  the same acts every time
    ends: dict[str, Counter[str]] = {}

    async def all_of_them() -> None:
        for _ in range(40):
            for name, call, house in acts:
                ends.setdefault(name, Counter())[code(await run(call, house))] += 1

    anyio.run(all_of_them)
    assert sum(map(Counter.total, ends.values())) >= 500
    assert room.ran == []
    assert {name for name, met in ends.items() if set(met) == {"approval_void"}} >= BOUND, ends
    assert {end for met in ends.values() for end in met} <= {"approval_void", "forbidden"}, ends
    assert isinstance(room.resume(asked), Completed), "the act itself may"
    assert room.ran == [GIVEN]


def test_apr_08_without_the_fingerprint_every_one_of_them_would_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (desk, terms):
        monkeypatch.setattr(place, "fingerprint", lambda *_, **__: "0" * 64)
    for number, name in enumerate(sorted(BOUND - {"principal"})):  # whose it is, is asked beside it
        top = tmp_path / str(number)
        top.mkdir()
        room, _, stored = asked_in(top, replaces=tool(risk="high", parameters=ANYTHING))
        acts = Acts(top, room, stored, random.Random(number))  # noqa: S311
        [(call, house)] = [(call, house) for each, call, house in acts if each == name]
        assert isinstance(anyio.run(run, call, house), Completed), name
        assert len(room.ran) == 1
