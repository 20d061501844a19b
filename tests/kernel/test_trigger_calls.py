"""Triggers and schedules in a whole host: their calls go through the gate and onto the record, for whoever set them up."""

import json
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from machine import Machine
from metier.catalog.here import owner
from metier.kernel.events import Events
from metier.kernel.firing_rate import DEEPEST
from metier.kernel.triggers import Triggers
from metier.model.approval import Approval
from metier.model.call import Call, Principal
from metier.model.digest import Json
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.model.role import ROLES, Registered
from metier.record.deciding import Decider, decide
from metier.record.principals import add_principal, revoke_principal
from metier.runtime import Runtime
from metier.runtime.as_owner import call_as_owner

ANNA = Principal(id="human:anna", kind="human")
READ: dict[str, Json] = {"tool": "fs_read/execute", "arguments": {"path": "memory/note.md"}}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    memory = made.state / "workspace" / "memory"
    memory.mkdir(parents=True)
    made.state.chmod(0o700)
    (memory / "note.md").write_text("kept", encoding="utf-8")
    return made


class Host:
    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._private: Any = runtime

    @property
    def parts(self) -> Any:
        return self._private._engine.kernel._kernel.parts

    @property
    def events(self) -> Events:
        return self.parts.events

    @property
    def triggers(self) -> Triggers:
        return self.parts.triggers

    async def do(self, operation: str, **arguments: Json) -> Any:
        return _value(await call_as_owner(self.runtime, operation, arguments))

    async def ask(self, principal: Principal, tool: str, **arguments: Json) -> Outcome:
        call = Call(
            id=f"call_{secrets.token_hex(12)}",
            principal=principal,
            tool=tool,
            arguments=arguments,
            fleeting=True,
        )
        return await self._private._engine.run(call)

    async def happens(self, name: str, source: str = "metier") -> None:
        self.events.emit(name, source=source)
        await self.triggers.drain(40)

    def registered(self, new: Registered) -> None:
        assert add_principal(self._private._engine.state.database, new, by=owner(), owner=owner()) == ""

    def revoked(self, id: str) -> None:
        assert revoke_principal(self._private._engine.state.database, id, by=owner(), owner=owner()) == ""

    def recorded(self, principal: str) -> list[str]:
        """What the record says of the calls of somebody."""
        with self._private._engine.state.database.reading() as connection:
            bodies = [
                json.loads(body) for (body,) in connection.execute("SELECT body FROM audit ORDER BY seq")
            ]
        return [each["event"] for each in bodies if principal in json.dumps(each)]


def _value(outcome: Outcome) -> Any:
    assert isinstance(outcome, Completed), outcome
    return outcome.value


@asynccontextmanager
async def host(machine: Machine) -> AsyncGenerator[Host]:
    async with Runtime.open(
        home=str(machine.state), project=str(machine.project), watch=False, host=True
    ) as runtime:
        assert runtime.is_host
        yield Host(runtime)


@pytest.mark.anyio
async def test_a_firing_goes_through_the_gate_and_onto_the_record(machine: Machine) -> None:
    async with host(machine) as here:
        trigger: Json = {"name": "n", "type": "event", "events": ["rang"], **READ}
        id = (await here.do("triggers.create", trigger=trigger))["id"]
        await here.happens("rang")
        shown = await here.do("triggers.get", id=id)
        assert shown["last_outcome"] == "completed"
        assert shown["firings"][0]["call_id"].startswith("call_")
        assert here.recorded(f"agent:trigger/{id}") == ["skill_execution_started", "skill_executed"]


