"""The first use of a skill binds it to its bytes; where it cannot be bound nothing of it is shown."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import structs

from machine import Machine, write_skill
from metier import Completed, Failed, Outcome, Refused, Runtime
from metier.model.call import Call, Principal
from metier.pipeline import run
from metier.record.audit import AuditLog
from metier.record.database import Database
from metier.record.trust import Seen, TrustStore

SECRET = "Boil, then pour."


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.delenv("METIER_HOME", raising=False)
    write_skill(made.skills / "tea", body=SECRET)
    return made


def opened(machine: Machine, work: Callable[[Runtime], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with Runtime.open(project=str(machine.project), watch=False) as runtime:
            return await work(runtime)

    return anyio.run(main)


class Meanwhile:
    """The operations of a runtime, with something that happens after the intent and before the act."""

    def __init__(self, operations: Any, happens: Callable[[], object]) -> None:
        self._operations = operations
        self._happens = happens

    def find(self, module: str, operation: str) -> Any:
        self._happens()
        return self._operations.find(module, operation)


def read_while(machine: Machine, happens: Callable[[TrustStore], object]) -> Outcome:
    """Read the skill; something happens to its trust between the intent and the act."""
    asked = Call(
        id="call_1",
        principal=Principal(id="agent:library", kind="agent"),
        tool="read_skill",
        arguments={"name": "tea"},
    )

    async def work(runtime: Runtime) -> Outcome:
        house = runtime._engine.house()
        with Database.open(str(machine.state / "state.db")) as elsewhere:
            between = Meanwhile(house.operations, lambda: happens(TrustStore(elsewhere)))
            return await run(asked, structs.replace(house, operations=between))

    return opened(machine, work)


def events(machine: Machine) -> list[tuple[str, str]]:
    with Database.open(str(machine.state / "state.db")) as database:
        assert AuditLog(database).open_intents() == []
        return [(each.event, each.code) for each in AuditLog(database).tail(100)]


def test_a_first_use_binds_and_shows(machine: Machine) -> None:
    outcome = read_while(machine, lambda trust: None)
    assert isinstance(outcome, Completed)
    assert SECRET in str(outcome.value)
    assert events(machine) == [("skill_execution_started", ""), ("skill_pinned", ""), ("skill_executed", "")]


def test_a_first_use_whose_trust_was_taken_back_meanwhile_discloses_nothing(machine: Machine) -> None:
    outcome = read_while(machine, lambda trust: trust.revoke("tea", by="human:test"))
    assert isinstance(outcome, Failed)
    assert SECRET not in outcome.message
    assert events(machine) == [
        ("skill_execution_started", ""),
        ("skill_untrusted", ""),
        ("skill_execution_error", outcome.code),
    ]


def bound_to_other_bytes(machine: Machine) -> Callable[[TrustStore], object]:
    other = Seen(
        path=str(machine.skills / "tea"),
        name="tea",
        digest="sha256:other",
        manifest_signature="",
        tree_signature="",
    )
    return lambda trust: trust.see([other])


def test_a_first_use_of_a_place_that_held_other_bytes_discloses_nothing(machine: Machine) -> None:
    outcome = read_while(machine, bound_to_other_bytes(machine))
    assert isinstance(outcome, Failed)
    assert SECRET not in outcome.message
    assert "skill_pinned" not in [event for event, _ in events(machine)]


def test_a_prompt_shows_no_instructions_that_could_not_be_bound(machine: Machine) -> None:
    def shown(runtime: Runtime) -> bool:
        return SECRET in runtime.prompt(full=True)

    async def work(runtime: Runtime) -> tuple[bool, Outcome]:
        with Database.open(str(machine.state / "state.db")) as elsewhere:
            bound_to_other_bytes(machine)(TrustStore(elsewhere))
        return shown(runtime), await runtime.call("read_skill", {"name": "tea"})

    before, outcome = opened(machine, work)
    assert not before
    assert isinstance(outcome, Failed | Refused)

    async def untouched(runtime: Runtime) -> bool:
        return shown(runtime)

    write_skill(machine.skills / "coffee", body=SECRET)
    assert opened(machine, untouched), "another skill with the same words is bound and shown"
