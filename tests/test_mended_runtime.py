"""Ways around the gate that were open once, in a program that has a runtime open: each is closed, and stands open again where
the mend is taken away."""

import os
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from anyio import to_thread
from msgspec import structs

import metier.runtime.state as states
from machine import Machine, write_skill
from metier.catalog.here import owner
from metier.catalog.hold import Held
from metier.gate.rules import Rules
from metier.gate.situation import Bytes, Situation
from metier.host.running import Running
from metier.model.approval import Approval
from metier.model.call import ApprovedCall, Call, Principal, ValidCall
from metier.model.entry import Operation
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.model.permission import PermissionSet
from metier.model.ports import OperationFunction
from metier.model.skill import Tool
from metier.pipeline import House, run
from metier.record.approvals import find, stored_call
from metier.record.database import Database
from metier.record.deciding import decide
from metier.record.policy import NONE, last_policy
from metier.record.standing import proposed_grant
from metier.record.stop import stop
from metier.record.verify import verify
from metier.runtime import Runtime
from metier.runtime.engine import opened
from metier.runtime.guard import guard
from metier.runtime.state import State
from metier.sandbox.job_environment import granted_variables
from yard import DECIDER

guarding = sys.modules[guard.__module__]

SEND = Tool(
    name="send",
    description="",
    parameters={"type": "object", "additionalProperties": True},
    risk="high",
    permissions=PermissionSet(env=frozenset({"GREETING"})),
    entry=Operation(module="m", operation="o"),
)
READ = {"name": "tea"}
RULE = '[[rule]]\ndecision = "{}"\ntool = "{}"\nbecause = "so it is"\n'
DENY, ASK, OTHER = (
    RULE.format("deny", "read_skill"),
    RULE.format("ask", "read_skill"),
    RULE.format("deny", "no"),
)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.delenv("METIER_HOME", raising=False)
    write_skill(made.skills / "tea", body="Boil, then pour.")
    return made


def with_runtime(
    machine: Machine, act: Callable[[Runtime], Awaitable[Any]], who: str = "agent:library"
) -> Any:
    async def main() -> Any:
        async with opened(machine.settings, watch=False) as engine:
            return await act(
                Runtime(
                    engine, Principal(id=who, kind="agent", on_behalf_of=owner(), roles=frozenset({"agent"}))
                )
            )

    return anyio.run(main)


def elsewhere(machine: Machine) -> Database:
    """The state as another process has it open."""
    return Database.open(machine.settings().database)


def approve(machine: Machine, pending: Outcome, *, uses: int | None = None) -> None:
    assert isinstance(pending, Pending), pending
    with elsewhere(machine) as database:
        grant = None
        if uses is not None:
            found = find(database, pending.approval_id)
            assert found is not None
            grant = proposed_grant(found.shown, "always", approval=pending.approval_id, by=owner(), uses=uses)
        scope = "once" if grant is None else "always"
        made = decide(database, pending.approval_id, by=DECIDER, decision="approve", scope=scope, grant=grant)
        assert isinstance(made, Approval), made


def code(outcome: Outcome) -> str:
    return outcome.code if isinstance(outcome, Refused | Failed) else type(outcome).__name__


class Sender:
    """One tool of the test's own behind a runtime's gate. What its runs are given of the variables is kept in `saw`."""

    def __init__(self, runtime: Runtime, tool: Tool) -> None:
        self.runtime, self.tool = runtime, tool
        self.saw: list[dict[str, str]] = []
        self.judged_by: dict[str, str] | None = None
        """Other surroundings to be judged by than those it runs in."""

    async def send(self, call: Call | None = None) -> Outcome:
        await self.runtime._engine.refresh()
        house = structs.replace(self.runtime._engine.house(), tools={self.tool.name: self.tool})
        workshop, found = house.workshop, Bytes(held=Held(bytes=None, granted=self.tool.permissions))
        environ = workshop.environ if self.judged_by is None else self.judged_by

        async def look(valid: ValidCall) -> Situation:
            return self.runtime._engine.state.look_at(
                valid, self.runtime._engine.seen, found, environ, wait=True
            )

        async def do(approved: ApprovedCall) -> Completed | Failed:
            valid = approved.authorized.valid
            self.saw.append(dict(granted_variables(valid.permissions.env, workshop.environ)))
            return Completed(call_id=valid.call.id, value=1)

        class Operations:
            def find(self, module: str, operation: str) -> OperationFunction | None:
                return do

        made: House = structs.replace(house, look=look, operations=Operations())
        return await run(call or self.runtime._call(self.tool.name, {"a": 1}), made)

    async def resume(self, pending: Outcome) -> Outcome:
        assert isinstance(pending, Pending)
        stored = stored_call(self.runtime._engine.state.database, pending.approval_id)
        assert stored is not None
        return await self.send(stored)


# --- surroundings