@pytest.mark.anyio
async def test_what_a_skill_asks_for_inside_of_a_firing_is_done_for_who_set_that_up(machine: Machine) -> None:
    """A skill that makes calls of its own: searching memories is an operation of Metier's."""
    search: Json = {"tool": "search_index/execute", "arguments": {"query": "tea"}}
    async with host(machine) as here:
        trigger: Json = {"name": "n", "type": "event", "events": ["rang"], **search}
        id = (await here.do("triggers.create", trigger=trigger))["id"]
        await here.happens("rang")
        assert (await here.do("triggers.get", id=id))["last_outcome"] == "completed"
        schedule: Json = {"name": "s", "type": "interval", "intervalMs": 60_000, **search}
        daily = (await here.do("schedules.create", schedule=schedule))["id"]
        assert (await here.do("schedules.run_now", id=daily))["outcome"] == "completed"


@pytest.mark.anyio
async def test_a_trigger_is_not_set_off_by_what_its_own_call_has_done_in_turn(machine: Machine) -> None:
    async with host(machine) as here:
        trigger: Json = {
            "name": "n", "type": "tool_use", "toolNames": ["memory.*", "search_index/*"],
            "tool": "search_index/execute", "arguments": {"query": "tea"},
        }  # fmt: skip
        id = (await here.do("triggers.create", trigger=trigger))["id"]
        assert isinstance(await here.runtime.call("search_index", {"query": "tea"}), Completed)
        await here._private._engine.kernel.triggers.drain(30)
        shown = await here.do("triggers.get", id=id)
        assert (shown["fired"], shown["last_outcome"]) == (1, "completed")


@pytest.mark.anyio
async def test_who_lost_his_right_fires_nothing_any_more_and_that_is_said_and_recorded(
    machine: Machine,
) -> None:
    async with host(machine) as here:
        here.registered(Registered(id=ANNA.id, kind="human", roles=frozenset({"operator"})))
        trigger: Json = {"name": "n", "type": "event", "events": ["rang"], **READ}
        id = _value(await here.ask(ANNA, "triggers.create", trigger=trigger))["id"]
        schedule: Json = {"name": "s", "type": "interval", "intervalMs": 60_000, **READ}
        daily = _value(await here.ask(ANNA, "schedules.create", schedule=schedule))["id"]
        await here.happens("rang")
        assert (await here.do("triggers.get", id=id))["last_outcome"] == "completed", "the control"
        assert (await here.do("schedules.run_now", id=daily))["outcome"] == "completed"
        here.revoked(ANNA.id)
        await here.happens("rang")
        assert (await here.do("triggers.get", id=id))["last_outcome"].startswith("refused (forbidden)")
        assert (await here.do("schedules.run_now", id=daily))["outcome"].startswith("refused (forbidden)")
        assert here.recorded(f"agent:trigger/{id}")[-1] == "skill_execution_blocked"
        assert here.recorded(f"agent:schedule/{daily}")[-1] == "skill_execution_blocked"


@pytest.mark.anyio
async def test_cap_12_what_somebody_left_who_was_revoked_acts_for_nobody_else_who_gets_his_id(
    machine: Machine,
) -> None:
    anna = Registered(id=ANNA.id, kind="human", roles=frozenset({"operator"}))
    async with host(machine) as here:
        here.registered(anna)
        trigger: Json = {"name": "n", "type": "event", "events": ["rang"], **READ}
        id = _value(await here.ask(ANNA, "triggers.create", trigger=trigger))["id"]
        schedule: Json = {"name": "s", "type": "interval", "intervalMs": 60_000, **READ}
        daily = _value(await here.ask(ANNA, "schedules.create", schedule=schedule))["id"]
        here.revoked(ANNA.id)
        here.registered(anna)  # it may be another Anna
        await here.happens("rang")
        assert "registered anew" in (await here.do("triggers.get", id=id))["last_outcome"]
        ran = await call_as_owner(here.runtime, "schedules.run_now", {"id": daily})
        assert isinstance(ran, Failed)
        assert "registered anew" in ran.message
        assert here.recorded(f"agent:trigger/{id}") == here.recorded(f"agent:schedule/{daily}") == []
        await here.do("triggers.enable", id=id)
        await here.happens("rang")
        assert "registered anew" in (await here.do("triggers.get", id=id))["last_outcome"], "not his word"
        _value(await here.ask(ANNA, "triggers.enable", id=id))
        _value(await here.ask(ANNA, "schedules.enable", id=daily))
        await here.happens("rang")
        assert (await here.do("triggers.get", id=id))["last_outcome"] == "completed"
        assert (await here.do("schedules.run_now", id=daily))["outcome"] == "completed"


