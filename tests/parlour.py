"""A house with a real record, tools of the test's own, and one operation that counts; somebody to decide, and callers."""

import json
from itertools import count
from pathlib import Path
from typing import Any

import anyio
from msgspec import structs

from gatehouse import FACTS, OWNER, judged
from metier.catalog.catalog import Catalog
from metier.gate.around import around
from metier.gate.confirmation import question
from metier.gate.situation import NO_SKILL, Facts, Situation
from metier.host.running import Running
from metier.model.approval import Approval
from metier.model.call import ApprovedCall, Call, Principal, Surroundings, ValidCall
from metier.model.entry import Operation
from metier.model.outcome import Completed, Failed, Outcome, Pending
from metier.model.ports import OperationFunction
from metier.model.role import ROLES, Kind, Registered, Role
from metier.model.skill import Tool
from metier.model.trust_level import TrustLevel
from metier.pipeline import House, run
from metier.prepare import Workshop
from metier.record import confirmations
from metier.record.approvals import decider_of, stored_call
from metier.record.audit import AuditLog
from metier.record.database import Database
from metier.record.deciding import Decider, Undecided, decide
from metier.record.export import exported, json_line
from metier.record.principals import add_principal
from metier.record.recorder import Recorder
from metier.record.steering import Steering, steering
from metier.record.verify import verify
from metier.record.writer import Writer

AGENT = "agent:test"
SEND: dict[str, Any] = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "text": {"type": "string"}},
    "required": ["to", "text"],
}


def tool(name: str = "send", **fields: Any) -> Tool:
    made = Tool(
        name=name,
        description="",
        parameters=SEND,
        risk="low",
        entry=Operation(module="parlour", operation="do"),
    )
    return structs.replace(made, **fields)


OPENED: list["Parlour"] = []
"""Closed after each test by a fixture for all of them."""


class Parlour:
    """What runs is counted in `ran`, with the arguments it was given."""

    def __init__(self, top: Path, *tools: Tool, level: TrustLevel = "supervised_auto") -> None:
        self.database = Database.open(str(top / "state.db"))
        OPENED.append(self)
        self.log = AuditLog(self.database)
        self.tools = {each.name: each for each in tools}
        self.level: TrustLevel = level
        self.ran: list[dict[str, Any]] = []
        self.looked = 0
        self.returns: Completed | Failed | None = None
        self._numbers = count(1)

    def find(self, module: str, operation: str) -> OperationFunction:
        async def do(approved: ApprovedCall) -> Completed | Failed:
            valid = approved.authorized.valid
            self.ran.append(valid.arguments)
            return self.returns or Completed(call_id=valid.call.id, value={"sent": True})

        return do

    async def look(self, valid: ValidCall) -> Situation:
        self.looked += 1
        now = steering(self.database)
        known = Steering(
            level=self.level,
            principals={**FACTS.steering.principals, **now.principals},
            grants=now.grants,
        )
        found = judged(valid, NO_SKILL, Facts(steering=known, owner=OWNER), steering=now)
        asked, approval = question(valid, None), valid.call.approval
        with self.database.reading() as connection:
            turn = confirmations.asked_in(connection, asked[0], asked[1], found.now.wall) if asked else None
            by = decider_of(connection, approval) if approval else ""
        depends = around(valid, found.programs, found.environ)
        return structs.replace(found, asked_in=turn, decided_by=by, around=depends)

    @property
    def house(self) -> House:
        return House(
            tools=self.tools,
            catalog=Catalog(by_name={}),
            look=self.look,
            operations=self,
            recorder=Recorder(self.log, Writer(self.database), tools=self.tools.__contains__),
            workshop=Workshop(running=Running()),
        )

    def add(self, name: str, *roles: Role) -> None:
        """Register somebody."""
        kind: Kind = "human" if name.startswith("human:") else "agent"
        behalf = "" if kind == "human" else OWNER
        new = Registered(id=name, kind=kind, on_behalf_of=behalf, roles=frozenset(roles))
        assert add_principal(self.database, new, by=OWNER, owner=OWNER) == ""

    def call(self, name: str = "send", arguments: Any = None, **more: Any) -> Outcome:
        """One call of its own, of a conversation if it has turns."""
        return anyio.run(run, self.made(name, arguments, **more), self.house)

    def made(
        self,
        name: str = "send",
        arguments: Any = None,
        *,
        by: str = AGENT,
        turn: int | None = None,
        **more: Any,
    ) -> Call:
        """A call that nobody has made yet."""
        human = by.startswith("human:")
        given = {"surroundings": Surroundings(turn=turn, channel="voice", call_id="line_1"), **more}
        return Call(
            id=f"call_{next(self._numbers)}",
            principal=Principal(
                id=by, kind="human" if human else "agent", on_behalf_of=None if human else OWNER
            ),
            tool=name,
            arguments={"to": "ada", "text": "tea?"} if arguments is None else arguments,
            **given,
        )

    def decided(
        self,
        outcome: Outcome,
        decision: Any = "approve",
        *,
        by: str = OWNER,
        role: Role = "owner",
        **more: Any,
    ) -> Approval | Undecided:
        assert isinstance(outcome, Pending), outcome
        decider = Decider(id=by, kind="human", rights=ROLES[role])
        return decide(self.database, outcome.approval_id, by=decider, decision=decision, **more)

    def resume(self, outcome: Outcome) -> Outcome | None:
        """What the runtime does with an approved call; None when there is none to be taken up."""
        assert isinstance(outcome, Pending), outcome
        stored = stored_call(self.database, outcome.approval_id)
        return None if stored is None else anyio.run(run, stored, self.house)

    def lines(self, call_id: str = "") -> list[dict[str, Any]]:
        """The record as it is handed on, which holds together."""
        assert verify(self.database).ok
        lines = [json.loads(json_line(line)) for line in exported(self.database)]
        return [line for line in lines if not call_id or line["callId"] == call_id]

    def events(self, outcome: Outcome) -> list[str]:
        return [line["event"] for line in self.lines(outcome.call_id)]
