"""A house with a real record and tools whose one operation only looks at what it is given."""

import json
from collections import Counter
from pathlib import Path
from typing import Any, get_args

from msgspec import structs

from bad_calls import QUOTING, SECRET, TOOLS
from fit import misfit
from gatehouse import FACTS, judged
from metier.catalog.catalog import Catalog
from metier.config.settings import BudgetSettings, Window
from metier.gate.situation import NO_SKILL, Situation
from metier.host.running import Running
from metier.model.call import ApprovedCall, Call, Principal, ValidCall
from metier.model.confirmation_flag import FLAG
from metier.model.ground import Ground
from metier.model.outcome import Completed, Failed, Outcome, RefusalCode, Refused
from metier.model.ports import OperationFunction
from metier.model.settled import settled
from metier.model.skill import Tool
from metier.model.text import hidden
from metier.pipeline import House, run
from metier.prepare import Workshop
from metier.record.audit import AuditLog
from metier.record.beside import apart
from metier.record.database import Database
from metier.record.recorder import Recorder
from metier.record.verify import verify
from metier.record.writer import Writer

ASK = Principal(id="agent:test", kind="agent", on_behalf_of="human:test")
ENDLESS = Window(calls=10_000_000, seconds=60)
ROOMY = structs.replace(FACTS, budgets=BudgetSettings(principal=ENDLESS, tool=ENDLESS, skill=ENDLESS))


class Hall:
    """A house with a real record, and one operation that looks at what it is given."""

    def __init__(self, top: Path, tools: tuple[Tool, ...] = TOOLS) -> None:
        workspace = top / "workspace"
        (workspace / "memory").mkdir(parents=True)
        self.ground = Ground(state=str(top), workspace=str(workspace))
        self.path = str(top / "metier.db")
        self.database = Database.open(self.path)
        self.log = AuditLog(self.database)
        self.tools = {tool.name: tool for tool in tools}
        self.returns: Any = "done"
        self.asked = 0
        self.ends: Counter[str] = Counter()
        self.expected: dict[str, list[str]] = {}

    def find(self, module: str, operation: str) -> OperationFunction:
        async def do(approved: ApprovedCall) -> Completed | Failed:
            arguments = approved.authorized.valid.arguments
            assert repr(settled(arguments)) == repr(arguments), "what runs is in its one form"
            return Completed(call_id=approved.authorized.valid.call.id, value=self.returns)

        return do

    async def look(self, valid: ValidCall) -> Situation:
        return judged(valid, NO_SKILL, ROOMY, granted=valid.permissions)

    @property
    def house(self) -> House:
        return House(
            tools=self.tools,
            catalog=Catalog(by_name={}),
            look=self.look,
            operations=self,
            recorder=Recorder(self.log, Writer(self.database), tools=self.tools.__contains__),
            workshop=Workshop(ground=self.ground, running=Running()),
        )

    async def ask(self, asked: list[tuple[str, Any]]) -> list[Outcome]:
        house = self.house
        outcomes: list[Outcome] = []
        for tool, arguments in asked:
            self.asked += 1
            call = Call(id=f"call_{self.asked}", principal=ASK, tool=tool, arguments=arguments)
            outcome = await run(call, house)
            self.holds(call, outcome)
            outcomes.append(outcome)
        return outcomes

    def holds(self, call: Call, outcome: Outcome) -> None:
        """What is promised for any call at all."""
        assert outcome.call_id == call.id
        if not isinstance(outcome, Refused) or outcome.code not in ("invalid_arguments", "unknown_tool"):
            assert (why := self.must_be_refused(call)) == "", (
                f"{call.tool} was not refused with {call.arguments!r:.500}: {why}"
            )
        if isinstance(outcome, Completed):
            self.ends["completed"] += 1
            self.expected[call.id] = ["skill_execution_started", "skill_executed"]
            return
        if isinstance(outcome, Failed):
            self.ends[outcome.code] += 1
            self.expected[call.id] = ["skill_execution_started", "skill_execution_error"]
            return
        assert isinstance(outcome, Refused), outcome
        assert outcome.code in get_args(RefusalCode)
        assert outcome.reasons
        for said in (*outcome.reasons, outcome.remedy):
            assert said.strip()
            assert len(said) < 1_000
            assert "Traceback" not in said
            assert "\n" not in said
            assert not hidden(said)
        if outcome.code == "invalid_arguments" and call.tool not in QUOTING and not _in_a_key(call.arguments):
            assert SECRET not in " ".join(outcome.reasons)
        self.ends[outcome.code] += 1
        self.expected[call.id] = ["skill_execution_blocked"]

    def must_be_refused(self, call: Call) -> str:
        """Why this call may not come past its schema, by another reading than the gate's; empty when it may."""
        tool = self.tools.get(call.tool)
        if tool is None:
            return "there is no such tool"
        return misfit(tool.parameters, call.arguments, word=FLAG if tool.confirmation is not None else "")

    def payload(self, seq: int, name: str) -> bytes:
        with self.database.reading() as connection:
            (kept,) = connection.execute("SELECT kept FROM audit WHERE seq = ?", (seq,)).fetchone()
        return (apart(kept) or {})[name]

    def recorded(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        with Database.open(self.path) as database:
            assert verify(database).ok
            with database.reading() as connection:
                for (body,) in connection.execute("SELECT body FROM audit ORDER BY seq"):
                    record = json.loads(body)
                    if record.get("call_id"):
                        found.setdefault(record["call_id"], []).append(record["event"])
        return found


def _in_a_key(value: Any, depth: int = 0) -> bool:
    """Names of arguments are told; a text that stands in one is no secret."""
    if depth > 40:
        return False
    if isinstance(value, dict):
        return any(SECRET in str(key) or _in_a_key(each, depth + 1) for key, each in value.items())
    return isinstance(value, list | tuple) and any(_in_a_key(each, depth + 1) for each in value)