@pytest.mark.anyio
async def test_what_is_due_is_not_done_for_another_who_got_the_id_of_who_set_it_up_and_nobody_is_told(
    machine: Machine,
) -> None:
    anna = Registered(id=ANNA.id, kind="human", roles=frozenset({"operator"}))
    async with host(machine) as here:
        here.registered(anna)
        schedule: Json = {
            "name": "s",
            "type": "once",
            "timestamp": int(1_000 * time.time()) + 1_000,
            "notifications": {"onSkip": [{"type": "memory"}]},
            **READ,
        }
        daily = _value(await here.ask(ANNA, "schedules.create", schedule=schedule))["id"]
        here.revoked(ANNA.id)
        here.registered(anna)
        with anyio.fail_after(30):
            while not (said := (await here.do("schedules.get", id=daily))["last_outcome"]):
                await anyio.sleep(0.1)
        assert said.startswith("skipped: 'human:anna' was registered anew")
        assert here.recorded(f"agent:schedule/{daily}") == []


@pytest.mark.anyio
async def test_nothing_stands_in_place_of_calls_of_another_who_got_the_id_of_who_set_it_up(
    machine: Machine,
) -> None:
    anna = Registered(id=ANNA.id, kind="human", roles=frozenset({"operator"}))
    async with host(machine) as here:
        here.registered(anna)
        trigger: Json = {
            "name": "n", "type": "tool_use", "toolNames": ["fs_read/execute"], "timing": "instead",
            "tool": "shell_safe/execute", "arguments": {"command": "ls"},
        }  # fmt: skip
        _value(await here.ask(ANNA, "triggers.create", trigger=trigger))
        replaced = await here.ask(ANNA, "fs_read/execute", path="memory/note.md")
        assert isinstance(replaced, Refused)
        assert replaced.code == "replaced", "the control"
        here.revoked(ANNA.id)
        here.registered(anna)
        _value(await here.ask(ANNA, "fs_read/execute", path="memory/note.md"))


@pytest.mark.anyio
async def test_no_agent_sets_up_or_sets_off_anything(machine: Machine) -> None:
    agent = Principal(id="agent:library", kind="agent", on_behalf_of=owner(), roles=frozenset({"agent"}))
    async with host(machine) as here:
        trigger: Json = {"name": "n", "type": "event", "events": ["rang"], **READ}
        schedule: Json = {"name": "s", "type": "interval", "intervalMs": 60_000, **READ}
        for tool, arguments in {
            "triggers.create": {"trigger": trigger},
            "triggers.list": {},
            "triggers.adopt": {"skill": "x"},
            "schedules.create": {"schedule": schedule},
            "schedules.run_now": {"id": "x"},
        }.items():
            outcome = await here.ask(agent, tool, **arguments)
            assert isinstance(outcome, Refused), tool
        assert (await here.do("triggers.list"))["triggers"] == []
        assert (await here.do("schedules.list"))["schedules"] == []


@pytest.mark.anyio
async def test_a_trigger_gets_nothing_that_no_agent_gets(machine: Machine) -> None:
    """It is an agent: what is privileged or for operators it is refused, whoever set it up."""
    async with host(machine) as here:
        for number, tool in enumerate(
            ["skills.disable", "triggers.list", "settings.get_skill", "secrets.list"]
        ):
            trigger: Json = {"name": tool, "type": "event", "events": [f"rang{number}"], "tool": tool}
            id = (await here.do("triggers.create", trigger=trigger))["id"]
            await here.happens(f"rang{number}")
            said = (await here.do("triggers.get", id=id))["last_outcome"]
            assert said.startswith("refused ("), (tool, said)