def changed_after_the_yes(
    machine: Machine, patch: pytest.MonkeyPatch, *, kept: bool
) -> tuple[str, list[Any]]:
    """`kept`: judged by the variables of an earlier call."""

    async def act(runtime: Runtime) -> tuple[str, list[Any]]:
        sender = Sender(runtime, SEND)
        patch.setenv("GREETING", "hello")
        pending = await sender.send(runtime._call(SEND.name, {"a": kept}))  # each time another act
        approve(machine, pending)
        await sender.send(runtime._call(SEND.name, {"a": 2}))
        before = dict(os.environ)
        patch.setenv("GREETING", "poison")
        sender.judged_by = before if kept else None
        return code(await sender.resume(pending)), sender.saw

    return with_runtime(machine, act)


def test_apr_11_a_variable_that_changes_after_the_yes_voids_it_whatever_was_called_meanwhile(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert changed_after_the_yes(machine, monkeypatch, kept=False) == ("approval_void", [])
    ends = changed_after_the_yes(machine, monkeypatch, kept=True)
    assert ends == ("Completed", [{"GREETING": "poison"}]), "with two surroundings it is not noticed"


def test_apr_11_what_is_judged_and_what_runs_has_the_same_surroundings(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    real = State.look_at

    def look_at(self: State, valid: Any, was: Any, found: Any, environ: Any, *, wait: bool) -> Situation:
        seen.append(environ)
        return real(self, valid, was, found, environ, wait=wait)

    monkeypatch.setattr(State, "look_at", look_at)

    async def act(runtime: Runtime) -> None:
        house = runtime._engine.house()
        monkeypatch.setenv("GREETING", "changed between the two")
        assert isinstance(await run(runtime._call("read_skill", READ), house), Completed)
        assert seen == [house.workshop.environ]
        assert seen[0] is house.workshop.environ
        assert "GREETING" not in seen[0]

    monkeypatch.delenv("GREETING", raising=False)
    with_runtime(machine, act)


# --- grants


@pytest.mark.parametrize("kept", [False, True], ids=["mended", "as it was"])
def test_apr_22_when_a_counted_grant_is_used_up_somebody_is_asked_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    if kept:
        monkeypatch.setattr(states, "_current", lambda _connection, grants, _tool: grants)

    async def act(runtime: Runtime) -> list[str]:
        sender = Sender(runtime, structs.replace(SEND, risk="medium"))
        pending = await sender.send()
        approve(machine, pending, uses=2)
        await sender.resume(pending)
        return [code(await sender.send()) for _ in range(4)]

    after = "approval_required" if kept else "Pending"
    assert with_runtime(machine, act) == ["Completed", "Completed", after, after]


# --- rules


def put(machine: Machine, text: str) -> None:
    """Written beside it and moved into its place."""
    file = machine.state / "policy.toml"
    beside = file.with_name("policy.new")
    beside.write_text(text, encoding="utf-8")
    beside.chmod(0o600)
    beside.replace(file)


def saved_again_while_read(
    machine: Machine, patch: pytest.MonkeyPatch, first: str, *, times: int = 1
) -> list[str]:
    """The rules are saved, and once more in the moment after they were read. How the next two calls end."""
    real, left = states.load_rules, [times]

    def load_rules(settings: Any) -> Rules:
        found = real(settings)
        if left[0] and found.digest:
            left[0] -= 1
            put(machine, f"{DENY}# {left[0]}\n")
        return found

    async def act(runtime: Runtime) -> list[str]:
        for _ in range(2):  # it is used for the first time, and that is seen
            assert isinstance(await runtime.call("read_skill", READ), Completed)
        put(machine, first)
        patch.setattr(states, "load_rules", load_rules)
        return [code(await runtime.call("read_skill", READ)) for _ in range(2)]

    return with_runtime(machine, act)


def test_cap_15_rules_that_are_saved_while_they_are_read_are_read_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert saved_again_while_read(machine, monkeypatch, OTHER) == ["forbidden", "forbidden"]


def test_cap_15_looked_at_only_after_they_were_read_they_are_not_in_force(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def afterwards(self: State) -> Any:
        settings = self._settings()
        rules = states.load_rules(settings)
        return settings, states._signatures(settings), rules

    monkeypatch.setattr(State, "_written_down", afterwards)
    assert saved_again_while_read(machine, monkeypatch, OTHER) == ["Completed", "Completed"]


def test_cap_15_rules_that_change_faster_than_they_are_read_let_nothing_through(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert saved_again_while_read(machine, monkeypatch, OTHER, times=30) == ["setup_unusable", "forbidden"]


def test_cap_15_rules_that_are_gone_deny_everything_until_they_are_back_or_said_to_be_none(
    machine: Machine,
) -> None:
    file = machine.state / "policy.toml"

    async def act(runtime: Runtime) -> list[str]:
        ends: list[str] = []

        async def call() -> None:
            outcome = await runtime.call("read_skill", READ)
            gone = isinstance(outcome, Refused) and any("is gone" in each for each in outcome.reasons)
            ends.append("gone" if gone else code(outcome))

        await call()
        put(machine, OTHER)
        await call()
        file.unlink()
        await call()
        await call()
        put(machine, OTHER)
        await call()
        file.unlink()
        await call()
        await to_thread.run_sync(lambda: machine.metier("policy", "forget"))
        await call()
        return ends

    assert with_runtime(machine, act) == [
        "Completed",
        "Completed",
        "gone",
        "gone",
        "Completed",
        "gone",
        "Completed",
    ]
    with elsewhere(machine) as database:
        assert last_policy(database) == NONE
        assert verify(database).ok


def test_cap_15_rules_that_could_not_be_read_and_are_gone_are_not_forgotten_either(machine: Machine) -> None:
    file = machine.state / "policy.toml"

    async def act(runtime: Runtime) -> list[str]:
        put(machine, DENY)
        ends = [code(await runtime.call("read_skill", READ))]
        file.unlink()
        file.symlink_to("nowhere")
        ends.append(code(await runtime.call("read_skill", READ)))
        file.unlink()
        ends.append(code(await runtime.call("read_skill", READ)))
        return ends

    assert with_runtime(machine, act) == ["forbidden"] * 3
    assert with_runtime(machine, lambda runtime: runtime.call("read_skill", READ)).code == "forbidden"


@pytest.mark.parametrize("hidden", [False, True], ids=["mended", "as it was"])
def test_instructions_that_may_not_be_read_are_not_in_the_prompt_either(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, hidden: bool
) -> None:
    if hidden:
        monkeypatch.setattr(Runtime, "_body", lambda self, listed: self._engine.state.body(listed))

    def shown(runtime: Runtime) -> bool:
        return "Boil, then pour." in runtime.prompt(full=True)

    async def act(runtime: Runtime) -> list[bool]:
        seen = [shown(runtime)]
        put(machine, DENY)
        await runtime.reload()
        seen.append(shown(runtime))
        put(machine, OTHER)
        await runtime.reload()
        seen.append(shown(runtime))
        with elsewhere(machine) as database:
            stop(database, by=owner(), why="enough")
        seen.append(shown(runtime))
        return seen

    assert with_runtime(machine, act) == [True, hidden, True, hidden]


def test_instructions_that_may_not_be_read_are_not_printed_either(machine: Machine) -> None:
    def shown() -> bool:
        return "Boil, then pour." in machine.metier("prompt", "--full").stdout

    assert shown()
    put(machine, DENY)
    assert not shown()
    put(machine, OTHER)
    assert shown()
    machine.metier("stop")
    assert not shown()


# --- whose call


def test_apr_17_who_knows_anothers_approval_does_not_get_its_result(machine: Machine) -> None:
    put(machine, ASK)
    pending = with_runtime(machine, lambda runtime: runtime.call("read_skill", READ), "agent:cli")
    approve(machine, pending)

    async def another(runtime: Runtime) -> list[Outcome]:
        return [await runtime.resume(id) for id in (pending.approval_id, "apr_" + "0" * 24)]

    foreign, unknown = with_runtime(machine, another)
    assert code(foreign) == "approval_void"
    assert foreign == unknown, "it sounds as if there were none"
    own = with_runtime(machine, lambda runtime: runtime.resume(pending.approval_id), "agent:cli")
    assert isinstance(own, Completed)


def test_where_it_is_not_asked_whose_call_it_is_another_gets_the_result(machine: Machine) -> None:
    put(machine, ASK)
    pending = with_runtime(machine, lambda runtime: runtime.call("read_skill", READ), "agent:cli")
    approve(machine, pending)
    made = with_runtime(machine, lambda runtime: runtime._engine.resume(pending.approval_id, of=None))
    assert isinstance(made, Completed)


# --- the stop button


def stopped_in_time(database: Database, seconds: float) -> bool:
    """Whether a stop ends what runs, while every thread that all share has something to do."""
    running, release, busy = Running(), threading.Event(), threading.Event()
    state: Any = SimpleNamespace(database=database, disable=lambda *_: None)

    def occupied() -> None:
        busy.set()
        release.wait(30)

    async def runs() -> bool:
        with running.under("tea", "call_1") as this:
            await anyio.sleep(seconds)
        return bool(this.why)

    async def main() -> bool:
        to_thread.current_default_thread_limiter().total_tokens = 1
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(guard, state, running)
            tasks.start_soon(to_thread.run_sync, occupied)
            while not busy.is_set():
                await anyio.sleep(0.001)
            with Database.open(database.path) as other:
                stop(other, by="human:op", why="enough")
            try:
                return await runs()
            finally:
                release.set()
                tasks.cancel_scope.cancel()
        raise AssertionError("it returned above")

    return anyio.run(main)


def test_a_stop_is_seen_however_much_others_have_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Database.open(str(tmp_path / "state.db")) as database:
        assert stopped_in_time(database, 30.0)
        monkeypatch.setattr(guarding, "CapacityLimiter", lambda _: to_thread.current_default_thread_limiter())
        assert not stopped_in_time(database, 1.0), "in line behind everybody it is not"


def test_a_look_for_which_there_is_no_thread_does_not_end_the_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, left = guarding._wishes, [2]

    def wishes(*given: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise RuntimeError("can't start new thread")
        return real(*given)

    monkeypatch.setattr(guarding, "_wishes", wishes)
    with Database.open(str(tmp_path / "state.db")) as database:
        assert stopped_in_time(database, 30.0)
    assert left == [0]