@pytest.mark.anyio
async def test_in_place_of_a_call_stands_what_the_owner_says_and_nothing_weaker(machine: Machine) -> None:
    async with host(machine) as here:
        assert isinstance(await here.runtime.call("fs_read", {"path": "memory/note.md"}), Completed), (
            "the control"
        )
        trigger: Json = {
            "name": "n", "type": "tool_use", "timing": "instead", "toolNames": ["fs_read/execute"],
            "tool": "fs_read/execute", "arguments": {"path": "memory/other.md"},
        }  # fmt: skip
        id = (await here.do("triggers.create", trigger=trigger))["id"]
        outcome = await here.runtime.call("fs_read", {"path": "memory/note.md"})
        assert isinstance(outcome, Refused)
        assert outcome.code == "replaced"
        assert "other.md" not in str(outcome), "how the other call ended is not the caller's matter"
        assert "failed" in (await here.do("triggers.get", id=id))["last_outcome"]
        assert "skill_execution_started" in here.recorded(f"agent:trigger/{id}")
        await here.do("triggers.disable", id=id)
        assert isinstance(await here.runtime.call("fs_read", {"path": "memory/note.md"}), Completed)


@pytest.mark.anyio
async def test_after_a_call_the_trigger_is_told_of_its_result(machine: Machine) -> None:
    async with host(machine) as here:
        trigger: Json = {
            "name": "n", "type": "tool_use", "toolNames": ["fs_read/*"], "tool": "fs_read/execute",
            "arguments": {"path": "memory/{{tool.result.content}}.md"},
        }  # fmt: skip
        id = (await here.do("triggers.create", trigger=trigger))["id"]
        await here.runtime.call("fs_read", {"path": "memory/note.md"})
        await here.triggers.drain(40)
        shown = await here.do("triggers.get", id=id)
        assert shown["fired"] == 1, "and what it called itself did not set it off again"


@pytest.mark.anyio
async def test_what_a_skill_declares_fires_only_once_a_person_accepted_it_and_only_while_it_is_trusted(
    machine: Machine,
) -> None:
    folder = machine.skills / "desk"
    folder.mkdir(parents=True)
    about = {
        "id": "desk",
        "description": "Keeps things.",
        "instructions": "Do it.",
        "actions": [{"id": "tidy", "type": "code", "language": "python", "code": "return 1"}],
        "triggers": [{"type": "event", "events": ["rang"], "sources": ["desk"], "actionId": "tidy"}],
        "schedules": [{"type": "cron", "expression": "0 9 * * *", "actionId": "tidy"}],
    }
    (folder / "skill.json").write_text(json.dumps(about), encoding="utf-8")
    machine.metier("skills", "trust", "desk", "--yes")
    async with host(machine) as here:
        await here.happens("rang", "desk")
        assert (await here.do("triggers.list"))["triggers"] == []
        (made,) = (await here.do("triggers.adopt", skill="desk"))["adopted"]
        (daily,) = (await here.do("schedules.adopt", skill="desk"))["adopted"]
        shown = await here.do("triggers.get", id=made["id"])
        assert (shown["skill"], shown["owner"]) == ("desk", owner())
        assert (await here.do("schedules.get", id=daily["id"]))["definition"]["skill"] == "desk"
        await here.happens("rang", "desk")
        assert here.recorded(f"agent:trigger/{made['id']}"), "now the gate is asked about it"
        machine.metier("skills", "disable", "desk")
        before = len(here.recorded(f"agent:trigger/{made['id']}"))
        await here.runtime.reload()
        await here.happens("rang", "desk")
        said = (await here.do("triggers.get", id=made["id"]))["last_outcome"]
        assert "cannot be used" in said
        assert len(here.recorded(f"agent:trigger/{made['id']}")) == before
        again = await call_as_owner(here.runtime, "triggers.adopt", {"skill": "desk"})
        assert isinstance(again, Failed)
        assert "E_SKILLS_UNAVAILABLE" in again.message


class Sent:
    """A connector that keeps what it is given."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self.once = anyio.Event()

    async def send(self, chat: str, text: str, *, key: str, reply_to: str | None) -> str | None:
        self.sent.append((chat, text))
        self.once.set()
        return f"sent-{len(self.sent)}"


@pytest.mark.anyio
async def test_a_message_that_comes_in_is_answered_by_the_result_of_the_call_it_set_off(
    machine: Machine,
) -> None:
    async with host(machine) as here:
        sent = Sent()
        here.parts.connectors.connect("telegram", sent)
        trigger: Json = {
            "name": "n", "type": "message", "patterns": ["/note"], "matchMode": "startsWith",
            "contextTemplate": "It says: {{result.content}}", **READ,
        }  # fmt: skip
        await here.do("triggers.create", trigger=trigger)
        told = {"channel": "telegram", "chat_id": "7", "message_id": "1", "author": "anna", "text": "/note"}
        for _ in range(2):  # the channel tells it twice
            await here.do("channels.route_inbound_message", **told)
        with anyio.fail_after(30):
            await sent.once.wait()
        await here.triggers.drain(20)
        await here.do("channels.route_inbound_message", **{**told, "message_id": "2", "text": "no command"})
        await here.triggers.drain(20)
        thread = await here.do("conv.get_thread", channel="telegram", chat_id="7")
    assert sent.sent == [("7", "It says: kept")]
    assert [each["direction"] for each in thread["messages"]].count("out") == 1


@pytest.mark.anyio
async def test_what_is_to_happen_before_a_call_happens_once_it_runs_and_never_for_one_that_does_not(
    machine: Machine,
) -> None:
    """Neither while it waits for somebody's word nor where that is no; once where it is yes."""
    rule = '[[rule]]\ndecision = "ask"\nbecause = "to be sure"\ntool = "fs_read/execute"\n'
    file = machine.state / "policy.toml"
    file.write_text(rule, encoding="utf-8")
    file.chmod(0o600)
    here_owner = Decider(id=owner(), kind="human", rights=ROLES["owner"])
    async with host(machine) as here:
        trigger: Json = {
            "name": "n", "type": "tool_use", "timing": "before", "toolNames": ["fs_read/execute"],
            "tool": "search_index/execute",
        }  # fmt: skip
        id = (await here.do("triggers.create", trigger=trigger))["id"]

        async def fired() -> int:
            return (await here.do("triggers.get", id=id))["fired"]

        for decision, runs in (("deny", 0), ("approve", 1)):
            pending = await here.runtime.call("fs_read", {"path": "memory/note.md"})
            assert isinstance(pending, Pending), pending
            assert await fired() == 0, "it waits"
            database = here._private._engine.state.database
            decided = decide(database, pending.approval_id, by=here_owner, decision=decision)  # type: ignore[arg-type]
            assert isinstance(decided, Approval), decided
            outcome = await here.runtime.resume(pending.approval_id)
            assert isinstance(outcome, Completed) is bool(runs), outcome
            assert await fired() == runs


@pytest.mark.anyio
async def test_a_call_that_a_firing_makes_is_counted_as_part_of_it_however_it_winds(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    """Each of two triggers is set off by the calls of the other: without a bound it would go on for ever."""
    async with host(machine) as here:
        ids: list[str] = []
        for name in ("one", "other"):
            trigger: Json = {
                "name": name, "type": "tool_use", "toolNames": ["fs_read/execute"], "perMinute": 6000, **READ,
            }  # fmt: skip
            ids.append((await here.do("triggers.create", trigger=trigger))["id"])
        assert isinstance(await here.runtime.call("fs_read", {"path": "memory/note.md"}), Completed)
        await here.triggers.drain(60)
        shown = [await here.do("triggers.get", id=id) for id in ids]
        assert [each["fired"] for each in shown] == [DEEPEST, DEEPEST]
        assert caplog.text.count("lie behind this already") == 2
